"""The seam: all that runs, checkpoints, evaluation and auxiliary losses know of an algorithm.

Mixed in before an SB3 algorithm. An author says which networks, optimizers, buffers and random
streams there are; saving, exact resume, evaluation and the report follow from that.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from time import perf_counter
from typing import Any, ClassVar, Self

import numpy as np
import torch
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import VecEnv
from torch import Tensor, nn

from reprl.algorithms.diagnostics import MaskMonitor
from reprl.checkpoint.chunks import Rows, Written
from reprl.checkpoint.construction import called_with
from reprl.checkpoint.serialization import encode
from reprl.checkpoint.state import Captured, Restorable, capture, restore, take_spaces
from reprl.components import Specs
from reprl.errors import UserError
from reprl.policy import Player, policy_player
from reprl.precision import FP32
from reprl.reduction import Reduction


class Timings(dict[str, float]):
    """Seconds spent in env, forward, update and other since the model was made."""

    def __init__(self) -> None:
        super().__init__(env=0.0, forward=0.0, update=0.0, other=0.0)
        self._noted = dict(self)

    def add(self, part: str, seconds: float) -> None:
        self[part] += seconds

    def total(self) -> float:
        return sum(self.values())

    def shares(self) -> dict[str, float]:
        """Each part's share of the time since the last call."""
        spent = {part: self[part] - self._noted[part] for part in self}
        self._noted = dict(self)
        total = sum(spent.values())
        return {part: seconds / total for part, seconds in spent.items()} if total else {}


class Algorithm(BaseAlgorithm):
    """An algorithm whose whole state can be taken out between two updates and put back."""

    stock: ClassVar[type[BaseAlgorithm]]  # the SB3 algorithm this one extends
    # Batch fields this algorithm fills for auxiliary losses, of reprl.auxiliary.base.OPTIONAL
    supplies: ClassVar[frozenset[str]] = frozenset()
    # plain attributes that a checkpoint carries
    counters: ClassVar[tuple[str, ...]] = (
        *("num_timesteps", "_n_updates", "_episode_num", "_total_timesteps"),
        *("_current_progress_remaining", "_stream_seed"),
    )

    # arguments that shape what `replay` keeps: with another value nobody goes on from its rows
    replay_shape: ClassVar[tuple[str, ...]] = ()

    plays: ClassVar[bool] = True  # whether what it learns is to be evaluated in games
    keeps_data: ClassVar[bool] = False  # of earlier rollouts, which it goes on to learn from
    exact: ClassVar[bool] = True  # whether a resumed run goes on bit for bit

    specs: Specs = Specs()
    mode: str = "plain"
    precision: str = FP32
    compiled: bool | None = False  # whether the update runs compiled; None while not known yet
    timings: Timings
    monitor: MaskMonitor
    written: Written  # which rows of `replay` are on the disk already
    arguments: dict[str, Any]  # SB3's arguments as given, defaults included
    called_with: dict[str, Any] | None  # all arguments by name, of a class with its own __init__
    restored_from: dict[str, Any] | None = None  # a checkpoint's meta, while it is rebuilt
    run_config: dict[str, Any] | None = None  # of the run whose checkpoint was loaded
    run_name: str | None = None
    observed: dict[str, Any] | None = None  # in training, by the checkpoint
    action_meanings: list[str] | None = None  # what the environment calls its actions
    _phase: str = "ready"  # "collecting", "collected": a capture now would not be whole
    _stream_seed: int = 0
    _n_updates: int = 0
    _captured_threads: int | None = None
    _log: dict[str, list[Any]]

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        # The outermost call: a derived class hands only our own arguments on to __init__.
        model = super().__new__(cls)
        model.called_with = called_with(cls, args, kwargs)
        model.timings = Timings()
        model.monitor = MaskMonitor()
        model.written = Written()
        model._log = {}
        return model

    @classmethod
    def from_experiment(
        cls, experiment: str, env: Any = None, overrides: Iterable[str] = ()
    ) -> Self:
        """The untrained agent of `reprl train experiment=... OVERRIDES`, to call learn() on.

        Without `env` it gets the environments that the experiment asks for.
        """
        from reprl.api import from_experiment

        model: Self = from_experiment(cls, experiment, env, overrides)
        return model

    def _take_saved_spaces(self) -> None:
        """In a model that is rebuilt from a checkpoint: the spaces it was saved with."""
        if (meta := self.__dict__.pop("restored_from", None)) is not None:
            take_spaces(self, meta)

    def _setup_model(self) -> None:
        self._take_saved_spaces()
        if (meanings := getattr(self.env, "action_meanings", None)) is not None:
            self.action_meanings = list(meanings)
        super()._setup_model()  # type: ignore[safe-super]

    # -- what an author of an algorithm says ----------------------------------------------------

    @property
    def steps_per_update(self) -> int:
        """Environment steps between two updates, by which cadences are counted."""
        raise AssertionError(f"{type(self).__name__} must define steps_per_update")

    def modules(self) -> dict[str, nn.Module]:
        """The networks to save, by name."""
        return {"policy": self.policy}

    def optimizers(self) -> dict[str, torch.optim.Optimizer]:
        """The optimizers to save, by name; the first that moves a parameter is its main one."""
        return {"policy": self.policy.optimizer}

    def buffer_state(self) -> dict[str, np.ndarray]:
        """What the next update needs of collected data."""
        return {}

    def load_buffer_state(self, state: dict[str, np.ndarray]) -> None:
        """Take back what buffer_state() gave."""

    def replay(self) -> Rows | None:
        """Data that only grows: a checkpoint writes the rows that are new."""
        return None

    def stream_state(self) -> dict[str, Tensor]:
        """States of the algorithm's own random streams."""
        return {}

    def load_stream_state(self, state: dict[str, Tensor]) -> None:
        """Take back what stream_state() gave."""

    def settings(self) -> dict[str, Any]:
        """The constructor's arguments beyond SB3's, as plain data."""
        return {"mode": self.mode}

    def player(self) -> Player:
        """How the trained network plays; with memory, what it carries from step to step."""
        return policy_player(self.policy)

    def prepare(self, folder: Path) -> None:
        """Write what the run needs beside its checkpoints into its folder, as it is made."""

    def attach(self, folder: Path) -> None:
        """Take what the run's folder holds, before learning begins or goes on."""

    def require_compiled(self, compiled: bool) -> None:
        """Refuse to change between compiled and eager code: their last bits differ."""
        if compiled:
            raise UserError(f"{type(self).__name__} has no compiled mode to continue in.")

    # -- several ranks --------------------------------------------------------------------------

    def share(self, reduction: Reduction) -> None:
        """Train on shares of minibatches: other processes have the others."""
        raise UserError(f"{type(self).__name__} trains in one process: set ranks=1.")

    def diverge(self, seed: int, *names: str | int) -> None:
        """Draw from streams of these names, where other processes have built the same model."""

    def own_buffers(self) -> dict[str, Tensor]:
        """Buffers of the networks that differ between ranks, by their names in a checkpoint."""
        return {}

    # -- saving ---------------------------------------------------------------------------------

    def capture(self, *, whole: bool = True) -> Captured:
        """Everything for a bit-exact continuation; only between two updates.

        Without `whole` the rows of `replay` are left out: a checkpoint has them beside it.
        """
        return capture(self, whole=whole)

    def restore(self, captured: Restorable) -> None:
        """Continue where a capture was taken; then learn(remaining, reset_num_timesteps=False)."""
        restore(self, captured)

    def require_same_threads(self) -> None:
        """Refuse to go on with another number of torch threads than before."""
        if self._captured_threads not in (None, threads := torch.get_num_threads()):
            raise UserError(
                f"this run was saved with {self._captured_threads} torch threads and would not "
                f"continue exactly with {threads}: set threads={self._captured_threads}."
            )

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

    def _setup_learn(self, *arguments: Any, **named: Any) -> tuple[int, BaseCallback]:
        self.require_same_threads()
        made = super()._setup_learn(*arguments, **named)
        for name, (value, count, excluded) in self._log.items():
            self.logger.name_to_value[name] = value
            self.logger.name_to_count[name] = count
            self.logger.name_to_excluded[name] = excluded
        self._log = {}
        return made

    def _excluded_save_params(self) -> list[str]:
        return [*super()._excluded_save_params(), "timings", "written"]


class TimedEnv:
    """The environment, with a clock on its step and a copy of its rewards."""

    def __init__(self, env: VecEnv, algorithm: Algorithm) -> None:
        self._env = env
        self._algorithm = algorithm
        self.seconds = 0.0
        self.rewards: list[np.ndarray] = []  # (n_envs,) each; SB3 changes its own in place

    def step(self, actions: np.ndarray) -> Any:
        # Not sooner: at on_rollout_start a callback may still capture the model.
        self._algorithm._phase = "collecting"
        self._algorithm.rollout_buffer.look(self._env)  # type: ignore[attr-defined]
        began = perf_counter()
        result = self._env.step(actions)
        self.seconds += perf_counter() - began
        self.rewards.append(np.array(result[1], np.float32))
        return result

    def __getattr__(self, name: str) -> Any:
        return getattr(self._env, name)
