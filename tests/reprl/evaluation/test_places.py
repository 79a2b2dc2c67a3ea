"""Where results go: a folder that cannot be written is said before a game is played; out=."""

import os
import stat
from pathlib import Path

import pandas as pd
import pytest

from reprl.cli import main
from reprl.evaluation.episodes import Arena

PLAY = ["variants=original", "episodes=1", "workers=0", "n_envs=2", "progress=off"]
TWIN = ["twin=true", "variants=green_lines", "steps=8", "workers=0", "progress=off"]
NOBODY = 65534


@pytest.fixture
def read_only(runs):
    """The first run, which this process may read and not write; root may write everything."""
    run = runs / "first"
    opened = [p for p in (run, *run.parents) if p.stat().st_uid == os.getuid() and len(p.parts) > 2]
    modes = {p: stat.S_IMODE(p.stat().st_mode) for p in opened}
    for path in opened:
        path.chmod(modes[path] | 0o055)
    run.chmod(0o555)
    before = os.geteuid()
    if before == 0:
        os.seteuid(NOBODY)
    yield run
    if before == 0:
        os.seteuid(0)
    for path, mode in modes.items():
        path.chmod(mode)


@pytest.mark.parametrize(
    "command", [["evaluate", *PLAY], ["evaluate", *TWIN], ["attention", "steps=16"]]
)
def test_a_folder_that_cannot_be_written_is_said_first(read_only, command, monkeypatch, capsys):
    monkeypatch.setattr(Arena, "play", lambda *_: pytest.fail("it played"))
    monkeypatch.setattr(
        "reprl.evaluation.checkpoints.Target.load", lambda _: pytest.fail("it loaded the agent")
    )
    assert main([command[0], str(read_only), *command[1:]]) == 2
    said = capsys.readouterr().err
    assert "cannot be written: Permission denied; give out=DIR" in said


def test_out_takes_what_a_run_cannot(runs, tmp_path, monkeypatch):
    before = sorted(p for p in runs.rglob("*"))
    monkeypatch.setenv("HOME", str(tmp_path))
    assert main(["evaluate", str(runs / "first"), *PLAY, "out=~/x"]) == 0
    assert main(["evaluate", str(runs / "first"), *TWIN, "out=~/x"]) == 0
    assert main(["attention", str(runs / "first"), "steps=16", "out=~/x"]) == 0
    for file in ("evaluation/episodes.csv", "evaluation/twin.csv", "attention/scores.csv"):
        assert set(pd.read_csv(tmp_path / "x" / file)["run"]) == {"first"}
    assert main(["evaluate", str(runs), *PLAY, f"out={tmp_path / 'all'}"]) == 0
    written = {str(p.relative_to(tmp_path / "all").parent) for p in tmp_path.glob("all/*/*/*.csv")}
    assert written == {f"{n}/evaluation" for n in ("first", "second", "baselines")}
    assert sorted(p for p in runs.rglob("*")) == before
    assert not Path("~").exists()
    assert main(["report", str(tmp_path / "x"), "figures=false", "out=~/page"]) == 0
    assert (tmp_path / "page" / "report.html").exists()
