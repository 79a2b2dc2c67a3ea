"""The fast mode's rollout memory: each frame once, stacks put together for each minibatch.

Successive observations of a frame stack share all frames but one, so this memory holds about a
quarter of the bytes of SB3's. Which frames repeat is seen by comparing them, never assumed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from stable_baselines3.common.buffers import BaseBuffer
from torch import Tensor

from reprl.algorithms.rollout_buffer import Minibatch, RolloutMemory


class FrameMemory(RolloutMemory):
    """RolloutMemory with observations (stack, H, W) kept as slots in a pool of frames."""

    gap: int = 1  # steps between two frames of a stack
    channels: int = 1  # of a frame; each is kept by itself
    frames: np.ndarray  # (P, H, W) uint8; slot 0 is a black frame, which empty stacks share
    slots: np.ndarray  # (T, n_envs, stack) int32
    past_slots: np.ndarray | None = None  # (h, n_envs, stack) int32
    free: int = 1  # the first unused slot

    @property
    def kept(self) -> int:
        """Steps carried over: what losses look back to, and what new stacks may repeat."""
        return max(self.history, self.gap)

    @property
    def room(self) -> int:
        """Frames that fill the memory: black, one a step, and the past's with their stacks.

        Only stacks that begin with other frames than black ones need more.
        """
        past = self.kept + self.gap * (self.obs_shape[0] // self.channels - 1)
        return 1 + self.n_envs * self.channels * (self.buffer_size + past)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays, to compare with SB3's buffer."""
        return sum(v.nbytes for v in self.__dict__.values() if isinstance(v, np.ndarray))

    def reset(self) -> None:
        if not hasattr(self, "frames"):
            stack, height, width = self.obs_shape
            # The rest of the pool comes with the first frame, when history and gap are known.
            self.frames = np.zeros((1, height, width), np.uint8)
            self.slots = np.zeros((self.buffer_size, self.n_envs, stack), np.int32)
        elif self.pos:
            self._carry()
        self.last_starts = self.last_observations = None
        # SB3's own array of observations stays empty; the small ones are its business.
        self.observations = np.zeros((self.buffer_size, self.n_envs, 0), np.uint8)
        self.actions = np.zeros((self.buffer_size, self.n_envs, 1), np.int64)
        for name in ("rewards", "returns", "episode_starts", "values", "log_probs", "advantages"):
            setattr(self, name, np.zeros((self.buffer_size, self.n_envs), np.float32))
        self.generator_ready = False
        BaseBuffer.reset(self)

    def record(
        self, observations: np.ndarray, actions: np.ndarray, rewards: np.ndarray, starts: np.ndarray
    ) -> None:
        """Note one step; the values and log-probabilities of a rollout come in one piece later."""
        self.slots[self.pos] = self._store(observations, self._before(self.pos))
        self.actions[self.pos, :, 0] = actions
        self.rewards[self.pos] = rewards
        self.episode_starts[self.pos] = starts
        self.pos += 1
        self.full = self.pos == self.buffer_size

    def add(self, *step: Any) -> None:  # type: ignore[override]
        """One step as SB3 gives it, with its values and log-probabilities."""
        obs, action, reward, episode_start, value, log_prob = step
        self.values[self.pos] = value.detach().cpu().numpy().flatten()
        self.log_probs[self.pos] = log_prob.detach().cpu().numpy()
        self.record(obs, np.asarray(action).reshape(-1), reward, episode_start)

    def _before(self, time: int) -> np.ndarray | None:
        """Slots (n_envs, stack) of the stacks whose frames move up by one, if they are known."""
        if time >= self.gap:
            return self.slots[time - self.gap]
        if self.past_slots is None or len(self.past_slots) < self.gap - time:
            return None
        return self.past_slots[time - self.gap]

    def _store(self, stacks: np.ndarray, before: np.ndarray | None) -> np.ndarray:
        """Slots (n_envs, stack) of stacks (n_envs, stack, H, W), storing what is new."""
        slots = np.full(stacks.shape[:2], -1, np.int32)
        if before is not None:
            each = self.channels
            known = self.frames[before[:, each:]]  # (n_envs, stack - 1, H, W)
            same = (known == stacks[:, :-each]).all((2, 3))
            slots[:, :-each] = np.where(same, before[:, each:], -1)
        for env, channel in zip(*np.nonzero(slots < 0), strict=True):
            frame = stacks[env, channel]
            newest = channel >= stacks.shape[1] - self.channels
            slots[env, channel] = 0 if not newest and not frame.any() else self._append(frame)
        return slots

    def _append(self, frame: np.ndarray) -> int:
        if self.free == len(self.frames):
            room = max(self.room, len(self.frames) + len(self.frames) // 4 + 1)
            pool = np.zeros((room, *self.frames.shape[1:]), np.uint8)
            pool[: self.free] = self.frames
            self.frames = pool
        self.frames[self.free] = frame
        self.free += 1
        return self.free - 1

    # -- reading ------------------------------------------------------------------------------

    def _get_samples(self, batch_inds: np.ndarray, env: Any = None) -> Minibatch:  # type: ignore[override]
        small = super()._get_samples(batch_inds, env)
        slots = self.slots[batch_inds % self.buffer_size, batch_inds // self.buffer_size]
        return small._replace(observations=self._stacks(slots).to(self.device))

    def _stacks(self, slots: np.ndarray) -> Tensor:
        """Observations (B, stack, H, W) from slots (B, stack)."""
        pool = torch.from_numpy(self.frames)
        rows = pool.index_select(0, torch.from_numpy(slots.reshape(-1).astype(np.int64)))
        return rows.view(*slots.shape, *pool.shape[1:])

    def _observations(self, env: np.ndarray, time: np.ndarray) -> np.ndarray:
        slots = self.slots[np.clip(time, 0, self.buffer_size - 1), env]
        if (before := time < 0).any():
            assert self.past_slots is not None
            slots[before] = self.past_slots[time[before], env[before]]
        out = self._stacks(slots).numpy()
        if (after := time >= self.buffer_size).any():
            assert self.last_observations is not None
            out[after] = self.last_observations[env[after]]
        return out

    # -- history ------------------------------------------------------------------------------

    def _carry(self) -> None:
        if not self.full:
            self.past_starts = self.past_slots = self.past_actions = None
            self.free = 1
            return
        self._carry_actions(self.kept)
        starts, slots = self.episode_starts.astype(bool), self.slots
        if self.past_starts is not None and self.past_slots is not None:
            starts = np.concatenate([self.past_starts, starts])
            slots = np.concatenate([self.past_slots, slots])
        self.past_starts, slots = starts[-self.kept :].copy(), slots[-self.kept :]
        used, place = np.unique(np.append(slots, 0), return_inverse=True)  # used[0] is black
        self.frames[: len(used)] = self.frames[used]
        self.free = len(used)
        self.past_slots = place[:-1].reshape(slots.shape).astype(np.int32)

    def state(self) -> dict[str, np.ndarray]:
        if self.pos:
            self._carry()
            self.pos = 0
        if not self.history or self.past_starts is None or self.past_slots is None:
            return {}
        flat = self._stacks(self.past_slots.reshape(-1, self.past_slots.shape[-1]))
        shape = (*self.past_slots.shape[:2], *self.obs_shape)
        kept = {"past_starts": self.past_starts, "past_observations": flat.numpy().reshape(shape)}
        return kept | self._action_state()

    def load_state(self, state: dict[str, np.ndarray]) -> None:
        self.pos, self.free = 0, 1
        self.past_starts, self.past_slots = state.get("past_starts"), None
        self.past_actions = state.get("past_actions")
        stored: list[np.ndarray] = []
        for stacks in state.get("past_observations", []):
            before = stored[-self.gap] if len(stored) >= self.gap else None
            stored.append(self._store(stacks, before))
        if stored:
            self.past_slots = np.stack(stored)
