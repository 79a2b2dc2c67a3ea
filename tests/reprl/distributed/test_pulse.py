"""Ranks that torchrun has started notice one that hangs, name it and end it on this machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
import torch.distributed as dist

from reprl import checkpoint
from reprl.distributed.exchange import Collective, RankLost
from reprl.distributed.pulse import Pulse, identity
from reprl.runs.folder import RunFolder
from tests.reprl.distributed.test_runs import LONG


def pulses(size: int = 2) -> tuple[dist.HashStore, list[Pulse]]:
    store = dist.HashStore()
    return store, [Pulse(r, size, store, every=1.0, silence=2.0) for r in range(size)]


def test_a_rank_that_falls_silent_hangs_and_one_that_has_not_begun_does_not() -> None:
    _, (first, second) = pulses()
    for _ in range(5):
        first.beat()
    assert first.hung() is None  # the second is still starting
    for _ in range(5):
        first.beat()
        second.beat()
    assert first.hung() is None
    for _ in range(4):
        first.beat()
    assert first.hung() == 1
    second.beat()
    first.beat()
    assert first.hung() is None


def test_who_waits_for_a_rank_that_hangs_is_told_which() -> None:
    store, (first, second) = pulses()
    second.beat()
    for _ in range(4):
        first.beat()
    with pytest.raises(RankLost, match="rank 1 hangs"):
        Collective(0, 2, store, first)._meet()


def test_a_hung_rank_is_ended_only_where_it_is_the_same_process() -> None:
    store, (first, second) = pulses()
    second.beat()
    for _ in range(4):
        first.beat()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        os.kill(other.pid, signal.SIGSTOP)
        elsewhere = identity(other.pid).split(" ")
        store.set("where/1", " ".join(["another-machine", *elsewhere[1:]]))
        assert first.end_hung() == 1
        assert other.poll() is None
        store.set("where/1", identity(other.pid))
        assert first.end_hung() == 1
        assert other.wait(60) == -signal.SIGKILL


def test_where_all_live_nobody_is_ended() -> None:
    _, (first, second) = pulses()
    second.beat()
    first.beat()
    assert first.end_hung(patience=0.0) is None


def rank_of(pid: int) -> str | None:
    with suppress(OSError):
        words = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        return next((w[5:].decode() for w in words if w.startswith(b"RANK=")), None)
    return None


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize("how", [signal.SIGSTOP, signal.SIGKILL])  # hung; out of memory
def test_a_rank_lost_under_torchrun_ends_all_of_them_with_a_sentence(
    how: signal.Signals, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    environment = os.environ | {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        [*command, "-m", "reprl", "train", *LONG, f"run_dir={run}"],
        env=environment,
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        while not checkpoint.steps(run) and process.poll() is None:
            time.sleep(0.1)
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        ranks = {rank_of(int(pid)): int(pid) for pid in children}
        os.kill(ranks["1"], how)
        _, said = process.communicate(timeout=300)
    assert process.returncode != 0
    if how == signal.SIGSTOP:
        assert "killed: rank 1 hangs" in said, said
    else:  # torchrun sees that itself, and names it
        assert "(exitcode: -9) local_rank: 1" in said, said
    assert RunFolder(run).status() == "killed"
    assert not any(Path(f"/proc/{pid}").exists() for pid in ranks.values())
