"""Prioritised replay (Schaul et al. 2016): transitions drawn by how wrong the network was there.

replay buffer -> **rows and weights** -> minibatch -> errors -> priorities. Proportional, from a sum
tree; the draws come from a stream of their own, and everything is in checkpoints.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from reprl.algorithms.replay_buffer import CountedRows, Draw
from reprl.rng import numpy_stream

LEAST = 1e-6  # added to an error, so that nothing is given up for good


class SumTree:
    """Numbers of at least 0, drawn in proportion to their size; all in time log(n)."""

    def __init__(self, size: int) -> None:
        self.leaves = 1 << max(0, (size - 1).bit_length())
        self.nodes = np.zeros(2 * self.leaves)  # node k has the children 2k and 2k + 1; 1 is all

    def __getitem__(self, places: Any) -> np.ndarray:
        found: np.ndarray = self.nodes[self.leaves + np.asarray(places)]
        return found

    def __setitem__(self, places: np.ndarray, values: Any) -> None:
        nodes = self.leaves + np.asarray(places)
        self.nodes[nodes] = values
        while nodes.size and nodes[0] > 1:
            nodes = np.unique(nodes >> 1)
            self.nodes[nodes] = self.nodes[2 * nodes] + self.nodes[2 * nodes + 1]

    @property
    def total(self) -> float:
        return float(self.nodes[1])

    def find(self, sums: np.ndarray) -> np.ndarray:
        """The places (n,) at which the running sum of the numbers passes `sums` (n,)."""
        nodes, left = np.ones(len(sums), np.int64), np.array(sums, np.float64)
        while nodes[0] < self.leaves:
            nodes = 2 * nodes
            below = self.nodes[nodes]
            # never into an empty half, whatever rounding says
            right = (left >= below) & (self.nodes[nodes + 1] > 0)
            left = np.where(right, left - below, left)
            nodes = nodes + right
        return nodes - self.leaves


class Priorities:
    """How often each transition of a buffer is to be drawn."""

    def __init__(self, buffer: CountedRows, *, alpha: float, seed: int) -> None:
        self.buffer, self.alpha = buffer, alpha
        self.tree = SumTree(buffer.buffer_size * buffer.n_envs)
        self.largest = 1.0  # priority so far, which a new transition gets
        self.seen = 0  # rows that have a priority
        self._rng = numpy_stream(seed, "priorities")

    def draw(self, count: int, beta: float) -> Draw:
        """Transitions one from each of `count` equal shares of all priorities."""
        self._take_new()
        tree, total = self.tree, self.tree.total
        shares = (np.arange(count) + self._rng.random(count)) / count
        places = tree.find(shares * total)
        known = min(self.seen, self.buffer.buffer_size) * self.buffer.n_envs
        weights = (known * tree[places] / total) ** -beta
        rows, envs = np.divmod(places, self.buffer.n_envs)
        return Draw(rows, envs, (weights / weights.max()).astype(np.float32))

    def update(self, drawn: Draw, errors: np.ndarray) -> None:
        """Set priorities by the errors (B,) that the network made."""
        values = (np.abs(errors).astype(np.float64) + LEAST) ** self.alpha
        self.largest = max(self.largest, float(values.max()))
        self.tree[drawn.rows * self.buffer.n_envs + drawn.envs] = values

    def _take_new(self) -> None:
        new = np.arange(max(self.seen, self.buffer.oldest), self.buffer.added)
        rows = new % self.buffer.buffer_size
        places = rows[:, None] * self.buffer.n_envs + np.arange(self.buffer.n_envs)
        if places.size:
            self.tree[places.ravel()] = self.largest
        self.seen = self.buffer.added

    # -- state ----------------------------------------------------------------------------------

    def state(self) -> dict[str, np.ndarray]:
        rng = json.dumps(self._rng.bit_generator.state).encode()
        return {
            "priorities": self.tree.nodes[self.tree.leaves :].copy(),
            "priority_facts": np.array([self.largest, self.seen]),
            "priority_stream": np.frombuffer(rng, np.uint8).copy(),
        }

    def load_state(self, state: dict[str, np.ndarray]) -> None:
        self.tree[np.arange(self.tree.leaves)] = state["priorities"]
        self.largest, self.seen = float(state["priority_facts"][0]), int(state["priority_facts"][1])
        self._rng.bit_generator.state = json.loads(bytes(state["priority_stream"]))
