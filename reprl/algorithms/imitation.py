"""Imitation (DAgger): the game's scripted player labels the states that the learner visits.

rollout (expert's and learner's actions mixed) -> labels from the truth -> all data so far -> the
shared update with a cross-entropy as its policy term. No reinforcement: rewards only fit the value
head, so that PPO can go on from the same parameters.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Self

import numpy as np
import torch
from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
from stable_baselines3.common.policies import ActorCriticCnnPolicy, BasePolicy
from stable_baselines3.common.type_aliases import MaybeCallback
from stable_baselines3.common.vec_env import VecEnv
from torch import Tensor
from torch.nn import functional as F

from reprl import components
from reprl.algorithms.compiled import CompiledPolicy, collect
from reprl.algorithms.demonstrations import Demonstrations, Labelled, plain_bytes
from reprl.algorithms.on_policy import OnPolicy
from reprl.algorithms.update import MinibatchLoss, Term, negative_entropy
from reprl.auxiliary.base import OPTIONAL
from reprl.envs.games import Roles, Scripted, no_script
from reprl.envs.games import game as game_of
from reprl.errors import UserError, unknown
from reprl.policy import PolicyOutput
from reprl.reduction import Reduction
from reprl.rng import numpy_stream, stream_seed
from reprl.settings import BETA, CLASSES, EXPERT
from reprl.validation import checker


@dataclass(frozen=True)
class ExpertSettings:
    """How the scripted player plays and labels."""

    skill: float = 1.0  # share of the actions it plays that are meant; its labels always are
    temperature: float = 0.02  # of the softmax over its costs, in pixels of aim
    steady: bool = False  # no aim drawn at random, which no learner could see

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            EXPERT[name].checked(f"expert.{name}", value)


@dataclass(frozen=True)
class Mixture:
    """Beta over training: the probability that an action of a rollout is the expert's."""

    start: float = 1.0
    end: float = 0.0
    until: float = 0.25  # share of training in which it moves from start to end

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            BETA[name].checked(f"beta.{name}", value)

    def __call__(self, progress_remaining: float) -> float:
        done = 1.0 - progress_remaining
        share = min(done / self.until, 1.0) if self.until else 1.0
        return self.start + (self.end - self.start) * share


class Expert:
    """The scripted player at the side of a learner: it judges every state, and plays its share."""

    def __init__(
        self,
        settings: ExpertSettings,
        n_envs: int,
        seed: int,
        *,
        script: type[Scripted],
        launch: int | None,
    ) -> None:
        self.settings = settings
        self.player = script(seed=seed, steady=settings.steady)
        self.launch = launch  # the last action that the environment itself plays as a life begins
        self.played = np.zeros(n_envs, np.int64)  # the last action of each environment
        self._rng = numpy_stream(seed, "imitation", "mixture")

    def costs(self, objects: Any, starts: np.ndarray) -> np.ndarray:
        """The player's costs (n, A) of the states that its own or others' actions led to."""
        before = self.played if self.launch is None else np.where(starts, self.launch, self.played)
        return self.player.costs(objects, before)

    def probabilities(self, costs: np.ndarray) -> np.ndarray:
        """Costs (n, A) -> the labels (n, A): a softmax, 0 where the player would never go."""
        weights = np.exp((costs.min(axis=1, keepdims=True) - costs) / self.settings.temperature)
        return weights / weights.sum(axis=1, keepdims=True)

    def mix(self, costs: np.ndarray, actions: np.ndarray, beta: float) -> np.ndarray:
        """The actions (n,) that are played: the expert's with probability beta, else these."""
        n, n_actions = costs.shape
        steps_in, slips = self._rng.random(n) < beta, self._rng.random(n) >= self.settings.skill
        meant = np.where(slips, self._rng.integers(n_actions, size=n), costs.argmin(axis=1))
        self.played = np.where(steps_in, meant, actions)
        return self.played

    def diverge(self, seed: int, *names: str | int) -> None:
        """Draw from streams of these names: other processes have built the same expert."""
        own = stream_seed(seed, "imitation", "player", *names)
        self.player = type(self.player)(seed=own, steady=self.settings.steady)
        self._rng = numpy_stream(seed, "imitation", "mixture", *names)

    def state(self) -> dict[str, Any]:
        return {
            "player": self.player.state(),
            "played": self.played.tolist(),
            "rng": self._rng.bit_generator.state,
        }

    def load_state(self, state: dict[str, Any]) -> None:
        self.player.load_state(state["player"])
        self.played = np.array(state["played"], np.int64)
        self._rng.bit_generator.state = state["rng"]


def cross_entropy(log_probs: Tensor, expert: Tensor, sharpness: float) -> Tensor:
    """Of the policy's log-probabilities (B, n_actions) to the expert's probabilities.

    What is fitted are the policy's probabilities to the power 1 / sharpness: above 1 the policy
    that plays is sharper than what it was taught.
    """
    fitted = F.log_softmax(log_probs / sharpness, dim=1)
    return -(expert * fitted).sum(dim=1).mean()


class Supervised(OnPolicyAlgorithm):
    """SB3's side of imitation: its constructor's arguments and their defaults."""

    policy_aliases: ClassVar[dict[str, type[BasePolicy]]] = {"CnnPolicy": ActorCriticCnnPolicy}

    def __init__(
        self,
        policy: Any,
        env: Any,
        learning_rate: Any = 5e-4,
        n_steps: int = 128,
        gamma: float = 0.99,
        gae_lambda: float = 0.95,
        vf_coef: float = 0.1,
        max_grad_norm: float = 0.5,
        rollout_buffer_class: Any = None,
        rollout_buffer_kwargs: dict[str, Any] | None = None,
        stats_window_size: int = 100,
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
            n_steps=n_steps,
            gamma=gamma,
            gae_lambda=gae_lambda,
            ent_coef=0.0,
            vf_coef=vf_coef,
            max_grad_norm=max_grad_norm,
            use_sde=False,
            sde_sample_freq=-1,
            rollout_buffer_class=rollout_buffer_class,
            rollout_buffer_kwargs=rollout_buffer_kwargs,
            stats_window_size=stats_window_size,
            tensorboard_log=tensorboard_log,
            policy_kwargs=policy_kwargs,
            verbose=verbose,
            seed=seed,
            device=device,
            _init_setup_model=False,
        )
        if _init_setup_model:
            self._setup_model()


class Imitation(OnPolicy, Supervised):
    """Learns what the scripted player would do; a game without one is refused."""

    stock: ClassVar[type[OnPolicyAlgorithm]] = Supervised
    settings_name: ClassVar[str | None] = "Imitation"
    log_names: ClassVar[dict[str, str]] = OnPolicy.log_names | {"policy": "cross_entropy"}
    looks: ClassVar[int] = 5
    supplies: ClassVar[frozenset[str]] = OPTIONAL - {"advantages"}
    rollout_buffer: Demonstrations  # type: ignore[assignment]
    keeps_data: ClassVar[bool] = True

    def __init__(
        self,
        policy: Any,
        env: Any,
        *args: Any,
        expert: Mapping[str, Any] | None = None,
        beta: Mapping[str, Any] | float | None = None,
        updates: int = 120,
        batch_size: int = 128,
        buffer_size: int = 200_704,
        sharpness: float = 2.0,
        encoder: components.Spec | None = None,
        **kwargs: Any,
    ) -> None:
        self.expert_settings: ExpertSettings = _settings(ExpertSettings, "expert", expert or {})
        if isinstance(beta, int | float) and not isinstance(beta, bool):
            beta = {"start": beta, "end": beta}
        self.beta: Mixture = _settings(Mixture, "beta", beta or {})
        check = checker(CLASSES["Imitation"])
        self.updates: int = check("updates", updates)
        self.batch_size: int = check("batch_size", batch_size)
        self.buffer_size: int = check("buffer_size", buffer_size)
        self.sharpness: float = check("sharpness", sharpness)
        self._labels: list[np.ndarray] = []  # (n_envs, n_actions) each, of the current rollout
        self._agreed: list[float] = []
        # The labels are compared with log-probabilities that SB3's own extractors do not give.
        super().__init__(policy, env, *args, encoder=encoder or "nature", **kwargs)

    def _memory(self) -> dict[str, Any]:
        arguments = {"keep": self.buffer_size, "stream_seed": self._stream_seed}
        return {"rollout_buffer_class": Demonstrations, "rollout_buffer_kwargs": arguments}

    def _setup_model(self) -> None:
        self._take_saved_spaces()
        if self.env is not None:
            self._require_truth()
        self._require_pictures()
        self._require_room(1)
        super()._setup_model()
        if self.n_steps < self.rollout_buffer.gap:
            raise UserError(
                f"n_steps={self.n_steps} must be at least the environment's gap between the "
                f"frames of a stack, {self.rollout_buffer.gap}."
            )
        # a model that only predicts needs no expert
        self.expert = None if self.env is None else self._expert()
        self.rollout_buffer.updates = self.updates
        # What plays in the rollout: the compiled policy, or the same without compiling.
        self._actor = self.network or CompiledPolicy(self.policy, compile=False)

    def _require_room(self, shares: int) -> None:
        """Refuse data that would not hold one rollout."""
        envs = self.n_envs * shares
        if self.buffer_size < (rollout := self.n_steps * envs):
            raise UserError(
                f"buffer_size={self.buffer_size} is smaller than a rollout: n_steps="
                f"{self.n_steps} x {envs} environments = {rollout}."
            )

    def share(self, reduction: Reduction) -> None:
        """Every rank keeps what its own environments have seen: its share of buffer_size."""
        self._require_room(reduction.size)
        super().share(reduction)
        self.rollout_buffer.keep = self.buffer_size // reduction.size

    def diverge(self, seed: int, *names: str | int) -> None:
        super().diverge(seed, *names)
        self.rollout_buffer.diverge(seed, *names)
        if self.expert is not None:
            self.expert.diverge(seed, *names)

    def _require_truth(self) -> type[Scripted]:
        """The game's scripted player, refused where there is none."""
        name = getattr(getattr(self.env, "settings", None), "game", None)
        if name is None or not hasattr(self.env, "objects"):
            raise UserError("algo=imitation needs one of reprl's games, whose truth is known.")
        if (script := game_of(name).scripted) is None:
            raise UserError(no_script("algo=imitation", name))
        return script

    def _expert(self) -> Expert:
        roles = Roles.of(self.action_meanings or [])
        # SB3's start of a life: FIRE, then the action after it.
        launch = None if roles.fire is None else roles.fire + 1
        return Expert(
            self.expert_settings,
            self.n_envs,
            self._stream_seed,
            script=self._require_truth(),
            launch=launch,
        )

    # -- the two halves of an iteration ---------------------------------------------------------

    def _collect(
        self, env: VecEnv, callback: BaseCallback, rollout_buffer: RolloutBuffer, n_steps: int
    ) -> tuple[bool, float]:
        assert isinstance(rollout_buffer, Demonstrations)
        self._labels, self._agreed = [], []
        done, seconds = collect(self, self._actor, env, callback, rollout_buffer, self._executed)
        if done:
            rollout_buffer.seal(np.stack(self._labels))
            self.logger.record("imitation/beta", self.beta(self._current_progress_remaining))
            agreed = torch.tensor([np.mean(self._agreed)], dtype=torch.float64)
            agreement = self.update.reduction.numbers(agreed).item()
            self.logger.record("imitation/agreement", agreement)
            self.logger.record("imitation/samples", rollout_buffer.samples * self.shares)
        else:
            self._last_obs = None  # the next rollout begins new games: a stream has no holes
        return done, seconds

    def _executed(self, actions: np.ndarray) -> np.ndarray:
        """The actions (n_envs,) that are played where the learner has drawn these; labels all."""
        assert self.env is not None
        assert self.expert is not None
        assert self._last_episode_starts is not None
        objects = self.env.objects()  # type: ignore[attr-defined]
        costs = self.expert.costs(objects, self._last_episode_starts)
        self._labels.append(self.expert.probabilities(costs))
        self._agreed.append(float((actions == costs.argmin(axis=1)).mean()))
        return self.expert.mix(costs, actions, self.beta(self._current_progress_remaining))

    def loss_terms(  # type: ignore[override]
        self, output: PolicyOutput, actions: Tensor, minibatch: Labelled
    ) -> MinibatchLoss:
        """The cross-entropy to the expert's probabilities, and the value error."""
        assert output.log_probs is not None
        policy = cross_entropy(output.log_probs, minibatch.expert, self.sharpness)
        value = F.mse_loss(minibatch.returns, output.values)
        with torch.no_grad():
            entropy = negative_entropy(output, output.log_prob(actions))
        return MinibatchLoss(
            {"policy": Term(policy), "value": Term(value, self.vf_coef)}, {"entropy": entropy}
        )

    def _minibatch_size(self) -> int | None:
        return self.batch_size // self.shares

    def learn(
        self,
        total_timesteps: int,
        callback: MaybeCallback = None,
        log_interval: int | None = 1,
        tb_log_name: str = "Imitation",
        reset_num_timesteps: bool = True,
        progress_bar: bool = False,
    ) -> Self:
        """Train for `total_timesteps` steps, or that many more without reset_num_timesteps."""
        self._learn(
            total_timesteps, callback, log_interval, tb_log_name, reset_num_timesteps, progress_bar
        )
        return self

    def buffer_state(self) -> dict[str, np.ndarray]:
        known = {} if self.expert is None else {"expert": plain_bytes(self.expert.state())}
        return super().buffer_state() | known

    def load_buffer_state(self, state: dict[str, np.ndarray]) -> None:
        super().load_buffer_state(state)
        if self.expert is not None:
            self.expert.load_state(json.loads(state["expert"].tobytes()))

    def _excluded_save_params(self) -> list[str]:
        return [*super()._excluded_save_params(), "expert", "_actor"]


def _settings(kind: type[Any], name: str, given: Any) -> Any:
    """A dataclass of settings from a mapping of its fields."""
    known = list(kind.__dataclass_fields__)
    if not isinstance(given, Mapping):
        raise UserError(f"{name}={given!r} must be a mapping of {', '.join(known)}.")
    for key in given:
        if key not in known:
            raise unknown(f"key of {name}", str(key), known)
    return kind(**given)
