"""What A2C and PPO have in common: SB3's algorithms, one shared update, the extras around it."""

from __future__ import annotations

import inspect
import secrets
import warnings
from contextlib import nullcontext
from time import perf_counter
from typing import Any, ClassVar

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
from stable_baselines3.common.preprocessing import is_image_space, is_image_space_channels_first
from stable_baselines3.common.vec_env import VecEnv

from reprl import components
from reprl.algorithms.arguments import OPTIMIZERS, policy_arguments, require_defaults
from reprl.algorithms.collect import collect
from reprl.algorithms.compiled import FusedRMSprop, Network, fuse, keep_memory, threads_for
from reprl.algorithms.frame_buffer import FrameMemory
from reprl.algorithms.journal import Journal, TimedEnv, Timings
from reprl.algorithms.objectives import Objective, evaluate
from reprl.algorithms.parameter_groups import keep_own_rates, separate_mask
from reprl.algorithms.resumable import Resumable
from reprl.algorithms.rollout_buffer import RolloutMemory
from reprl.algorithms.specs import Auxiliary, Specs, resolve
from reprl.algorithms.update import Coefficients, Update
from reprl.algorithms.watch import watch
from reprl.auxiliary.losses import Extras
from reprl.checkpoint.serialization import SCHEDULED
from reprl.encoders.base import Encoder
from reprl.errors import UserError, unknown
from reprl.instruments import MaskMonitor
from reprl.schedules import is_spec, schedule

MODES = ("plain", "fast")


class Agent(Resumable):
    """Mixed in before SB3's A2C or PPO; adds the extras and replaces `train`."""

    stock: ClassVar[type[OnPolicyAlgorithm]]  # the SB3 algorithm this one extends
    policy_loss_name: ClassVar[str]  # what SB3 calls it in its log
    looks: ClassVar[int]  # updates between two looks of the costlier instruments
    rollout_buffer: RolloutMemory
    arguments: dict[str, Any]  # SB3's arguments as given, defaults included
    timings: Timings

    def __init__(
        self,
        policy: Any,
        env: Any,
        *args: Any,
        encoder: components.Spec | None = None,
        attention: components.Spec | None = None,
        auxiliary: Auxiliary = None,
        augmentation: components.Spec | None = None,
        mode: str = "plain",
        optimizer: str | None = None,
        weight_decay: float = 0.0,
        instrument_every: int | None = None,
        compile: bool = True,
        **kwargs: Any,
    ) -> None:
        if mode not in MODES:
            raise unknown("mode", str(mode), MODES)
        if optimizer is not None and optimizer not in OPTIMIZERS:
            raise unknown("optimizer", str(optimizer), OPTIMIZERS)
        if not weight_decay >= 0.0:
            raise UserError(f"weight_decay must be a number of at least 0, got {weight_decay!r}.")
        self.specs: Specs = resolve(
            encoder=encoder, attention=attention, auxiliary=auxiliary, augmentation=augmentation
        )
        self.mode = mode
        self.optimizer = optimizer
        self.weight_decay = weight_decay
        self.instrument_every = self.looks if instrument_every is None else instrument_every
        self.early_stops = 0
        self._iterations = 0
        self._phase = "ready"
        self._captured_threads: int | None = None
        self._log: dict[str, list[Any]] = {}
        self.compile = compile and mode == "fast"
        self.network: Network | None = None  # the fast mode's forward pass
        self.monitor = MaskMonitor()
        self._stream_seed = secrets.randbits(32)
        self.timings = Timings()
        bound = inspect.signature(self.stock.__init__).bind(self, policy, env, *args, **kwargs)
        bound.apply_defaults()
        given = {k: v for k, v in bound.arguments.items() if k not in ("self", "env")}
        for name in SCHEDULED:
            if is_spec(given.get(name)):
                given[name] = schedule(given[name], name=name)
        self.arguments = {k: v for k, v in given.items() if k != "_init_setup_model"}
        if given["seed"] is not None:
            self._stream_seed = int(given["seed"])
        passed = given | {"policy_kwargs": policy_arguments(given, self.specs, optimizer)}
        for name in ("ent_coef", "vf_coef"):
            if callable(passed[name]):
                passed[name] = passed[name](1.0)
        if passed["rollout_buffer_class"] is not None:
            raise UserError("rollout_buffer_class cannot be chosen: reprl brings its own memory.")
        passed["rollout_buffer_class"] = FrameMemory if mode == "fast" else RolloutMemory
        self.action_meanings: list[str] | None = None  # what the environment calls its actions
        super().__init__(env=env, **passed)

    def _setup_model(self) -> None:
        if isinstance(self.observation_space, spaces.Dict):
            raise UserError("reprl's algorithms take one observation array, not a dict of them.")
        if self.mode == "fast":
            self._require_pictures()
        if (meanings := getattr(self.env, "action_meanings", None)) is not None:
            self.action_meanings = list(meanings)
        super()._setup_model()
        require_defaults(self.policy, self.mode)
        if self._target_kl() is not None and self.specs.augmentation and self.specs.use == "rad":
            warnings.warn(
                "target_kl with an augmented training batch (use: rad) also counts what the "
                "augmentation changes: the rollout's policy saw the pictures as they were.",
                stacklevel=4,
            )
        if isinstance(self.policy.features_extractor, Encoder):
            self.policy.features_extractor.check()
        if self.mode == "fast":
            keep_memory()
            self.policy.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
            self.policy.optimizer = fuse(self.policy.optimizer)
            self.network = Network(self.policy, compile=self.compile)
            assert isinstance(self.rollout_buffer, FrameMemory)
            self.rollout_buffer.gap = int(getattr(self.env, "gap", 1))
        separate_mask(self.policy.optimizer, self.policy.features_extractor)
        self.extras = Extras(
            specs=self.specs,
            policy=self.policy,
            observation_space=self.observation_space,
            action_space=self.action_space,
            action_meanings=self.action_meanings,
            seed=self._stream_seed,
            device=self.device,
        )
        if self.env is not None:  # a model that only predicts may have been trained so
            self.extras.require_views()
        self.auxiliary = self.extras.losses
        if self.mode == "fast":
            self.extras.layout = torch.channels_last
        if self.weight_decay:
            for group in self.policy.optimizer.param_groups:
                group["weight_decay"] = self.weight_decay
        if self.extras.parameters:
            self.policy.optimizer.add_param_group({"params": self.extras.parameters})
        self.rollout_buffer.history = self.extras.reach
        self.update = Update(
            policy=self.policy,
            extras=self.extras,
            memory=self.rollout_buffer,
            evaluate=evaluate if self.network is None else self.network.evaluate,
        )

    def _require_pictures(self) -> None:
        space = self.observation_space
        pictures = is_image_space(space) and is_image_space_channels_first(space)  # type: ignore[arg-type]
        actions = isinstance(self.action_space, spaces.Discrete)
        if not (pictures and actions):
            raise UserError(
                "mode=fast needs uint8 pictures (stack, height, width) and discrete actions, got "
                f"{space} and {self.action_space}: use mode=plain."
            )

    @property
    def compiled(self) -> bool | None:
        """Whether the update runs compiled; None while that is not known yet."""
        if self.network is None:
            return False
        return True if self.network.must else self.network.compiled

    # -- the two halves of an iteration ---------------------------------------------------------

    def collect_rollouts(
        self,
        env: VecEnv,
        callback: BaseCallback,
        rollout_buffer: RolloutBuffer,
        n_rollout_steps: int,
    ) -> bool:
        began = perf_counter()
        if self.network is not None:
            assert isinstance(rollout_buffer, FrameMemory)
            done, seconds = collect(self, self.network, env, callback, rollout_buffer)
        else:
            timed = TimedEnv(env, self)
            done = super().collect_rollouts(timed, callback, rollout_buffer, n_rollout_steps)  # type: ignore[arg-type]
            seconds = timed.seconds
            if done:
                assert isinstance(self._last_obs, np.ndarray)
                assert self._last_episode_starts is not None
                self.rollout_buffer.finish(
                    self._last_obs, self._last_episode_starts, np.stack(timed.rewards)
                )
        self._phase = "collected" if done else "ready"
        self.timings.add("env", seconds)
        self.timings.add("forward", perf_counter() - began - seconds)
        return done

    def _objective(self) -> Objective:
        raise AssertionError(f"{type(self).__name__} must define _objective()")

    def _coefficients(self) -> Coefficients:
        progress = self._current_progress_remaining
        for name in ("ent_coef", "vf_coef"):
            if callable(given := self.arguments[name]):
                setattr(self, name, float(given(progress)))
        return Coefficients(
            entropy=self.ent_coef,
            value=self.vf_coef,
            auxiliary=self.extras.weights(self.num_timesteps, progress),
        )

    def _epochs(self) -> int:
        return 1

    def _minibatch_size(self) -> int | None:
        return None

    def _target_kl(self) -> float | None:
        return None

    def train(self) -> None:
        """Consume the rollout; SB3's update, bit for bit, where there are no extras."""
        rows = self._minibatch_size() or self.n_steps * self.n_envs
        with nullcontext() if self.network is None else threads_for(rows):
            self._train()

    def _train(self) -> None:
        began = perf_counter()
        self.policy.set_training_mode(True)
        self.auxiliary.train(True)
        self._update_learning_rate(self.policy.optimizer)
        keep_own_rates(self.policy.optimizer)
        if self.network is not None and isinstance(self.policy.optimizer, FusedRMSprop):
            self.policy.optimizer.compile(self.network)
        objective, coefficients = self._objective(), self._coefficients()
        target_kl = self._target_kl()
        journal = Journal(coefficients)
        every = self.instrument_every  # in updates, while SB3's _n_updates counts epochs
        watched = every and (self._iterations - 1) % every == 0
        stop = False
        for epoch in range(self._epochs()):
            journal.epoch()
            for minibatch in self.rollout_buffer.minibatches(self._minibatch_size()):
                actions = minibatch.actions
                if isinstance(self.action_space, spaces.Discrete):
                    actions = actions.long().flatten()
                losses = self.update.losses(
                    minibatch, actions, objective, coefficients, self.num_timesteps
                )
                journal.add(losses.numbers)
                if watched:
                    watched = False
                    self._record(watch(losses, self.policy.features_extractor, self.monitor))
                # SB3 compares in float32.
                if target_kl is not None and np.float32(losses.numbers["kl"]) > 1.5 * target_kl:
                    stop = True
                    if self.verbose >= 1:
                        print(f"Early stop in epoch {epoch}: KL {losses.numbers['kl']:.2f}")
                    break
                norm = self.update.step(losses, self.num_timesteps, self.max_grad_norm)
                journal.add({"gradient": norm})
            self._n_updates += 1
            if stop:
                self.early_stops += 1
                break
        journal.record(self)
        if self.network is not None:
            self.network.settle()
        self._phase = "ready"
        self.timings.add("update", perf_counter() - began)

    def _record(self, numbers: dict[str, float]) -> None:
        for name, number in numbers.items():
            self.logger.record(name, number)

    # -- SB3's own saving -----------------------------------------------------------------------

    def _excluded_save_params(self) -> list[str]:
        return [*super()._excluded_save_params(), "extras", "update", "timings", "network"]

    def _get_torch_save_params(self) -> tuple[list[str], list[str]]:
        names, variables = super()._get_torch_save_params()
        return [*names, "auxiliary"], variables
