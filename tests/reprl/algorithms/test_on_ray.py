"""IMPALA and Ape-X without Ray: what they refuse, how their agents are kept, who explores how."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
import torch

from reprl import checkpoint
from reprl.algorithms import APEX, IMPALA, rebuild
from reprl.algorithms.apex import epsilon_of
from reprl.algorithms.base import Algorithm
from reprl.cli import main
from reprl.config.schema import load
from reprl.envs import make_vec_env
from reprl.runs.train import make_env, make_model
from tests.helpers import refuses
from tests.toys.catch import Catch

SMALL = ["env=gymnasium", "device=cpu", "env.n_envs=4", "threads=1", "progress=off", "media=0"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["algo.runners=3"], ["env.n_envs=4", "algo.runners=3"]),
        (["algo.runners=0"], ["algo.runners=0"]),
        (["algo.address=here"], ["algo.address=here", "HOST:PORT"]),
        (["algo.learning_rate={kind: linear, start: 0.1, end: 0}"], ["algo.learning_rate"]),
        (["auxiliary=contrastive"], ["auxiliary=contrastive"]),
        (["augmentation=shift"], ["augmentation=shift"]),
        (["mode=fast"], ["mode=plain"]),
        (["ranks=2"], ["ranks=2"]),
        (["algo.rho=1"], ["algo.rho"]),
    ],
)
@pytest.mark.parametrize("algo", ["impala", "apex"])
def test_what_cannot_be_is_one_sentence(algo: str, words: list[str], said: list[str]) -> None:
    with refuses(*said):
        load([*SMALL, f"algo={algo}", *words])


def test_workers_and_curricula_are_the_actors_affair() -> None:
    with refuses("env.workers=2", "algo.runners=2"):
        load(["algo=impala", "env.workers=2", "device=cpu"])
    stages = ["env.variant=[original,green_lines]", "env.curriculum=sequence", "env.stage=100"]
    with refuses("env.curriculum=sequence"):
        load(["algo=impala", "device=cpu", *stages])


@pytest.mark.parametrize("cls", [IMPALA, APEX])
def test_games_that_only_this_process_has_are_refused(cls: type[Algorithm]) -> None:
    with refuses(cls.__name__, "make_vec_env"):
        cls("CnnPolicy", Catch(4))
    with refuses("algo.runners=3"):
        cls("CnnPolicy", make_vec_env(n_envs=4, size=36), runners=3)


def test_actors_explore_less_and_less() -> None:
    # Horgan et al. 2018: 0.4 ** (1 + 7 i / (N - 1))
    found = [epsilon_of(actor, 4, 0.4, 7.0) for actor in range(4)]
    assert found[0] == pytest.approx(0.4)
    assert found[3] == pytest.approx(0.4**8)
    assert found == sorted(found, reverse=True)
    assert epsilon_of(0, 1, 0.4, 7.0) == pytest.approx(0.4)
    model = make_model(config := load([*SMALL, "algo=apex", "algo.runners=4"]), make_env(config))
    assert model.module_settings()["epsilons"] == pytest.approx(found)


def moved(model: Algorithm) -> list[torch.Tensor]:
    """What the optimizer moves: a target network follows by itself."""
    return [p for group in model.policy.optimizer.param_groups for p in group["params"]]


@pytest.mark.parametrize("algo", ["impala", "apex"])
def test_an_agent_is_kept_and_plays_without_ray(algo: str, tmp_path: Path) -> None:
    config = load([*SMALL, f"algo={algo}", "seed=3"])
    model = make_model(config, make_env(config))
    model.num_timesteps, model._gained = 1200, 600
    assert model.steps_per_update == 600
    for parameter in moved(model):  # as if Adam had moved them
        state = {"step": torch.tensor(3.0), "exp_avg": torch.ones_like(parameter)}
        state["exp_avg_sq"] = torch.full_like(parameter, 2.0)
        model.policy.optimizer.state[parameter] = state
    checkpoint.save(model, tmp_path)
    stored = checkpoint.read(tmp_path)
    again = rebuild(stored.meta, make_env(config))
    again.restore(stored)
    assert again.num_timesteps == 1200
    assert again.settings() == model.settings()
    for ours, theirs in zip(model.policy.parameters(), again.policy.parameters(), strict=True):
        assert torch.equal(ours, theirs)
    moments = again.policy.optimizer.state
    for parameter in moved(again):
        assert torch.equal(moments[parameter]["exp_avg"], torch.ones_like(parameter))
    seen = np.zeros((5, 4), np.float32)
    alone = rebuild(stored.meta)
    alone.restore(stored)
    first, _ = model.predict(seen, deterministic=True)
    second, _ = alone.predict(seen, deterministic=True)
    assert np.array_equal(first, second)


@pytest.mark.skipif(importlib.util.find_spec("ray") is not None, reason="Ray is here")
def test_without_ray_it_says_what_to_install(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for algo in ("impala", "apex"):
        run = tmp_path / algo
        assert main(["train", *SMALL, f"algo={algo}", "total_steps=9000", f"run_dir={run}"]) == 2
        assert "pip install 'reprl[ray]'" in capsys.readouterr().err
        assert not run.exists()
