"""A run on an environment of gymnasium: trained, stopped, resumed exactly, evaluated, reported."""

import shutil
from pathlib import Path

import pandas as pd
import pytest

from reprl.cli import main
from tests.helpers import Commands
from tests.runs import same_runs

RUN = [
    *("env=gymnasium", "threads=1", "device=cpu", "progress=off", "env.n_envs=2"),
    *("algo.n_steps=16", "algo.batch_size=16", "algo.n_epochs=1", "total_steps=192"),
    *(
        "checkpoint.every=64",
        "checkpoint.keep=9",
        "log.every=48",
        "eval.every=96",
        "eval.episodes=1",
    ),
]


@pytest.mark.slow
def test_a_run_on_numbers_lives_like_one_on_pictures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = tmp_path / "runs"
    assert main(["train", *RUN, f"run_dir={runs / 'whole'}"]) == 0
    # as if it had been killed after the first checkpoint
    shutil.copytree(runs / "whole", runs / "again")
    for step in sorted((runs / "again" / "checkpoints").iterdir())[1:]:
        shutil.rmtree(step)
    record = runs / "again" / "run.json"
    record.write_text(record.read_text().replace('"finished"', '"running"'))
    assert main(["resume", str(runs / "again")]) == 0
    assert same_runs(runs / "whole", runs / "again")
    shutil.rmtree(runs / "again")
    assert main(["evaluate", str(runs / "whole"), "episodes=3", "workers=1", "progress=off"]) == 0
    games = pd.read_csv(runs / "whole" / "evaluation" / "episodes.csv")
    assert games["variant"].tolist() == ["original"] * 3
    assert (games["episode_return"] == games["length"]).all()  # a point a step
    assert main(["report", str(runs), f"out={tmp_path / 'report'}"]) == 0
    assert "cartpole-v1-ppo-mlp" in (tmp_path / "report" / "run_scores.csv").read_text()
    capsys.readouterr()
    says = Commands(capsys)
    whole = str(runs / "whole")
    for command in (["attention"], ["video"], ["plasticity"], ["evaluate", "twin=true"]):
        says.refuse([command[0], whole, *command[1:]], "screen of ALE's games", "CartPole-v1")
