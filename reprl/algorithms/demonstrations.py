"""The data set of imitation: every rollout so far, labelled by the expert, each frame kept once.

rollout -> sealed **chunk** -> minibatches drawn from all chunks. A chunk is one rollout; the oldest
makes room for the newest, and a checkpoint holds each one compressed.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from safetensors import numpy as packed
from stable_baselines3.common.buffers import RolloutBuffer
from torch import Tensor

from reprl.algorithms.rollout_buffer import RolloutMemory
from reprl.auxiliary.losses import require_reach
from reprl.errors import UserError
from reprl.rng import numpy_stream
from reprl.transfer import on_device


class Chunk:
    """One rollout of T steps in n environments: its arrays, their compressed bytes, or both.

    frames (lead + T, n, H, W) uint8: row lead + t is the newest frame of step t, the rows before
    it are what the first stacks look back to. probs (T, n, A) float32 of the expert; actions
    (T, n) int64 as played; rewards, returns (T, n) float32; age (T, n) int64: steps since the
    episode began; episode (T, n) int64: a number for each episode of an environment; boxes
    (T, n, K, 4) float32 where a loss needs them.
    """

    def __init__(
        self, first: int, arrays: dict[str, np.ndarray] | None = None, blob: bytes | None = None
    ) -> None:
        self.first = first  # the time of its first step, counted from the beginning of training
        self._arrays, self._blob = arrays, blob

    def __getitem__(self, name: str) -> np.ndarray:
        if self._arrays is None:  # a model that is loaded to predict never comes here
            assert self._blob is not None
            self._arrays = packed.load(zlib.decompress(self._blob))
        return self._arrays[name]

    @property
    def blob(self) -> bytes:
        """The compressed arrays, made once: a sealed rollout does not change any more."""
        if self._blob is None:
            assert self._arrays is not None
            self._blob = zlib.compress(packed.save(self._arrays), 1)
        return self._blob


class Labelled(NamedTuple):
    """A minibatch of labelled samples."""

    observations: Tensor  # (B, stack, H, W) as the environment gave them
    actions: Tensor  # (B,) int64, as played
    returns: Tensor  # (B,)
    expert: Tensor  # (B, n_actions) the expert's probabilities
    place: np.ndarray  # (B,) int64: time * n_envs + environment


class Demonstrations(RolloutMemory):
    """The rollout in the making, and the ring of sealed ones that minibatches are drawn from."""

    gap: int = 1  # steps between two frames of a stack
    channels: int = 1  # of a frame
    updates: int = 1  # minibatches drawn for each rollout

    def __init__(self, *args: Any, keep: int, stream_seed: int, **kwargs: Any) -> None:
        self.keep = keep  # samples, rounded down to whole rollouts
        self.chunks: list[Chunk] = []  # oldest first
        self.clock = 0  # steps of each environment so far
        self._rng = numpy_stream(stream_seed, "imitation", "minibatches")
        super().__init__(*args, **kwargs)
        self._age = np.zeros(self.n_envs, np.int64)
        self._episode = np.zeros(self.n_envs, np.int64)

    def diverge(self, seed: int, *names: str | int) -> None:
        """Draw minibatches from a stream of these names."""
        self._rng = numpy_stream(seed, "imitation", "minibatches", *names)

    @property
    def lead(self) -> int:
        """Frames before its first step that a rollout's stacks look back to."""
        return self.gap * (self.obs_shape[0] // self.channels - 1)

    @property
    def capacity(self) -> int:
        """Chunks in the ring."""
        return self.keep // (self.buffer_size * self.n_envs)

    @property
    def samples(self) -> int:
        """Labelled steps to draw from."""
        return len(self.chunks) * self.buffer_size * self.n_envs

    # -- writing ------------------------------------------------------------------------------

    def reset(self) -> None:
        RolloutBuffer.reset(self)  # nothing is carried over: chunks remember
        shape = (self.buffer_size, self.n_envs)
        self.ages, self.episodes = np.zeros(shape, np.int64), np.zeros(shape, np.int64)

    def record(
        self,
        observations: np.ndarray,
        actions: np.ndarray,
        rewards: np.ndarray,
        starts: np.ndarray,
        uploaded: Tensor | None = None,
    ) -> None:
        """Note one step; values come in one piece when the rollout is over, labels with `seal`."""
        begins = np.asarray(starts, bool)
        self._age = np.where(begins, 0, self._age + 1)
        self._episode = self._episode + begins
        self.observations[self.pos] = observations
        self.actions[self.pos, :, 0] = actions
        self.rewards[self.pos] = rewards
        self.episode_starts[self.pos] = starts
        self.ages[self.pos], self.episodes[self.pos] = self._age, self._episode
        self.pos += 1
        self.clock += 1
        self.full = self.pos == self.buffer_size

    def seal(self, probs: np.ndarray) -> None:
        """Add the finished rollout to the data, with the expert's probabilities (T, n_envs, A)."""
        assert self.full
        assert self.raw_rewards is not None
        arrays = {
            "frames": self._frames(),
            "probs": probs.astype(np.float32),
            "actions": self.actions[:, :, 0].astype(np.int64),
            "rewards": self.raw_rewards.astype(np.float32),
            "returns": self.returns.astype(np.float32),
            "age": self.ages,
            "episode": self.episodes,
        }
        if self.wants_boxes:
            arrays["boxes"] = np.stack(self.boxes)
        chunk = Chunk(self.clock - self.buffer_size, arrays)
        for t in range(self.buffer_size):
            for env in range(self.n_envs):
                if (self._stack(chunk, t, env) != self.observations[t, env]).any():
                    raise UserError(
                        "imitation keeps each frame once, and this environment's stacks do not "
                        "repeat their frames (newest last, black before an episode's start)."
                    )
        self.chunks = [*self.chunks, chunk][-self.capacity :]

    def _frames(self) -> np.ndarray:
        """Each frame of the rollout once, after the lead that its first stacks show."""
        stack, lead = self.obs_shape[0] // self.channels, self.lead
        frame = self.obs_shape[1:] if self.channels == 1 else (self.channels, *self.obs_shape[1:])
        seen = self.observations.reshape(self.buffer_size, self.n_envs, stack, *frame)
        frames = np.zeros((lead + self.buffer_size, self.n_envs, *frame), np.uint8)
        frames[lead:] = seen[:, :, -1]
        for before in range(1, lead + 1):
            t = -before % self.gap  # the first step whose stack may hold that frame
            channel = stack - 1 - (t + before) // self.gap
            frames[lead - before] = seen[t, :, channel]
        return frames

    # -- reading ------------------------------------------------------------------------------

    def minibatches(self, size: int | None) -> Iterator[Labelled]:  # type: ignore[override]
        """`updates` minibatches, each drawn from all data alike."""
        assert size is not None
        for _ in range(self.updates):
            yield self.minibatch(self._rng.integers(self.samples, size=size))

    def minibatch(self, draws: np.ndarray) -> Labelled:
        """The samples (B,) counted from the oldest chunk's first: time by time, each n_envs."""
        steps, env = draws // self.n_envs, draws % self.n_envs
        index, t = steps // self.buffer_size, steps % self.buffer_size
        firsts = np.array([chunk.first for chunk in self.chunks])
        place = (firsts[index] + t) * self.n_envs + env
        small = {
            name: self._gather(name, index, t, env) for name in ("actions", "returns", "probs")
        }
        return Labelled(
            observations=self._observations_of(index, t, env),
            actions=small["actions"],
            returns=small["returns"],
            expert=small["probs"],
            place=place,
        )

    def fields(self, minibatch: Labelled) -> dict[str, Any]:  # type: ignore[override]
        index = minibatch.place
        return {
            "rewards": self.rewards_of(index),
            "returns": minibatch.returns,
            "episode_starts": self.starts_of(index),
            "env_index": self.env_of(index),
            "time_index": self.time_of(index),
            "at": lambda offset: self.at(index, offset),
            "actions_at": lambda offset: self.actions_at(index, offset),
            **self.boxes_of(index),
        }

    def boxes_of(self, index: np.ndarray) -> dict[str, Tensor]:
        return {"boxes": self._gather("boxes", *self._find(index)[:3])} if self.wants_boxes else {}

    def _gather(self, name: str, index: np.ndarray, t: np.ndarray, env: np.ndarray) -> Tensor:
        rows = [self.chunks[c][name][s, e] for c, s, e in zip(index, t, env, strict=True)]
        return on_device(np.stack(rows), self.device)

    def _observations_of(self, index: np.ndarray, t: np.ndarray, env: np.ndarray) -> Tensor:
        out = np.empty((len(index), *self.obs_shape), np.uint8)
        for row, (c, s, e) in enumerate(zip(index, t, env, strict=True)):
            out[row] = self._stack(self.chunks[c], s, e)
        return on_device(out, self.device)

    def _stack(self, chunk: Chunk, t: int, env: int) -> np.ndarray:
        """The observation (stack, H, W) of one step; black before its episode's start."""
        newest = self.lead + t
        rows = chunk["frames"][newest - self.lead : newest + 1 : self.gap, env]
        shown = int(chunk["age"][t, env]) // self.gap + 1  # frames of this episode
        if shown < len(rows):
            rows = rows.copy()
            rows[: len(rows) - shown] = 0
        return rows.reshape(self.obs_shape)

    # -- neighbours: a place is time * n_envs + environment --------------------------------------

    def env_of(self, index: np.ndarray) -> Tensor:
        """Environments (B,) of places."""
        return self.to_torch(index % self.n_envs)

    def time_of(self, index: np.ndarray) -> Tensor:
        """Times (B,) of places, since the beginning of training."""
        return self.to_torch(index // self.n_envs)

    def rewards_of(self, index: np.ndarray) -> Tensor:
        return self._gather("rewards", *self._find(index)[:3])

    def starts_of(self, index: np.ndarray) -> Tensor:
        return self._gather("age", *self._find(index)[:3]) == 0

    def at(self, index: np.ndarray, offset: int) -> tuple[Tensor, Tensor]:
        require_reach(offset, self.history)
        *chosen, valid = self._neighbours(index, offset)
        return self._observations_of(*chosen), self.to_torch(valid)

    def _neighbours(
        self, index: np.ndarray, offset: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Chunk, step, environment of neighbours, or of the places themselves where not valid."""
        here, there = self._find(index), self._find(index + offset * self.n_envs)
        valid = there[3]
        chunks = self.chunks
        for row in np.flatnonzero(valid):
            one, other = (chunks[p[0][row]]["episode"][p[1][row], p[2][row]] for p in (here, there))
            valid[row] = one == other
        chunk, step, env = (
            np.where(valid, far, near) for near, far in zip(here[:3], there[:3], strict=True)
        )
        return chunk, step, env, valid

    def actions_at(self, index: np.ndarray, offset: int) -> tuple[Tensor, Tensor]:
        require_reach(offset, self.history)
        *chosen, valid = self._neighbours(index, offset)
        return self._gather("actions", *chosen), self.to_torch(valid)

    def _find(self, index: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Chunk, step in it, environment of places (B,), and whether they are in the data."""
        time, env = index // self.n_envs, index % self.n_envs
        firsts = np.array([chunk.first for chunk in self.chunks])
        chunk = np.searchsorted(firsts, time, side="right") - 1
        step = time - firsts[chunk]
        return chunk, step, env, (chunk >= 0) & (step < self.buffer_size)

    # -- state --------------------------------------------------------------------------------

    def state(self) -> dict[str, np.ndarray]:
        """The chunks as compressed bytes, and what the next one needs to know."""
        self.pos = 0  # the rollout is sealed
        record = {
            "clock": self.clock,
            "age": self._age.tolist(),
            "episode": self._episode.tolist(),
            "rng": self._rng.bit_generator.state,
        }
        found = {
            f"chunk.{c.first:012d}": np.frombuffer(bytearray(c.blob), np.uint8) for c in self.chunks
        }
        return found | {"demonstrations": plain_bytes(record)}

    def load_state(self, state: dict[str, np.ndarray]) -> None:
        self.pos = 0
        record = json.loads(state["demonstrations"].tobytes())
        self.clock = record["clock"]
        self._age, self._episode = (np.array(record[k], np.int64) for k in ("age", "episode"))
        self._rng.bit_generator.state = record["rng"]
        blobs = sorted((k, v) for k, v in state.items() if k.startswith("chunk."))
        chunks = [Chunk(int(k.removeprefix("chunk.")), blob=v.tobytes()) for k, v in blobs]
        self.chunks = chunks[-self.capacity :]


def plain_bytes(record: Any) -> np.ndarray:
    """JSON as the bytes of an array, which a checkpoint can hold."""
    return np.frombuffer(bytearray(json.dumps(record, sort_keys=True).encode()), np.uint8)
