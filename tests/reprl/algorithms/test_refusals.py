"""What would train wrongly in silence is refused when the model is built, by name."""

from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from sb3_contrib.qrdqn.policies import QRDQNPolicy
from stable_baselines3.common.policies import ContinuousCritic
from stable_baselines3.dqn.policies import DQNPolicy, QNetwork
from stable_baselines3.sac.policies import SACPolicy
from stable_baselines3.td3.policies import TD3Policy

from reprl.algorithms import A2C, DQN, PPO, QRDQN, SAC, TD3, rebuild
from reprl.auxiliary import Contrastive
from reprl.encoders import Nature
from tests.helpers import refuses, space
from tests.reprl.algorithms.parts import ENCODER, StockEncoder, odd
from tests.reprl.algorithms.test_extras import counting
from tests.toys.catch import Catch

SMALL: dict[str, Any] = {
    "n_steps": 8, "batch_size": 16, "n_epochs": 1, "seed": 0, "device": "cpu",
}  # fmt: skip
VIEWS = {"_target_": "reprl.augmentation.Shift", "use": "views"}


def make(**arguments: Any) -> Any:
    return PPO("CnnPolicy", Catch(), **SMALL, **{"encoder": ENCODER, **arguments})


@pytest.mark.parametrize("auxiliary", ["temporal", "reconstruction"])
def test_views_that_no_loss_makes_are_refused(auxiliary: str) -> None:
    """temporal has an augmentation of its own, reconstruction none at all."""
    with refuses("use=views", auxiliary):
        make(auxiliary=auxiliary, augmentation=VIEWS)
    make(auxiliary=[auxiliary, "contrastive"], augmentation=VIEWS)
    nested = {"_target_": "reprl.auxiliary.Representation", "contra_coef": 1.0}
    make(auxiliary=nested, augmentation=VIEWS)
    make(auxiliary=nested | {"contra_coef": 0.0, "recon_coef": 1.0}, augmentation=VIEWS)


def test_a_model_trained_with_such_views_still_predicts() -> None:
    meta = make(auxiliary="reconstruction").capture().meta
    meta["extras"]["augmentation"] = VIEWS
    rebuild(meta).predict(Catch().reset())
    with refuses("use=views", "reconstruction"):
        rebuild(meta, Catch())


@pytest.mark.parametrize("name", ["share_features_extractor", "normalize_images"])
def test_policies_that_the_update_would_not_follow_are_refused(name: str) -> None:
    with refuses("encoder", f"{name}=True"):
        make(policy_kwargs={name: False})
    sb3s_way = {"features_extractor_class": StockEncoder, name: False}
    with refuses("StockEncoder", f"{name}=True"):
        make(encoder=None, policy_kwargs=sb3s_way)
    with refuses("mode=fast", f"{name}=True"):
        make(encoder=None, policy_kwargs={name: False}, mode="fast")


class Doubled(QNetwork):
    """Twice what its layers say."""

    def forward(self, obs: Any) -> Any:
        return 2 * super().forward(obs)


class Blind(ContinuousCritic):
    """Sees nothing."""

    def extract_features(self, obs: Any, features_extractor: Any) -> Any:
        return torch.zeros_like(super().extract_features(obs, features_extractor))


class DoubledPolicy(DQNPolicy):
    def make_q_net(self) -> QNetwork:
        arguments = self._update_features_extractor(self.net_args, features_extractor=None)
        return Doubled(**arguments)


class PatchedPolicy(QRDQNPolicy):
    def make_quantile_net(self) -> Any:
        network = super().make_quantile_net()
        network.forward = lambda obs: 2 * type(network).forward(network, obs)  # type: ignore[method-assign]
        return network


class _BlindCritics:
    def make_critic(self, features_extractor: Any = None) -> Blind:
        found = self._update_features_extractor(self.critic_kwargs, features_extractor)  # type: ignore[attr-defined]
        return Blind(**found)


class BlindSACPolicy(_BlindCritics, SACPolicy):
    pass


class BlindTD3Policy(_BlindCritics, TD3Policy):
    pass


@pytest.mark.parametrize(
    ("kind", "policy", "said"),
    [
        (DQN, DoubledPolicy, ("Doubled", "forward()", "QNetwork")),
        (QRDQN, PatchedPolicy, ("forward()", "QuantileNetwork")),
        (SAC, BlindSACPolicy, ("Blind", "extract_features()", "ContinuousCritic")),
        (TD3, BlindTD3Policy, ("Blind", "extract_features()", "ContinuousCritic")),
    ],
)
def test_networks_that_the_update_would_not_follow_are_refused(
    kind: Any, policy: Any, said: tuple[str, ...]
) -> None:
    env = gymnasium.make("CartPole-v1" if kind in (DQN, QRDQN) else "Pendulum-v1")
    with refuses(*said):
        kind(policy, env, buffer_size=32, seed=0, device="cpu")
    kind("MlpPolicy", env, buffer_size=32, seed=0, device="cpu")


@pytest.mark.parametrize("term", ["kl", "clip_fraction", "gradient", "rl", "total"])
def test_the_updates_own_numbers_keep_their_names(term: str) -> None:
    with refuses(f"'{term}'"):
        make(auxiliary=odd(term=term))


def test_a_look_beyond_the_declared_reach_is_refused() -> None:
    """How much is remembered besides depends on the mode, and on whether the run was resumed."""
    for kind, mode in ((PPO, "plain"), (A2C, "fast")):
        settings = {"encoder": ENCODER, "mode": mode, "compile": False}
        with refuses("-1 steps", "reach"):
            kind("CnnPolicy", Catch(), auxiliary=odd(habit="look"), **settings)
    memory = counting(5, 2, 3, set())
    memory.at(np.arange(10), -2)
    for offset in (-3, 3):
        with refuses("reach = 3"):
            memory.at(np.arange(10), offset)


def test_a_loss_may_not_keep_the_policys_parameters() -> None:
    with refuses("'odd'", "'encoder.cnn.0"):
        make(auxiliary=odd(habit="hold"))


@pytest.mark.slow
def test_a_term_may_be_a_plain_number_now_and_then() -> None:
    model = make(auxiliary=odd(habit="float"), instrument_every=1).learn(64)
    assert model.logger.name_to_value["loss/odd"] == 0.0
    with refuses("'odd'", "NoneType"):
        make(auxiliary=odd(habit="none")).learn(64)


@pytest.mark.parametrize(
    ("auxiliary", "name"),
    [
        (Contrastive(coef=0.3), "contrastive"),
        ([Contrastive(coef=0.3)], "contrastive"),
        ({"mine": Contrastive(coef=0.3)}, "mine"),
    ],
)
def test_a_loss_that_is_built_already_stands_for_its_settings(auxiliary: Any, name: str) -> None:
    path = f"{Contrastive.__module__}.Contrastive"
    assert make(auxiliary=auxiliary).specs.auxiliary == {name: {"_target_": path, "coef": 0.3}}


def test_an_encoder_that_was_trained_already_is_refused() -> None:
    trained = Nature(space())
    with torch.no_grad():
        next(trained.parameters()).add_(1)
    with refuses("encoder", "Nature was trained or loaded", "give the class"):
        make(encoder=trained)


@pytest.mark.parametrize("group", ["augmentation", "auxiliary", "encoder", "attention"])
@pytest.mark.parametrize("target", ["os.system", "subprocess.Popen", "torch.nn.ReLU"])
def test_nothing_but_a_part_of_the_right_kind_is_called(group: str, target: str) -> None:
    settings = {group: {"_target_": target, "command": "exit 1", "args": "false"}}
    with refuses(group, f"'{target}'"):
        make(**{"encoder": "nature", **settings})
