"""The table of docs/algorithms.md: what it allows is built and trained, all else is refused.

`impala` and `apex` are built only, their learner is Ray's; several ranks are processes of their
own, which tests/reprl/distributed trains.
"""

import re
from pathlib import Path
from typing import Any

import pytest
import torch

from reprl.algorithms import (
    A2C,
    APEX,
    DDPG,
    DQN,
    IDAAC,
    IMPALA,
    PPG,
    PPO,
    QRDQN,
    SAC,
    TD3,
    Distillation,
    Imitation,
    RecurrentPPO,
    Reinforce,
)
from reprl.algorithms.base import Algorithm
from reprl.components import names
from reprl.config.schema import load
from reprl.errors import UserError
from reprl.policy import player_of
from reprl.runs.train import make_env, make_model
from tests.reprl.algorithms.test_capture import CaptureAt
from tests.runs import make_run

PAGE = (Path(__file__).parents[3] / "docs" / "algorithms.md").read_text()
ASKED = {
    "mask": ["attention=conv"],
    "losses": ["auxiliary=contrastive"],
    "augmentations": ["augmentation=shift"],
    "ranks": ["ranks=2", "threads=1"],
    "fast mode": ["mode=fast"],
}
CLASSES: dict[str, type[Algorithm]] = {
    "ppo": PPO,
    "a2c": A2C,
    "reinforce": Reinforce,
    "ppg": PPG,
    "idaac": IDAAC,
    "recurrent_ppo": RecurrentPPO,
    "dqn": DQN,
    "qrdqn": QRDQN,
    "sac": SAC,
    "td3": TD3,
    "ddpg": DDPG,
    "imitation": Imitation,
    "distillation": Distillation,
    "impala": IMPALA,
    "apex": APEX,
}
STICK = ["env.continuous=true"]
NEEDED = {"sac": STICK, "td3": STICK, "ddpg": STICK}

STEPS = {"reinforce": 256}  # that hold two updates; its first needs games that have ended
SMALL = [
    *("device=cpu", "threads=1", "seed=3", "env.n_envs=2", "env.size=36", "env.workers=0"),
    "encoder.features_dim=12",
]
SHORT = ["algo.n_steps=16", "algo.batch_size=16", "algo.learning_rate=1e-3"]
REPLAY = ["algo.buffer_size=100", "algo.learning_starts=16", "algo.batch_size=8"]
CRITICS = [*REPLAY, "algo.gradient_steps=1"]
LABELS = [*SHORT, "algo.updates=2"]
OWN: dict[str, list[str]] = {
    "ppo": [*SHORT, "algo.n_epochs=1"],
    "a2c": ["algo.n_steps=4"],
    "reinforce": ["algo.n_steps=64", "env.max_frames=200"],
    "ppg": [*SHORT, "algo.n_policy_phases=2", "algo.auxiliary_batch_size=16"],
    "idaac": [*SHORT, "algo.value_epochs=1"],
    "recurrent_ppo": [*SHORT, "algo.n_epochs=1", "algo.lstm_size=12"],
    "dqn": REPLAY,
    "qrdqn": REPLAY,
    "sac": CRITICS,
    "td3": CRITICS,
    "ddpg": CRITICS,
    "imitation": LABELS,
    "distillation": LABELS,
    "impala": [],
    "apex": [],
}
ON_RAY = ("impala", "apex")


def table() -> dict[str, dict[str, bool]]:
    lines = re.search(r"^\| `algo=`.*?(?=\n\n)", PAGE, re.DOTALL | re.MULTILINE)
    assert lines is not None
    head, _, *rows = [
        [cell.strip(" `") for cell in line.strip("|").split("|")] for line in lines[0].splitlines()
    ]
    return {row[0]: {h: c == "yes" for h, c in zip(head[1:], row[1:], strict=True)} for row in rows}


def accepted(overrides: list[str]) -> bool:
    try:
        load(["device=cpu", *overrides])
    except UserError:
        return False
    return True


def built(algo: str, overrides: list[str], teacher: Path) -> Any:
    """An agent of the algorithm on two small games, as `reprl train` makes it."""
    given = [*SMALL, f"algo={algo}", *NEEDED.get(algo, []), *OWN[algo], *overrides]
    if algo == "distillation":
        given.append(f"algo.teacher={teacher}")
    if "mode=fast" in overrides:
        given.append("algo.compile=false")
    config = load(given)
    return make_model(config, make_env(config))


def parameters(module: Any) -> dict[str, torch.Tensor]:
    return {name: value.detach().clone() for name, value in module.named_parameters()}


def alike(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    assert set(one) == set(other)
    return all(torch.equal(one[name], other[name]) for name in one)


@pytest.fixture(scope="module")
def teacher(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("teacher") / "run", **{"env.stack": 4})


@pytest.mark.slow
@pytest.mark.parametrize("algo", table())
def test_what_a_row_allows_is_built_and_trained(algo: str, teacher: Path) -> None:
    row, steps = table()[algo], STEPS.get(algo, 64)
    half = CaptureAt(steps // 2)
    plain = built(algo, [], teacher)
    before = parameters(plain.policy)
    if algo not in ON_RAY:
        plain.learn(steps, callback=half)
    plain.env.close()
    after = parameters(plain.policy)
    for column in (name for name in ("mask", "losses", "augmentations") if row[name]):
        model = built(algo, ASKED[column], teacher)
        first = parameters(model.policy)
        masks = [name for name in first if "mask" in name]
        assert bool(masks) == (column == "mask")
        if column == "mask":
            assert player_of(model).extractor.dry_output().attention is not None
        else:
            assert alike(first, before)  # the same draws as without it
        heads = parameters(model.losses.modules) if column == "losses" else {}
        if algo not in ON_RAY:
            last = parameters(model.learn(steps).policy)
            assert not alike(first, last), column
            if column == "mask":
                assert not alike({k: first[k] for k in masks}, {k: last[k] for k in masks})
            else:
                assert not alike(last, after), f"{column} changed nothing"
        if heads:
            assert not alike(heads, parameters(model.losses.modules))
        model.env.close()
    if row["fast mode"]:
        fast = built(algo, ["mode=fast"], teacher)
        assert fast.mode == "fast"
        assert not alike(before, parameters(fast.learn(steps).policy))
        fast.env.close()
    if row["exact resume"]:
        again = built(algo, [], teacher)
        again.restore(half.captured)
        assert not alike(parameters(again.policy), after)
        again.learn(steps - again.num_timesteps, reset_num_timesteps=False)
        assert again.num_timesteps == plain.num_timesteps
        assert alike(parameters(again.policy), after)
        again.env.close()


@pytest.mark.parametrize("algo", table())
def test_a_row_says_what_is_so(algo: str) -> None:
    row = table()[algo]
    assert set(row) == {*ASKED, "exact resume"}
    chosen = [f"algo={algo}", *NEEDED.get(algo, [])]
    assert accepted(chosen)
    for column, overrides in ASKED.items():
        assert accepted([*chosen, *overrides]) == row[column], column
    assert row["exact resume"] == CLASSES[algo].exact


def test_every_algorithm_that_plays_has_a_row() -> None:
    playing = {name.removesuffix("_defaults") for name in names("algo")} - {"pretrain"}
    assert set(table()) == playing == set(CLASSES)


def test_a2c_says_how_long_it_takes() -> None:
    for number in ("2.1 points at 1M", "7.4 at 3M", "47 at 5M", "344 at 10M"):
        assert number in PAGE
