"""Our policies as RLlib's modules, so that its learners train the very network we evaluate.

The policy of an algorithm on `OnRay` -> **RLModule** in the learner and in every actor. Parameter
names are those of the policy, after `policy.`. Imports Ray.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from ray.rllib.algorithms.dqn.dqn_learner import QF_NEXT_PREDS, QF_PREDS, QF_TARGET_NEXT_PREDS
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.apis.q_net_api import QNetAPI
from ray.rllib.core.rl_module.apis.target_network_api import TargetNetworkAPI
from ray.rllib.core.rl_module.apis.value_function_api import ValueFunctionAPI
from ray.rllib.core.rl_module.torch.torch_rl_module import TorchRLModule
from torch import Tensor

from reprl.policy import critic_forward, critic_latent, policy_forward


@dataclass
class Who:
    """Which actor this process is, counted from 0; its games say so when they are made."""

    actor: int = 0


WHO = Who()


def build_policy(module: Any) -> Any:
    """The SB3 policy that a module's settings describe."""
    settings = module.model_config
    return settings["policy_class"](
        module.observation_space,
        module.action_space,
        settings["lr_schedule"],
        **settings["policy_kwargs"],
    )


class ActorCriticModule(TorchRLModule, ValueFunctionAPI):  # type: ignore[misc]
    """An actor-critic policy of SB3."""

    def setup(self) -> None:
        super().setup()
        self.policy = build_policy(self)

    def _forward(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        found = policy_forward(self.policy, batch[Columns.OBS])
        return {Columns.ACTION_DIST_INPUTS: found.log_probs, Columns.EMBEDDINGS: found.features}

    def compute_values(self, batch: dict[str, Any], embeddings: Any = None) -> Tensor:
        """What the value head expects, (B,); `embeddings` are features of a forward pass before."""
        if embeddings is None:
            return critic_forward(self.policy, batch[Columns.OBS]).values
        values: Tensor = self.policy.value_net(critic_latent(self.policy, embeddings))
        return values.squeeze(-1)


class QModule(TorchRLModule, QNetAPI, TargetNetworkAPI):  # type: ignore[misc]
    """A Q-network of SB3 and its target; each actor explores with an epsilon of its own."""

    def setup(self) -> None:
        super().setup()
        self.policy = build_policy(self)
        self.epsilons: list[float] = self.model_config["epsilons"]

    def compute_q_values(self, batch: dict[str, Any]) -> dict[str, Tensor]:
        """Q of every action, (B, A)."""
        return {QF_PREDS: self.policy.q_net(batch[Columns.OBS])}

    def _forward_inference(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Tensor]:
        with torch.no_grad():
            return {Columns.ACTIONS: self.compute_q_values(batch)[QF_PREDS].argmax(1)}

    def _forward_exploration(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Tensor]:
        best = self._forward_inference(batch)[Columns.ACTIONS]  # (B,)
        drawn = torch.randint(int(self.action_space.n), best.shape)
        dice = torch.rand(best.shape) < self.epsilons[WHO.actor % len(self.epsilons)]
        return {Columns.ACTIONS: torch.where(dice, drawn, best)}

    def _forward_train(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Tensor]:
        following = {Columns.OBS: batch[Columns.NEXT_OBS]}
        return {
            **self.compute_q_values(batch),
            QF_NEXT_PREDS: self.compute_q_values(following)[QF_PREDS],
            QF_TARGET_NEXT_PREDS: self.forward_target(following)[QF_PREDS],
        }

    def make_target_networks(self) -> None:
        self.policy.q_net_target.load_state_dict(self.policy.q_net.state_dict())
        self.policy.q_net_target.requires_grad_(False)

    def get_target_network_pairs(self) -> list[tuple[Any, Any]]:
        return [(self.policy.q_net, self.policy.q_net_target)]

    def forward_target(self, batch: dict[str, Any]) -> dict[str, Tensor]:
        with torch.no_grad():
            return {QF_PREDS: self.policy.q_net_target(batch[Columns.OBS])}
