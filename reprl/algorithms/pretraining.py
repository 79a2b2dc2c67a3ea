"""Pretraining: auxiliary losses on recorded frames, without reward and without a policy term.

recording -> minibatches -> the shared update with the auxiliary terms alone -> an encoder that
another run takes with `parent=DIR parent.load=encoder`. The heads of policy and value stay as made.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from time import perf_counter
from typing import Any, ClassVar, Self

import numpy as np
import torch
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
from stable_baselines3.common.policies import ActorCriticCnnPolicy, BasePolicy
from stable_baselines3.common.type_aliases import MaybeCallback
from torch import Tensor

from reprl import components
from reprl.algorithms.on_policy import OnPolicy, UpdateMetrics
from reprl.algorithms.recorded_frames import RecordedFrames
from reprl.algorithms.update import MinibatchLoss
from reprl.errors import UserError
from reprl.policy import PolicyOutput
from reprl.recordings import PLAYERS, RecordedPlay
from reprl.runs.places import expanded
from reprl.settings import CLASSES
from reprl.validation import checker

FOLDER = "recording"  # of a run that has recorded its own frames


class Unsupervised(OnPolicyAlgorithm):
    """SB3's side of pretraining: its constructor's arguments and their defaults."""

    policy_aliases: ClassVar[dict[str, type[BasePolicy]]] = {"CnnPolicy": ActorCriticCnnPolicy}

    def __init__(
        self,
        policy: Any,
        env: Any,
        learning_rate: Any = 5e-4,
        max_grad_norm: float = 0.5,
        rollout_buffer_class: Any = None,
        rollout_buffer_kwargs: dict[str, Any] | None = None,
        tensorboard_log: str | None = None,
        policy_kwargs: dict[str, Any] | None = None,
        verbose: int = 0,
        seed: int | None = None,
        device: torch.device | str = "auto",
        _init_setup_model: bool = True,
    ) -> None:
        super().__init__(
            policy,
            env,
            learning_rate=learning_rate,
            n_steps=1,
            gamma=1.0,
            gae_lambda=1.0,
            ent_coef=0.0,
            vf_coef=0.0,
            max_grad_norm=max_grad_norm,
            use_sde=False,
            sde_sample_freq=-1,
            rollout_buffer_class=rollout_buffer_class,
            rollout_buffer_kwargs=rollout_buffer_kwargs,
            tensorboard_log=tensorboard_log,
            policy_kwargs=policy_kwargs,
            verbose=verbose,
            seed=seed,
            device=device,
            _init_setup_model=False,
        )
        if _init_setup_model:
            self._setup_model()


class Pretraining(OnPolicy, Unsupervised):
    """Trains an encoder by auxiliary losses; a step is one frame that a minibatch held."""

    stock: ClassVar[type[OnPolicyAlgorithm]] = Unsupervised
    settings_name: ClassVar[str | None] = "Pretraining"
    log_names: ClassVar[dict[str, str]] = {}
    looks: ClassVar[int] = 10
    plays: ClassVar[bool] = False
    # what a recording knows; there is neither reward nor a policy worth following
    supplies: ClassVar[frozenset[str]] = frozenset(
        {"episode_starts", "env_index", "time_index", "at", "actions_at"}
    )
    rollout_buffer: RecordedFrames  # type: ignore[assignment]

    def __init__(
        self,
        policy: Any,
        env: Any,
        *args: Any,
        data: str = "random",
        frames: int = 50_000,
        updates: int = 16,
        batch_size: int = 128,
        encoder: components.Spec | None = None,
        auxiliary: components.Auxiliary = None,
        **kwargs: Any,
    ) -> None:
        check = checker(CLASSES["Pretraining"])
        self.data = str(data)
        self.frames: int = check("frames", frames)
        self.updates: int = check("updates", updates)
        self.batch_size: int = check("batch_size", batch_size)
        super().__init__(
            policy, env, *args, encoder=encoder or "nature", auxiliary=auxiliary, **kwargs
        )
        if not self.specs.auxiliary:
            raise UserError(
                "pretraining learns from auxiliary losses alone, and auxiliary is none: choose one "
                "of `reprl list auxiliary`."
            )
        if (self.specs.encoder or {}).get("freeze"):
            raise UserError(
                "encoder.freeze=true leaves pretraining nothing to train: freeze the encoder in "
                "the run that takes it with parent.load=encoder."
            )

    def _memory(self) -> dict[str, Any]:
        return {
            "rollout_buffer_class": RecordedFrames,
            "rollout_buffer_kwargs": {"stream_seed": self._stream_seed},
        }

    def _setup_model(self) -> None:
        self._take_saved_spaces()
        self._require_pictures()
        super()._setup_model()
        self.rollout_buffer.updates = self.updates

    # -- the recording --------------------------------------------------------------------------

    def prepare(self, folder: Path) -> None:
        """Record what there is no recording of yet, into the folder of a run that begins."""
        if self.data not in PLAYERS:
            RecordedPlay.open(expanded(self.data))
            return
        from reprl.recordings.recorder import record

        env: Any = self.env
        if not hasattr(env, "settings") or not hasattr(env, "objects"):
            raise UserError(f"data={self.data} records one of reprl's games: give such an env.")
        print(f"recording {self.frames:,} frames of {self.data} play ...", flush=True)
        record(
            env,
            folder / FOLDER,
            player=self.data,
            frames=self.frames,
            seed=self._stream_seed % 2**31,
        )

    def attach(self, folder: Path) -> None:
        """Take the run's frames into memory."""
        place = folder / FOLDER if self.data in PLAYERS else expanded(self.data)
        recording = RecordedPlay.open(place)
        self._require_fitting(recording)
        self.rollout_buffer.load(recording)

    def _require_fitting(self, recording: RecordedPlay) -> None:
        """Refuse a recording of other pictures or of another game's actions."""
        facts, shape = recording.facts, self.observation_space.shape
        assert shape is not None
        if facts.size != shape[-1]:
            raise UserError(
                f"{recording.path} holds pictures of {facts.size} pixels, and the run has "
                f"env.size={shape[-1]}."
            )
        settings = getattr(self.env, "settings", None)
        game, background = (getattr(settings, name, None) for name in ("game", "background"))
        if game is not None and game != facts.game:
            raise UserError(f"{recording.path} is of game={facts.game}, the run of {game}.")
        if settings is not None and background != facts.background:
            raise UserError(
                f"{recording.path} has env.background={facts.background}, the run {background}."
            )
        if int(self.action_space.n) != len(facts.action_meanings):  # type: ignore[attr-defined]
            raise UserError(
                f"{recording.path} has {len(facts.action_meanings)} actions, the run "
                f"{self.action_space.n}."  # type: ignore[attr-defined]
            )

    # -- the loop -------------------------------------------------------------------------------

    @property
    def steps_per_update(self) -> int:
        return self.updates * self.batch_size

    def learn(
        self,
        total_timesteps: int,
        callback: MaybeCallback = None,
        log_interval: int | None = 1,
        tb_log_name: str = "Pretraining",
        reset_num_timesteps: bool = True,
        progress_bar: bool = False,
    ) -> Self:
        """Train on `total_timesteps` frames, or that many more without reset_num_timesteps."""
        if self.rollout_buffer.recording is None:  # in a script there is no run's folder
            with tempfile.TemporaryDirectory() as place:
                self.prepare(Path(place))
                self.attach(Path(place))
        total_timesteps, calls = self._setup_learn(
            total_timesteps, callback, reset_num_timesteps, tb_log_name, progress_bar
        )
        self._last_obs = None  # nobody plays: there is no game to save
        if reset_num_timesteps:
            self._iterations = 0
        calls.on_training_start(locals(), globals())
        while self.num_timesteps < total_timesteps:
            began, known = perf_counter(), self.timings.total()
            calls.on_rollout_start()
            # a session takes its own time out of SB3's rollout, which there is none of here
            self.timings.add("forward", perf_counter() - began)
            self._iterations += 1
            self.num_timesteps += self.steps_per_update
            self._update_current_progress_remaining(self.num_timesteps, total_timesteps)
            self.train()
            if log_interval is not None and self._iterations % log_interval == 0:
                self.logger.dump(self.num_timesteps)
            self.timings.add("other", perf_counter() - began - self.timings.total() + known)
        calls.on_training_end()
        return self

    def loss_terms(  # type: ignore[override]
        self, output: PolicyOutput, actions: Tensor, minibatch: Any
    ) -> MinibatchLoss:
        """None of its own: what is learned are the auxiliary terms."""
        return MinibatchLoss({})

    def _begin_update(self) -> None:
        if not self.losses.weights(self.num_timesteps, self._current_progress_remaining):
            raise UserError(
                f"pretraining has nothing to learn at frame {self.num_timesteps:,}: every loss has "
                "a later begin=."
            )

    def _minibatch_size(self) -> int | None:
        return self.batch_size

    def _record(self, metrics: UpdateMetrics, weights: dict[str, float]) -> None:
        means, record = metrics.means(), self.logger.record
        record("train/gradient_norm", means["gradient"])
        record("train/loss", float(np.mean(metrics.numbers["total"])))
        record("train/n_updates", self._n_updates, exclude="tensorboard")
        shares = metrics.shares(means, weights)
        total = sum(shares.values())
        for name, weight in weights.items():
            record(f"loss/{name}", means[name])
            record(f"loss/{name}_weight", weight)
            record(f"loss/{name}_share", shares[name] / total if total else 0.0)
