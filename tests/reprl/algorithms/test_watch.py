"""The instruments say what a gradient, a schedule and a clock really are, and disturb nothing."""

import math
from typing import Any

import pytest
import torch

from reprl.algorithms import A2C, PPO
from reprl.algorithms.diagnostics import gradients
from reprl.schedules import schedule
from tests.helpers import refuses
from tests.reprl.algorithms.parts import ENCODER, spread
from tests.toys.catch import Catch

SMALL: dict[str, Any] = {"n_steps": 8, "batch_size": 16, "n_epochs": 1, "seed": 0}


def test_gradient_norms_and_cosines_by_hand() -> None:
    w = torch.nn.Parameter(torch.tensor([1.0, 2.0]))
    unused = torch.nn.Parameter(torch.zeros(3))
    weighted = {
        "policy": 3.0 * w[0],
        "entropy": 0.0 * w[1],
        "value": 4.0 * w[1],
        "same": 6.0 * w[0] + 8.0 * w[1],
        "against": -w[0],
        "elsewhere": torch.tensor(1.0),
    }
    own = {name: weighted.pop(name) for name in ("policy", "entropy", "value")}
    numbers = gradients(own, weighted, [w, unused])
    assert numbers["gradient/rl_norm"] == pytest.approx(5.0)
    assert numbers["gradient/same_norm"] == pytest.approx(10.0)
    assert numbers["gradient/same_cosine"] == pytest.approx(1.0)
    assert numbers["gradient/against_cosine"] == pytest.approx(-0.6)
    assert numbers["gradient/elsewhere_norm"] == 0.0
    assert w.grad is None


@pytest.mark.slow
def test_watching_changes_nothing_and_fills_the_log() -> None:
    models = []
    for every in (0, 1):
        model = PPO(
            "CnnPolicy", Catch(), encoder=ENCODER, auxiliary=spread(coef=0.1),
            instrument_every=every, **SMALL,
        )  # fmt: skip
        models.append(model.learn(96))
    first, second = (m.policy.state_dict() for m in models)
    assert all(torch.equal(first[k], second[k]) for k in first)
    quiet, loud = (m.logger.name_to_value for m in models)
    wanted = ["gradient/spread_norm", "gradient/spread_cosine", "dead_units/cnn.1"]
    wanted += ["dormant_units/cnn.1", "features/effective_rank", "features/norm", "features/rms"]
    wanted += ["churn/policy", "churn/policy_kl", "churn/value"]
    for name in wanted:
        assert name in loud
        assert name not in quiet
    timings = models[1].timings
    assert set(timings) == {"env", "forward", "update", "other"}
    assert all(seconds > 0 for seconds in timings.values())


@pytest.mark.slow
def test_early_stops_do_not_end_the_watching(monkeypatch: pytest.MonkeyPatch) -> None:
    """Updates are counted, however many epochs each had: the first, and every third from it."""
    looks = []
    monkeypatch.setattr(
        "reprl.algorithms.on_policy.diagnose",
        lambda *_: looks.append((model.num_timesteps // 32, model._n_updates)) or {},
    )
    settings = SMALL | {"n_epochs": 4, "target_kl": 1e-9, "learning_rate": 1e-2}
    model = PPO("CnnPolicy", Catch(), encoder=ENCODER, instrument_every=3, **settings)
    model.learn(9 * 32)
    assert model.early_stops == 9
    assert [update for update, _ in looks] == [1, 4, 7]
    assert looks[1][1] < 4 * 3, "no epoch was left out"


@pytest.mark.slow
def test_a_black_softplus_mask_is_seen_in_training() -> None:
    model = PPO(
        "CnnPolicy", Catch(), encoder="nature", attention="softplus", instrument_every=1,
        learning_rate=0.0, **SMALL,
    )  # fmt: skip
    with torch.no_grad():
        model.policy.features_extractor.attention.mask.net[-1].bias.fill_(-20.0)
    model.learn(32)
    assert model.logger.name_to_value["attention/black"] == 1


@pytest.mark.slow
def test_a_scheduled_value_coefficient_is_logged() -> None:
    halving = {"kind": "linear", "start": 1.0, "end": 0.5}
    model = PPO("CnnPolicy", Catch(), vf_coef=halving, **SMALL).learn(32)
    assert model.logger.name_to_value["train/vf_coef"] == 0.5
    assert "train/vf_coef" not in PPO("CnnPolicy", Catch(), **SMALL).learn(32).logger.name_to_value


def test_how_often_is_looked_suits_the_algorithm() -> None:
    ppo, a2c = (kind("CnnPolicy", Catch(), device="cpu") for kind in (PPO, A2C))
    assert (ppo.instrument_every, a2c.instrument_every) == (5, 50)


def test_schedules_by_hand() -> None:
    linear = schedule({"kind": "linear", "start": 2.0, "end": 1.0})
    assert [linear(p) for p in (1.0, 0.5, 0.0)] == [2.0, 1.5, 1.0]
    cosine = schedule({"kind": "cosine", "start": 2.0, "end": 0.0})
    assert cosine(1.0) == pytest.approx(2.0)
    assert cosine(0.75) == pytest.approx(1 + math.cos(math.pi / 4))
    assert cosine(0.0) == pytest.approx(0.0)
    warm = schedule({"kind": "linear", "start": 2.0, "end": 0.0, "warmup": 0.2})
    assert [warm(1.0), warm(0.9)] == [0.0, pytest.approx(1.0)]
    assert [warm(0.8), warm(0.4), warm(0.0)] == pytest.approx([2.0, 1.0, 0.0])
    assert schedule(0.3)(0.123) == 0.3
    # a last rollout that ends beyond the last step: at the end, and not below it
    assert [linear(-0.1), cosine(-0.1), warm(-0.1)] == [1.0, cosine(0.0), 0.0]
    assert schedule(warm.plain()).plain() == warm.plain()


@pytest.mark.parametrize(
    ("spec", "names"),
    [
        ({"kind": "lnear", "start": 1.0}, ["learning_rate.kind=lnear", "'linear'"]),
        ({"kind": "linear", "strat": 1.0}, ["'strat'", "'start'"]),
        ({"kind": "linear", "end": 1.0}, ["learning_rate", "start"]),
        ({"kind": "linear", "start": "much", "end": 1.0}, ["start=much", "finite number"]),
        ({"kind": "linear", "start": 1.0, "end": 0.0, "warmup": 1.0}, ["warmup=1.0"]),
        ({"kind": "constant", "start": 1.0, "end": 0.0}, ["constant", "end"]),
    ],
)
def test_wrong_schedules_are_refused(spec: Any, names: list[str]) -> None:
    with refuses(*names):
        schedule(spec, name="learning_rate")
