"""What A2C and PPO have in common: rollout, then one shared update, SB3's loop around both."""

from __future__ import annotations

import inspect
import secrets
import warnings
from collections import defaultdict
from collections.abc import Callable
from contextlib import nullcontext
from time import perf_counter
from typing import Any, ClassVar

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.preprocessing import is_image_space, is_image_space_channels_first
from stable_baselines3.common.sb2_compat.rmsprop_tf_like import RMSpropTFLike
from stable_baselines3.common.type_aliases import MaybeCallback
from stable_baselines3.common.utils import explained_variance
from stable_baselines3.common.vec_env import VecEnv
from torch import Tensor, nn
from torch.profiler import record_function

from reprl import components
from reprl.algorithms.base import Algorithm, TimedEnv
from reprl.algorithms.compiled import (
    CompiledPolicy,
    FusedRMSprop,
    collect,
    fuse,
    keep_memory,
    threads_for,
)
from reprl.algorithms.curiosity import Curiosity, CuriousObjective
from reprl.algorithms.diagnostics import diagnose
from reprl.algorithms.frame_buffer import FrameMemory
from reprl.algorithms.health import Churn
from reprl.algorithms.parameter_groups import (
    keep_own_rates,
    require_betas,
    separate_mask,
    set_momentum,
)
from reprl.algorithms.rollout_buffer import Minibatch, RolloutMemory
from reprl.algorithms.update import Forward, Losses, MinibatchLoss, Objective, Term, Update
from reprl.auxiliary.base import OPTIONAL
from reprl.auxiliary.losses import AuxiliaryLosses
from reprl.checkpoint.serialization import SCHEDULED
from reprl.components import Auxiliary, Specs, agent_specs
from reprl.encoders.base import Encoder
from reprl.encoders.hard import streams
from reprl.encoders.initialisation import SB3, initialise
from reprl.envs.games import game as game_of
from reprl.envs.games import no_truth
from reprl.envs.observation import frame_channels
from reprl.errors import UserError
from reprl.policy import PolicyOutput, as_input, critic_features, critic_latent, policy_forward
from reprl.precision import FP32, PRECISIONS, settled
from reprl.reduction import Reduction
from reprl.schedules import is_spec, schedule
from reprl.sequences import Sequences
from reprl.settings import ANY_ENCODER, CLASSES, FREEZE, INIT, MODES
from reprl.validation import checker, choice

OPTIMIZERS = {
    "adam": torch.optim.Adam,
    "rmsprop": torch.optim.RMSprop,
    "rmsprop_tf": RMSpropTFLike,  # as in the original A2C: epsilon inside the root
}
NUMBERS = " For numbers there is encoder=mlp."
# what our own forward pass takes for granted, while SB3's policy does without
SHARED = "share_features_extractor"  # by policy and value
GIVEN = (SHARED, "normalize_images")


class OnPolicy(Algorithm, OnPolicyAlgorithm):
    """Mixed in before SB3's A2C or PPO; adds encoders, losses, augmentation; replaces `train`."""

    stock: ClassVar[type[OnPolicyAlgorithm]]
    settings_name: ClassVar[str | None] = None  # in reprl.settings; None for the SB3 class's name
    supplies: ClassVar[frozenset[str]] = OPTIONAL
    counters: ClassVar[tuple[str, ...]] = (
        *("num_timesteps", "_n_updates", "_episode_num", "_total_timesteps"),
        *("_current_progress_remaining", "_iterations", "_stream_seed", "early_stops"),
    )
    # what SB3 calls a term in its log
    log_names: ClassVar[dict[str, str]] = {
        "entropy": "entropy_loss",
        "policy": "policy_loss",
        "value": "value_loss",
    }
    looks: ClassVar[int]  # updates between two looks of the costlier diagnostics
    explores: ClassVar[bool] = False  # whether its advantages may take an intrinsic reward's
    separate: ClassVar[bool] = False  # whether the value has an encoder of its own
    shares: int = 1  # processes that train together; a minibatch is the union of their shares
    rollout_buffer: RolloutMemory

    def __init_subclass__(cls, **options: Any) -> None:
        """Say the whole signature to help() and editors: SB3's arguments and ours."""
        super().__init_subclass__(**options)
        own = "__init__" in vars(cls)  # a user's constructor speaks for itself
        cls.__signature__ = None if own else _signature(cls)  # type: ignore[attr-defined]

    def __init__(
        self,
        policy: Any,
        env: Any,
        *args: Any,
        encoder: components.Spec | None = None,
        attention: components.Spec | None = None,
        auxiliary: Auxiliary = None,
        augmentation: components.Spec | None = None,
        intrinsic: components.Spec | None = None,
        mode: str = "plain",
        optimizer: str | None = None,
        weight_decay: float = 0.0,
        instrument_every: int | None = None,
        compile: bool = True,
        precision: str = FP32,
        actor_loss_coef: Any = 1.0,
        momentum: Any = None,
        **kwargs: Any,
    ) -> None:
        if type(self).__init__ is OnPolicy.__init__:
            self.called_with = None  # all its arguments are SB3's and our settings
        choice("mode", mode, MODES)
        choice("precision", precision, PRECISIONS)
        allowed = CLASSES[self.settings_name or self.stock.__name__]
        check = checker(allowed)
        check("optimizer", optimizer)
        check("weight_decay", weight_decay)
        check("instrument_every", instrument_every)
        self.specs: Specs = agent_specs(
            encoder=encoder,
            attention=attention,
            auxiliary=auxiliary,
            augmentation=augmentation,
            intrinsic=intrinsic,
        )
        if self.specs.intrinsic is not None and not self.explores:
            raise UserError(
                f"{type(self).__name__} takes no intrinsic reward: only algorithms that learn from "
                "the rewards of a rollout do."
            )
        self.curiosity: Curiosity | None = None
        self.mode = mode
        self.optimizer = optimizer
        self.weight_decay = weight_decay
        if "actor_loss_coef" in allowed:
            check("actor_loss_coef", actor_loss_coef)
        elif actor_loss_coef != 1.0:
            raise UserError(f"{type(self).__name__} has no actor_loss_coef: its loss is another.")
        if "momentum" in allowed:
            check("momentum", momentum)
        elif momentum is not None:
            raise UserError(f"{type(self).__name__} has no momentum that can be set.")
        self.momentum = momentum
        self.actor_loss_weight = actor_loss_coef
        self.actor_loss_coef = weight_at(actor_loss_coef, 1.0)
        self.instrument_every = self.looks if instrument_every is None else instrument_every
        self.early_stops = 0
        self._iterations = 0
        self.compile = compile and mode == "fast"
        self.precision = precision
        self.network: CompiledPolicy | None = None  # the fast mode's forward pass
        self._stream_seed = secrets.randbits(32)
        try:
            bound = inspect.signature(self.stock.__init__).bind(self, policy, env, *args, **kwargs)
        except TypeError as error:
            raise UserError(f"{type(self).__name__}: {error}.") from None
        bound.apply_defaults()
        given = {k: v for k, v in bound.arguments.items() if k not in ("self", "env")}
        for name in allowed:
            if name in given and not callable(given[name]):  # SB3 takes functions of the progress
                given[name] = check(name, given[name])
        for name in SCHEDULED:
            if is_spec(given.get(name)):
                given[name] = schedule(given[name], name=name)
        self.arguments = {k: v for k, v in given.items() if k != "_init_setup_model"}
        if given["seed"] is not None:
            self._stream_seed = int(given["seed"])
        passed = given | {"policy_kwargs": self._policy_arguments(given)}
        for name in ("ent_coef", "vf_coef"):
            if callable(passed.get(name)):
                passed[name] = passed[name](1.0)
        if passed.get("rollout_buffer_class") is not None:
            raise UserError("rollout_buffer_class cannot be chosen: reprl brings its own memory.")
        passed |= self._memory()
        super().__init__(env=env, **passed)

    def _policy_arguments(self, given: dict[str, Any]) -> dict[str, Any]:
        """SB3's policy_kwargs, of what this algorithm was given."""
        return policy_arguments(given, self.specs, self.optimizer, separate=self.separate)

    def _mirrors(self) -> bool:
        """Whether the game's mirror image is the same game with LEFT and RIGHT exchanged."""
        return bool(getattr(getattr(self.env, "game", None), "symmetric", True))

    def _setup_model(self) -> None:
        self._take_saved_spaces()
        if isinstance(self.observation_space, spaces.Dict):
            raise UserError("reprl's algorithms take one observation array, not a dict of them.")
        if self.mode == "fast":
            self._require_pictures()
        self.precision = settled(self.precision, mode=self.mode, device=self.device.type)
        self._require_pictures_for_extras()
        super()._setup_model()
        self._complete_policy()
        begin_weights(self.policy, self.specs, self._stream_seed)
        require_defaults(self.policy, self.mode, separate=self.separate)
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
            self.network = self._compiled()
        if hasattr(self.rollout_buffer, "gap"):  # it keeps each frame of the stacks once
            frames: Any = self.rollout_buffer
            frames.gap = int(getattr(self.env, "gap", 1))
            frames.channels = frame_channels(self.observation_space)
        if self.momentum is not None:
            require_betas(self.policy.optimizer)
        separate_mask(self.policy.optimizer, self.policy.features_extractor)
        self.losses = AuxiliaryLosses(
            specs=self.specs,
            policy=self.policy,
            observation_space=self.observation_space,
            action_space=self.action_space,
            action_meanings=self.action_meanings if self._mirrors() else None,
            supplies=self.supplies,
            seed=self._stream_seed,
            device=self.device,
            memory=self._sequences(),
        )
        if self.env is not None:  # a model that only predicts may have been trained so
            self.losses.require_views()
        self.auxiliary = self.losses.modules
        self.rollout_buffer.wants_boxes = self.losses.needs("boxes")
        self.rollout_buffer.wants_actions = self.losses.needs("actions_at")
        if self.rollout_buffer.wants_boxes and self.env is not None:
            require_truth(self.env)
        if self.mode == "fast":
            self.losses.layout = torch.channels_last
        if self.weight_decay:
            for group in self.policy.optimizer.param_groups:
                group["weight_decay"] = self.weight_decay
        if self.losses.parameters:
            self.policy.optimizer.add_param_group({"params": self.losses.parameters})
        self.rollout_buffer.history = self.losses.reach
        self.update = Update(
            policy=self.policy,
            auxiliary=self.losses,
            forward=self._forward(),
            precision=self.precision,
        )
        if self.specs.intrinsic is not None:
            self._become_curious(self.specs.intrinsic)

    def _compiled(self) -> CompiledPolicy:
        """The fast mode's forward passes."""
        return CompiledPolicy(self.policy, compile=self.compile, precision=self.precision)

    def _complete_policy(self) -> None:
        """Change what SB3 has built, before anything is added to its optimizer."""

    def _forward(self) -> Forward:
        """The forward pass of the update."""
        return policy_forward if self.network is None else self.network.forward

    def _become_curious(self, spec: dict[str, Any]) -> None:
        self.curiosity = Curiosity(
            spec=spec,
            policy=self.policy,
            observation_space=self.observation_space,
            n_envs=self.n_envs,
            seed=self._stream_seed,
            device=self.device,
        )
        if learned := self.curiosity.learned:
            self.policy.optimizer.add_param_group({"params": learned})
            self.update.beside["intrinsic"] = learned

    def _objective(self) -> Objective:
        """Who is asked for the terms of a minibatch: this algorithm, or its curiosity around it."""
        return self if self.curiosity is None else CuriousObjective(self, self._curious_terms)

    def _curious_terms(self, output: PolicyOutput, minibatch: Minibatch) -> dict[str, Term]:
        """What an intrinsic reward adds to a minibatch's loss."""
        assert self.curiosity is not None
        memory, policy = self.rollout_buffer, self.policy
        value = self.curiosity.value_terms(output, minibatch, memory, policy)
        return value | self.curiosity.model_terms(minibatch, memory, policy)

    def _value_inputs(self, place: np.ndarray | None) -> Tensor:
        """What the value head reads of a rollout's samples (B,), or with None of the step after."""
        memory, policy = self.rollout_buffer, self.policy
        seen = memory.last_observations if place is None else memory.observed(place)
        assert seen is not None
        features = critic_features(policy, as_input(policy, memory.to_torch(seen)))
        return critic_latent(policy, features)

    def _memory(self) -> dict[str, Any]:
        """SB3's arguments that say what a rollout is kept in."""
        return {"rollout_buffer_class": FrameMemory if self.mode == "fast" else RolloutMemory}

    def _sequences(self) -> Callable[[int], Sequences] | None:
        """Of a policy with a memory: so many samples as sequences, for the losses' dry run."""
        return None

    def _require_pictures(self) -> None:
        space = self.observation_space
        pictures = is_image_space(space) and is_image_space_channels_first(space)  # type: ignore[arg-type]
        actions = isinstance(self.action_space, spaces.Discrete)
        if not (pictures and actions):
            raise UserError(
                "mode=fast needs uint8 pictures (stack, height, width) and discrete actions, got "
                f"{space} and {self.action_space}: use mode=plain."
            )

    def _require_pictures_for_extras(self) -> None:
        if is_image_space(self.observation_space):
            return
        extras = {"auxiliary": self.specs.auxiliary, "augmentation": self.specs.augmentation}
        for part, chosen in extras.items():
            if chosen:
                raise UserError(
                    f"{part} works on pictures, and this environment shows "
                    f"{self.observation_space}: set {part}=none."
                )

    @property
    def compiled(self) -> bool | None:  # type: ignore[override]
        """Whether the update runs compiled; None while that is not known yet."""
        if self.network is None:
            return False
        return True if self.network.must else self.network.compiled

    # -- the seam ---------------------------------------------------------------------------------

    def loss_terms(
        self, output: PolicyOutput, actions: Tensor, minibatch: Minibatch
    ) -> MinibatchLoss:
        """The algorithm's own terms of a minibatch."""
        raise AssertionError(f"{type(self).__name__} must define loss_terms()")

    @property
    def steps_per_update(self) -> int:
        return self.n_steps * self.n_envs * self.shares

    def modules(self) -> dict[str, nn.Module]:
        own = {"policy": self.policy, "auxiliary": self.auxiliary}
        return own if self.curiosity is None else own | {"intrinsic": self.curiosity}

    def buffer_state(self) -> dict[str, np.ndarray]:
        return self.rollout_buffer.state()

    def load_buffer_state(self, state: dict[str, np.ndarray]) -> None:
        self.rollout_buffer.load_state(state)

    def stream_state(self) -> dict[str, Tensor]:
        own = self.losses.state()
        if self.curiosity is not None:
            own["intrinsic"] = self.curiosity.generator.get_state()
        return own

    def load_stream_state(self, state: dict[str, Tensor]) -> None:
        self.losses.load_state(state)
        if self.curiosity is not None:
            self.curiosity.generator.set_state(state["intrinsic"])

    def share(self, reduction: Reduction) -> None:
        if self.curiosity is not None and reduction.size > 1:
            raise UserError("an intrinsic reward is scaled by one process: set ranks=1.")
        self.shares = reduction.size
        self.update.share(reduction)

    def diverge(self, seed: int, *names: str | int) -> None:
        self.losses.diverge(seed, *names)

    def own_buffers(self) -> dict[str, Tensor]:
        own = {id(stream) for stream in streams(self.policy.features_extractor)}
        return {
            f"{name}.{key}": buffer.clone()
            for name, module in self.modules().items()
            for key, buffer in module.named_buffers()
            if id(buffer) in own
        }

    def settings(self) -> dict[str, Any]:
        specs = self.specs
        augmentation = None
        if specs.augmentation is not None:
            augmentation = specs.augmentation | {"use": specs.use}
        actor = {"actor_loss_coef": self.actor_loss_weight}
        return {
            # older checkpoints have none of these
            **(actor if self.actor_loss_weight != 1.0 else {}),
            **({} if self.momentum is None else {"momentum": self.momentum}),
            **({} if specs.intrinsic is None else {"intrinsic": specs.intrinsic}),
            "encoder": specs.encoder,
            "auxiliary": specs.auxiliary or None,
            "augmentation": augmentation,
            "mode": self.mode,
            "optimizer": self.optimizer,
            "weight_decay": self.weight_decay,
            "instrument_every": self.instrument_every,
            "compile": self.compile,
        } | ({} if self.precision == FP32 else {"precision": self.precision})

    def require_compiled(self, compiled: bool) -> None:
        if compiled and not self.compile:
            raise UserError("this run was compiled: it cannot continue with compile=False.")
        self.compile = compiled
        if self.network is not None:
            self.network.require(compiled)

    # -- the loop -------------------------------------------------------------------------------

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
        total_timesteps, calls = self._setup_learn(
            total_timesteps, callback, reset_num_timesteps, tb_log_name, progress_bar
        )
        if reset_num_timesteps:
            self._iterations = 0
        calls.on_training_start(locals(), globals())
        assert self.env is not None
        while self.num_timesteps < total_timesteps:
            began, known = perf_counter(), self.timings.total()
            if not self.collect_rollouts(self.env, calls, self.rollout_buffer, self.n_steps):
                break
            self._iterations += 1
            self._update_current_progress_remaining(self.num_timesteps, total_timesteps)
            if log_interval is not None and self._iterations % log_interval == 0:
                for part, share in self.timings.shares().items():
                    self.logger.record(f"time/{part}", share)
                self.dump_logs(self._iterations)
            self.train()
            self.timings.add("other", perf_counter() - began - self.timings.total() + known)
        calls.on_training_end()

    def collect_rollouts(
        self,
        env: VecEnv,
        callback: BaseCallback,
        rollout_buffer: RolloutBuffer,
        n_rollout_steps: int,
    ) -> bool:
        began, before = perf_counter(), self.num_timesteps
        done, seconds = self._collect(env, callback, rollout_buffer, n_rollout_steps)
        if done and self.curiosity is not None:
            memory, policy = self.rollout_buffer, self.policy
            numbers = self.curiosity.finish(memory, policy, self._value_inputs)
            for name, number in numbers.items():
                self.logger.record(name, number)
        # The other ranks have played as many.
        self.num_timesteps = before + self.shares * (self.num_timesteps - before)
        self._phase = "collected" if done else "ready"
        self.timings.add("env", seconds)
        self.timings.add("forward", perf_counter() - began - seconds)
        return done

    def _collect(
        self, env: VecEnv, callback: BaseCallback, rollout_buffer: RolloutBuffer, n_steps: int
    ) -> tuple[bool, float]:
        """Fill the buffer; whether no callback stopped it, and the seconds spent in the games."""
        if self.network is not None:
            assert isinstance(rollout_buffer, FrameMemory)
            return collect(self, self.network, env, callback, rollout_buffer)
        timed = TimedEnv(env, self)
        done = super().collect_rollouts(timed, callback, rollout_buffer, n_steps)  # type: ignore[arg-type]
        if done:
            assert isinstance(self._last_obs, np.ndarray)
            assert self._last_episode_starts is not None
            self.rollout_buffer.finish(
                self._last_obs, self._last_episode_starts, np.stack(timed.rewards)
            )
        return done, timed.seconds

    def _begin_update(self) -> None:
        """Set what stays the same over an update's minibatches."""
        progress = self._current_progress_remaining
        self.actor_loss_coef = weight_at(self.actor_loss_weight, progress)
        for name in ("ent_coef", "vf_coef"):
            if callable(given := self.arguments.get(name)):
                setattr(self, name, float(given(progress)))

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
        if self.momentum is not None:
            momentum = weight_at(self.momentum, self._current_progress_remaining, "momentum")
            set_momentum(self.policy.optimizer, momentum)
            self.logger.record("train/momentum", momentum)
        if self.network is not None and isinstance(self.policy.optimizer, FusedRMSprop):
            self.policy.optimizer.compile(self.network)
        self._begin_update()
        weights = self.losses.weights(self.num_timesteps, self._current_progress_remaining)
        self.losses.begin_update(lambda: self.rollout_buffer.returns, weights)
        target_kl = self._target_kl()
        metrics, objective = UpdateMetrics(), self._objective()
        every = self.instrument_every  # in updates, while SB3's _n_updates counts epochs
        watched = every and (self._iterations - 1) % every == 0
        churn: Churn | None = None
        stop = False
        for epoch in range(self._epochs()):
            metrics.epoch()
            for minibatch in self.rollout_buffer.minibatches(self._minibatch_size()):
                actions = minibatch.actions
                if isinstance(self.action_space, spaces.Discrete):
                    actions = actions.long().flatten()
                with record_function("update.losses"):
                    losses = self.update.losses(
                        objective,
                        minibatch,
                        actions,
                        weights,
                        lambda samples=minibatch: self.rollout_buffer.fields(samples),  # type: ignore[misc]
                        self.num_timesteps,
                    )
                metrics.add(losses)
                if watched:
                    watched = False
                    for name, number in diagnose(
                        losses,
                        self.policy.features_extractor,
                        self.monitor,
                        self.update.reduction,
                    ).items():
                        self.logger.record(name, number)
                    if self.plays:  # the heads of a policy that nobody trains only drift
                        whole = self.update.reduction.gathered(minibatch.observations)
                        sequences = getattr(minibatch, "sequences", None)
                        churn = Churn(self.policy, whole, sequences)
                # SB3 compares in float32.
                if target_kl is not None and np.float32(losses.numbers["kl"]) > 1.5 * target_kl:
                    stop = True
                    if self.verbose >= 1:
                        print(f"Early stop in epoch {epoch}: KL {losses.numbers['kl']:.2f}")
                    break
                norm = self.update.step(losses, self.num_timesteps, self.max_grad_norm)
                metrics.note("gradient", norm)
            self._n_updates += 1
            if stop:
                self.early_stops += 1
                break
        self._record(metrics, weights)
        if churn is not None:
            for name, number in churn.numbers().items():
                self.logger.record(name, number)
        if self.network is not None:
            self.network.settle()
        self._phase = "ready"
        self.timings.add("update", perf_counter() - began)

    def _record(self, metrics: UpdateMetrics, weights: dict[str, float]) -> None:
        """Means over the minibatches: SB3's numbers under SB3's names, and ours beside them."""
        means, buffer, record = metrics.means(), self.rollout_buffer, self.logger.record
        for term, name in self.log_names.items():
            record(f"train/{name}", means[term])
        rows = self.update.reduction.rows
        fit = explained_variance(rows(buffer.values), rows(buffer.returns))
        record("train/explained_variance", float(fit))
        if metrics.kl:
            record("train/approx_kl", float(np.mean(np.array(metrics.kl, np.float32))))
            record("train/clip_fraction", means["clip_fraction"])
            record("train/early_stops", self.early_stops)
        if "gradient" in means:
            record("train/gradient_norm", means["gradient"])
        record("train/loss", metrics.numbers["total"][-1])
        if (log_std := getattr(self.policy, "log_std", None)) is not None:
            record("train/std", torch.exp(log_std).mean().item())
        record("train/n_updates", self._n_updates, exclude="tensorboard")
        record("train/ent_coef", self.ent_coef)
        if callable(self.arguments["vf_coef"]):
            record("train/vf_coef", self.vf_coef)
        for term in ("intrinsic_value", "intrinsic_model"):
            if term in means:
                record(f"loss/{term}", means[term])
        if not weights:
            return
        shares = metrics.shares(means, weights)
        total = sum(shares.values())
        for name, magnitude in shares.items():
            record(f"loss/{name}_share", magnitude / total if total else 0.0)
        for name, number in self.losses.noted().items():
            record(name, number)
        for name, weight in weights.items():
            record(f"loss/{name}", means[name])
            record(f"loss/{name}_weight", weight)

    # -- SB3's own saving -----------------------------------------------------------------------

    def _excluded_save_params(self) -> list[str]:
        return [*super()._excluded_save_params(), "losses", "update", "network"]

    def _get_torch_save_params(self) -> tuple[list[str], list[str]]:
        names, variables = super()._get_torch_save_params()
        return [*names, "auxiliary", *(["curiosity"] if self.curiosity else [])], variables


def weight_at(coefficient: Any, progress_remaining: float, name: str = "actor_loss_coef") -> float:
    """A weight that is a number or a schedule's spec, at this point of training."""
    return float(schedule(coefficient, name=name)(progress_remaining))


class UpdateMetrics:
    """Collects the numbers of one update's minibatches."""

    def __init__(self) -> None:
        self.numbers: dict[str, list[float]] = defaultdict(list)
        self.kl: list[float] = []

    def epoch(self) -> None:
        """A new epoch begins; SB3 logs the KL of the last one only."""
        self.kl = []

    def add(self, losses: Losses) -> None:
        for name, number in losses.numbers.items():
            self.note(name, number)
        if "kl" in losses.numbers:
            self.kl.append(losses.numbers["kl"])
        self.own_weights = losses.own_weights

    def note(self, name: str, number: float) -> None:
        self.numbers[name].append(number)

    def means(self) -> dict[str, float]:
        return {name: float(np.mean(numbers)) for name, numbers in self.numbers.items()}

    def shares(self, means: dict[str, float], weights: dict[str, float]) -> dict[str, float]:
        """The magnitude of each weighted term: auxiliary ones first, the entropy last."""
        last = dict(sorted(self.own_weights.items(), key=lambda item: item[0] == "entropy"))
        return {name: abs(w * means[name]) for name, w in (weights | last).items()}


def require_truth(env: Any) -> None:
    """Refuse a loss that is taught by truth where the environment knows none."""
    name = getattr(getattr(env, "settings", None), "game", None)
    if name is None or not hasattr(env, "objects"):
        raise UserError(
            "an auxiliary loss needs boxes, the truth of where objects are: only reprl's games "
            "know it."
        )
    if not game_of(name).has_truth:
        raise UserError(no_truth("an auxiliary loss that needs boxes", name))


def build_encoder(observation_space: spaces.Box, *, spec: dict[str, Any]) -> Encoder:
    """The features extractor factory that SB3's policy calls."""
    takes_numbers = components.class_of("encoder", str(spec["_target_"])).takes_numbers
    if not takes_numbers and not is_image_space(observation_space):
        # SB3 would hand other numbers through as they are, and the update divides by 255.
        raise UserError(
            f"an encoder needs uint8 pictures from 0 to 255, got {observation_space}.{NUMBERS}"
        )
    kept = {key: value for key, value in spec.items() if key not in ANY_ENCODER}
    encoder: Encoder = components.build("encoder", kept, observation_space=observation_space)
    if FREEZE["freeze"].checked("encoder.freeze", spec.get("freeze", False)):
        encoder.requires_grad_(False)  # it stays in the optimizer, which skips what has no gradient
    return encoder


def begin_weights(policy: nn.Module, specs: Specs, seed: int) -> None:
    """Draw the first weights of a policy that SB3 has built as `encoder.init` says."""
    kind = (specs.encoder or {}).get("init", SB3)
    initialise(policy, INIT["init"].checked("encoder.init", kind), seed)


def _signature(cls: type[OnPolicy]) -> inspect.Signature | None:
    if getattr(cls, "stock", None) is None or cls.__init__ is not OnPolicy.__init__:
        return None
    _, *stock = inspect.signature(cls.stock.__init__).parameters.values()
    _, *ours = inspect.signature(OnPolicy.__init__).parameters.values()
    named = [p for p in ours if p.kind is p.KEYWORD_ONLY]
    shown = [p for p in stock if p.name != "_init_setup_model"]
    return inspect.Signature([*shown, *named])


def policy_arguments(
    given: dict[str, Any], specs: Specs, optimizer: str | None, *, separate: bool = False
) -> dict[str, Any]:
    """SB3's policy arguments with our encoder in place of its features extractor.

    With `separate` there are two of them, one for the policy and one for the value.
    """
    arguments = dict(given["policy_kwargs"] or {})
    if separate:
        if arguments.get(SHARED, False):
            raise UserError(
                f"policy_kwargs {SHARED}=True: the value of this algorithm has an "
                "encoder of its own; leave it out."
            )
        arguments[SHARED] = False
    if optimizer is not None:
        if "optimizer_class" in arguments:
            raise UserError("policy_kwargs optimizer_class and optimizer exclude each other.")
        arguments["optimizer_class"] = OPTIMIZERS[optimizer]
        if optimizer != "adam":
            epsilon = given.get("rms_prop_eps", 1e-5)
            given_ones = arguments.get("optimizer_kwargs") or {}
            arguments["optimizer_kwargs"] = {"alpha": 0.99, "eps": epsilon} | given_ones
    if specs.encoder is None:
        return arguments
    for key in ("features_extractor_class", "features_extractor_kwargs"):
        if key in arguments:
            raise UserError(f"policy_kwargs {key} and encoder exclude each other: give one.")
    for key in GIVEN[separate:]:  # the first is whether one encoder is shared
        _require(arguments.get(key, True), "encoder", key)
    arguments["features_extractor_class"] = build_encoder
    arguments["features_extractor_kwargs"] = {"spec": specs.encoder}
    made_by = components.class_of("encoder", str(specs.encoder["_target_"]))
    for key, value in made_by.heads(specs.encoder).items():
        arguments.setdefault(key, value)
    return arguments


def require_defaults(policy: ActorCriticPolicy, mode: str, *, separate: bool = False) -> None:
    """Refuse a policy that our own forward pass would not follow; SB3's own may be anything."""
    if mode == "fast":
        what = "mode=fast"
    elif isinstance(policy.features_extractor, Encoder):
        what = f"encoder {type(policy.features_extractor).__name__}"
    else:
        return
    for key in GIVEN[separate:]:
        _require(getattr(policy, key), what, key)


def _require(value: bool, what: str, key: str) -> None:
    if not value:
        raise UserError(f"{what} needs policy_kwargs {key}=True, SB3's default.")
