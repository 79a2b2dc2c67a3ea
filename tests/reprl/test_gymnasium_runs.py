"""A run on an environment of gymnasium: trained, stopped, resumed exactly, evaluated, reported."""

import json
import shutil
from pathlib import Path

import pandas as pd
import pytest

from reprl import checkpoint
from reprl.checkpoint import steps
from reprl.cli import main
from reprl.runs.folder import RunFolder
from tests.helpers import Commands
from tests.runs import same_runs

RUN = [
    *("env=gymnasium", "threads=1", "device=cpu", "progress=off", "env.n_envs=2"),
    *("total_steps=192", "checkpoint.every=64", "checkpoint.keep=9", "log.every=48"),
    "eval.episodes=1",
]


PPO = ["algo.n_steps=16", "algo.batch_size=16", "algo.n_epochs=1"]
OTHERS = {
    "dqn": ["algo.buffer_size=100", "algo.learning_starts=16", "algo.batch_size=8"],
    "qrdqn": [
        *("algo.buffer_size=100", "algo.learning_starts=16", "algo.batch_size=8"),
        *("algo.n_quantiles=10", "algo.target_update_interval=20", "algo.instrument_every=3"),
    ],
    "sac": [
        *("env.id=Pendulum-v1", "algo.buffer_size=100", "algo.learning_starts=16"),
        *("algo.batch_size=8", "algo.gradient_steps=1", "algo.noise=ou", "encoder.hidden=[8]"),
        "algo.instrument_every=5",
    ],
    "recurrent_ppo": [*PPO, "algo.lstm_size=8"],
    "reinforce": ["algo.n_steps=48"],
    "ppg": [  # resumed in the middle of a cycle
        *(*PPO, "algo.n_policy_phases=4", "algo.auxiliary_epochs=2"),
        "algo.auxiliary_batch_size=32",
    ],
    "idaac": [*PPO, "algo.value_epochs=2", "algo.order_coef=0.1"],
}


def resumed(whole: Path, again: Path) -> Path:
    """A copy of a run, resumed as if it had been killed after its first checkpoint."""
    shutil.copytree(whole, again)
    for step in sorted((again / "checkpoints").iterdir())[1:]:
        shutil.rmtree(step)
    record = again / "run.json"
    record.write_text(record.read_text().replace('"finished"', '"running"'))
    assert main(["resume", str(again)]) == 0
    return again


@pytest.mark.slow
@pytest.mark.parametrize("algo", OTHERS)
def test_other_algorithms_resume_exactly_and_are_evaluated(algo: str, tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    settings = [*RUN, f"algo={algo}", *OTHERS[algo], "eval.every=0"]
    assert main(["train", *settings, f"run_dir={whole}"]) == 0
    assert same_runs(whole, resumed(whole, tmp_path / "again"))
    assert main(["evaluate", str(whole), "episodes=2", "workers=0", "progress=off"]) == 0
    games = pd.read_csv(whole / "evaluation" / "episodes.csv")
    assert games["algo"].tolist() == [algo] * 2


@pytest.mark.slow
def test_a_run_that_is_good_enough_ends_early(tmp_path: Path) -> None:
    run = tmp_path / "run"
    early = ["stop.score=8", "stop.games=2", "total_steps=5000", "eval.every=0"]
    longer = [word for word in RUN if not word.startswith("total_steps=")]
    assert main(["train", *longer, *PPO, *early, f"run_dir={run}"]) == 0
    record = json.loads((run / "run.json").read_text())
    assert record["status"] == "finished"
    assert "stop.score=8" in record["stopped_early"]
    assert record["step"] < 400
    assert steps(run)[-1] == record["step"]
    assert main(["resume", str(run)]) == 0  # there is nothing left to do
    assert steps(run)[-1] == record["step"]


@pytest.mark.slow
def test_a_run_ends_at_the_step_it_was_told_and_its_schedules_go_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    early = ["stop.step=100", "eval.every=150", "algo.learning_rate={kind:linear,start:1e-3,end:0}"]
    assert main(["train", *RUN, *PPO, *early, f"run_dir={run}"]) == 0
    record = json.loads((run / "run.json").read_text())
    assert record["status"] == "finished"
    assert "stop.step=100" in record["stopped_early"]
    assert 100 <= record["step"] < 132
    counters = checkpoint.read(run).meta["counters"]
    assert counters["_current_progress_remaining"] == 1 - record["step"] / 192
    games = pd.read_csv(run / "evaluation" / "validation.csv")
    assert games["step"].max() == record["step"]  # it ends with a validation
    RunFolder(run).update(status="running")  # it was killed before it could say so
    assert main(["resume", str(run)]) == 0
    assert RunFolder(run).status() == "finished"
    assert steps(run)[-1] == record["step"]
    capsys.readouterr()
    assert main(["extend", str(run), "total_steps=9000"]) == 2
    assert "stop.step=100" in capsys.readouterr().err
    assert main(["train", *RUN, *PPO, "stop.step=100", f"parent={run}"]) == 2
    assert "stop.step=100 is not beyond" in capsys.readouterr().err


@pytest.mark.slow
def test_a_run_on_numbers_lives_like_one_on_pictures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = tmp_path / "runs"
    assert main(["train", *RUN, *PPO, "eval.every=96", f"run_dir={runs / 'whole'}"]) == 0
    resumed(runs / "whole", runs / "again")
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
