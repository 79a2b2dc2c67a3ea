"""What A2C and PPO have in common: SB3's algorithms, one shared update, the extras around it."""

from __future__ import annotations

import inspect
import secrets
from time import perf_counter
from typing import Any, ClassVar

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
from stable_baselines3.common.sb2_compat.rmsprop_tf_like import RMSpropTFLike
from stable_baselines3.common.type_aliases import MaybeCallback
from stable_baselines3.common.vec_env import VecEnv

from reprl import registry
from reprl.algorithms.capture import Captured, Stored, capture, restore
from reprl.algorithms.extras import Extras
from reprl.algorithms.journal import Journal, Timings
from reprl.algorithms.memory import RolloutMemory
from reprl.algorithms.objectives import Objective
from reprl.algorithms.plain import encode
from reprl.algorithms.specs import Auxiliary, Specs, build_encoder, resolve
from reprl.algorithms.update import Coefficients, Update
from reprl.errors import UserError, unknown
from reprl.schedules import is_spec, schedule

MODES = ("plain", "fast")
OPTIMIZERS = {
    "adam": torch.optim.Adam,
    "rmsprop": torch.optim.RMSprop,
    "rmsprop_tf": RMSpropTFLike,  # as in the original A2C: epsilon inside the root
}
SCHEDULED = ("learning_rate", "clip_range", "clip_range_vf", "ent_coef", "vf_coef")


class Agent(OnPolicyAlgorithm):
    """Mixed in before SB3's A2C or PPO; adds the extras and replaces `train`."""

    stock: ClassVar[type[OnPolicyAlgorithm]]  # the SB3 algorithm this one extends
    policy_loss_name: ClassVar[str]  # what SB3 calls it in its log
    rollout_buffer: RolloutMemory
    arguments: dict[str, Any]  # SB3's arguments as given, defaults included
    timings: Timings

    def __init__(
        self,
        policy: Any,
        env: Any,
        *args: Any,
        encoder: registry.Spec | None = None,
        attention: registry.Spec | None = None,
        auxiliary: Auxiliary = None,
        augmentation: registry.Spec | None = None,
        mode: str = "plain",
        optimizer: str | None = None,
        weight_decay: float = 0.0,
        instrument_every: int = 50,
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
        self.instrument_every = instrument_every
        self.early_stops = 0
        self._iterations = 0
        self._phase = "ready"
        self._captured_threads: int | None = None
        self._log: dict[str, list[Any]] = {}
        self.compile = compile and mode == "fast"
        self.compiled: bool | None = False if not self.compile else None  # None: not yet known
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
        passed = given | {"policy_kwargs": self._policy_arguments(given)}
        for name in ("ent_coef", "vf_coef"):
            if callable(passed[name]):
                passed[name] = passed[name](1.0)
        if passed["rollout_buffer_class"] is None:
            passed["rollout_buffer_class"] = RolloutMemory
        elif self.specs != Specs() or mode == "fast":
            raise UserError("rollout_buffer_class cannot be combined with extras or mode=fast.")
        self.action_meanings: list[str] | None = None  # what the environment calls its actions
        super().__init__(env=env, **passed)

    def _policy_arguments(self, given: dict[str, Any]) -> dict[str, Any]:
        """SB3's policy arguments with our encoder in place of its features extractor."""
        arguments = dict(given["policy_kwargs"] or {})
        if self.optimizer is not None:
            if "optimizer_class" in arguments:
                raise UserError("policy_kwargs optimizer_class and optimizer exclude each other.")
            arguments["optimizer_class"] = OPTIMIZERS[self.optimizer]
            if self.optimizer != "adam":
                epsilon = given.get("rms_prop_eps", 1e-5)
                arguments["optimizer_kwargs"] = {"alpha": 0.99, "eps": epsilon}
        if self.specs.encoder is None:
            return arguments
        for key in ("features_extractor_class", "features_extractor_kwargs"):
            if key in arguments:
                raise UserError(f"policy_kwargs {key} and encoder exclude each other: give one.")
        if not arguments.get("share_features_extractor", True):
            raise UserError("encoder needs share_features_extractor=True.")
        if not arguments.get("normalize_images", True):
            raise UserError("encoder needs normalize_images=True.")
        arguments["features_extractor_class"] = build_encoder
        arguments["features_extractor_kwargs"] = {"spec": self.specs.encoder}
        # SB3 adds hidden layers behind any extractor but its own NatureCNN.
        arguments.setdefault("net_arch", [])
        return arguments

    def _setup_model(self) -> None:
        if isinstance(self.observation_space, spaces.Dict):
            raise UserError("reprl's algorithms take one observation array, not a dict of them.")
        if (meanings := getattr(self.env, "action_meanings", None)) is not None:
            self.action_meanings = list(meanings)
        super()._setup_model()
        self.extras = Extras(
            specs=self.specs,
            policy=self.policy,
            observation_space=self.observation_space,
            action_space=self.action_space,
            action_meanings=self.action_meanings,
            seed=self._stream_seed,
            device=self.device,
        )
        self.auxiliary = self.extras.losses
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
            max_grad_norm=self.max_grad_norm,
        )

    # -- the two halves of an iteration ---------------------------------------------------------

    def collect_rollouts(
        self,
        env: VecEnv,
        callback: BaseCallback,
        rollout_buffer: RolloutBuffer,
        n_rollout_steps: int,
    ) -> bool:
        began = perf_counter()
        timed = TimedEnv(env, self)
        done = super().collect_rollouts(timed, callback, rollout_buffer, n_rollout_steps)  # type: ignore[arg-type]
        if done:
            assert isinstance(self._last_obs, np.ndarray)
            assert self._last_episode_starts is not None
            self.rollout_buffer.finish(self._last_obs, self._last_episode_starts)
        self._phase = "collected" if done else "ready"
        self.timings.add("env", timed.seconds)
        self.timings.add("forward", perf_counter() - began - timed.seconds)
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
        began = perf_counter()
        self.policy.set_training_mode(True)
        self.auxiliary.train(True)
        self._update_learning_rate(self.policy.optimizer)
        objective, coefficients = self._objective(), self._coefficients()
        target_kl = self._target_kl()
        journal = Journal(coefficients)
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
                # SB3 compares in float32.
                if target_kl is not None and np.float32(losses.numbers["kl"]) > 1.5 * target_kl:
                    stop = True
                    if self.verbose >= 1:
                        print(f"Early stop in epoch {epoch}: KL {losses.numbers['kl']:.2f}")
                    break
                self.update.step(losses, self.num_timesteps)
            self._n_updates += 1
            if stop:
                self.early_stops += 1
                break
        journal.record(self)
        self._phase = "ready"
        self.timings.add("update", perf_counter() - began)

    def _learn(
        self,
        total_timesteps: int,
        callback: MaybeCallback,
        log_interval: int | None,
        tb_log_name: str,
        reset_num_timesteps: bool,
        progress_bar: bool,
    ) -> None:
        """SB3's loop, with an iteration count that survives a restore."""
        if self._captured_threads not in (None, threads := torch.get_num_threads()):
            raise UserError(
                f"this run was saved with {self._captured_threads} torch threads and would not "
                f"continue exactly with {threads}: set threads={self._captured_threads}."
            )
        total_timesteps, callback = self._setup_learn(
            total_timesteps, callback, reset_num_timesteps, tb_log_name, progress_bar
        )
        if reset_num_timesteps:
            self._iterations = 0
        for name, (value, count, excluded) in self._log.items():
            self.logger.name_to_value[name] = value
            self.logger.name_to_count[name] = count
            self.logger.name_to_excluded[name] = excluded
        self._log = {}
        callback.on_training_start(locals(), globals())
        assert self.env is not None
        while self.num_timesteps < total_timesteps:
            began, known = perf_counter(), self.timings.total()
            if not self.collect_rollouts(self.env, callback, self.rollout_buffer, self.n_steps):
                break
            self._iterations += 1
            self._update_current_progress_remaining(self.num_timesteps, total_timesteps)
            if log_interval is not None and self._iterations % log_interval == 0:
                for part, share in self.timings.shares().items():
                    self.logger.record(f"time/{part}", share)
                self.dump_logs(self._iterations)
            self.train()
            self.timings.add("other", perf_counter() - began - self.timings.total() + known)
        callback.on_training_end()

    # -- saving ---------------------------------------------------------------------------------

    def capture(self) -> Captured:
        """Everything for a bit-exact continuation; only between two updates."""
        return capture(self)

    def restore(self, captured: Stored) -> None:
        """Continue where a capture was taken; then learn(remaining, reset_num_timesteps=False)."""
        restore(self, captured)

    def settings(self) -> dict[str, Any]:
        """The arguments beyond SB3's, as plain data."""
        specs = self.specs
        augmentation = None
        if specs.augmentation is not None:
            augmentation = specs.augmentation | {"use": specs.use}
        return {
            "encoder": specs.encoder,
            "auxiliary": specs.auxiliary or None,
            "augmentation": augmentation,
            "mode": self.mode,
            "optimizer": self.optimizer,
            "weight_decay": self.weight_decay,
            "instrument_every": self.instrument_every,
            "compile": self.compile,
        }

    def pending_log(self) -> dict[str, list[Any]]:
        """What was recorded since the last dump: it belongs to the next row of the log."""
        if (logger := getattr(self, "_logger", None)) is None:
            return self._log
        return {
            name: [
                encode(name, value),
                logger.name_to_count[name],
                encode(name, logger.name_to_excluded[name]),
            ]
            for name, value in logger.name_to_value.items()
            if isinstance(value, int | float | str | np.number)
        }

    def resume_log(self, log: dict[str, list[Any]]) -> None:
        """Keep the pending records for when the next learn() has made its logger."""
        self._log = log

    def require_compiled(self, compiled: bool) -> None:
        """Refuse to change between compiled and eager code: their last bits differ."""
        self.compile = self.compile and compiled

    # -- SB3's own saving -----------------------------------------------------------------------

    def _excluded_save_params(self) -> list[str]:
        return [*super()._excluded_save_params(), "extras", "update", "timings"]

    def _get_torch_save_params(self) -> tuple[list[str], list[str]]:
        names, variables = super()._get_torch_save_params()
        return [*names, "auxiliary"], variables


class TimedEnv:
    """The environment, with a clock on its step."""

    def __init__(self, env: VecEnv, agent: Agent) -> None:
        self._env = env
        self._agent = agent
        self.seconds = 0.0

    def step(self, actions: np.ndarray) -> Any:
        # Not sooner: at on_rollout_start a callback may still capture the model.
        self._agent._phase = "collecting"
        began = perf_counter()
        result = self._env.step(actions)
        self.seconds += perf_counter() - began
        return result

    def __getattr__(self, name: str) -> Any:
        return getattr(self._env, name)
