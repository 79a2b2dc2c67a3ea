"""Replay buffers whose samples are SB3's, in a fraction of the memory, that checkpoints append to.

rollout -> **replay buffer** -> minibatch. Of stacked pictures each frame is kept once, and every
observation is a row of frame numbers. Rows are counted from the beginning of training: a checkpoint
writes those that are new (`reprl.checkpoint.chunks`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces
from stable_baselines3.common.buffers import NStepReplayBuffer, ReplayBuffer
from stable_baselines3.common.preprocessing import is_image_space, is_image_space_channels_first
from stable_baselines3.common.type_aliases import ReplayBufferSamples

from reprl.envs.observation import FrameStack

PLAIN = ("actions", "rewards", "dones", "timeouts")
WHOLE = ("observations", "next_observations", *PLAIN)
BLOCK = 1024  # frames that are allocated, and freed, together
BLACK = 0  # the number of the frame in which nothing is shown


class Draw(NamedTuple):
    """Transitions that were drawn."""

    rows: np.ndarray  # (B,) places in the buffer
    envs: np.ndarray  # (B,)
    weights: np.ndarray  # (B,) float32, at most 1: what undoes the bias of the draw


class CountedRows(ReplayBuffer):
    """SB3's buffer, whose rows (a step of all environments) have numbers that never repeat."""

    added: int = 0  # rows so far; the next one has this number

    @property
    def oldest(self) -> int:
        """The number of the oldest row that is still there."""
        return max(0, self.added - self.buffer_size)

    @property
    def row_bytes(self) -> int:
        """Bytes of one row, about."""
        return sum(getattr(self, name)[0].nbytes for name in WHOLE)

    def add(self, *arguments: Any, **named: Any) -> None:
        super().add(*arguments, **named)
        self.added += 1

    # -- by place -----------------------------------------------------------------------------

    def draw(self, count: int) -> Draw:
        """Transitions drawn evenly, with SB3's draws from numpy's global generator."""
        rows = np.random.randint(0, self.size(), size=count)
        envs = np.random.randint(0, high=self.n_envs, size=count)
        return Draw(rows, envs, np.ones(count, np.float32))

    def take(self, rows: np.ndarray, envs: np.ndarray) -> ReplayBufferSamples:
        """The transitions of these rows and environments, (B,) each, as sample() gives them."""
        last, discounts = rows, None
        rewards = self.rewards[rows, envs].reshape(-1, 1)
        if (n_steps := getattr(self, "n_steps", 1)) > 1:
            gamma: float = self.gamma  # type: ignore[attr-defined]
            ahead = (rows[:, None] + np.arange(n_steps)) % self.buffer_size  # (B, n)
            counts = np.ones(ahead.shape, bool)  # rewards up to an end, its own included
            counts[:, 1:] = np.cumprod(~self._ends(ahead, envs[:, None])[:, :-1], axis=1)
            factors = gamma ** np.arange(n_steps, dtype=np.float32)
            rewards = (self.rewards[ahead, envs[:, None]] * factors * counts).sum(1, keepdims=True)
            number = counts.sum(1, keepdims=True)  # (B, 1)
            last = np.take_along_axis(ahead, number - 1, axis=1)[:, 0]
            discounts = self.to_torch(gamma ** number.astype(np.float32))
        over = self.dones[last, envs] * (1 - self.timeouts[last, envs])
        return ReplayBufferSamples(
            observations=self.to_torch(self.observations[rows, envs]),
            actions=self.to_torch(self.actions[rows, envs]),
            next_observations=self.to_torch(self.next_observations[last, envs]),
            dones=self.to_torch(over.reshape(-1, 1)),
            rewards=self.to_torch(rewards),
            discounts=discounts,  # type: ignore[arg-type]
        )

    def _ends(self, rows: np.ndarray, envs: np.ndarray) -> np.ndarray:
        """Where the row behind these is of another game, or not there yet."""
        newest = (self.added - 1) % self.buffer_size
        over = (self.dones[rows, envs] > 0) | (self.timeouts[rows, envs] > 0)
        found: np.ndarray = over | (rows == newest)
        return found

    def neighbours(
        self, rows: np.ndarray, envs: np.ndarray, offset: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Rows (B,) that many steps later, and where they are of the same game, (B,) bool.

        Where they are not, the row itself is given.
        """
        between = np.arange(offset) if offset >= 0 else np.arange(offset, 0)
        crossed = self._ends((rows[:, None] + between) % self.buffer_size, envs[:, None])
        valid: np.ndarray = np.logical_not(crossed.any(axis=1))
        if not self.full:
            valid &= (rows + offset >= 0) & (rows + offset < self.pos)
        return np.where(valid, (rows + offset) % self.buffer_size, rows), valid

    # -- saving -------------------------------------------------------------------------------

    def rows(self, begin: int, end: int) -> dict[str, np.ndarray]:
        """A copy of what the rows from `begin` to before `end` hold."""
        places = np.arange(begin, end) % self.buffer_size
        return {name: getattr(self, name)[places] for name in WHOLE}

    def load_rows(self, begin: int, arrays: dict[str, np.ndarray]) -> None:
        """Put back what rows() gave, those that are older than the buffer's size left out."""
        kept = range(begin, begin + len(arrays["rewards"]))[-self.buffer_size :]
        places = np.array(kept, np.int64) % self.buffer_size
        for name in WHOLE:
            getattr(self, name)[places] = arrays[name][len(arrays[name]) - len(kept) :]

    def stand_at(self, added: int) -> None:
        """Go on as after so many rows."""
        self.added = added
        self.pos, self.full = added % self.buffer_size, added >= self.buffer_size


class Frames:
    """Single frames by their numbers, as long as somebody may ask for them."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape
        self._blocks: dict[int, np.ndarray] = {}
        self.next = BLACK + 1
        self._black = np.zeros(shape, np.uint8)

    def push(self, frame: np.ndarray) -> int:
        """Keep a frame; its number."""
        number = self.next
        self.put(number, frame)
        self.next += 1
        return number

    def put(self, number: int, frame: np.ndarray) -> None:
        block, place = divmod(number, BLOCK)
        if block not in self._blocks:
            self._blocks[block] = np.empty((BLOCK, *self.shape), np.uint8)
        self._blocks[block][place] = frame

    def __getitem__(self, number: int) -> np.ndarray:
        if number == BLACK:
            return self._black
        block, place = divmod(number, BLOCK)
        frame: np.ndarray = self._blocks[block][place]
        return frame

    def gather(self, numbers: np.ndarray) -> np.ndarray:
        """Frames (..., *shape) of numbers (...)."""
        flat = numbers.ravel().tolist()
        found = np.empty((len(flat), *self.shape), np.uint8)
        for place, number in enumerate(flat):
            found[place] = self[number]
        return found.reshape(*numbers.shape, *self.shape)

    def forget(self, before: int) -> None:
        """Free what lies before a number, in whole blocks."""
        for block in [b for b in self._blocks if (b + 1) * BLOCK <= before]:
            del self._blocks[block]

    @property
    def nbytes(self) -> int:
        return sum(block.nbytes for block in self._blocks.values())


class _Stacks:
    """Observations by row and environment, as SB3's buffers index their arrays of them."""

    def __init__(self, owner: FrameRows) -> None:
        self._owner = owner
        shape = (owner.buffer_size, owner.n_envs, owner.stack)
        self.numbers = np.zeros(shape, np.int64)  # of the frames, oldest first

    def __getitem__(self, key: tuple[Any, ...]) -> np.ndarray:
        rows, envs = key[:2]
        stacks = self._owner.frames.gather(self.numbers[rows, envs])  # (B, stack, channels, H, W)
        return stacks.reshape(len(stacks), *self._owner.obs_shape)


class _Present(_Stacks):
    def __setitem__(self, row: int, observations: np.ndarray) -> None:
        self.numbers[row] = self._owner.begin(observations)


class _Following(_Stacks):
    def __setitem__(self, row: int, observations: np.ndarray) -> None:
        self.numbers[row] = self._owner.proceed(row, observations)


class FrameRows(CountedRows):
    """Stacks of frames, each frame kept once.

    What an environment shows next is compared with what it has shown: frames that are not a
    repetition are kept as new ones, so that every sample is exact whatever the environment does.
    """

    def __init__(
        self,
        buffer_size: int,
        observation_space: spaces.Space,
        action_space: spaces.Space,
        device: Any = "auto",
        n_envs: int = 1,
        gap: int = 1,
        **named: Any,
    ) -> None:
        # one row for now: SB3 would allocate two stacks a step
        super().__init__(n_envs, observation_space, action_space, device, n_envs=n_envs, **named)
        self.buffer_size = max(buffer_size // n_envs, 1)
        channels = observation_space.channels if isinstance(observation_space, FrameStack) else 1
        self.gap, self.stack = gap, self.obs_shape[0] // channels
        for name in PLAIN:
            old = getattr(self, name)
            setattr(self, name, np.zeros((self.buffer_size, *old.shape[1:]), old.dtype))
        self.frames = Frames((channels, *self.obs_shape[1:]))
        self.observations: Any = _Present(self)
        self.next_observations: Any = _Following(self)
        # numbers of the last frames of each environment, as many as a stack looks back
        self._past = np.zeros((n_envs, (self.stack - 1) * gap + 1), np.int64)
        # of each row: the oldest frame it may name, and the one after its newest
        self.floors = np.zeros(self.buffer_size, np.int64)
        self.ends = np.zeros(self.buffer_size, np.int64)

    @property
    def row_bytes(self) -> int:
        return int(np.prod(self.frames.shape)) * self.n_envs + self._index_bytes

    @property
    def _index_bytes(self) -> int:
        arrays = [self.observations.numbers, self.next_observations.numbers, self.floors, self.ends]
        return sum(a[0].nbytes for a in [*arrays, *(getattr(self, name) for name in PLAIN)])

    @property
    def nbytes(self) -> int:
        """Bytes that are allocated now."""
        return self.frames.nbytes + self.buffer_size * self._index_bytes

    # -- writing ------------------------------------------------------------------------------

    def begin(self, observations: np.ndarray) -> np.ndarray:
        """Frame numbers (n_envs, stack) of what is shown now: the last step's, or a new game."""
        shown = enumerate(self._split(observations))
        return np.stack([self._numbers(env, stack) for env, stack in shown])

    def proceed(self, row: int, observations: np.ndarray) -> np.ndarray:
        """Frame numbers (n_envs, stack) of what is shown after a row's actions."""
        floor = self._floor()  # what the row's own observations name lies above
        for env, stack in enumerate(self._split(observations)):
            past = self._past[env]
            past[:-1] = past[1:]
            past[-1] = self.frames.push(stack[-1]) if stack[-1].any() else BLACK
            self._numbers(env, stack)
        self.floors[row], self.ends[row] = floor, self.frames.next
        later = (row + 1) % self.buffer_size if self.full or row + 1 == self.buffer_size else 0
        self.frames.forget(int(self.floors[later]))
        return self._past[:, :: self.gap].copy()

    def _split(self, observations: np.ndarray) -> np.ndarray:
        return observations.reshape(self.n_envs, self.stack, *self.frames.shape)

    def _numbers(self, env: int, stack: np.ndarray) -> np.ndarray:
        """Numbers of a stack's frames; those that are not where they should be are kept anew."""
        past = self._past[env]
        if not np.array_equal(self.frames[past[-1]], stack[-1]):  # another game has begun
            past[:] = BLACK
        shown = past[:: self.gap]
        for place, frame in enumerate(stack):
            if not np.array_equal(self.frames[shown[place]], frame):
                shown[place] = self.frames.push(frame) if frame.any() else BLACK
        return shown.copy()

    def _floor(self) -> int:
        named = self._past[self._past != BLACK]
        return int(named.min()) if named.size else self.frames.next

    # -- saving -------------------------------------------------------------------------------

    def rows(self, begin: int, end: int) -> dict[str, np.ndarray]:
        places = np.arange(begin, end) % self.buffer_size
        found = {name: getattr(self, name)[places] for name in (*PLAIN, "floors", "ends")}
        found["present"] = self.observations.numbers[places]
        found["following"] = self.next_observations.numbers[places]
        numbers = np.arange(found["floors"].min(), found["ends"][-1]) if end > begin else places
        found["frames"] = self.frames.gather(numbers)
        found["past"] = self._past.copy()
        return found

    def load_rows(self, begin: int, arrays: dict[str, np.ndarray]) -> None:
        if not len(arrays["rewards"]):
            return
        kept = range(begin, begin + len(arrays["rewards"]))[-self.buffer_size :]
        places = np.array(kept, np.int64) % self.buffer_size
        here = slice(len(arrays["rewards"]) - len(kept), None)
        for name in (*PLAIN, "floors", "ends"):
            getattr(self, name)[places] = arrays[name][here]
        self.observations.numbers[places] = arrays["present"][here]
        self.next_observations.numbers[places] = arrays["following"][here]
        first = int(arrays["floors"].min())
        for number, frame in enumerate(arrays["frames"], first):
            self.frames.put(number, frame)
        self.frames.next = int(arrays["ends"][-1])
        self._past[:] = arrays["past"]


class CountedReplay(CountedRows):
    """Transitions as SB3 keeps them."""


class CountedNStepReplay(CountedRows, NStepReplayBuffer):
    """The same with rewards of several steps."""


class FrameReplay(FrameRows):
    """Pictures, each frame once."""


class FrameNStepReplay(FrameRows, NStepReplayBuffer):
    """The same with rewards of several steps."""


def make_replay(
    buffer_size: int,
    observation_space: spaces.Space,
    action_space: spaces.Space,
    *,
    device: Any,
    n_envs: int,
    n_steps: int,
    gamma: float,
    gap: int = 1,
) -> CountedRows:
    """The buffer for what an environment shows: pictures as frames, anything else as it is."""
    options: dict[str, Any] = {"device": device, "n_envs": n_envs}
    if n_steps > 1:
        options |= {"n_steps": n_steps, "gamma": gamma}
    if shows_stacks(observation_space):
        kind: type[CountedRows] = FrameNStepReplay if n_steps > 1 else FrameReplay
        options["gap"] = gap
    else:
        kind = CountedNStepReplay if n_steps > 1 else CountedReplay
    return kind(buffer_size, observation_space, action_space, **options)


def shows_stacks(space: spaces.Space) -> bool:
    """Whether observations are pictures (stack, height, width)."""
    return is_image_space(space) and is_image_space_channels_first(space)  # type: ignore[arg-type]


def bytes_needed(buffer_size: int, space: spaces.Space) -> int:
    """Memory of a full buffer, about: a frame a step, or two observations."""
    assert space.shape is not None
    each = int(np.prod(space.shape) or 1) * np.dtype(space.dtype).itemsize
    if shows_stacks(space):
        channels = space.channels if isinstance(space, FrameStack) else 1
        return buffer_size * (each * channels // space.shape[0] + 100)
    return buffer_size * 2 * each
