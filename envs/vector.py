"""The vector environment: emulators behind SB3's VecEnv, in this process or in workers.

variant -> emulator -> **rollout**. `make_vec_env` checks everything a user can get wrong before
the first emulator starts.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
from gymnasium import spaces
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env.base_vec_env import VecEnv, VecEnvStepReturn

from reprl.envs.block import Arrays, Block
from reprl.envs.checks import checked_settings, require_actions
from reprl.envs.defaults import CLEAN, DEFAULT_GAME, GYMNASIUM, PROCGEN
from reprl.envs.games import game as game_of
from reprl.envs.gymnasium_vector import GymnasiumSource, GymVecEnv, Source
from reprl.envs.joystick import Joystick, joystick_space, require_sticks
from reprl.envs.machine import EnvSettings, console
from reprl.envs.objects import Objects
from reprl.envs.observation import channels_of, observation_space
from reprl.envs.processes import Workers
from reprl.envs.procgen_levels import ProcgenSource
from reprl.envs.procgen_names import SIZE, require_levels
from reprl.envs.protocol import VariantSpec
from reprl.envs.variation import Variant, find
from reprl.errors import UserError
from reprl.settings import ENV, GAME_SEED, SEED
from reprl.validation import whole

MAGIC = b"reprl env snapshot 1\n"


def make_vec_env(
    variant: VariantSpec | Sequence[VariantSpec] = CLEAN,
    n_envs: int = 8,
    seed: int = 0,
    workers: int = 0,
    training: bool = True,
    *,
    game: str = DEFAULT_GAME,
    severity: float | None = None,
    sticky: float = 0.0,
    stack: int = 4,
    gap: int = 1,
    size: int = 84,
    noop_max: int = 30,
    max_frames: int = 108_000,
    reward: str | float | None = None,
    background: float | str | None = None,
    observation: str = "frames",
    missed: float = 0.0,
    mislabelled: float = 0.0,
    shifted: int = 0,
    gray: bool = True,
    skip: int = 4,
    levels: int = 200,
    start_level: int = 0,
    distribution: str = "easy",
    continuous: bool = False,
    shaping: Any = None,
    share: tuple[int, int] = (0, 1),
) -> AtariVecEnv:
    """Make `n_envs` games; environment i plays variant i mod len where `variant` is a list.

    `training` ends an episode at each lost life and clips rewards; otherwise episodes are full
    games with raw scores. `reward` is "clip", "raw" or a factor, and follows `training` if None.
    With `background`, observations are differences to a memory of the game's picture that follows
    it by so many gray levels a step: black where nothing changed. With `background="adaptive"`
    they show what changed more than its place usually does, each change at full contrast.
    `observation` shows the true objects alone: their pixels ("objects"), white boxes ("binary"), a
    gray for each class ("classes") or a channel for each ("planes"); `missed` and `mislabelled` are
    probabilities, `shifted` pixels of the console, by which that truth is wrong on purpose. With
    `gray=False` a frame has three channels. `skip` is the number of frames an action lasts. With
    `continuous` actions are (n, 3): radius, angle and fire of a stick, as in ale-py.
    `levels`, `start_level` and `distribution` are Procgen's: which levels are for training.
    `shaping` makes the rewards of training of what the game pays: a name of `reprl list shaping`, a
    class derived from `reprl.envs.shaping.RewardShaping` or a mapping with `_target_`.
    `share` (k, n) makes the k-th of n equal parts of the environments, as they are among all.
    """
    n_envs = ENV["n_envs"].checked("n_envs", n_envs)
    most = min(n_envs, int(ENV["workers"].high))
    workers = whole("workers", workers, 0, most, "n_envs, so that each worker has an environment")
    seed = SEED.checked("seed", seed)
    settings = checked_settings(
        game=game,
        training=training,
        reward=reward,
        sticky=sticky,
        stack=stack,
        gap=gap,
        size=size,
        noop_max=noop_max,
        max_frames=max_frames,
        background=background,
        observation=observation,
        missed=missed,
        mislabelled=mislabelled,
        shifted=shifted,
        gray=gray,
        skip=skip,
        levels=levels,
        start_level=start_level,
        distribution=distribution,
        continuous=continuous,
        shaping=shaping,
    )
    specs: list[Any] = [variant]
    if isinstance(variant, Iterable) and not isinstance(variant, str | Mapping | Variant):
        specs = list(variant)
    if not specs:
        raise UserError("variant=[] is empty: name at least one variant.")
    if len(specs) > n_envs:
        raise UserError(f"{len(specs)} variants need as many environments, got n_envs={n_envs}.")
    found = [find(spec, severity, settings.game) for spec in specs]
    part, parts = share
    if n_envs % parts or not 0 <= part < parts:
        raise UserError(f"n_envs={n_envs} cannot be dealt out: share={share} of equal parts.")
    rows = range(part * n_envs // parts, (part + 1) * n_envs // parts)
    played = [found[i % len(found)] for i in rows]
    return games_of(settings, played, seed, rows[0], workers)


def games_of(
    settings: EnvSettings, variants: list[Variant], seed: int, begin: int, workers: int = 0
) -> AtariVecEnv:
    """The games of settings that are checked already; `begin` is the number of the first one."""
    if settings.game.startswith((GYMNASIUM, PROCGEN)):
        # not one of ALE's, but it answers everything that runs and evaluation ask
        return cast(AtariVecEnv, _of_gymnasium(settings, variants, seed, begin))
    return AtariVecEnv(settings, variants, seed, workers, begin)


def _of_gymnasium(
    settings: EnvSettings, variants: list[Variant], seed: int, begin: int
) -> GymVecEnv:
    alien = {"sticky": 0.0, "background": None, "gray": True, "skip": 4, "continuous": False}
    for key, usual in alien.items():
        if (value := getattr(settings, key)) != usual:
            raise UserError(f"{key}={value} is ALE's: {settings.game} has no such thing.")
    source: Source
    if settings.game.startswith(PROCGEN):
        settings = replace(settings, stack=1, gap=1, size=SIZE, noop_max=0)
        source = ProcgenSource(settings)
        for variant in variants:
            require_levels(settings, variant)
    else:
        source = GymnasiumSource(settings.game)
    return GymVecEnv(settings, source, variants, seed, begin)


class AtariVecEnv(VecEnv):
    """ALE games as an SB3 VecEnv with ground truth and exact state; see `make_vec_env`."""

    def __init__(
        self,
        settings: EnvSettings,
        variants: list[Variant],
        seed: int,
        workers: int,
        begin: int = 0,
    ) -> None:
        n = len(variants)
        self.settings = settings
        self.variants = list(variants)  # of each environment
        self.game = game_of(settings.game)
        self.seed_value = seed
        self._reseed: int | None = None
        self._started = False
        self._stepping = False  # between step_async and step_wait
        self.workers = Workers(settings, variants, seed, workers, begin) if workers else None
        if self.workers is None:
            memory = bytearray(Arrays.bytes_needed(n, settings))
            self._arrays = Arrays.over(memory, n, settings)
            self._block = Block(settings, variants, seed, 0, self._arrays, begin)
        else:
            self._arrays = self.workers.arrays
        self.num_envs = n
        meanings = list(console(self.game.cartridge).actions)
        self.action_meanings = [] if settings.continuous else meanings
        self._joystick = Joystick(meanings) if settings.continuous else None
        self.render_mode = "rgb_array"
        super().__init__(
            n,
            observation_space(settings),
            joystick_space() if settings.continuous else spaces.Discrete(len(meanings)),
        )

    # -- stepping ------------------------------------------------------------------------------

    def seed(self, seed: int | None = None) -> Sequence[int | None]:
        """Give every environment's stream of games a new seed from the next reset on."""
        drawn = int(np.random.randint(2**31)) if seed is None else seed
        self._reseed = SEED.checked("seed", drawn)
        self._seeds = [self._reseed] * self.num_envs
        return self._seeds

    def reset(self) -> np.ndarray:
        """Begin a new game in every environment."""
        self._require_idle()
        if self.workers is None:
            self._block.reset(self._reseed)
        else:
            self.workers.reset(self._reseed)
        if self._reseed is not None:
            self.seed_value, self._reseed = self._reseed, None
        self._started = True
        self.reset_infos = [{} for _ in range(self.num_envs)]
        self._reset_seeds()
        self._reset_options()
        return self.observations()

    def step_async(self, actions: np.ndarray) -> None:
        """Start a step; a negative action, or one that is no number, leaves its environment."""
        if not self._started:
            raise UserError("the environment was stepped before reset().")
        self._require_idle()
        actions = np.asarray(actions)
        if self._joystick is None:
            require_actions(actions, self.num_envs, self.action_meanings)
            self._arrays.actions[:] = actions
        else:
            require_sticks(actions, self.num_envs)
            self._arrays.actions[:], self._arrays.strengths[:] = self._joystick(actions)
        if self.workers is not None:
            self.workers.start_step()
        self._stepping = True

    def step_wait(self) -> VecEnvStepReturn:
        """Finish a step; everything returned is the caller's own."""
        if not self._stepping:
            raise UserError("step_wait() has nothing to wait for: call step_async() first.")
        self._stepping = False
        ended = self._block.step() if self.workers is None else self.workers.finish_step()
        arrays = self._arrays
        infos: list[dict[str, Any]] = [
            {"lives": lives, "raw_reward": raw, "TimeLimit.truncated": False}
            for lives, raw in zip(arrays.lives.tolist(), arrays.raw_rewards.tolist(), strict=True)
        ]
        for row, info in ended.items():
            infos[row] = info
        return self.observations(), arrays.rewards.copy(), arrays.dones.copy(), infos

    @property
    def gap(self) -> int:
        """Steps between two frames of a stack."""
        return self.settings.gap

    @property
    def channels(self) -> int:
        """Channels of each frame of a stack."""
        return channels_of(self.settings, self.game)

    def observations(self) -> np.ndarray:
        """The current observations, (n, stack, size, size) uint8, newest frame last."""
        return self._arrays.observations.copy()

    # -- truth, pictures, state ----------------------------------------------------------------

    def objects(self) -> list[Objects]:
        """Where everything is in the last emulator frame of each environment."""
        return self._call("objects", [(i,) for i in range(self.num_envs)])

    def frames(self) -> np.ndarray:
        """The drawn, max-pooled pictures at raw size, (n, 210, 160, 3) uint8 in Breakout."""
        return np.stack(self._call("frame", [(i,) for i in range(self.num_envs)]))

    def frame(self, index: int) -> np.ndarray:
        """The drawn picture of one environment at raw size, (height, width, 3) uint8."""
        picture: np.ndarray = self._call("frame", [(index,)])[0]
        return picture

    def get_images(self) -> Sequence[np.ndarray | None]:
        return list(self.frames())

    def queue(self, index: int, seed: int, variant: VariantSpec | None = None) -> None:
        """Make the next game of environment `index` this one; further calls line up behind.

        `variant` is for this game only; after it the environment plays its own again.
        """
        index = whole("index", index, 0, self.num_envs - 1)
        seed = GAME_SEED.checked("seed", seed)
        found = None if variant is None else find(variant, None, self.settings.game)
        self._call("queue", [(index, seed, found)])

    def standing(self, index: int) -> tuple[float, int]:
        """The score and the frames so far of the game that an environment is playing."""
        score, frames = self.env_method("standing", indices=index)[0]
        return score, frames

    def restart(self, index: int) -> np.ndarray:
        """Begin the next game of one environment now; its observation, (stack, size, size)."""
        self._call("restart", [(index,)])
        return self._arrays.observations[index].copy()

    def snapshot(self) -> bytes:
        """Everything needed to continue identically, in any process and with any `workers`."""
        if not self._started:
            raise UserError("snapshot() needs a game: call reset() first.")
        parts = self._call("snapshot", [(i,) for i in range(self.num_envs)])
        header = json.dumps(
            {
                "envs": [meta for meta, _ in parts],
                "sizes": [len(blob) for _, blob in parts],
                "seed": self.seed_value,
                "reseed": self._reseed,
            }
        ).encode()
        body = len(header).to_bytes(8, "little") + header + b"".join(b for _, b in parts)
        return MAGIC + hashlib.sha256(body).digest() + body

    def restore(self, snapshot: bytes) -> None:
        """Continue from a snapshot; refuses one that is damaged or of other settings."""
        if not isinstance(snapshot, bytes | bytearray) or not snapshot.startswith(MAGIC):
            raise UserError("this is not an environment snapshot of reprl.")
        body = snapshot[len(MAGIC) + 32 :]
        if hashlib.sha256(body).digest() != snapshot[len(MAGIC) : len(MAGIC) + 32]:
            raise UserError("the environment snapshot is damaged: its checksum differs.")
        end = 8 + int.from_bytes(body[:8], "little")
        header = json.loads(body[8:end])
        if len(header["envs"]) != self.num_envs:
            raise UserError(
                f"the snapshot holds {len(header['envs'])} environments, here are {self.num_envs}."
            )
        calls = []
        for row, (meta, size) in enumerate(zip(header["envs"], header["sizes"], strict=True)):
            calls.append((row, meta, body[end : end + size]))
            end += size
        self._call("restore", calls)
        self.seed_value, self._reseed = header["seed"], header["reseed"]
        self._started = True

    def repeat(self, source: int, rows: Iterable[int]) -> None:
        """Let environments stand exactly where `source` stands, its variant included."""
        source = whole("source", source, 0, self.num_envs - 1)
        meta, blob = self._call("snapshot", [(source,)])[0]
        self._call("restore", [(row, meta, blob) for row in rows if row != source])

    def intervene(self, index: int, change: Any) -> None:
        """Change a running game through RAM until its state is restored; see Intervention."""
        self.env_method("intervene", change, indices=whole("index", index, 0, self.num_envs - 1))

    def _call(self, name: str, calls: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Call a block's method for each argument tuple, whose first entry is the row."""
        self._require_idle()
        if self.workers is None:
            return [getattr(self._block, name)(*arguments) for arguments in calls]
        return self.workers.call(name, calls)

    def _require_idle(self) -> None:
        if self._stepping:
            raise UserError("a step is under way: call step_wait() first.")

    # -- the rest of VecEnv --------------------------------------------------------------------

    def close(self) -> None:
        """Stop the workers; safe to call twice."""
        if self.workers is not None:
            self.workers.close()

    def get_attr(self, attr_name: str, indices: int | Iterable[int] | None = None) -> list[Any]:
        if attr_name == "render_mode":
            return ["rgb_array" for _ in self._rows(indices)]
        return self._call("get", [(i, attr_name) for i in self._rows(indices)])

    def set_attr(
        self, attr_name: str, value: Any, indices: int | Iterable[int] | None = None
    ) -> None:
        self._call("set", [(i, attr_name, value) for i in self._rows(indices)])

    def env_method(
        self,
        method_name: str,
        *method_args: Any,
        indices: int | Iterable[int] | None = None,
        **method_kwargs: Any,
    ) -> list[Any]:
        calls = [(i, method_name, method_args, method_kwargs) for i in self._rows(indices)]
        return self._call("method", calls)

    def env_is_wrapped(
        self, wrapper_class: type, indices: int | Iterable[int] | None = None
    ) -> list[bool]:
        """True for Monitor, whose episode infos these environments give themselves."""
        return [issubclass(wrapper_class, Monitor) for _ in self._rows(indices)]

    def _rows(self, indices: int | Iterable[int] | None) -> Iterable[int]:
        return self._get_indices(indices)
