"""What PPG keeps of a cycle's rollouts for its auxiliary phase: observations and returns.

rollout -> sealed **chunk**, each frame of its stacks once -> minibatches of the auxiliary phase. A
checkpoint holds the chunks compressed, so that a run goes on in the middle of a cycle.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import numpy as np

from reprl.algorithms.demonstrations import Chunk, plain_bytes
from reprl.rng import numpy_stream

PREFIX = "phase."  # of its names in a checkpoint
RECORD = f"{PREFIX}record"
Reader = Callable[[Chunk, np.ndarray], np.ndarray]


def frames_once(
    observations: np.ndarray, *, channels: int, gap: int
) -> tuple[np.ndarray, np.ndarray]:
    """Frames (P, H, W) of stacks (T, n, C, H, W), and which of them each stack shows, (T, n, C).

    A frame of `channels` planes that a stack shares with the one `gap` steps before is kept once;
    that is seen by comparing them, never assumed.
    """
    slots = np.zeros(observations.shape[:3], np.int32)
    kept: list[np.ndarray] = []
    count, older = 0, observations.shape[2] - channels
    for t, stacks in enumerate(observations):
        new = np.ones(stacks.shape[:2], bool)  # (n, C)
        if t >= gap and older:
            same = (stacks[:, :older] == observations[t - gap][:, channels:]).all((2, 3))
            slots[t, :, :older] = np.where(same, slots[t - gap, :, channels:], 0)
            new[:, :older] = ~same
        found = stacks[new]  # (m, H, W)
        slots[t][new] = np.arange(count, count + len(found))
        count += len(found)
        kept.append(found)
    return np.concatenate(kept), slots


class PhaseMemory:
    """The rollouts since the last auxiliary phase."""

    def __init__(self, *, seed: int, channels: int | None, gap: int) -> None:
        self.channels, self.gap = channels, gap  # of a picture's frame; None for numbers
        self.chunks: list[Chunk] = []
        self._rng = numpy_stream(seed, "ppg", "minibatches")

    def __len__(self) -> int:
        """Rollouts so far."""
        return len(self.chunks)

    def add(self, observations: np.ndarray, returns: np.ndarray) -> None:
        """Keep a rollout's observations (T, n, ...) and returns (T, n)."""
        arrays: dict[str, np.ndarray] = {"returns": returns.reshape(-1).astype(np.float32)}
        if self.channels is None:
            arrays["rows"] = observations.reshape(-1, *observations.shape[2:]).copy()
        else:
            frames, slots = frames_once(observations, channels=self.channels, gap=self.gap)
            arrays |= {"frames": frames, "slots": slots.reshape(-1, slots.shape[-1])}
        self.chunks.append(Chunk(len(self.chunks), arrays))

    def clear(self) -> None:
        """Begin a new cycle."""
        self.chunks = []

    # -- reading ----------------------------------------------------------------------------------

    @property
    def samples(self) -> int:
        """Steps in all rollouts."""
        return sum(len(chunk["returns"]) for chunk in self.chunks)

    def shuffled(self, size: int) -> Iterator[np.ndarray]:
        """All samples once in an order of their own, as numbers (B,) of at most `size`."""
        order = self._rng.permutation(self.samples)
        for start in range(0, len(order), size):
            yield order[start : start + size]

    def observations(self, index: np.ndarray) -> np.ndarray:
        """Observations (B, ...) of samples."""
        return self._gathered(index, self._shown)

    def returns(self, index: np.ndarray) -> np.ndarray:
        """Returns (B,) of samples."""
        return self._gathered(index, lambda chunk, row: chunk["returns"][row])

    def _shown(self, chunk: Chunk, rows: np.ndarray) -> np.ndarray:
        if self.channels is None:
            return chunk["rows"][rows]
        return chunk["frames"][chunk["slots"][rows]]

    def _gathered(self, index: np.ndarray, read: Reader) -> np.ndarray:
        each = len(self.chunks[0]["returns"])
        chosen, rows = index // each, index % each
        found: np.ndarray | None = None
        for number in np.unique(chosen):
            here = chosen == number
            part = read(self.chunks[number], rows[here])
            if found is None:
                found = np.empty((len(index), *part.shape[1:]), part.dtype)
            found[here] = part
        assert found is not None
        return found

    # -- state ------------------------------------------------------------------------------------

    def state(self) -> dict[str, np.ndarray]:
        """The chunks as compressed bytes, and where the order of minibatches is."""
        chunks = {
            f"{PREFIX}{chunk.first:06d}": np.frombuffer(bytearray(chunk.blob), np.uint8)
            for chunk in self.chunks
        }
        return chunks | {RECORD: plain_bytes({"rng": self._rng.bit_generator.state})}

    def load_state(self, state: dict[str, np.ndarray]) -> None:
        """Go on where another process stood in its cycle."""
        self._rng.bit_generator.state = json.loads(state[RECORD].tobytes())["rng"]
        names = sorted(k for k in state if k.startswith(PREFIX) and k != RECORD)
        self.chunks = [
            Chunk(int(name.removeprefix(PREFIX)), blob=state[name].tobytes()) for name in names
        ]
