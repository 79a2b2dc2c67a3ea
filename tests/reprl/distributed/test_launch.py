"""The launcher ends all ranks when one is lost, says which and how, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from reprl.distributed import launch
from reprl.distributed.launch import RankLauncher
from tests.reprl.distributed import toy_rank

PROGRAM = (sys.executable, "-m", toy_rank.__name__)


def run(fate: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[int, list[int]]:
    monkeypatch.chdir(Path(__file__).parents[3])
    monkeypatch.setattr(launch, "SILENCE", 2.0)
    monkeypatch.setattr(launch, "GRACE", 1.0)
    folder.mkdir()
    (folder / "run.json").write_text(json.dumps({"status": "running"}))
    launcher = RankLauncher([fate, str(folder)], 2, program=PROGRAM)
    pids = [rank.process.pid for rank in launcher.ranks]
    return launcher.run(), pids


def is_there(pid: int) -> bool:
    with suppress(ProcessLookupError):
        os.kill(pid, 0)
        return True
    return False


@pytest.mark.parametrize(
    ("fate", "words"),
    [
        ("killed", ("rank 1", "SIGKILL")),
        ("lonely", ("rank 1", "SIGKILL")),  # rank 0 noticed first, and is not blamed
        ("stopped", ("rank 1", "no sign of life")),
        ("failed", ("rank 1", "exit code 3", "no such ROM")),
    ],
)
def test_a_lost_rank_ends_all_and_is_named(
    fate: str,
    words: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, pids = run(fate, tmp_path / "run", monkeypatch)
    said = capsys.readouterr().err
    assert code == 1
    assert said.count("\n") == 1
    assert all(word in said for word in (*words, "reprl resume"))
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    assert record["status"] == "killed"
    assert words[0] in record["reason"]
    assert not any(map(is_there, pids))


def test_an_end_that_rank_0_has_explained_is_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, pids = run("diverged", tmp_path / "run", monkeypatch)
    assert code == 1
    assert capsys.readouterr().err == ""
    assert json.loads((tmp_path / "run" / "run.json").read_text())["status"] == "running"
    assert not any(map(is_there, pids))


def test_ranks_end_with_their_launcher(tmp_path: Path) -> None:
    script = (
        "import sys\n"
        "from reprl.distributed.launch import RankLauncher\n"
        f"launcher = RankLauncher(['wait', {str(tmp_path)!r}], 2, program={PROGRAM!r})\n"
        "print(*[r.process.pid for r in launcher.ranks], flush=True)\n"
        "launcher.run()\n"
    )
    command = [sys.executable, "-c", script]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[3]
    ) as process:
        assert process.stdout is not None
        pids = [int(word) for word in process.stdout.readline().split()]
        process.send_signal(signal.SIGKILL)
    for _ in range(300):
        if not any(map(is_there, pids)):
            break
        time.sleep(0.1)
    assert not any(map(is_there, pids))
