"""Two ranks are held to one process on the same minibatches: every parameter, every number."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from safetensors.torch import load_file

from tests.reprl.distributed import share

pytestmark = pytest.mark.slow


def run_ranks(out: Path, losses: str, algo: str, *more: str, memory: bool) -> None:
    """Train as two ranks that meet on the loopback, with or without shared memory."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    shared = os.memfd_create("test") if memory else None
    started = []
    for rank in range(2):
        environment = os.environ | {
            "RANK": str(rank),
            "WORLD_SIZE": "2",
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
            "GLOO_SOCKET_IFNAME": "lo",
            "OMP_NUM_THREADS": "1",
        }
        if shared is not None:
            environment["REPRL_MEMORY"] = str(shared)
        started.append(
            subprocess.Popen(
                [sys.executable, "-m", share.__name__, str(out), losses, algo, *more],
                env=environment,
                pass_fds=() if shared is None else (shared,),
                cwd=Path(__file__).parents[3],
            )
        )
    if shared is not None:
        os.close(shared)
    try:
        assert [process.wait(timeout=240) for process in started] == [0, 0]
    finally:
        for process in started:
            process.kill()


@pytest.mark.parametrize(
    ("algo", "losses", "memory"),
    [
        ("ppo", "none", True),
        ("ppo", "losses", True),
        ("a2c", "losses", False),
        ("imitation", "losses", True),
    ],
)
def test_two_ranks_learn_what_one_process_learns(
    algo: str, losses: str, memory: bool, tmp_path: Path
) -> None:
    run_ranks(tmp_path / "shared", losses, algo, memory=memory)
    share.main(f"{tmp_path}/whole", losses, algo, [])
    whole = load_file(tmp_path / "whole.safetensors")
    first, second = (load_file(tmp_path / f"shared-{r}of2.safetensors") for r in range(2))
    before = json.loads((tmp_path / "whole.json").read_text())
    logged = [json.loads((tmp_path / f"shared-{r}of2.json").read_text()) for r in range(2)]
    assert logged[0] == logged[1], "ranks log the same numbers"
    assert len(before[0]) > 8
    for ours, theirs in zip(logged[0], before, strict=True):
        assert ours == pytest.approx(theirs, rel=2e-3, abs=2e-5)
    for name, tensor in whole.items():
        assert first[name].equal(second[name]), f"{name}: ranks differ"
        difference = (first[name].float() - tensor.float()).abs().max()
        assert difference < 2e-5, f"{name}: {difference}"
