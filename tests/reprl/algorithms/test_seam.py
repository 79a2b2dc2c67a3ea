"""Two agents from outside the package, one with a memory and one with Q-values, on the seam.

They train from the command line, are killed, resume bit for bit, play, have twins and a report.
"""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest
import torch

from reprl import checkpoint

TOYS = Path(__file__).parents[2] / "toys"
COMMON = [
    *("threads=1", "device=cpu", "progress=off", "env.n_envs=2", "env.max_frames=800"),
    *("env.stack=2", "env.size=36", "total_steps=320", "checkpoint.every=64"),
    *("log.every=64", "eval.every=0"),
]


def reprl(*arguments: str) -> subprocess.Popen[bytes]:
    own = [f"--config-dir={TOYS / 'conf'}"] if arguments[0] != "report" else []
    return subprocess.Popen([sys.executable, "-m", "reprl", *arguments, *own])


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["q_learning", "recurrent"])
def test_an_agent_of_another_kind_lives_like_ppo(algorithm: str, tmp_path: Path) -> None:
    whole, killed = tmp_path / "runs" / "whole", tmp_path / "killed"
    train = ["train", *COMMON, f"algo={algorithm}"]
    assert reprl(*train, f"run_dir={whole}").wait() == 0
    process = reprl(*train, f"run_dir={killed}")
    while not checkpoint.steps(killed):
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert reprl("resume", str(killed)).wait() == 0
    ours, theirs = (checkpoint.read(folder) for folder in (whole, killed))
    for part in ("state", "parameters", "optimizer"):
        first, second = getattr(ours, part), getattr(theirs, part)
        assert set(first) == set(second)
        for name in first:
            torch.testing.assert_close(first[name], second[name], rtol=0, atol=0, equal_nan=True)
    assert ours.meta == theirs.meta
    played = ["variants=original,green_lines"]
    assert reprl("evaluate", str(whole), *played, "episodes=2").wait() == 0
    assert reprl("evaluate", str(whole), *played, "twin=true", "steps=20").wait() == 0
    games = pd.read_csv(whole / "evaluation" / "episodes.csv")
    assert len(games) == 4
    twins = pd.read_csv(whole / "evaluation" / "twin.csv")
    assert (twins["js"] >= 0).all()
    assert reprl("report", str(tmp_path / "runs"), f"out={tmp_path / 'report'}").wait() == 0
    assert (tmp_path / "report" / "report.html").is_file()
