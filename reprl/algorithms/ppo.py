"""PPO: SB3's, with the shared update and the extras."""

from __future__ import annotations

from typing import ClassVar, Self

import stable_baselines3
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
from stable_baselines3.common.type_aliases import MaybeCallback

from reprl.algorithms.objectives import ClippedSurrogate
from reprl.algorithms.on_policy import Agent


class PPO(Agent, stable_baselines3.PPO):
    """Proximal policy optimization; without extras in plain mode it is SB3's, bit for bit."""

    stock: ClassVar[type[OnPolicyAlgorithm]] = stable_baselines3.PPO
    policy_loss_name: ClassVar[str] = "policy_gradient_loss"
    looks: ClassVar[int] = 5

    def _objective(self) -> ClippedSurrogate:
        progress = self._current_progress_remaining
        clip_range = self.clip_range(progress)  # type: ignore[operator]
        self.logger.record("train/clip_range", clip_range)
        clip_range_vf = None
        if self.clip_range_vf is not None:
            clip_range_vf = self.clip_range_vf(progress)  # type: ignore[operator]
            self.logger.record("train/clip_range_vf", clip_range_vf)
        return ClippedSurrogate(self.normalize_advantage, clip_range, clip_range_vf)

    def _epochs(self) -> int:
        return self.n_epochs

    def _minibatch_size(self) -> int | None:
        return self.batch_size

    def _target_kl(self) -> float | None:
        return self.target_kl

    def learn(
        self,
        total_timesteps: int,
        callback: MaybeCallback = None,
        log_interval: int | None = 1,
        tb_log_name: str = "PPO",
        reset_num_timesteps: bool = True,
        progress_bar: bool = False,
    ) -> Self:
        """Train for `total_timesteps` steps, or that many more without reset_num_timesteps."""
        self._learn(
            total_timesteps, callback, log_interval, tb_log_name, reset_num_timesteps, progress_bar
        )
        return self
