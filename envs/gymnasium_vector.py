"""Games that are gymnasium environments behind the same vector environment as ALE's games.

`env=gymnasium env.id=CartPole-v1` or `env=procgen` -> **GymVecEnv** -> rollout, evaluation. Such
environments cannot be saved, but they repeat themselves from a reset's seed and the actions since:
a snapshot holds those, and a restore plays them again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from time import perf_counter
from typing import Any, Protocol

import gymnasium
import numpy as np
from gymnasium import spaces
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env.base_vec_env import VecEnv, VecEnvStepReturn

from reprl.envs.games import game as game_of
from reprl.envs.games import no_truth
from reprl.envs.gymnasium_ids import action_names, make_single, quiet, sees_pictures, spaces_of
from reprl.envs.machine import EnvSettings
from reprl.envs.objects import Objects
from reprl.envs.observation import frame_channels
from reprl.envs.protocol import VariantSpec
from reprl.envs.shaping import GameState, RewardShaping, Transition, built_shaping, paid
from reprl.envs.variation import Variant, find
from reprl.errors import UserError
from reprl.rng import stream_seed
from reprl.settings import GAME_SEED, SEED
from reprl.validation import whole

MAGIC = b"reprl gymnasium snapshot 1\n"


class Source(Protocol):
    """Where single environments come from, and what is the same for all of them."""

    stream: str  # the name of the stream that training's games are drawn from
    observation_space: spaces.Space[Any]
    action_space: spaces.Space[Any]
    action_names: list[str]

    def make(self) -> gymnasium.Env[Any, Any]:
        """One environment, not yet reset."""

    def game_seed(self, seed: int, variant: Variant) -> int:
        """What the environment's reset is given for the game of a seed."""

    def shown(self, observation: Any) -> np.ndarray:
        """An observation of it as a network takes it."""

    def screen(self, shown: np.ndarray) -> np.ndarray:
        """The same as a person would see it, (height, width, 3); UserError where it is none."""


class GymnasiumSource:
    """Environments of gymnasium, by the id in a game's name."""

    stream = "gymnasium"

    def __init__(self, name: str) -> None:
        self.name = name
        self.observation_space, self.action_space = spaces_of(name)
        self.action_names = action_names(name)
        self._pictures = sees_pictures(name)

    def make(self) -> gymnasium.Env[Any, Any]:
        return make_single(self.name)

    def game_seed(self, seed: int, variant: Variant) -> int:
        return seed

    def shown(self, observation: Any) -> np.ndarray:
        array = np.asarray(observation)
        if not self._pictures or array.shape == self.observation_space.shape:
            return array  # numbers, or channels that come first as they are
        return array.transpose(2, 0, 1)

    def screen(self, shown: np.ndarray) -> np.ndarray:
        if not self._pictures:
            raise UserError(f"{self.name} shows numbers and no pictures: it cannot be filmed.")
        newest = shown[-frame_channels(self.observation_space) :]
        colours = newest.transpose(1, 2, 0)[..., :3]
        return np.repeat(colours, 3, axis=2) if colours.shape[2] == 1 else colours.copy()


class _Single:
    """One environment, the game it plays and how it came to where it stands."""

    def __init__(
        self,
        source: Source,
        variant: Variant,
        seed: int,
        number: int,
        shaping: RewardShaping | None = None,
    ) -> None:
        self.env = source.make()
        self.shaping = shaping
        self.source, self.own = source, variant
        self.send = getattr(self.env, "send", None)  # of environments that play by themselves
        self.seed, self.number = seed, number
        self.games = 0  # begun so far
        self.queued: list[int] = []  # seeds of the next games
        self.game_seed = 0
        self.actions: list[Any] = []  # of this game so far
        self.score = 0.0
        self.began = perf_counter()

    def reset(self) -> np.ndarray:
        """Begin the next game: a queued one, or the next of this environment's own stream."""
        if self.queued:
            drawn = self.queued.pop(0)
        else:
            drawn = stream_seed(self.seed, self.source.stream, self.number, self.games)
            drawn = self.source.game_seed(drawn, self.own)
            self.games += 1
        seen = self.begin(drawn % 2**31)
        if self.shaping is not None:
            self.shaping.begin(_state(seen))
        return seen

    def begin(self, game_seed: int) -> np.ndarray:
        self.game_seed, self.actions, self.score = game_seed, [], 0.0
        self.began = perf_counter()
        with quiet():
            observation, _ = self.env.reset(seed=game_seed)
        return self.source.shown(observation)

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool]:
        with quiet():
            observation, reward, terminated, truncated, _ = self.env.step(action)
        self.actions.append(action)
        self.score += float(reward)
        seen = self.source.shown(observation)
        return seen, float(reward), bool(terminated), bool(truncated)

    def state(self) -> dict[str, Any]:
        plain = [a.tolist() if isinstance(a, np.ndarray) else int(a) for a in self.actions]
        found = {
            "games": self.games,
            "queued": self.queued,
            "game_seed": self.game_seed,
            "actions": plain,
        }
        return found if self.shaping is None else found | {"shaping": self.shaping.state()}


def _state(seen: np.ndarray) -> GameState:
    return GameState(seen, lambda: None)  # such environments have no truth


class GymVecEnv(VecEnv):
    """Environments of one source, played in this process; answers what `GameVecEnv` asks."""

    def __init__(
        self,
        settings: EnvSettings,
        source: Source,
        variants: list[Variant],
        seed: int,
        begin: int = 0,
    ) -> None:
        n_envs = len(variants)
        self.settings = settings
        self.game = game_of(settings.game)
        self.variants = list(variants)  # of each environment
        self.source = source
        self.seed_value = seed
        self.lost = False  # a restore found that the environments do not repeat themselves
        self._begin = begin
        self._reseed: int | None = None
        self._started = False
        self._pending: np.ndarray | None = None
        self._envs = [
            _Single(source, v, seed, begin + row, self._shaping()) for row, v in enumerate(variants)
        ]
        self.action_meanings = source.action_names
        self.render_mode = None
        super().__init__(n_envs, source.observation_space, source.action_space)
        shape = source.observation_space.shape or ()
        self._seen = np.zeros((n_envs, *shape), source.observation_space.dtype)

    # -- stepping ------------------------------------------------------------------------------

    def seed(self, seed: int | None = None) -> Sequence[int | None]:
        """Give every environment's stream of games a new seed from the next reset on."""
        drawn = int(np.random.randint(2**31)) if seed is None else seed
        self._reseed = SEED.checked("seed", drawn)
        self._seeds = [self._reseed] * self.num_envs
        return self._seeds

    def reset(self) -> np.ndarray:
        """Begin a new game in every environment."""
        if self._reseed is not None:
            self.seed_value, self._reseed = self._reseed, None
            for env in self._envs:
                env.seed, env.games = self.seed_value, 0
        for row, env in enumerate(self._envs):
            self._seen[row] = env.reset()
        self._started = True
        self.reset_infos = [{} for _ in range(self.num_envs)]
        self._reset_seeds()
        self._reset_options()
        return self.observations()

    def step_async(self, actions: np.ndarray) -> None:
        """Take the actions; a negative one, or one that is no number, leaves its environment."""
        if not self._started:
            raise UserError("the environment was stepped before reset().")
        self._pending = np.asarray(actions)

    def step_wait(self) -> VecEnvStepReturn:
        """Play them; everything returned is the caller's own."""
        if self._pending is None:
            raise UserError("step_wait() has nothing to wait for: call step_async() first.")
        actions, self._pending = self._pending, None
        rewards = np.zeros(self.num_envs, np.float32)
        dones = np.zeros(self.num_envs, bool)
        infos: list[dict[str, Any]] = []
        for env, action in zip(self._envs, actions, strict=True):
            if env.send is not None and self._moves(action):
                env.send(int(action))  # all of them play at once
        for row, env in enumerate(self._envs):
            info: dict[str, Any] = {"lives": 0, "raw_reward": 0.0, "TimeLimit.truncated": False}
            infos.append(info)
            if not self._moves(actions[row]):
                continue
            action = actions[row] if actions.ndim > 1 else int(actions[row])
            seen, reward, terminated, truncated = env.step(action)
            truncated = truncated or len(env.actions) >= self.settings.max_frames
            worth, info["raw_reward"] = self._scaled(reward), reward
            if env.shaping is not None:
                cut = truncated and not terminated
                step = Transition(_state(seen), action, worth, reward, terminated, cut)
                worth = paid(env.shaping, step)
            rewards[row] = worth
            dones[row] = terminated or truncated
            if dones[row]:
                info["TimeLimit.truncated"] = truncated and not terminated
                info["terminal_observation"] = seen.copy()
                seconds = round(perf_counter() - env.began, 6)
                played = {"r": round(env.score, 6), "l": len(env.actions), "t": seconds}
                info["episode"] = played
                seen = env.reset()
            self._seen[row] = seen
        return self.observations(), rewards, dones, infos

    def _moves(self, action: Any) -> bool:
        if isinstance(self.action_space, spaces.Discrete):
            return bool(action >= 0)
        return bool(np.isfinite(action).all())

    def _shaping(self) -> RewardShaping | None:
        spec = self.settings.shaping
        return None if spec is None else built_shaping(spec, self.game)

    def _scaled(self, reward: float) -> float:
        mode = self.settings.reward
        if isinstance(mode, str):
            return float(np.sign(reward)) if mode == "clip" else reward
        return reward * mode

    def observations(self) -> np.ndarray:
        """The current observations (n, ...)."""
        return self._seen.copy()

    # -- what evaluation asks ------------------------------------------------------------------

    def objects(self) -> list[Objects]:
        raise UserError(no_truth("objects()", self.settings.game))

    @property
    def channels(self) -> int:
        """Channels of each frame of a stack."""
        return frame_channels(self.observation_space)

    def frames(self) -> np.ndarray:
        return np.stack([self.frame(index) for index in range(self.num_envs)])

    def frame(self, index: int) -> np.ndarray:
        return self.source.screen(self._seen[index])

    def queue(self, index: int, seed: int, variant: VariantSpec | None = None) -> None:
        """Make the next game of environment `index` this one; further calls line up behind."""
        env = self._envs[whole("index", index, 0, self.num_envs - 1)]
        meant = env.own if variant is None else find(variant, None, self.settings.game)
        env.queued.append(self.source.game_seed(GAME_SEED.checked("seed", seed), meant))

    def restart(self, index: int) -> np.ndarray:
        """Begin the next game of one environment now; its observation."""
        self._seen[index] = self._envs[index].reset()
        return self._seen[index].copy()

    def standing(self, index: int) -> tuple[float, int]:
        """The score and the steps so far of the game that an environment is playing."""
        env = self._envs[index]
        return env.score, len(env.actions)

    # -- state -----------------------------------------------------------------------------------

    def snapshot(self) -> bytes:
        """Seeds and actions of the games in progress, with a digest of what they led to."""
        if not self._started:
            raise UserError("snapshot() needs a game: call reset() first.")
        header = {
            "envs": [env.state() for env in self._envs],
            "seed": self.seed_value,
            "reseed": self._reseed,
            "seen": self._digest(),
        }
        body = json.dumps(header).encode()
        return MAGIC + hashlib.sha256(body).digest() + body

    def restore(self, snapshot: bytes) -> None:
        """Play the games of a snapshot again, up to where they stood.

        Where that leads elsewhere the environments have a chance of their own: `lost` says so,
        and new games must begin.
        """
        if not isinstance(snapshot, bytes | bytearray) or not snapshot.startswith(MAGIC):
            raise UserError("this is not a snapshot of reprl's gymnasium environments.")
        body = snapshot[len(MAGIC) + 32 :]
        if hashlib.sha256(body).digest() != snapshot[len(MAGIC) : len(MAGIC) + 32]:
            raise UserError("the environment snapshot is damaged: its checksum differs.")
        header = json.loads(body)
        if len(header["envs"]) != self.num_envs:
            raise UserError(
                f"the snapshot holds {len(header['envs'])} environments, here are {self.num_envs}."
            )
        continuous = not isinstance(self.action_space, spaces.Discrete)
        self.seed_value, self._reseed = header["seed"], header["reseed"]
        for row, (env, state) in enumerate(zip(self._envs, header["envs"], strict=True)):
            seen = env.begin(int(state["game_seed"]))
            for action in state["actions"]:
                kind = self.action_space.dtype
                played = np.array(action, kind) if continuous else int(action)
                seen, _, terminated, _ = env.step(played)
                if terminated:  # it did not then: it goes its own way
                    break
            self._seen[row] = seen
            env.seed, env.games = self.seed_value, int(state["games"])
            env.queued = [int(s) for s in state["queued"]]
            if env.shaping is not None:
                env.shaping.load_state(state["shaping"])
        self._started = True
        self.lost = header["seen"] != self._digest()

    def _digest(self) -> str:
        return hashlib.sha256(np.ascontiguousarray(self._seen).tobytes()).hexdigest()

    # -- the rest of VecEnv ----------------------------------------------------------------------

    def close(self) -> None:
        """Close the environments; safe to call twice."""
        for env in self._envs:
            env.env.close()

    def get_attr(self, attr_name: str, indices: int | Iterable[int] | None = None) -> list[Any]:
        rows = self._get_indices(indices)
        return [self._envs[i].env.get_wrapper_attr(attr_name) for i in rows]

    def set_attr(
        self, attr_name: str, value: Any, indices: int | Iterable[int] | None = None
    ) -> None:
        for i in self._get_indices(indices):
            if attr_name == "own":  # the variant of its games from the next on
                self._envs[i].own = value
            else:
                self._envs[i].env.set_wrapper_attr(attr_name, value)

    def env_method(
        self,
        method_name: str,
        *method_args: Any,
        indices: int | Iterable[int] | None = None,
        **method_kwargs: Any,
    ) -> list[Any]:
        rows = self._get_indices(indices)
        found = [self._envs[i].env.get_wrapper_attr(method_name) for i in rows]
        return [method(*method_args, **method_kwargs) for method in found]

    def env_is_wrapped(
        self, wrapper_class: type, indices: int | Iterable[int] | None = None
    ) -> list[bool]:
        """True for Monitor, whose episode infos these environments give themselves."""
        return [issubclass(wrapper_class, Monitor) for _ in self._get_indices(indices)]
