"""What wraps an algorithm of RLlib's: its engine trains, our policy is what it trains.

configuration -> **our policy on the seam** -> RLlib's actors and learner on a Ray cluster
(`rllib_engine`) -> after each of its iterations parameters and optimizer come back into our policy,
which is checkpointed, evaluated and reported as any other, without Ray. Ray is imported only where
training begins.
"""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from time import perf_counter
from typing import Any, ClassVar, Self

import numpy as np
from gymnasium import spaces
from stable_baselines3.common.type_aliases import MaybeCallback

from reprl.algorithms.base import Algorithm
from reprl.algorithms.stock import Stock
from reprl.algorithms.update import Diverged
from reprl.errors import UserError
from reprl.ray_cluster import require_rllib
from reprl.settings import CLASSES
from reprl.validation import checker

GOES_ON = (
    "{name} goes on from step {step:,}: parameters and optimizer are those of the checkpoint, "
    "games begin anew{more}, and actors play asynchronously, so it is not the same run bit for bit."
)


class OnRay(Stock):
    """Mixed in before the SB3 algorithm whose policy and settings RLlib's counterpart takes."""

    exact: ClassVar[bool] = False
    loss_names: ClassVar[dict[str, str]]  # ours in the log -> RLlib's
    forgets: ClassVar[str] = ""  # what else a resumed run does without, in the sentence above
    counters: ClassVar[tuple[str, ...]] = (*Algorithm.counters, "_gained")
    _gained: int = 0  # steps of the last iteration

    def __init__(
        self, policy: Any, env: Any, *, runners: int = 2, address: str | None = None, **kwargs: Any
    ) -> None:
        check = checker(CLASSES[type(self).__name__])
        self.runners = int(check("runners", runners))
        self.address = check("address", address)
        super().__init__(policy, env, **kwargs)

    def _setup_model(self) -> None:
        self._take_saved_spaces()
        name = type(self).__name__
        if not isinstance(self.action_space, spaces.Discrete):
            raise UserError(f"{name} is for discrete actions, and the environment has others.")
        if self.env is not None:
            if self.n_envs % self.runners:
                raise UserError(
                    f"env.n_envs={self.n_envs} cannot be dealt out to algo.runners={self.runners} "
                    f"evenly: choose a multiple of {self.runners}."
                )
            if not hasattr(self.env, "settings"):
                raise UserError(
                    f"{name} plays in other processes, which make their own games: give it an "
                    "environment of reprl.envs.make_vec_env."
                )
        super()._setup_model()

    @abstractmethod
    def engine_module(self) -> Any:
        """RLlib's module around our policy."""

    def module_settings(self) -> dict[str, Any]:
        """What that module must know besides the policy, as plain data."""
        return {}

    @abstractmethod
    def engine_config(self) -> Any:
        """RLlib's configuration of the algorithm, without environments and actors."""

    # -- the seam ---------------------------------------------------------------------------------

    @property
    def steps_per_update(self) -> int:
        return self._gained or self._nominal

    @property
    def _nominal(self) -> int:
        """Steps that an iteration has at least."""
        raise AssertionError(f"{type(self).__name__} must define _nominal")

    def attach(self, folder: Path) -> None:
        require_rllib(type(self).__name__)  # before anything of a run that goes on is touched
        super().attach(folder)

    def settings(self) -> dict[str, Any]:
        return super().settings() | {"runners": self.runners, "address": self.address}

    # -- learning ---------------------------------------------------------------------------------

    def learn(
        self,
        total_timesteps: int,
        callback: MaybeCallback = None,
        log_interval: int | None = 1,
        tb_log_name: str = "run",
        reset_num_timesteps: bool = True,
        progress_bar: bool = False,
    ) -> Self:
        """Let RLlib train for `total_timesteps` steps, or as many more without the reset."""
        require_rllib(type(self).__name__)
        from reprl.algorithms.rllib_engine import Engine

        total, called = self._setup_learn(
            total_timesteps, callback, reset_num_timesteps, tb_log_name, progress_bar
        )
        self._last_obs = None  # the games are those of the actors
        if self.num_timesteps:
            words = {"name": type(self).__name__, "step": self.num_timesteps, "more": self.forgets}
            print(GOES_ON.format(**words), flush=True)
        called.on_training_start(locals(), globals())
        with Engine(self) as engine:
            while self.num_timesteps < total:
                began = perf_counter()
                called.on_rollout_start()
                # a run takes the time of its own work out of SB3's rollout, in which it is not here
                self.timings.add("forward", perf_counter() - began)
                self._iterate(engine)
                if not called.on_step():
                    break
                called.on_rollout_end()
                self._update_current_progress_remaining(self.num_timesteps, total)
                if log_interval is not None and self._n_updates % log_interval == 0:
                    self.logger.dump(self.num_timesteps)
        called.on_training_end()
        return self

    def _iterate(self, engine: Any) -> None:
        """One iteration of RLlib's: what it learned and what it played."""
        began = perf_counter()
        done = engine.train()
        self.timings.add("update", perf_counter() - began)
        self._gained = done.steps
        self.num_timesteps += done.steps
        self._n_updates += 1
        assert self.ep_info_buffer is not None
        self.ep_info_buffer.extend(done.games)
        for ours, theirs in self.loss_names.items():
            if theirs in done.losses:
                loss = done.losses[theirs]
                if not np.isfinite(loss):
                    raise Diverged(ours, loss, self.num_timesteps)
                self.logger.record(f"train/{ours}", loss)
        self.logger.record("train/actors", done.actors)
