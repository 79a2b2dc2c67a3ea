"""Diagnostics of the off-policy update: what they say, and that they disturb nothing."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import sb3_contrib
import stable_baselines3
import torch
from torch import Tensor, nn

from reprl.algorithms import DDPG, DQN, QRDQN, SAC, TD3
from reprl.algorithms.health import GreedyChurn
from reprl.cli import main
from reprl.envs import make_vec_env
from reprl.runs.progress import alarms
from tests.helpers import refuses
from tests.toys.catch import SMALL_ENCODER, Catch

KINDS: dict[str, Any] = {"dqn": DQN, "qrdqn": QRDQN, "sac": SAC, "td3": TD3, "ddpg": DDPG}
SMALL: dict[str, Any] = {"buffer_size": 120, "learning_starts": 8, "batch_size": 8, "seed": 3}
SMALL |= {"device": "cpu"}
LOSS = {"_target_": "reprl.auxiliary.Contrastive", "coef": 0.5}
HEALTH = ["features/effective_rank", "features/norm", "features/rms"]


def pictures(kind: str) -> Any:
    if kind in ("dqn", "qrdqn"):
        return Catch()
    small: dict[str, Any] = {"size": 36, "stack": 2, "n_envs": 2, "seed": 1, "max_frames": 400}
    return make_vec_env(continuous=True, **small)


def numbers(kind: str) -> Any:
    name = "CartPole-v1" if kind in ("dqn", "qrdqn") else "Pendulum-v1"
    return make_vec_env(game=f"gymnasium/{name}", n_envs=2, seed=3)


def trained(kind: str, every: int, **extras: Any) -> Any:
    given = SMALL | {"encoder": SMALL_ENCODER, "instrument_every": every} | extras
    return KINDS[kind]("CnnPolicy", pictures(kind), **given).learn(48)


def same(a: Any, b: Any) -> bool:
    pairs = zip(a.policy.state_dict().values(), b.policy.state_dict().values(), strict=True)
    return all(torch.equal(x, y) for x, y in pairs)


@pytest.mark.parametrize("kind", KINDS)
def test_watching_changes_nothing_and_fills_the_log(kind: str) -> None:
    extras: dict[str, Any] = {"attention": "conv", "auxiliary": LOSS, "augmentation": "shift"}
    found = []
    for every in (0, 1):
        model = trained(kind, every, **extras)
        drawn = np.random.get_state()[1].tolist(), torch.get_rng_state()  # type: ignore[union-attr]
        found.append((model, *drawn, model.losses.state(), model.losses.modules.state_dict()))
    quiet, loud = found
    assert same(quiet[0], loud[0])
    assert quiet[1] == loud[1]
    assert torch.equal(quiet[2], loud[2])
    for place in (3, 4):
        assert all(torch.equal(quiet[place][name], loud[place][name]) for name in quiet[place])
    own = "q" if kind in ("dqn", "qrdqn") else "critic"
    wanted = [*HEALTH, "gradient/rl_norm", "gradient/contrastive_norm", "churn/value"]
    wanted += ["gradient/contrastive_cosine", "attention/black", "attention/stuck"]
    wanted += ["dead_units/cnn.1", "dormant_units/cnn.1"]
    wanted += ["churn/policy"] if own == "q" else []
    before, logged = (each[0].logger.name_to_value for each in found)
    for name in wanted:
        assert name in logged
        assert name not in before
    assert ("churn/policy" in logged) == (own == "q")
    shares = [logged[f"loss/{name}_share"] for name in (own, "contrastive")]
    assert sum(shares) == pytest.approx(1.0)
    loss = logged["train/loss" if own == "q" else "train/critic_loss"]
    assert shares[1] / shares[0] == pytest.approx(0.5 * logged["loss/contrastive"] / loss)
    assert logged["churn/value"] > 0


@pytest.mark.parametrize("n_steps", [1, 3])
@pytest.mark.parametrize("show", [pictures, numbers])
@pytest.mark.parametrize("kind", KINDS)
def test_a_watched_algorithm_is_sb3s_bit_for_bit(kind: str, show: Any, n_steps: int) -> None:
    package: Any = sb3_contrib if kind == "qrdqn" else stable_baselines3
    policy = "CnnPolicy" if show is pictures else "MlpPolicy"

    def heads() -> dict[str, Any]:
        return {"policy_kwargs": {"net_arch": [8]}}  # SB3 writes into it

    given = SMALL | {"n_steps": n_steps, "gradient_steps": 2, "train_freq": 4}
    stock = getattr(package, kind.upper())(policy, show(kind), **heads(), **given).learn(48)
    ours = KINDS[kind](policy, show(kind), instrument_every=1, **heads(), **given)
    assert same(stock, ours.learn(48))
    theirs, logged = stock.logger.name_to_value, ours.logger.name_to_value
    for name in (name for name in theirs if name.startswith("train/")):
        assert logged[name] == pytest.approx(theirs[name], rel=1e-12), name
    assert ("features/norm" in logged) == (show is pictures)
    assert "churn/value" in logged


def test_an_actors_loss_alone_moves_an_encoder_that_sb3_shares() -> None:
    def made(of: Any, **more: Any) -> Any:
        heads = {"net_arch": [8], "share_features_extractor": True}
        return of("CnnPolicy", pictures("td3"), policy_kwargs=heads, **SMALL, **more).learn(24)

    for name in ("TD3", "SAC"):
        stock = made(getattr(stable_baselines3, name))
        assert same(stock, made(KINDS[name.lower()], instrument_every=1))


def test_looks_are_counted_in_updates_and_go_on_after_a_capture() -> None:
    def looked(model: Any, steps: int, **more: Any) -> list[int]:
        at: list[int] = []
        look = model._look
        model._look = lambda *given: (at.append(model.num_timesteps), look(*given))[1]
        model.learn(steps, **more)
        del model._look
        return at

    def made() -> Any:
        given = SMALL | {"learning_starts": 20, "instrument_every": 3, "encoder": SMALL_ENCODER}
        return DQN("CnnPolicy", Catch(), **given, train_freq=2)

    model = made()
    first = looked(model, 56)
    assert first == [24, 48]  # an update every 8 steps, the first at 24
    captured = model.capture()
    again = made()
    again.restore(captured)
    more = {"reset_num_timesteps": False}
    assert looked(model, 64, **more) == looked(again, 64, **more) == [72, 96, 120]
    assert DQN("CnnPolicy", Catch(), **SMALL).instrument_every == 250
    with refuses("instrument_every=-1"):
        DQN("CnnPolicy", Catch(), **SMALL, instrument_every=-1)


@pytest.mark.parametrize("kind", ["dqn", "qrdqn", "sac"])
def test_a_dead_mask_is_alarmed(kind: str) -> None:
    given = SMALL | {"attention": "softplus", "instrument_every": 1, "learning_rate": 0.0}
    model = KINDS[kind]("CnnPolicy", pictures(kind), encoder=SMALL_ENCODER, **given)
    with torch.no_grad():
        for network, _ in model._learned():
            network.features_extractor.attention.mask.net[-1].bias.fill_(-20.0)
    values = model.learn(48).logger.name_to_value
    assert values["attention/black"] == 1
    assert any("mask is black" in alarm for alarm in alarms(values, 3, progress=0.5))


def test_churn_of_values_by_hand() -> None:
    class Table(nn.Module):
        """Values of two actions, the same in every state but for the state itself."""

        def __init__(self) -> None:
            super().__init__()
            self.values = nn.Parameter(torch.tensor([1.0, 2.0]))

        def set_training_mode(self, mode: bool) -> None:
            self.train(mode)

        def greedy(self, states: Tensor) -> tuple[Tensor, Tensor | None]:
            assert not self.training
            values, actions = (states[:, None] * self.values).max(1)
            return values, actions

    table = Table()
    churn = GreedyChurn(table, torch.tensor([1.0, -1.0, 2.0]), table.greedy)  # best: 2, -1, 4
    with torch.no_grad():
        table.values[1] = 0.5  # best: 1, -0.5, 2 by the other action each time
    numbers = churn.numbers()
    assert numbers == {"churn/value": pytest.approx(3.5 / 3), "churn/policy": 1.0}
    assert table.training
    alone = GreedyChurn(table, torch.ones(2), lambda states: (states * table.values[0], None))
    assert alone.numbers() == {"churn/value": 0.0}


RUN = ["threads=1", "device=cpu", "progress=off", "env.n_envs=2", "env.max_frames=1000"]
RUN += ["env.size=36", "env.stack=2", "encoder.features_dim=16", "total_steps=96", "media=0"]
RUN += ["checkpoint.every=48", "log.every=48", "eval.every=0", "algo.buffer_size=64"]
RUN += ["algo.learning_starts=16", "algo.batch_size=8", "algo.instrument_every=4"]


@pytest.mark.slow
@pytest.mark.parametrize("algo", ["dqn", "sac"])
def test_a_run_writes_them_into_its_metrics(algo: str, tmp_path: Path) -> None:
    words = [*RUN, f"algo={algo}", "attention=conv", "auxiliary=contrastive"]
    words += ["env.continuous=true", "algo.gradient_steps=1"] if algo == "sac" else []
    assert main(["train", *words, f"run_dir={tmp_path / algo}"]) == 0
    rows = pd.read_csv(tmp_path / algo / "metrics.csv")
    own = "critic" if algo == "sac" else "q"
    wanted = [*HEALTH, "attention/black", "attention/open", "attention/stuck", "churn/value"]
    wanted += ["gradient/rl_norm", "gradient/contrastive_cosine", f"loss/{own}_share"]
    for name in [*wanted, "loss/contrastive_share"]:
        assert rows[name].notna().all(), name
    assert any(name.startswith("dead_units/") for name in rows)
    state = next((tmp_path / algo / "checkpoints").glob("*96/state.json"))
    assert json.loads(state.read_text())["meta"]["counters"]["_updates"] > 0
