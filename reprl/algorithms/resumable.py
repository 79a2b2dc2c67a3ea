"""The training loop and what it takes to stop it and go on: SB3's learn, made resumable."""

from __future__ import annotations

from time import perf_counter
from typing import Any

import numpy as np
import torch
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
from stable_baselines3.common.type_aliases import MaybeCallback

from reprl.algorithms.compiled import Network
from reprl.algorithms.journal import Timings
from reprl.algorithms.specs import Specs
from reprl.checkpoint.serialization import encode
from reprl.checkpoint.state import Captured, Stored, capture, restore
from reprl.errors import UserError


class Resumable(OnPolicyAlgorithm):
    """An on-policy algorithm whose state can be taken out between two updates."""

    specs: Specs
    mode: str
    optimizer: str | None
    weight_decay: float
    instrument_every: int
    compile: bool
    network: Network | None
    timings: Timings
    _iterations: int
    _captured_threads: int | None
    _log: dict[str, list[Any]]

    def _learn(
        self,
        total_timesteps: int,
        callback: MaybeCallback,
        log_interval: int | None,
        tb_log_name: str,
        reset_num_timesteps: bool,
        progress_bar: bool,
    ) -> None:
        """SB3's loop, with an iteration count that survives a restore."""
        if self._captured_threads not in (None, threads := torch.get_num_threads()):
            raise UserError(
                f"this run was saved with {self._captured_threads} torch threads and would not "
                f"continue exactly with {threads}: set threads={self._captured_threads}."
            )
        total_timesteps, callback = self._setup_learn(
            total_timesteps, callback, reset_num_timesteps, tb_log_name, progress_bar
        )
        if reset_num_timesteps:
            self._iterations = 0
        for name, (value, count, excluded) in self._log.items():
            self.logger.name_to_value[name] = value
            self.logger.name_to_count[name] = count
            self.logger.name_to_excluded[name] = excluded
        self._log = {}
        callback.on_training_start(locals(), globals())
        assert self.env is not None
        while self.num_timesteps < total_timesteps:
            began, known = perf_counter(), self.timings.total()
            if not self.collect_rollouts(self.env, callback, self.rollout_buffer, self.n_steps):
                break
            self._iterations += 1
            self._update_current_progress_remaining(self.num_timesteps, total_timesteps)
            if log_interval is not None and self._iterations % log_interval == 0:
                for part, share in self.timings.shares().items():
                    self.logger.record(f"time/{part}", share)
                self.dump_logs(self._iterations)
            self.train()
            self.timings.add("other", perf_counter() - began - self.timings.total() + known)
        callback.on_training_end()

    # -- saving ---------------------------------------------------------------------------------

    def capture(self) -> Captured:
        """Everything for a bit-exact continuation; only between two updates."""
        return capture(self)  # type: ignore[arg-type]

    def restore(self, captured: Stored) -> None:
        """Continue where a capture was taken; then learn(remaining, reset_num_timesteps=False)."""
        restore(self, captured)  # type: ignore[arg-type]

    def settings(self) -> dict[str, Any]:
        """The arguments beyond SB3's, as plain data."""
        specs = self.specs
        augmentation = None
        if specs.augmentation is not None:
            augmentation = specs.augmentation | {"use": specs.use}
        return {
            "encoder": specs.encoder,
            "auxiliary": specs.auxiliary or None,
            "augmentation": augmentation,
            "mode": self.mode,
            "optimizer": self.optimizer,
            "weight_decay": self.weight_decay,
            "instrument_every": self.instrument_every,
            "compile": self.compile,
        }

    def pending_log(self) -> dict[str, list[Any]]:
        """What was recorded since the last dump: it belongs to the next row of the log."""
        if (logger := getattr(self, "_logger", None)) is None:
            return self._log
        return {
            name: [
                encode(name, value),
                logger.name_to_count[name],
                encode(name, logger.name_to_excluded[name]),
            ]
            for name, value in logger.name_to_value.items()
            if isinstance(value, int | float | str | np.number)
        }

    def resume_log(self, log: dict[str, list[Any]]) -> None:
        """Keep the pending records for when the next learn() has made its logger."""
        self._log = log

    def require_compiled(self, compiled: bool) -> None:
        """Refuse to change between compiled and eager code: their last bits differ."""
        if compiled and not self.compile:
            raise UserError("this run was compiled: it cannot continue with compile=False.")
        self.compile = compiled
        if self.network is not None:
            self.network.require(compiled)
