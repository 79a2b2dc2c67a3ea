"""Two agents and a game from outside the package: a memory, Q-values, and Freeway, on the seams.

All train from the command line, are killed, resume bit for bit, play, have twins, maps of their
attention and a report; what they have not is said in a sentence. The run that is killed is a
process of its own; the other commands run in this one, which saves seven imports of torch.
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
from reprl.cli import main

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


OWN = f"--config-dir={TOYS / 'conf'}"


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_an_agent_or_a_game_of_another_kind_lives_like_ours(
    kind: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])  # to which --config-dir adds
    whole, killed = tmp_path / "runs" / "whole", tmp_path / "killed"
    chosen, said = KINDS[kind]
    train = ["train", *COMMON, *chosen, OWN]
    process = subprocess.Popen([sys.executable, "-m", "reprl", *train, f"run_dir={killed}"])
    while not checkpoint.steps(killed):
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert main([*train, f"run_dir={whole}"]) == 0
    assert main(["resume", str(killed), OWN]) == 0
    ours, theirs = (checkpoint.read(folder) for folder in (whole, killed))
    for part in ("state", "parameters", "optimizer"):
        first, second = getattr(ours, part), getattr(theirs, part)
        assert set(first) == set(second)
        for name in first:
            torch.testing.assert_close(first[name], second[name], rtol=0, atol=0, equal_nan=True)
    assert ours.meta == theirs.meta
    played = ["evaluate", str(whole), "variants=original,green_lines", OWN]
    assert main([*played, "episodes=1"]) == 0
    assert main([*played, "twin=true", "steps=20"]) == 0
    games = pd.read_csv(whole / "evaluation" / "episodes.csv")
    assert len(games) == 2
    twins = pd.read_csv(whole / "evaluation" / "twin.csv")
    assert (twins["js"] >= 0).all()
    looks = ["variant=green_lines", "steps=32"]
    faithfulness = kind == "q_learning"  # of a memory: tests/analysis/attention/test_memory.py
    looks += ["faithfulness=true", "games=2"] if faithfulness else []
    capsys.readouterr()
    assert main(["attention", str(whole), *looks, OWN]) == 0
    out = "".join(capsys.readouterr())
    assert all(words in out for words in said), out
    scores = pd.read_csv(whole / "attention" / "scores.csv")
    assert set(scores["view"]) == {"mask" if kind == "freeway" else "gradient"}
    if faithfulness:
        faithful = pd.read_csv(whole / "attention" / "faithfulness.csv")
        assert faithful["value"].notna().all()
        assert set(faithful["test"]) == {"deletion", "insertion", "return", "weights randomised"}
    assert main(["report", str(tmp_path / "runs"), f"out={tmp_path / 'report'}"]) == 0
    assert (tmp_path / "report" / "report.html").is_file()
