"""Several emulators stepped one after the other over shared arrays: what a worker process runs.

The vector environment runs one block in its own process (`workers=0`) or one per worker; both
ways give the same results because this is the only code that steps emulators.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np

from reprl.envs.emulator import Emulator
from reprl.envs.games import game
from reprl.envs.machine import EnvSettings, console
from reprl.envs.objects import Objects
from reprl.envs.observation import observation_shape
from reprl.envs.picture import Desk
from reprl.envs.variation import Variant


class Missing(AttributeError):
    """An environment has no attribute of the name that was asked for."""


@dataclass
class Arrays:
    """What all blocks of a vector share, a row an environment; views of one memory."""

    observations: np.ndarray  # (n, stack x channels, size, size) uint8
    actions: np.ndarray  # (n,) int64; negative leaves the environment untouched
    rewards: np.ndarray  # (n,) float32
    raw_rewards: np.ndarray  # (n,) float32
    lives: np.ndarray  # (n,) int32
    dones: np.ndarray  # (n,) bool
    strengths: np.ndarray  # (n,) float32: how far a stick is pushed, for continuous actions

    @classmethod
    def over(cls, memory: Any, n: int, settings: EnvSettings) -> Arrays:
        """Lay the arrays out over a buffer of at least `bytes_needed`."""
        shapes = cls._shapes(n, settings)
        offset = 0
        views: list[np.ndarray] = []
        for shape, dtype in shapes:
            count = int(np.prod(shape))
            views.append(np.frombuffer(memory, dtype, count, offset).reshape(shape))
            offset += -(-count * np.dtype(dtype).itemsize // 64) * 64  # one cache line apart
        return cls(*views)

    @classmethod
    def bytes_needed(cls, n: int, settings: EnvSettings) -> int:
        sizes = [int(np.prod(s)) * np.dtype(d).itemsize for s, d in cls._shapes(n, settings)]
        return sum(-(-size // 64) * 64 for size in sizes)

    @staticmethod
    def _shapes(n: int, settings: EnvSettings) -> list[tuple[tuple[int, ...], type]]:
        return [
            ((n, *observation_shape(settings)), np.uint8),
            ((n,), np.int64),
            ((n,), np.float32),
            ((n,), np.float32),
            ((n,), np.int32),
            ((n,), np.bool_),
            ((n,), np.float32),
        ]


class Block:
    """The emulators from row `first` on; `begin` is the number of row 0 in the whole run."""

    def __init__(
        self,
        settings: EnvSettings,
        variants: list[Variant],
        seed: int,
        first: int,
        arrays: Arrays,
        begin: int = 0,
    ) -> None:
        # OpenCV's own threads would fight the emulators (and the learner) for the cores.
        cv2.setNumThreads(1)
        self.first = first
        self.arrays = arrays
        desk = Desk(console(game(settings.game).cartridge).raw)
        self.emulators = [
            Emulator(settings, variant, seed, begin + row, desk)
            for row, variant in enumerate(variants, first)
        ]

    def reset(self, seed: int | None = None) -> None:
        """A new game everywhere, from a new seed if one is given."""
        for row, emulator in enumerate(self.emulators, self.first):
            if seed is not None:
                emulator.reseed(seed)
            emulator.reset()
            self._publish(row, emulator)

    def step(self) -> dict[int, dict[str, Any]]:
        """Play the shared actions; returns the infos of the episodes that ended, by row."""
        ended = {}
        arrays = self.arrays
        for row, emulator in enumerate(self.emulators, self.first):
            action = int(arrays.actions[row])
            if action < 0:
                arrays.rewards[row] = arrays.raw_rewards[row] = 0.0
                arrays.dones[row] = False
                continue
            if emulator.settings.continuous:
                emulator.strength = float(arrays.strengths[row])
            reward, done, info = emulator.step(action)
            arrays.rewards[row] = reward
            arrays.raw_rewards[row] = info["raw_reward"]
            arrays.lives[row] = info["lives"]
            arrays.dones[row] = done
            arrays.observations[row] = emulator.observation
            if done:
                ended[row] = info
        return ended

    def restart(self, row: int) -> None:
        emulator = self._at(row)
        emulator.reset()
        self._publish(row, emulator)

    def objects(self, row: int) -> Objects:
        return self._at(row).objects()

    def frame(self, row: int) -> np.ndarray:
        return self._at(row).frame()

    def queue(self, row: int, seed: int, variant: Variant | None) -> None:
        self._at(row).queued.append((seed, variant))

    def snapshot(self, row: int) -> tuple[dict[str, Any], bytes]:
        return self._at(row).snapshot()

    def restore(self, row: int, meta: dict[str, Any], blob: bytes) -> None:
        emulator = self._at(row)
        emulator.restore(meta, blob)
        self._publish(row, emulator)

    def get(self, row: int, name: str) -> Any:
        try:
            return getattr(self._at(row), name)
        except AttributeError as error:
            raise Missing(str(error)) from None

    def set(self, row: int, name: str, value: Any) -> None:
        setattr(self._at(row), name, value)

    def method(self, row: int, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return self.get(row, name)(*args, **kwargs)

    def _at(self, row: int) -> Emulator:
        return self.emulators[row - self.first]

    def _publish(self, row: int, emulator: Emulator) -> None:
        self.arrays.observations[row] = emulator.observation
        self.arrays.lives[row] = emulator.ale.lives()
