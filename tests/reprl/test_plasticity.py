"""Plasticity: a healthy encoder fits random targets as a fresh one does, a dead one cannot."""

from typing import Any

import numpy as np
import pytest
import torch

from reprl.algorithms import DQN, PPO, SAC
from reprl.envs import make_vec_env
from reprl.plasticity import Plasticity, fitted_share, fresh_encoder, measure
from tests.helpers import refuses
from tests.toys.catch import SIZE, Catch

ENCODER = {"_target_": "reprl.encoders.Nature", "features_dim": 32}
SMALL: dict[str, Any] = {"n_steps": 8, "batch_size": 16, "n_epochs": 1, "seed": 0}


@pytest.fixture
def pictures() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (16, 4, SIZE, SIZE), np.uint8)


def test_a_healthy_network_learns_and_a_dead_one_does_not(pictures: np.ndarray) -> None:
    model = PPO("CnnPolicy", Catch(), encoder=ENCODER, **SMALL)
    before = {name: t.clone() for name, t in model.policy.state_dict().items()}
    drawn = torch.get_rng_state()
    healthy = measure(model, pictures, steps=80, seed=1)
    assert healthy.fresh > 0.5
    assert healthy.ratio > 0.5
    assert measure(model, pictures, steps=80, seed=1) == healthy
    assert torch.equal(torch.get_rng_state(), drawn)
    assert all(torch.equal(t, before[name]) for name, t in model.policy.state_dict().items())
    with torch.no_grad():
        model.policy.features_extractor.cnn[2].bias.fill_(-1e6)  # nothing passes, forward or back
    dead = measure(model, pictures, steps=80, seed=1)
    assert dead.fresh == healthy.fresh
    assert dead.trained < 0.05
    assert dead.ratio < 0.1


@pytest.mark.parametrize("share", [False, True])
def test_the_encoder_of_other_agents_is_the_one_that_acts(
    pictures: np.ndarray, share: bool
) -> None:
    games = {"size": SIZE, "stack": 4, "n_envs": 2, "seed": 1, "continuous": True}
    buffer = {"buffer_size": 40, "seed": 0, "device": "cpu"}
    sac = SAC("CnnPolicy", make_vec_env(**games), encoder=ENCODER, share_encoder=share, **buffer)
    policy: Any = sac.policy
    acting = policy.critic.features_extractor if share else policy.actor.features_extractor
    dqn = DQN("CnnPolicy", Catch(), encoder=ENCODER, **buffer)
    for model, encoder in ((sac, acting), (dqn, dqn.q_net.features_extractor)):
        assert measure(model, pictures, steps=80, seed=1).ratio > 0.5
        with torch.no_grad():
            encoder.cnn[2].bias.fill_(-1e6)
        assert measure(model, pictures, steps=80, seed=1).ratio < 0.1


def test_shares_by_hand(pictures: np.ndarray) -> None:
    """A network that always says 0 explains nothing: its error is the variance."""

    class Nothing(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.zeros(1))

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            return images.new_zeros(len(images), 3) + 0 * self.weight

    share = fitted_share(Nothing(), torch.from_numpy(pictures), steps=1, seed=0)
    assert share == pytest.approx(0.0, abs=0.2)  # the head's bias is all there is
    assert Plasticity(0.3, 0.6).ratio == pytest.approx(0.5)
    assert np.isnan(Plasticity(0.3, 0.0).ratio)


def test_an_agent_without_our_encoder_is_refused(pictures: np.ndarray) -> None:
    model = PPO("CnnPolicy", Catch(), **SMALL)
    with refuses("encoder of reprl"):
        measure(model, pictures, steps=1, seed=0)


def test_the_fresh_network_begins_as_the_agent_did() -> None:
    model = PPO("CnnPolicy", Catch(), encoder={**ENCODER, "init": "he"}, **SMALL)
    own = model.policy.features_extractor.state_dict()
    fresh = fresh_encoder(model, seed=SMALL["seed"]).state_dict()
    assert all(torch.equal(fresh[name], weight) for name, weight in own.items())
