"""The memory of pretraining: a whole recording, each frame once, and minibatches drawn from it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from reprl.algorithms.demonstrations import plain_bytes
from reprl.auxiliary.losses import require_reach
from reprl.envs.observation import frame_channels
from reprl.errors import UserError
from reprl.recordings import RecordedPlay
from reprl.rng import numpy_stream


class FrameBatch(NamedTuple):
    """A minibatch of recorded samples."""

    observations: Tensor  # (B, stack, H, W) uint8, as the environment would have given them
    actions: Tensor  # (B,) int64, as played
    place: np.ndarray  # (B,) int64: time * n_envs + environment


class RecordedFrames:
    """Stands where SB3's on-policy algorithms have their rollout buffer; nothing is collected."""

    gap: int = 1  # steps between two frames of a stack
    history: int = 0  # how far the losses look in time
    updates: int = 1  # minibatches that count as one update
    wants_boxes: bool = False
    wants_actions: bool = False

    def __init__(
        self,
        buffer_size: int,
        observation_space: spaces.Box,
        action_space: spaces.Space,
        device: torch.device | str = "cpu",
        *,
        stream_seed: int,
        **rest: Any,
    ) -> None:
        if frame_channels(observation_space) > 1:
            raise UserError(
                "pretraining learns from recorded gray frames: set env.gray=true and "
                "env.observation=frames."
            )
        self.stack = int(observation_space.shape[0])
        self.device = device
        self.recording: RecordedPlay | None = None
        self.frames = np.zeros((0, 0, 0, 0), np.uint8)  # (T, n, H, W)
        self._expected: str | None = None  # the recording that a restored run was drawing from
        self._rng = numpy_stream(stream_seed, "pretraining", "minibatches")

    def reset(self) -> None:
        """Nothing to forget."""

    def load(self, recording: RecordedPlay) -> None:
        """Take a recording into memory; a run that goes on wants the one it began with."""
        if self._expected not in (None, recording.identity):
            raise UserError(
                f"{recording.path} is not the recording that this run began with (it is "
                f"{recording.identity}, and was {self._expected})."
            )
        arrays = recording.arrays()
        self.recording = recording
        self.frames, self.actions = arrays["frames"], arrays["actions"]
        starts = arrays["starts"].astype(bool)
        starts[0] = True
        times = np.arange(len(starts))[:, None]
        self.episode = np.cumsum(starts, axis=0)  # (T, n)
        self.age = times - np.maximum.accumulate(np.where(starts, times, 0), axis=0)  # (T, n)

    @property
    def n_envs(self) -> int:
        return self.frames.shape[1]

    # -- reading ------------------------------------------------------------------------------

    def minibatches(self, size: int | None) -> Iterator[FrameBatch]:
        """`updates` minibatches, each drawn from the whole recording alike."""
        assert size is not None
        for _ in range(self.updates):
            place = self._rng.integers(self.frames.shape[0] * self.n_envs, size=size)
            yield FrameBatch(
                self._observations(place), self._torch(self._of(self.actions, place)), place
            )

    def fields(self, minibatch: FrameBatch) -> dict[str, Any]:
        """What is known of a minibatch besides the samples, as auxiliary losses name it."""
        place = minibatch.place
        return {
            "episode_starts": self._torch(self._of(self.age, place) == 0),
            "env_index": self._torch(place % self.n_envs),
            "time_index": self._torch(place // self.n_envs),
            "at": lambda offset: self.at(place, offset),
            "actions_at": lambda offset: self.actions_at(place, offset),
        }

    def at(self, place: np.ndarray, offset: int) -> tuple[Tensor, Tensor]:
        """Observations `offset` steps from the samples, and where that is the same episode."""
        there, valid = self._neighbours(place, offset)
        return self._observations(there), self._torch(valid)

    def actions_at(self, place: np.ndarray, offset: int) -> tuple[Tensor, Tensor]:
        """Actions `offset` steps from the samples, and where that is the same episode."""
        there, valid = self._neighbours(place, offset)
        return self._torch(self._of(self.actions, there)), self._torch(valid)

    def _neighbours(self, place: np.ndarray, offset: int) -> tuple[np.ndarray, np.ndarray]:
        require_reach(offset, self.history)
        there = place + offset * self.n_envs
        inside = (there >= 0) & (there < self.actions.size)
        there = np.where(inside, there, place)
        valid = inside & (self._of(self.episode, there) == self._of(self.episode, place))
        return np.where(valid, there, place), valid

    def _of(self, rows: np.ndarray, place: np.ndarray) -> np.ndarray:
        """Entries (B,) of rows (T, n)."""
        found: np.ndarray = rows[place // self.n_envs, place % self.n_envs]
        return found

    def _observations(self, place: np.ndarray) -> Tensor:
        """Stacks (B, stack, H, W), newest frame last, black before an episode's start."""
        time, env = place // self.n_envs, place % self.n_envs
        back = self.gap * np.arange(self.stack - 1, -1, -1)  # (stack,)
        shown = back[None] <= self._of(self.age, place)[:, None]  # (B, stack)
        stacks = self.frames[np.maximum(time[:, None] - back[None], 0), env[:, None]]
        stacks[~shown] = 0
        return self._torch(stacks)

    def _torch(self, array: np.ndarray) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(self.device)

    # -- state --------------------------------------------------------------------------------

    def state(self) -> dict[str, np.ndarray]:
        """Where the draws are, and of which recording; the recording itself stays on its disk."""
        identity = self._expected if self.recording is None else self.recording.identity
        return {
            "recorded": plain_bytes({"identity": identity, "rng": self._rng.bit_generator.state})
        }

    def load_state(self, state: dict[str, np.ndarray]) -> None:
        record = json.loads(state["recorded"].tobytes())
        self._expected = record["identity"]
        self._rng.bit_generator.state = record["rng"]
        if self.recording is not None and self.recording.identity != self._expected:
            self.load(self.recording)  # says what is wrong
