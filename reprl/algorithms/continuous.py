"""SAC, TD3 and DDPG: SB3's, for continuous actions, with the configuration's encoder and noise.

rollout -> replay buffer -> critics, actor, entropy's temperature. Without `noise` every bit is
SB3's; with it, SB3's with `action_noise`. The noise may fade as the scores near a goal.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import stable_baselines3
import torch
from gymnasium import spaces
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback
from torch import Tensor, nn

from reprl.algorithms.action_noise import ExplorationNoise, nearness_scale
from reprl.algorithms.off_policy import OffPolicy
from reprl.errors import UserError
from reprl.policy import ContinuousPlayer, Player
from reprl.schedules import schedule
from reprl.settings import CLASSES
from reprl.validation import checker


class Continuous(OffPolicy):
    """An actor with continuous actions, and noise on what it does in training."""

    loss_names: ClassVar[tuple[str, ...]] = ("critic_loss",)
    noise: ExplorationNoise | None = None
    _noise_state: np.ndarray | None = None  # of a checkpoint, until learning goes on

    def __init__(
        self,
        policy: Any,
        env: Any,
        *,
        noise: str = "none",
        noise_sigma: Any = 0.1,
        noise_goal: Any = None,
        noise_least: float = 0.0,
        **kwargs: Any,
    ) -> None:
        check = checker(CLASSES[type(self).__name__])
        self.noise_kind = check("noise", noise)
        self.noise_sigma = check("noise_sigma", noise_sigma)
        self.noise_goal = check("noise_goal", noise_goal)
        self.noise_least = check("noise_least", noise_least)
        if self.noise_goal is not None and self.noise_goal[0] == self.noise_goal[1]:
            raise UserError(
                f"algo.noise_goal={list(self.noise_goal)} must be two scores: where the noise is "
                "whole, and where the goal is reached."
            )
        if self.noise_goal is not None and self.noise_kind == "none":
            raise UserError(
                f"algo.noise_goal={list(self.noise_goal)} needs noise: algo.noise=normal or ou."
            )
        self._sigma = schedule(self.noise_sigma, name="noise_sigma")
        space = getattr(env, "action_space", None)
        if space is not None and not isinstance(space, spaces.Box):
            raise UserError(
                f"{type(self).__name__} acts with continuous numbers, and this environment has "
                f"{space}: choose another algorithm, or an environment with continuous actions."
            )
        super().__init__(policy, env, **kwargs)

    def _setup_model(self) -> None:
        super()._setup_model()
        if self.noise_kind != "none" and self.action_noise is None:
            assert self.action_space.shape is not None
            width = int(np.prod(self.action_space.shape))
            self.noise = ExplorationNoise(self.noise_kind, width, self.n_envs)
            self.action_noise = self.noise

    # -- the seam ---------------------------------------------------------------------------------

    def optimizers(self) -> dict[str, torch.optim.Optimizer]:
        policy: Any = self.policy
        return {"actor": policy.actor.optimizer, "critic": policy.critic.optimizer}

    def player(self) -> Player:
        return ContinuousPlayer(self.policy)

    def settings(self) -> dict[str, Any]:
        return super().settings() | {
            "noise": self.noise_kind,
            "noise_sigma": self.noise_sigma,
            "noise_goal": self.noise_goal,
            "noise_least": self.noise_least,
        }

    def stream_state(self) -> dict[str, Tensor]:
        found = super().stream_state()
        if self.noise is not None:
            found["noise"] = torch.from_numpy(self.noise.state())
        return found

    def load_stream_state(self, state: dict[str, Tensor]) -> None:
        super().load_stream_state(state)
        if self.noise is not None:
            self._noise_state = state["noise"].numpy().copy()

    # -- learning ---------------------------------------------------------------------------------

    def _setup_learn(self, *arguments: Any, **named: Any) -> tuple[int, BaseCallback]:
        made = super()._setup_learn(*arguments, **named)
        if self._noise_state is not None:  # SB3 begins it anew, and games in progress go on
            assert self.noise is not None
            self.noise.load_state(self._noise_state)
            self._noise_state = None
        return made

    def _sample_action(self, *arguments: Any, **named: Any) -> tuple[np.ndarray, np.ndarray]:
        if self.noise is not None:
            scores = [game["r"] for game in self.ep_info_buffer or []]
            left = nearness_scale(scores, self.noise_goal, self.noise_least)
            size = self._sigma(self._current_progress_remaining) * left
            self.noise.resize(size)
            self.logger.record("rollout/noise", size)
        return super()._sample_action(*arguments, **named)


class SAC(Continuous, stable_baselines3.SAC):
    """Soft actor-critic: a stochastic actor that is paid for entropy, two critics."""

    stock: ClassVar[type[BaseAlgorithm]] = stable_baselines3.SAC
    loss_names: ClassVar[tuple[str, ...]] = ("critic_loss", "actor_loss", "ent_coef")
    temperature: nn.ParameterDict | None = None  # the learned weight of entropy, as a logarithm

    def _setup_model(self) -> None:
        self._take_saved_spaces()
        if self.env is None and self.target_entropy == "auto":
            assert self.action_space.shape is not None  # SB3 asks the environment for it
            self.target_entropy = float(-np.prod(self.action_space.shape))
        super()._setup_model()
        if self.log_ent_coef is not None:
            learned = nn.Parameter(self.log_ent_coef.detach().clone())
            self.temperature = nn.ParameterDict({"log": learned})
            self.log_ent_coef = learned
            rate = self.lr_schedule(1)
            self.ent_coef_optimizer = torch.optim.Adam([learned], lr=rate)

    def modules(self) -> dict[str, nn.Module]:
        found = super().modules()
        return found if self.temperature is None else found | {"temperature": self.temperature}

    def optimizers(self) -> dict[str, torch.optim.Optimizer]:
        found = super().optimizers()
        if self.ent_coef_optimizer is not None:
            found["temperature"] = self.ent_coef_optimizer
        return found


class TD3(Continuous, stable_baselines3.TD3):
    """Twin delayed DDPG: a deterministic actor, two critics, an actor that moves less often."""

    stock: ClassVar[type[BaseAlgorithm]] = stable_baselines3.TD3


class DDPG(Continuous, stable_baselines3.DDPG):
    """Deep deterministic policy gradient: TD3 with one critic and without its tricks."""

    stock: ClassVar[type[BaseAlgorithm]] = stable_baselines3.DDPG
