"""The rollout memory: SB3's buffer that also knows each sample's place and its true neighbours.

The rollout fills it, the update draws minibatches from it, and auxiliary losses look forward and
back in time through it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from stable_baselines3.common.buffers import RolloutBuffer
from torch import Tensor

from reprl.auxiliary.losses import require_reach
from reprl.envs.objects import edges
from reprl.intrinsic.base import IntrinsicReward
from reprl.sequences import Sequences
from reprl.transfer import on_device


class Minibatch(NamedTuple):
    """SB3's samples, and which ones they are."""

    observations: Tensor  # (B, ...) as the environment gave them
    actions: Tensor  # (B, action_dim) float32
    old_values: Tensor  # (B,)
    old_log_prob: Tensor  # (B,)
    advantages: Tensor  # (B,)
    returns: Tensor  # (B,)
    place: np.ndarray  # (B,) int64: environment * n_steps + time
    sequences: Sequences | None = None  # for a policy with a memory


def endless_advantages(
    rewards: np.ndarray, values: np.ndarray, last: np.ndarray, gamma: float, gae_lambda: float
) -> np.ndarray:
    """GAE (T, n) of rewards and values (T, n) and the values (n,) after them, as if no game ended.

    Dying ends the game and not the search: what lies beyond stays new.
    """
    advantages = np.zeros_like(rewards)
    following = np.zeros_like(last)
    for t in reversed(range(len(rewards))):
        after = last if t + 1 == len(rewards) else values[t + 1]
        following = rewards[t] + gamma * after - values[t] + gamma * gae_lambda * following
        advantages[t] = following
    return advantages


class RolloutMemory(RolloutBuffer):
    """SB3's buffer, draw for draw, with a short history of the rollouts before."""

    history: int = 0  # steps kept from before this rollout
    past_starts: np.ndarray | None = None  # (h, n_envs) bool, h <= history
    past_observations: np.ndarray | None = None  # (h, n_envs, ...)
    last_starts: np.ndarray | None = None  # (n_envs,) bool: the step after the rollout
    last_observations: np.ndarray | None = None  # (n_envs, ...)
    # (T, n_envs): SB3 adds the value beyond a time limit to the reward it trains on
    raw_rewards: np.ndarray | None = None
    wants_actions: bool = False  # a loss needs the actions of the steps before this rollout too
    past_actions: np.ndarray | None = None  # (h, n_envs) int64
    wants_boxes: bool = False  # a loss needs the truth of every step
    boxes: list[np.ndarray]  # (n_envs, K, 4) each, of the rollout so far

    def to_torch(self, array: np.ndarray, copy: bool = True) -> Tensor:
        if self.device.type == "cpu":
            return super().to_torch(array, copy)
        return on_device(array, self.device)

    def look(self, env: Any) -> None:
        """Before a step: note where everything is in the observations, if a loss needs that."""
        if not self.wants_boxes:
            return
        if not self.pos:
            self.boxes = []
        height, width = self.obs_shape[-2:]
        self.boxes.append(edges(env.objects(), (height, width)))

    def boxes_of(self, index: np.ndarray) -> dict[str, Tensor]:
        """The boxes (B, K, 4) of samples, as a field of a batch; none where none are wanted."""
        if not self.wants_boxes:
            return {}
        steps = np.stack(self.boxes)  # (T, n_envs, K, 4)
        return {"boxes": self.to_torch(steps[index % self.buffer_size, index // self.buffer_size])}

    def reset(self) -> None:
        if getattr(self, "pos", 0):
            self._carry()
        self.last_starts = self.last_observations = None
        super().reset()

    def finish(
        self, observations: np.ndarray, starts: np.ndarray, rewards: np.ndarray | None = None
    ) -> None:
        """Note the step after the rollout, a true neighbour that is never trained on.

        `rewards` (T, n_envs) are the rollout's as the environment gave them.
        """
        self.last_observations, self.last_starts = observations, starts
        self.raw_rewards = rewards

    def explore(
        self, rewards: np.ndarray, values: np.ndarray, last: np.ndarray, paid: IntrinsicReward
    ) -> np.ndarray:
        """Add the advantages of intrinsic rewards (T, n_envs); returns what their values should be.

        `values` (T, n_envs) are those of the second head, `last` (n_envs,) after the rollout.
        """
        advantages = endless_advantages(rewards, values, last, paid.gamma, paid.gae_lambda)
        if paid.coef:
            self.advantages += (paid.coef * advantages).astype(np.float32)
        return (advantages + values).astype(np.float32)

    def minibatches(self, size: int | None) -> Iterator[Minibatch]:
        """SB3's minibatches, in the order its permutation of the global generator gives."""
        for minibatch in self.get(size):
            assert isinstance(minibatch, Minibatch)
            yield minibatch

    def _get_samples(self, batch_inds: np.ndarray, env: Any = None) -> Minibatch:  # type: ignore[override]
        return Minibatch(*super()._get_samples(batch_inds, env), place=batch_inds)

    def fields(self, minibatch: Minibatch) -> dict[str, Any]:
        """What the buffer knows of a minibatch besides the samples, as auxiliary losses name it."""
        index = minibatch.place
        return {
            "rewards": self.rewards_of(index),
            "returns": minibatch.returns,
            "advantages": minibatch.advantages,
            "episode_starts": self.starts_of(index),
            "env_index": self.to_torch(index // self.buffer_size),
            "time_index": self.to_torch(index % self.buffer_size),
            "at": lambda offset: self.at(index, offset),
            "actions_at": lambda offset: self.actions_at(index, offset),
            **self.boxes_of(index),
        }

    def all_observations(self) -> np.ndarray:
        """The rollout's observations (T, n_envs, ...); ask before minibatches are drawn."""
        return self.observations

    def observed(self, index: np.ndarray, later: int = 0) -> np.ndarray:
        """Observations (B, ...) of samples, or `later` steps on, whatever ended in between."""
        env, time = index // self.buffer_size, index % self.buffer_size
        return self._observations(env, time + later)

    # -- neighbours ---------------------------------------------------------------------------

    def rewards_of(self, index: np.ndarray) -> Tensor:
        """The environment's rewards (B,) of samples."""
        rewards = self.rewards if self.raw_rewards is None else self.raw_rewards
        return self.to_torch(rewards[index % self.buffer_size, index // self.buffer_size])

    def starts_of(self, index: np.ndarray) -> Tensor:
        """Whether samples (B,) are the first of their episode."""
        starts = self.starts()[index % self.buffer_size, index // self.buffer_size]
        return self.to_torch(starts.astype(bool))

    def starts(self) -> np.ndarray:
        """Where games begin in the rollout, (T, n_envs)."""
        return self.episode_starts

    def at(self, index: np.ndarray, offset: int) -> tuple[Tensor, Tensor]:
        """Observations `offset` steps from the samples, and where that is the same episode."""
        require_reach(offset, self.history)
        env, time = index // self.buffer_size, index % self.buffer_size
        target, valid = self._reachable(env, time, offset)
        return self.to_torch(self._observations(env, target)), self.to_torch(valid)

    def actions_at(self, index: np.ndarray, offset: int) -> tuple[Tensor, Tensor]:
        """Discrete actions `offset` steps from the samples, and where that is the same episode."""
        require_reach(offset, self.history)
        env, time = index // self.buffer_size, index % self.buffer_size
        target, valid = self._reachable(env, time, offset)
        past = 0 if self.past_actions is None else len(self.past_actions)
        valid &= (target >= -past) & (target < self.buffer_size)  # none was taken yet after it
        rows = self._played() if not past else np.concatenate([self.past_actions, self._played()])  # type: ignore[list-item]
        found = rows[np.where(valid, target, time) + past, env]
        return self.to_torch(found), self.to_torch(valid)

    def _played(self) -> np.ndarray:
        """The rollout's discrete actions (T, n_envs) int64."""
        shape = (self.n_envs, self.buffer_size, -1)
        rows = self.actions.reshape(shape).swapaxes(0, 1) if self.generator_ready else self.actions
        return rows[:, :, 0].astype(np.int64)

    def _carry_actions(self, steps: int) -> None:
        """Keep the newest actions beside the newest observations, where a loss asks for them."""
        if not self.wants_actions:
            return
        rows = self._played()
        if self.past_actions is not None:
            rows = np.concatenate([self.past_actions, rows])
        self.past_actions = rows[-steps:].copy()

    def _reachable(
        self, env: np.ndarray, time: np.ndarray, offset: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Times (B,) that lie in memory and in the sample's episode, else the sample's own."""
        parts = [self.starts()]
        if self.past_starts is not None:
            parts.insert(0, self.past_starts)
        if self.last_starts is not None:
            parts.append(self.last_starts[None])
        past = 0 if self.past_starts is None else len(self.past_starts)
        episode = np.cumsum(np.concatenate(parts).astype(np.int64), axis=0)  # (h + T + 1, n_envs)
        here = time + past
        there = here + offset
        inside = (there >= 0) & (there < len(episode))
        there = np.where(inside, there, here)
        # No start lies between two steps exactly if as many starts precede the one as the other.
        valid = inside & (episode[there, env] == episode[here, env])
        return np.where(valid, time + offset, time), valid

    def _observations(self, env: np.ndarray, time: np.ndarray) -> np.ndarray:
        """Observations (B, ...) by place; time -1 is the step before the rollout."""
        inner = np.clip(time, 0, self.buffer_size - 1)
        if self.generator_ready:
            out = self.observations[env * self.buffer_size + inner]
        else:
            out = self.observations[inner, env]
        after, before = time >= self.buffer_size, time < 0
        if after.any():
            assert self.last_observations is not None
            out[after] = self.last_observations[env[after]]
        if before.any():
            assert self.past_observations is not None
            out[before] = self.past_observations[time[before], env[before]]
        return out

    # -- history ------------------------------------------------------------------------------

    def _carry(self) -> None:
        """Keep the newest steps as the next rollout's past; an aborted rollout leaves none."""
        if not self.full or not self.history:
            self.past_starts = self.past_observations = self.past_actions = None
            return
        self._carry_actions(self.history)
        starts, times = self._tail()
        env = np.tile(np.arange(self.n_envs), len(times))
        rows = self._observations(env, np.repeat(times, self.n_envs))
        self.past_observations = rows.reshape(len(times), self.n_envs, *rows.shape[1:])
        self.past_starts = starts

    def _tail(self) -> tuple[np.ndarray, np.ndarray]:
        """The newest `history` steps: starts (h, n_envs) and their times in this rollout (h,)."""
        starts = self.starts().astype(bool)
        past = 0 if self.past_starts is None else len(self.past_starts)
        if self.past_starts is not None:
            starts = np.concatenate([self.past_starts, starts])
        times = np.arange(-past, self.buffer_size)
        return starts[-self.history :], times[-self.history :]

    def state(self) -> dict[str, np.ndarray]:
        """What the next rollout needs of this one; ask only between two rollouts."""
        if self.pos:
            self._carry()
            # The rollout is spent: without this, the next reset would carry it a second time.
            self.pos = 0
        if self.past_starts is None or self.past_observations is None:
            return {}
        kept = {"past_starts": self.past_starts, "past_observations": self.past_observations}
        return kept | self._action_state()

    def _action_state(self) -> dict[str, np.ndarray]:
        return {} if self.past_actions is None else {"past_actions": self.past_actions}

    def load_state(self, state: dict[str, np.ndarray]) -> None:
        """Continue after a rollout that another process collected."""
        self.past_starts = state.get("past_starts")
        self.past_observations = state.get("past_observations")
        self.past_actions = state.get("past_actions")
        self.pos = 0
