"""Rank, norm, dormant units and churn of a representation, each by a hand-worked number."""

import math
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn

from reprl.algorithms import PPO
from reprl.algorithms.diagnostics import gradients
from reprl.algorithms.health import (
    Churn,
    dormant_share,
    dormant_units,
    effective_rank,
    feature_norm,
)
from tests.reprl.algorithms.parts import ENCODER
from tests.toys.catch import Catch


@pytest.mark.parametrize(
    ("features", "rank"),
    [
        ([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]], 2.0),
        ([[5.0, 7.0, 0.0], [-5.0, -7.0, 0.0]], 1.0),
        # singular values 3 and 1 times the square root of 2: shares 3/4 and 1/4
        ([[3.0, 0.0], [-3.0, 0.0], [0.0, 1.0], [0.0, -1.0]], 4 / 3**0.75),
        ([[2.0, 2.0], [2.0, 2.0]], 0.0),  # the mean is removed, and nothing is left
    ],
)
def test_effective_rank_by_hand(features: list[list[float]], rank: float) -> None:
    assert effective_rank(torch.tensor(features)) == pytest.approx(rank, abs=1e-6)
    assert effective_rank(torch.tensor(features) + 100.0) == pytest.approx(rank, abs=1e-6)


def test_the_norm_is_the_mean_length() -> None:
    assert feature_norm(torch.tensor([[3.0, 4.0], [0.0, 1.0]])) == pytest.approx(3.0)


def test_dormant_is_relative_to_the_layer() -> None:
    activity = torch.tensor([0.0, 0.02, 0.1, 3.88])  # their mean is 1
    assert dormant_share(activity, 0.025) == 0.5
    assert dormant_share(100 * activity, 0.025) == 0.5
    assert dormant_share(activity, 0.1) == 0.75
    assert dormant_share(torch.zeros(4)) == 1.0


class Two(nn.Module):
    """Channels 1, -1 and 0.001 times the picture, behind a ReLU."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 3, 1, bias=False)
        self.relu = nn.ReLU()
        with torch.no_grad():
            self.conv.weight.copy_(torch.tensor([1.0, -1.0, 0.001]).view(3, 1, 1, 1))

    def forward(self, images: Tensor) -> Tensor:
        return self.relu(self.conv(images)).flatten(1)


def test_dormant_units_of_a_network_by_hand() -> None:
    network = Two()
    shares, features = dormant_units(network, torch.ones(2, 1, 2, 2))  # type: ignore[arg-type]
    assert shares == {"relu": pytest.approx(2 / 3)}  # one is dead, one all but
    assert torch.equal(features[0], torch.tensor([1.0] * 4 + [0.0] * 4 + [0.001] * 4))
    assert not network.relu._forward_hooks


def test_churn_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """From (3/4, 1/4) and (1/4, 3/4) to (1/4, 3/4) twice: one best action of two changes."""
    outputs = [
        SimpleNamespace(log_probs=torch.tensor([[0.75, 0.25], [0.25, 0.75]]).log(), values=v)
        for v in (torch.tensor([1.0, 2.0]), torch.tensor([1.5, -1.0]))
    ]
    outputs[1].log_probs = torch.tensor([[0.25, 0.75], [0.25, 0.75]]).log()
    monkeypatch.setattr("reprl.algorithms.health.policy_forward", lambda *_: outputs.pop(0))
    policy = SimpleNamespace(training=True, set_training_mode=lambda mode: None)
    numbers = Churn(policy, torch.zeros(2, 1)).numbers()
    assert numbers["churn/policy"] == 0.5
    assert numbers["churn/value"] == pytest.approx((0.5 + 3.0) / 2)
    assert numbers["churn/policy_kl"] == pytest.approx(0.5 * (0.5 * math.log(3)), rel=1e-5)


def test_an_update_that_moves_nothing_has_no_churn() -> None:
    still = PPO(
        "CnnPolicy", Catch(), encoder=ENCODER, instrument_every=1, learning_rate=0.0, n_steps=8,
        batch_size=16, n_epochs=1, seed=0,
    ).learn(32)  # fmt: skip
    found = still.logger.name_to_value
    assert found["churn/policy"] == found["churn/policy_kl"] == found["churn/value"] == 0.0
    assert still.policy.training is True
    assert 0 < found["features/effective_rank"] < 16


def test_without_terms_of_its_own_an_algorithm_has_no_angle() -> None:
    w = torch.nn.Parameter(torch.tensor([1.0, 2.0]))
    assert gradients({}, {"a": 3.0 * w[0] + 4.0 * w[1]}, [w]) == {"gradient/a_norm": 5.0}
