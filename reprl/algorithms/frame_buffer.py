"""The fast mode's rollout memory: each frame once, stacks put together for each minibatch.

Successive observations of a frame stack share all frames but one, so this memory holds about a
quarter of the bytes of SB3's. Which frames repeat is seen by comparing them, never assumed. Where
a GPU trains, frames and samples lie on it, and of a minibatch only its indices travel.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from stable_baselines3.common.buffers import BaseBuffer
from torch import Tensor

from reprl.algorithms.frame_pool import DeviceFrames, FramePool, HostFrames
from reprl.algorithms.rollout_buffer import Minibatch, RolloutMemory
from reprl.auxiliary.losses import require_reach
from reprl.transfer import on_device

SAMPLES = ("actions", "values", "log_probs", "advantages", "returns")


class FrameMemory(RolloutMemory):
    """RolloutMemory with observations (stack, H, W) kept as slots in a pool of frames."""

    gap: int = 1  # steps between two frames of a stack
    channels: int = 1  # of a frame; each is kept by itself
    pool: FramePool  # slot 0 is a black frame, which empty stacks share
    slots: np.ndarray  # (T, n_envs, stack) int32
    past_slots: np.ndarray | None = None  # (h, n_envs, stack) int32
    free: int = 1  # the first unused slot

    def __init__(self, *args: Any, resident: bool | None = None, **kwargs: Any) -> None:
        self._resident = resident  # on the device; None: where that is not the CPU
        self._columns: dict[str, Tensor] | None = None  # of a full rollout, on the device
        super().__init__(*args, **kwargs)

    def _make_pool(self) -> FramePool:
        _, height, width = self.obs_shape
        here = self.device.type == "cpu" if self._resident is None else not self._resident
        return HostFrames(height, width) if here else DeviceFrames(height, width, self.device)

    @property
    def frames(self) -> Any:
        """All frames (P, H, W) uint8 by slot."""
        return self.pool.frames

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
        arrays = sum(v.nbytes for v in self.__dict__.values() if isinstance(v, np.ndarray))
        return arrays + self.pool.nbytes

    def reset(self) -> None:
        if not hasattr(self, "pool"):
            # The rest of the pool comes with the first frame, when history and gap are known.
            self.pool = self._make_pool()
            self.slots = np.zeros((self.buffer_size, self.n_envs, self.obs_shape[0]), np.int32)
        elif self.pos:
            self._carry()
        self.last_starts = self.last_observations = None
        # SB3's own array of observations stays empty; the small ones are its business.
        self.observations = np.zeros((self.buffer_size, self.n_envs, 0), np.uint8)
        self.actions = np.zeros((self.buffer_size, self.n_envs, 1), np.int64)
        for name in ("rewards", "returns", "episode_starts", "values", "log_probs", "advantages"):
            setattr(self, name, np.zeros((self.buffer_size, self.n_envs), np.float32))
        self.generator_ready = False
        self._columns = None
        BaseBuffer.reset(self)

    def record(
        self,
        observations: np.ndarray,
        actions: np.ndarray,
        rewards: np.ndarray,
        starts: np.ndarray,
        uploaded: Tensor | None = None,
    ) -> None:
        """Note one step; the values and log-probabilities of a rollout come in one piece later.

        `uploaded` are the observations on the device, where the forward pass has them already.
        """
        pictures = self.pool.taken(observations, uploaded)
        self.slots[self.pos] = self._store(pictures, self._before(self.pos))
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

    def _store(self, pictures: Any, before: np.ndarray | None) -> np.ndarray:
        """Slots (n_envs, stack) of pictures (n_envs, stack, H, W), storing what is new."""
        slots = np.full(pictures.shape[:2], -1, np.int32)
        if before is not None:
            each = self.channels
            same = self.pool.repeats(pictures[:, :-each], before[:, each:])
            slots[:, :-each] = np.where(same, before[:, each:], -1)
        env, channel = np.nonzero(slots < 0)
        kept = channel >= pictures.shape[1] - self.channels  # the newest frames, black or not
        if (older := ~kept).any():
            kept[older] = self.pool.drawn(pictures, env[older], channel[older])
        slots[env[~kept], channel[~kept]] = 0
        env, channel = env[kept], channel[kept]
        self._make_room(self.free + len(env))
        slots[env, channel] = np.arange(self.free, self.free + len(env))
        self.pool.write(self.free, pictures, env, channel)
        self.free += len(env)
        return slots

    def _make_room(self, wanted: int) -> None:
        if wanted > (had := len(self.frames)):
            self.pool.grow(max(self.room, had + had // 4 + 1, wanted))

    # -- reading ------------------------------------------------------------------------------

    def _get_samples(self, batch_inds: np.ndarray, env: Any = None) -> Minibatch:  # type: ignore[override]
        if isinstance(self.pool, DeviceFrames):
            return self._resident_samples(self.pool, batch_inds)
        small = super()._get_samples(batch_inds, env)
        slots = self.slots[batch_inds % self.buffer_size, batch_inds // self.buffer_size]
        return small._replace(observations=self._stacks(slots))

    def _resident_samples(self, pool: DeviceFrames, place: np.ndarray) -> Minibatch:
        """A minibatch of which only the indices (B,) are sent to the device."""
        if self._columns is None:
            found = {name: getattr(self, name) for name in SAMPLES}  # (N, 1) each, by environment
            found["actions"] = found["actions"].astype(np.float32)
            slots = self.slots.swapaxes(0, 1).reshape(-1, self.slots.shape[-1])
            found["slots"] = slots.astype(np.int64)
            self._columns = {k: on_device(np.array(v), self.device) for k, v in found.items()}
        index = pool.index(place)
        rows = {name: column.index_select(0, index) for name, column in self._columns.items()}
        return Minibatch(
            observations=pool.stacks_at(rows["slots"]),
            actions=rows["actions"],
            old_values=rows["values"].flatten(),
            old_log_prob=rows["log_probs"].flatten(),
            advantages=rows["advantages"].flatten(),
            returns=rows["returns"].flatten(),
            place=place,
        )

    def _stacks(self, slots: np.ndarray) -> Tensor:
        """Observations (B, stack, H, W) from slots (B, stack), on the device."""
        return self.pool.stacks(slots).to(self.device)

    def all_observations(self) -> np.ndarray:
        found = [self._stacks(slots).cpu().numpy() for slots in self.slots]
        return np.stack(found)

    def at(self, index: np.ndarray, offset: int) -> tuple[Tensor, Tensor]:
        require_reach(offset, self.history)
        env, time = index // self.buffer_size, index % self.buffer_size
        target, valid = self._reachable(env, time, offset)
        return self._pictures(env, target), self.to_torch(valid)

    def _observations(self, env: np.ndarray, time: np.ndarray) -> np.ndarray:
        return self._pictures(env, time).cpu().numpy()

    def _pictures(self, env: np.ndarray, time: np.ndarray) -> Tensor:
        """Observations (B, stack, H, W) by place, on the device; -1 is before the rollout."""
        slots = self.slots[np.clip(time, 0, self.buffer_size - 1), env]
        if (before := time < 0).any():
            assert self.past_slots is not None
            slots[before] = self.past_slots[time[before], env[before]]
        out = self._stacks(slots)
        if (after := time >= self.buffer_size).any():
            assert self.last_observations is not None
            out[self.to_torch(after)] = self.to_torch(self.last_observations[env[after]])
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
        self.pool.keep(used)
        self.free = len(used)
        self.past_slots = place[:-1].reshape(slots.shape).astype(np.int32)

    def state(self) -> dict[str, np.ndarray]:
        if self.pos:
            self._carry()
            self.pos = 0
        if not self.history or self.past_starts is None or self.past_slots is None:
            return {}
        flat = self._stacks(self.past_slots.reshape(-1, self.past_slots.shape[-1])).cpu().numpy()
        shape = (*self.past_slots.shape[:2], *self.obs_shape)
        kept = {
            "past_starts": self.past_starts,
            "past_observations": flat.reshape(shape),
        }
        return kept | self._action_state()

    def load_state(self, state: dict[str, np.ndarray]) -> None:
        self.pos, self.free = 0, 1
        self.past_starts, self.past_slots = state.get("past_starts"), None
        self.past_actions = state.get("past_actions")
        stored: list[np.ndarray] = []
        for stacks in state.get("past_observations", []):
            before = stored[-self.gap] if len(stored) >= self.gap else None
            stored.append(self._store(self.pool.taken(stacks, None), before))
        if stored:
            self.past_slots = np.stack(stored)
