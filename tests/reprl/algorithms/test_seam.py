"""Two agents and a game from outside the package: a memory, Q-values, and Freeway, on the seams.

All train from the command line, are killed, resume bit for bit, play, have twins, maps of their
attention and a report; what they have not is said in a sentence.
"""

import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

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


NO_MASK = "no attention mask: its gradient is shown"
KINDS = {
    "q_learning": (["algo=q_learning"], [NO_MASK, "its Q-values are explained"]),
    "recurrent": (["algo=recurrent"], [NO_MASK]),
    "freeway": (["algo=a2c", "attention=conv", "env.game=freeway:FREEWAY"], ["chicken"]),
}


def reprl(*arguments: str, **streams: Any) -> subprocess.Popen[bytes]:
    own = [f"--config-dir={TOYS / 'conf'}"] if arguments[0] != "report" else []
    return subprocess.Popen([sys.executable, "-m", "reprl", *arguments, *own], **streams)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_an_agent_or_a_game_of_another_kind_lives_like_ours(kind: str, tmp_path: Path) -> None:
    whole, killed = tmp_path / "runs" / "whole", tmp_path / "killed"
    chosen, said = KINDS[kind]
    train = ["train", *COMMON, *chosen]
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
    looks = ["variant=green_lines", "steps=32"]
    faithfulness = kind == "q_learning"  # of a memory: tests/analysis/attention/test_memory.py
    looks += ["faithfulness=true", "games=2"] if faithfulness else []
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    looking = reprl("attention", str(whole), *looks, **streams)
    out = looking.communicate()[0].decode()
    assert looking.returncode == 0, out
    assert all(words in out for words in said), out
    scores = pd.read_csv(whole / "attention" / "scores.csv")
    assert set(scores["view"]) == {"mask" if kind == "freeway" else "gradient"}
    if faithfulness:
        faithful = pd.read_csv(whole / "attention" / "faithfulness.csv")
        assert faithful["value"].notna().all()
        assert set(faithful["test"]) == {"deletion", "insertion", "return", "weights randomised"}
    assert reprl("report", str(tmp_path / "runs"), f"out={tmp_path / 'report'}").wait() == 0
    assert (tmp_path / "report" / "report.html").is_file()
