"""A user's algorithm comes back from its checkpoint as what it was, and nothing else does."""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from reprl import algorithms, checkpoint
from reprl.algorithms import rebuild
from reprl.cli import main
from tests.helpers import refuses
from tests.reprl.algorithms import own
from tests.toys.catch import Catch

SMALL: dict[str, Any] = {"batch_size": 8, "n_epochs": 1, "seed": 0, "device": "cpu"}
MODELS = {
    "ours": lambda env: algorithms.PPO("CnnPolicy", env, n_steps=8, **SMALL),
    "our name": lambda env: own.PPO("CnnPolicy", env, n_steps=8, **SMALL),
    "positions": lambda env: own.Doubled("CnnPolicy", env, 0.25, 1e-3, **SMALL),
    "keywords": lambda env: own.Further(policy="CnnPolicy", env=env, bonus=0.5, limit=3, **SMALL),
}


def through_json(captured: Any) -> Any:
    captured.meta = json.loads(json.dumps(captured.meta))
    return captured


@pytest.mark.slow
@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("with_env", [True, False], ids=["to train", "to predict"])
def test_it_is_rebuilt_as_what_it_was(kind: str, with_env: bool) -> None:
    model = MODELS[kind](Catch())
    model.learn(2 * model.n_steps * model.n_envs)
    captured = through_json(model.capture())
    again = rebuild(captured.meta, Catch() if with_env else None)
    again.restore(captured)
    assert type(again) is type(model)
    assert again.arguments == model.arguments
    for name in ("bonus", "limit", "outputs", "n_steps"):
        assert getattr(again, name, None) == getattr(model, name, None), name
    once_more = through_json(again.capture())
    assert once_more.meta == captured.meta
    for name, tensor in captured.parameters.items():
        assert tensor.equal(once_more.parameters[name]), name


def test_arguments_of_its_own_are_in_the_checkpoint() -> None:
    meta = own.Doubled("CnnPolicy", Catch(), 0.25, 1e-3, **SMALL).capture().meta
    assert meta["algorithm"] == "tests.reprl.algorithms.own:Doubled"
    assert (meta["constructor"]["bonus"], meta["constructor"]["n_steps"]) == (0.25, 4)
    assert meta["constructor"]["learning_rate"] == 1e-3
    assert meta["arguments"]["n_steps"] == 8
    ours = algorithms.PPO("CnnPolicy", Catch(), n_steps=8, **SMALL).capture().meta
    assert (ours["algorithm"], ours["constructor"]) == ("reprl.algorithms.PPO", None)
    with refuses("Further.limit"):
        own.Further(policy="CnnPolicy", env=Catch(), bonus=1.0, limit=object(), **SMALL).capture()


def test_names_of_old_checkpoints_are_ours() -> None:
    for cls in (algorithms.PPO, algorithms.A2C):
        meta = cls("CnnPolicy", Catch(), n_steps=8, seed=0, device="cpu").capture().meta
        meta.pop("constructor")
        assert type(rebuild(meta | {"algorithm": cls.__name__})) is cls
    with refuses("'MyPPO'"):
        rebuild(meta | {"algorithm": "MyPPO"})


@pytest.mark.parametrize(
    "path",
    [
        "tests.reprl.algorithms.own:no_algorithm",
        "tests.reprl.algorithms.own.no_algorithm",
        "stable_baselines3:PPO",
        "reprl.encoders.Nature",
        "subprocess.run",
        "tests.reprl.algorithms.own:Missing",
        "no_such_module:PPO",
    ],
)
@pytest.mark.parametrize("constructor", [None, {"policy": "CnnPolicy"}])
def test_what_is_no_algorithm_is_refused_uncalled(path: str, constructor: Any) -> None:
    meta = algorithms.PPO("CnnPolicy", Catch(), n_steps=8, **SMALL).capture().meta
    with refuses(path):
        rebuild(meta | {"algorithm": path, "constructor": constructor})
    assert not own.called


def test_a_class_of_a_script_says_that_nobody_else_finds_it() -> None:
    class Local(algorithms.PPO):
        pass

    model = Local("CnnPolicy", Catch(), n_steps=8, **SMALL)
    with pytest.warns(UserWarning, match="Local is defined in a script or a function"):
        meta = model.capture().meta
    with refuses("Local"):
        rebuild(meta)


CODE = """
from reprl import algorithms

class PPO(algorithms.PPO):
    def __init__(self, policy, env, *, bonus, **kwargs):
        super().__init__(policy, env, **kwargs)
        self.bonus = bonus
"""
TINY = [
    *("algo=mine", "algo.bonus=0.5", "threads=1", "device=cpu", "progress=off", "env.n_envs=2"),
    *("env.max_frames=1000", "encoder.features_dim=8", "total_steps=64", "checkpoint.every=32"),
    *("eval.every=0", "log.every=32"),
]
YAML = "# mine\n_target_: mine_algorithm.PPO\nbonus: 0.1\n"
YAML += "n_steps: 16\nbatch_size: 16\nn_epochs: 1\n"


def forget() -> None:
    """As in a new process: nothing of the user's folder is known."""
    sys.modules.pop("mine_algorithm", None)
    sys.path[:] = [p for p in sys.path if not (Path(p) / "mine_algorithm.py").exists()]


@pytest.mark.slow
def test_a_run_of_a_users_ppo_trains_resumes_and_is_evaluated(tmp_path: Path) -> None:
    home, run = tmp_path / "home", tmp_path / "run"
    (home / "algo").mkdir(parents=True)
    (home / "algo" / "mine.yaml").write_text(YAML)
    (home / "mine_algorithm.py").write_text(CODE)
    try:
        assert main(["train", f"--config-dir={home}", *TINY, f"run_dir={run}"]) == 0
        whole = checkpoint.read(run)
        shutil.rmtree(run / "checkpoints" / "000000000064")
        text = (run / "run.json").read_text().replace('"finished"', '"interrupted"')
        (run / "run.json").write_text(text)
        forget()
        assert main(["resume", f"--config-dir={home}", str(run)]) == 0
        again = checkpoint.read(run)
        assert again.meta == whole.meta
        for name, tensor in whole.parameters.items():
            assert tensor.equal(again.parameters[name]), name
        forget()
        options = ["variants=original", "episodes=1", "workers=0", "progress=off", "agents=none"]
        assert main(["evaluate", f"--config-dir={home}", str(run), *options]) == 0
        assert len(pd.read_csv(run / "evaluation" / "episodes.csv")) == 1
        model = checkpoint.load(run, trust=["mine_algorithm"])
        assert (type(model).__module__, model.bonus) == ("mine_algorithm", 0.5)
    finally:
        forget()
