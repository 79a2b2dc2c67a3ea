"""What SB3's off-policy algorithms share: a replay buffer that comes back, streams, a clock.

rollout of `train_freq` steps -> **replay buffer** -> SB3's update. DQN, QR-DQN, SAC, TD3 and DDPG
stand on it; each checkpoint appends what is new in the buffer to the run's chunks, so that a killed
run goes on bit for bit.
"""

from __future__ import annotations

import json
from time import perf_counter
from typing import Any, ClassVar, Self

import numpy as np
import torch
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.type_aliases import MaybeCallback
from torch import Tensor

from reprl.algorithms.replay_buffer import CountedRows, bytes_needed, make_replay
from reprl.algorithms.stock import Stock
from reprl.algorithms.update import Diverged
from reprl.errors import UserError
from reprl.guard import memory


class OffPolicy(Stock, OffPolicyAlgorithm):
    """Mixed in before an off-policy algorithm of SB3 or sb3-contrib."""

    extras: ClassVar[tuple[str, ...]] = ()
    loss_names: ClassVar[tuple[str, ...]] = ("loss",)  # in the log: what must stay a number

    def _heads(self, heads: dict[str, Any]) -> dict[str, Any]:
        layers = heads["net_arch"]  # of policy and value apart: here all networks are alike
        return heads | {"net_arch": layers["pi"] if isinstance(layers, dict) else layers}

    def _setup_model(self) -> None:
        self._take_saved_spaces()
        if self.gradient_steps == 0:
            raise UserError(
                "algo.gradient_steps=0 would never learn: choose 1 or more, or -1 for as many as "
                "steps were played."
            )
        if self.env is None:
            self.buffer_size = self.n_envs  # it only predicts
        self._require_room()
        if self.replay_buffer_class is not None or self.optimize_memory_usage:
            raise UserError("replay_buffer_class cannot be chosen: reprl brings its own memory.")
        self.replay_buffer = make_replay(
            self.buffer_size,
            self.observation_space,
            self.action_space,
            device=self.device,
            n_envs=self.n_envs,
            n_steps=self.n_steps,
            gamma=self.gamma,
            gap=int(getattr(self.env, "gap", 1)),
        )
        super()._setup_model()

    def _require_room(self) -> None:
        """Refuse a replay buffer that this machine cannot hold."""
        needed = bytes_needed(self.buffer_size, self.observation_space)
        if needed > 0.9 * memory():
            raise UserError(
                f"algo.buffer_size={self.buffer_size:,} needs {needed / 2**30:.0f} GB of memory, "
                f"and this machine has {memory() / 2**30:.0f}: choose a smaller one."
            )

    # -- the seam ---------------------------------------------------------------------------------

    @property
    def steps_per_update(self) -> int:
        frequency = self.train_freq
        return int(getattr(frequency, "frequency", frequency)) * self.n_envs  # type: ignore[arg-type]

    def stream_state(self) -> dict[str, Tensor]:
        # exploration draws from the action space's own generator
        state = json.dumps(self.action_space.np_random.bit_generator.state)
        return {"actions": torch.tensor(list(state.encode()), dtype=torch.uint8)}

    def load_stream_state(self, state: dict[str, Tensor]) -> None:
        kept = json.loads(bytes(state["actions"].tolist()))
        self.action_space.np_random.bit_generator.state = kept

    def replay(self) -> CountedRows | None:
        assert isinstance(self.replay_buffer, CountedRows)
        return self.replay_buffer

    # -- learning ---------------------------------------------------------------------------------

    def collect_rollouts(self, *arguments: Any, **named: Any) -> Any:
        began = perf_counter()
        found = super().collect_rollouts(*arguments, **named)
        self.timings.add("env", perf_counter() - began)
        return found

    def train(self, gradient_steps: int, batch_size: int = 100) -> None:
        """The algorithm's update; a loss that is no number ends the run."""
        began = perf_counter()
        self._update(gradient_steps, batch_size)
        for name in self.loss_names:
            loss = float(self.logger.name_to_value[f"train/{name}"])
            if not np.isfinite(loss):
                raise Diverged(name, loss, self.num_timesteps)
        self.timings.add("update", perf_counter() - began)

    def _update(self, gradient_steps: int, batch_size: int) -> None:
        """SB3's own gradient steps."""
        super().train(gradient_steps, batch_size)

    def learn(
        self,
        total_timesteps: int,
        callback: MaybeCallback = None,
        log_interval: int | None = 4,
        tb_log_name: str = "run",
        reset_num_timesteps: bool = True,
        progress_bar: bool = False,
    ) -> Self:
        """Train for `total_timesteps` steps, or that many more without reset_num_timesteps."""
        return super().learn(
            total_timesteps,
            callback,
            log_interval,  # type: ignore[arg-type]
            tb_log_name,
            reset_num_timesteps,
            progress_bar,
        )
