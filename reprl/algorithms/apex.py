"""Ape-X (Horgan et al. 2018) on RLlib's DQN: each actor has its own epsilon, all one buffer.

steps of `runners` actors, each exploring differently -> prioritised replay -> double, dueling
Q-learning of `n_steps` rewards -> our Q-network. RLlib has no Ape-X any more; this is its DQN with
Ape-X's actors. Two things are RLlib's: a round of steps waits for the gradient step before it, and
new steps get the highest priority instead of one that the actor has worked out.
"""

from __future__ import annotations

from typing import Any, ClassVar

import stable_baselines3
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.policies import BasePolicy

from reprl.algorithms.dqn import DQN, DUELING
from reprl.algorithms.on_ray import OnRay
from reprl.policy import GreedyPlayer, Player
from reprl.settings import CLASSES
from reprl.validation import checker

LEAST = 500  # steps between two looks at the learner's weights


def epsilon_of(actor: int, actors: int, epsilon: float, alpha: float) -> float:
    """How often actor `actor` of `actors`, counted from 0, plays at random."""
    return float(epsilon ** (1 + alpha * actor / max(1, actors - 1)))


class APEX(OnRay, stable_baselines3.DQN):
    """Distributed prioritised Q-learning; `epsilon` and `epsilon_alpha` spread the actors."""

    stock: ClassVar[type[BaseAlgorithm]] = stable_baselines3.DQN
    forgets: ClassVar[str] = ", the replay buffer is empty"
    loss_names: ClassVar[dict[str, str]] = {
        "loss": "qf_loss",
        "q": "qf_mean",
        "td_error": "td_error_mean",
        "gradient_norm": "gradients_default_optimizer_global_norm",
    }
    policy_aliases: ClassVar[dict[str, type[BasePolicy]]] = DQN.policy_aliases

    def __init__(
        self,
        policy: Any,
        env: Any,
        *,
        buffer_size: int = 100_000,
        epsilon: float = 0.4,
        epsilon_alpha: float = 7.0,
        priority_alpha: float = 0.6,
        priority_beta: float = 0.4,
        **kwargs: Any,
    ) -> None:
        check = checker(CLASSES["APEX"])
        self.capacity = int(check("buffer_size", buffer_size))
        self.epsilon = float(check("epsilon", epsilon))
        self.epsilon_alpha = float(check("epsilon_alpha", epsilon_alpha))
        self.priority_alpha = float(check("priority_alpha", priority_alpha))
        self.priority_beta = float(check("priority_beta", priority_beta))
        kwargs["buffer_size"] = 1  # of SB3's own buffer, which stays empty
        super().__init__(DUELING.get(policy, policy), env, **kwargs)

    def _heads(self, heads: dict[str, Any]) -> dict[str, Any]:
        layers = heads["net_arch"]  # of policy and value apart: a Q-network has one of them
        return heads | {"net_arch": layers["pi"] if isinstance(layers, dict) else layers}

    @property
    def _round(self) -> int:
        """Steps of all environments before a gradient step."""
        frequency: Any = self.train_freq
        return int(getattr(frequency, "frequency", frequency)) * self.n_envs

    @property
    def _nominal(self) -> int:
        return max(LEAST, self._round)

    def player(self) -> Player:
        return GreedyPlayer(self.policy, epsilon=float(self.exploration_final_eps))

    def settings(self) -> dict[str, Any]:
        own = ("epsilon", "epsilon_alpha", "priority_alpha", "priority_beta")
        found = super().settings() | {name: getattr(self, name) for name in own}
        return found | {"buffer_size": self.capacity}

    def engine_config(self) -> Any:
        """RLlib's DQNConfig with our numbers."""
        from ray.rllib.algorithms.dqn import DQNConfig

        return (
            DQNConfig()
            .env_runners(rollout_fragment_length=self._round // self.n_envs)
            .training(
                lr=float(self.learning_rate),  # type: ignore[arg-type]
                gamma=self.gamma,
                train_batch_size_per_learner=self.batch_size,
                num_steps_sampled_before_learning_starts=self.learning_starts,
                double_q=True,
                num_atoms=1,
                noisy=False,
                n_step=self.n_steps,
                tau=self.tau,
                target_network_update_freq=self.target_update_interval,
                grad_clip=self.max_grad_norm,
                grad_clip_by="global_norm",
                td_error_loss_fn="huber",
                replay_buffer_config={
                    "type": "PrioritizedEpisodeReplayBuffer",
                    "capacity": self.capacity,
                    "alpha": self.priority_alpha,
                    "beta": self.priority_beta,
                },
            )
        )

    def engine_module(self) -> Any:
        """RLlib's module around our Q-network."""
        from reprl.algorithms.rllib_modules import QModule

        return QModule

    def module_settings(self) -> dict[str, Any]:
        actors = range(self.runners)
        spread = (self.runners, self.epsilon, self.epsilon_alpha)
        return {"epsilons": [epsilon_of(actor, *spread) for actor in actors]}
