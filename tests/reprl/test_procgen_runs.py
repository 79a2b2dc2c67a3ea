"""A run on Procgen, played by a stand-in: trained, resumed exactly, looked at and reported."""

import shutil
from pathlib import Path

import pandas as pd
import pytest

from reprl.cli import main
from reprl.envs import procgen_levels
from tests.helpers import Commands
from tests.runs import same_runs
from tests.toys.pool import install

RUN = [
    *("env=procgen", "encoder=nature_padded", "attention=conv", "auxiliary=drac", "threads=1"),
    *("env.n_envs=2", "env.levels=3", "algo.n_steps=16", "algo.batch_size=16", "algo.n_epochs=1"),
    *("total_steps=64", "checkpoint.every=32", "checkpoint.keep=9", "log.every=32", "media=0"),
    *("eval.every=64", "eval.episodes=1", "progress=off", "device=cpu"),
]


@pytest.mark.slow
def test_a_run_on_levels_lives_like_one_on_a_console(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    install(monkeypatch)
    run, again = tmp_path / "runs" / "run", tmp_path / "again"
    assert main(["train", *RUN, f"run_dir={run}"]) == 0
    shutil.copytree(run, again)
    shutil.rmtree(sorted((again / "checkpoints").iterdir())[-1])
    record = again / "run.json"
    record.write_text(record.read_text().replace('"finished"', '"running"'))
    assert main(["resume", str(again)]) == 0
    assert same_runs(run, again)
    asked = ["variants=original,unseen", "episodes=3", "workers=0", "progress=off"]
    assert main(["evaluate", str(run), *asked]) == 0
    games = pd.read_csv(run / "evaluation" / "episodes.csv")
    assert games.groupby("variant").size().to_dict() == {"original": 3, "unseen": 3}
    assert set(games["family"]) == {"original", "levels"}
    assert main(["attention", str(run), "variant=unseen", "steps=16"]) == 0
    assert (run / "attention" / "unseen.png").is_file()
    assert main(["report", str(run.parent), f"out={tmp_path / 'report'}"]) == 0
    scores = (tmp_path / "report" / "run_scores.csv").read_text()
    assert "procgen-coinrun_levels_3-ppo-nature_padded-conv-drac" in scores
    capsys.readouterr()
    says, name = Commands(capsys), str(run)
    says.refuse(["evaluate", name, "twin=true"], "twin=true", "ALE's games", "procgen/coinrun")
    says.refuse(["play", name], "reprl play", "procgen/coinrun")
    for command in ("probe", "layers", "intervene", "breaking", "embed"):
        says.refuse([command, name], "procgen/coinrun")
    procgen_levels.require_envpool.cache_clear()
