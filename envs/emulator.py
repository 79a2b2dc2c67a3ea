"""One game: ALE stepped with SB3's AtariWrapper semantics, a variant's effects and exact state.

variant -> **emulator** -> rollout. The vector environment owns several of these, in this process
or in worker processes; nothing here imports torch.
"""

from __future__ import annotations

import json
import time
import zlib
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import ale_py
import numpy as np

from reprl import guard
from reprl.envs.background import memory_of
from reprl.envs.defaults import without_later
from reprl.envs.games import game, no_truth
from reprl.envs.joystick import joystick_actions
from reprl.envs.machine import AleMachine, EnvSettings, emulator
from reprl.envs.objects import Objects
from reprl.envs.observation import channels_of, view_of
from reprl.envs.picture import Desk, Picture
from reprl.envs.shaping import GameState, Transition, built_shaping, paid
from reprl.envs.variation import Effect, Variant
from reprl.envs.variation.base import generator
from reprl.errors import UserError
from reprl.rng import numpy_stream

LARGEST_STATE = 1 << 24  # bytes; ALE's own has some thousands


class Emulator:
    """One environment; `reset` and `step` write the observation into `self.observation`."""

    def __init__(
        self, settings: EnvSettings, variant: Variant, seed: int, index: int, desk: Desk
    ) -> None:
        self.settings = settings
        self.game = game(settings.game)
        self.index = index
        # Sticky actions and no-op starts are drawn here, so the emulator's own seed is constant:
        # a game is determined by its game seed alone.
        limit = settings.max_frames
        self.ale = emulator(self.game.cartridge, random_seed=1, max_num_frames_per_episode=limit)
        # A fresh game is always the same one. Restoring it is far cheaper than a reset, which runs
        # the console for dozens of frames and would make the other workers wait.
        self.ale.reset_game()
        self._fresh = self._clean = self.ale.cloneState(include_rng=True)
        self.machine = AleMachine(self.ale)
        self.actions = list(self.ale.getMinimalActionSet())
        meanings = [a.name for a in self.actions]
        if settings.continuous:
            self.actions = joystick_actions(self.actions)
        self.strength = 1.0  # of the next action, where actions are continuous
        self.fires = len(meanings) > 2 and meanings[1] == "FIRE"

        self.picture = Picture(settings.size, desk)
        depth = (settings.stack - 1) * settings.gap + 1
        self.view = view_of(settings, self.game)
        channels = channels_of(settings, self.game)
        self._history = np.zeros((depth, channels, settings.size, settings.size), np.uint8)
        self.background = memory_of(settings.size, settings.background)
        # The stream of what is seen wrongly of the truth, where it is shown at all; one a game.
        self._truth = None if settings.observation == "frames" else numpy_stream(0, "truth")
        spec = settings.shaping
        self.shaping = None if spec is None else built_shaping(spec, self.game)

        self.queued: list[tuple[int, Variant | None]] = []
        self.reseed(seed)
        self.noops: Callable[[], int] | None = None  # parity tests dictate the starts
        self._lives = self._sticky_action = self._length = 0
        self._sticky_strength = 1.0
        self._score = 0.0
        self._ends = (False, False)
        self._started = time.time()
        self.own = variant  # played wherever a queued game names no other
        self._take(variant)

    def reseed(self, seed: int) -> None:
        """Restart the stream that gives each game its seed."""
        self._games = numpy_stream(seed, "games", self.index)

    def _take(self, variant: Variant) -> None:
        """Build a variant's effects; a new game must follow."""
        self.variant = variant
        self.effects: list[Effect] = variant.build()
        self._before = [e for e in self.effects if type(e).before_frame is not Effect.before_frame]
        self._draws = [e for e in self.effects if type(e).draw is not Effect.draw]
        chosen: dict[str, int] = {}
        for effect in self.effects:
            chosen |= effect.console
        self._fresh = self._start(**chosen) if chosen else self._clean

    def _start(self, mode: int = 0, difficulty: int = 0) -> ale_py.ALEState:
        """A fresh game of another mode or difficulty, by a console that has played nothing yet."""
        limit = self.settings.max_frames
        ale = emulator(self.game.cartridge, random_seed=1, max_num_frames_per_episode=limit)
        ale.setMode(mode)
        ale.setDifficulty(difficulty)
        ale.reset_game()
        return ale.cloneState(include_rng=True)

    def intervene(self, change: Any) -> None:
        """Call `change.before_frame(machine)` before each frame, until a state is restored."""
        self._before = [*self._before, change]

    @property
    def observation(self) -> np.ndarray:
        """The stack (stack x channels, size, size), oldest frame first."""
        kept = self._history[:: self.settings.gap]
        return kept.reshape(-1, *kept.shape[2:])

    # -- the game ------------------------------------------------------------------------------

    def reset(self) -> None:
        """Begin a new game and write its first observation."""
        self._new_game()
        self._launch()
        self._history[:] = 0
        self._observe()
        self._begin()

    def step(self, action: int) -> tuple[float, bool, dict[str, Any]]:
        """Play one action; after an episode's end the next one's first observation is in place."""
        reward, done, info = self.play(action)
        if done:
            info["terminal_observation"] = self.observation.copy()
            self.proceed()
        return reward, done, info

    def play(self, action: int) -> tuple[float, bool, dict[str, Any]]:
        """Play one action; after an episode's end everything stands as it ended."""
        reward, life_lost = self._act(action)
        self.strength = 1.0  # what begins a game, or the next life, is done in earnest
        if life_lost and not self.settings.training and not any(self._ends):
            # Full games: SB3's sequence after a life, without an episode's end. Points and a
            # game over inside it belong to this step.
            reward += self._relaunch()
            if not any(self._ends):
                self._history[:] = 0  # as training shows it after a lost life
        terminated, truncated = self._ends
        done = terminated or truncated or (life_lost and self.settings.training)
        info: dict[str, Any] = {
            "lives": self._lives,
            "raw_reward": reward,
            "TimeLimit.truncated": truncated and not terminated,
        }
        self._observe()
        if terminated or truncated:
            seconds = round(time.time() - self._started, 6)
            info["episode"] = {"r": round(self._score, 6), "l": self._length, "t": seconds}
            info["game_seed"] = self.game_seed
        worth = self._scaled(reward)
        if self.shaping is not None:
            over = done and not info["TimeLimit.truncated"]
            step = Transition(self._state(), action, worth, reward, over, done and not over)
            worth = paid(self.shaping, step)
        return worth, done, info

    def proceed(self) -> None:
        """After an episode's end: begin the next game, or go on with the next life."""
        if any(self._ends):
            self._new_game()
            self._launch()
        else:
            self._relaunch()
        self._history[:] = 0
        self._observe()
        self._begin()

    def _begin(self) -> None:
        if self.shaping is not None:
            self.shaping.begin(self._state())

    def _state(self) -> GameState:
        return GameState(self.observation, self._objects)

    def standing(self) -> tuple[float, int]:
        """The score and the frames of the game so far."""
        return round(self._score, 6), self._length

    def _new_game(self) -> None:
        variant = None
        if self.queued:
            self.game_seed, variant = self.queued.pop(0)
        else:
            self.game_seed = int(self._games.integers(2**62))
        if variant is not None or self.variant != self.own:
            self._take(variant or self.own)
        start = numpy_stream(self.game_seed, "start")
        self._sticky = numpy_stream(self.game_seed, "sticky")
        if self._truth is not None:
            self._truth = numpy_stream(self.game_seed, "truth")
        for k, effect in enumerate(self.effects):
            effect.reset(numpy_stream(self.game_seed, "effect", k))
        if self.background is not None:
            self.background.forget()
        self._restart()
        drawn = int(start.integers(1, self.settings.noop_max + 1)) if self.settings.noop_max else 0
        for _ in range(self.noops() if self.noops else drawn):
            self._frame(0)
            if any(self._ends):
                self._restart()
        self._ends = (False, False)
        self._lives = self.ale.lives()

    def _restart(self) -> None:
        self._score, self._length = 0.0, 0
        self._sticky_action, self._sticky_strength = 0, 1.0
        self.machine.frame = 0
        self.ale.restoreState(self._fresh)
        if not self.settings.noop_max and not self.fires:
            self.ale.reset_game()  # the screen, wrong after a restore, is shown as it is

    def _launch(self) -> None:
        """FIRE, then RIGHT, as SB3's FireResetEnv."""
        if not self.fires:
            # SB3 shows the reset frame itself here.
            self.picture.grab(0, self.ale)
            self.picture.copy_first()
            return
        for action in (1, 2):
            _, life_lost = self._act(action)
            if any(self._ends):
                self._new_game()
            elif life_lost:
                self._act(0)
                if any(self._ends):
                    self._new_game()

    def _relaunch(self) -> float:
        """The sequence after a lost life: NOOP, FIRE, RIGHT; returns the points made in it."""
        before = self._score
        self._act(0)
        if self.settings.training and any(self._ends):
            self._new_game()
            self._launch()
            return 0.0
        for action in (1, 2) if self.fires else ():
            if any(self._ends):
                break
            _, life_lost = self._act(action)
            if self.settings.training and any(self._ends):
                self._new_game()
            elif self.settings.training and life_lost:
                self._act(0)
        return self._score - before

    def _act(self, action: int) -> tuple[float, bool]:
        """The frames of one action: their points, and whether a life was lost."""
        before = self._score
        skip = self.settings.skip
        for k in range(skip):
            self._frame(action)
            if k >= skip - 2:
                self.picture.grab(k - skip + 2 if skip > 1 else 0, self.ale)
            if any(self._ends):
                break  # the buffer may keep an older frame here, exactly as MaxAndSkipEnv's does
        if skip == 1:
            self.picture.copy_first()
        lives = self.ale.lives()
        # Some games show zero lives for a few frames before they are over (SB3's EpisodicLifeEnv).
        life_lost = 0 < lives < self._lives
        self._lives = lives
        return self._score - before, life_lost

    def _frame(self, action: int) -> None:
        if self.settings.sticky == 0.0 or self._sticky.random() >= self.settings.sticky:
            self._sticky_action, self._sticky_strength = action, self.strength
        for effect in self._before:
            effect.before_frame(self.machine)
        self._score += self.ale.act(self.actions[self._sticky_action], self._sticky_strength)
        self._length += 1
        self.machine.frame += 1
        self._ends = (self.ale.game_over(with_truncation=False), self.ale.game_truncated())

    def _scaled(self, reward: float) -> float:
        mode = self.settings.reward
        if mode == "clip":
            return float(np.sign(reward))
        return reward if mode == "raw" else reward * float(mode)

    # -- the picture ---------------------------------------------------------------------------

    def _observe(self) -> None:
        """Push the picture of the last two frames, with the variant drawn over them."""
        shown = self.view is not None and self.view.needs_objects
        wanted = shown or any(e.needs_objects for e in self._draws)
        objects = self.picture.show(self._draws, self._objects() if wanted else None)
        self._history[:-1] = self._history[1:]
        if self.view is not None:
            self.view.write(self.picture, objects, self._truth, self._history[-1])
        elif self.background is None:
            self._history[-1, 0] = self.picture.small
        else:
            self.background.difference(self.picture.small, self._history[-1, 0])

    def frame(self) -> np.ndarray:
        """The last max-pooled frame with the variant drawn, (*raw, 3) uint8."""
        return self.picture.drawn()

    def objects(self) -> Objects:
        """Where everything is in the last emulator frame, with the variant's distractor mask."""
        objects = self._objects()
        if objects is None:
            raise UserError(no_truth("objects()", self.settings.game))
        for effect in self.effects:
            effect.mask(objects.distractor)
            objects = effect.moved(objects)
        return objects

    def _objects(self) -> Objects | None:
        return None if self.game.objects is None else self.game.objects(self.machine.ram)

    # -- exact state ---------------------------------------------------------------------------

    def snapshot(self) -> tuple[dict[str, Any], bytes]:
        """Everything needed to continue identically in another process: plain data and bytes."""
        ale: bytes = self.ale.cloneState(include_rng=True).__getstate__()  # type: ignore[assignment]
        arrays = [self.picture.frames(), self.picture.drawn(), self._history]
        if self.background is not None:
            arrays += [self.picture.small, *self.background.arrays()]
        meta = {
            "settings": _saved(self.settings),
            "own": asdict(self.own),
            "variant": asdict(self.variant),
            "effects": [e.state() for e in self.effects],
            "games": self._games.bit_generator.state,
            "sticky": self._sticky.bit_generator.state,
            "queued": [(s, asdict(v) if v else None) for s, v in self.queued],
            "game_seed": self.game_seed,
            "lives": self._lives,
            "sticky_action": self._sticky_action,
            "score": self._score,
            "length": self._length,
            "frame": self.machine.frame,
            "ends": list(self._ends),
            "ale_bytes": len(ale),
        }
        if self.background is not None:
            meta["fresh"] = self.background.fresh
        if self._truth is not None:
            meta["truth"] = self._truth.bit_generator.state
        if self.settings.continuous:
            meta["strength"] = self._sticky_strength
        if self.shaping is not None:
            meta["shaping"] = self.shaping.state()
        return meta, zlib.compress(ale + b"".join(a.tobytes() for a in arrays), 1)

    def restore(self, meta: dict[str, Any], blob: bytes) -> None:
        """Continue from a snapshot taken with the same settings."""
        here = json.loads(json.dumps(_saved(self.settings)))
        for key in {**here, **meta["settings"]}:
            there, value = meta["settings"].get(key), here.get(key)
            if there != value:
                raise UserError(f"snapshot: {key} was {there!r}, here it is {value!r}.")
        self.own = Variant.of(meta.get("own", meta["variant"]))  # older snapshots have one only
        self._take(Variant.of(meta["variant"]))
        for effect, state in zip(self.effects, meta["effects"], strict=True):
            effect.load_state(state)
        self._games = generator(meta["games"])
        self._sticky = generator(meta["sticky"])
        if self._truth is not None:
            self._truth = generator(meta["truth"])
        if self.shaping is not None:
            self.shaping.load_state(meta["shaping"])
        self.queued = [(s, Variant.of(v) if v else None) for s, v in meta["queued"]]
        self.game_seed = meta["game_seed"]
        self._lives = meta["lives"]
        self._sticky_action = meta["sticky_action"]
        self._sticky_strength = float(meta.get("strength", 1.0))
        self._score, self._length = meta["score"], meta["length"]
        self.machine.frame = meta["frame"]
        self._ends = (bool(meta["ends"][0]), bool(meta["ends"][1]))
        raw = self.picture.raw
        frames, drawn = np.empty((2, *raw, 3), np.uint8), np.empty((*raw, 3), np.uint8)
        size = int(meta["ale_bytes"])
        if not 0 < size <= LARGEST_STATE:
            raise UserError(f"snapshot: {size:,} bytes of console are not what a console has.")
        arrays: list[np.ndarray] = [frames, drawn, self._history]
        small = self._history[-1, 0]  # not looked at before the next picture, where it is another
        if self.background is not None:
            self.background.fresh = bool(meta["fresh"])
            small = np.empty_like(self.picture.small)
            arrays += [small, *self.background.arrays()]
        whole = size + sum(array.nbytes for array in arrays)
        data = guard.inflate(blob, whole, "the environment snapshot")
        self.ale.restoreState(ale_py.ALEState(data[:size]))
        for array in arrays:
            array[:] = np.frombuffer(data, array.dtype, array.size, size).reshape(array.shape)
            size += array.nbytes
        self.picture.load(frames, drawn, small)


def _saved(settings: EnvSettings) -> dict[str, Any]:
    """Settings as a snapshot holds them, as older versions wrote them where these did the same."""
    saved = without_later(asdict(settings))
    if saved["shaping"] is None:
        del saved["shaping"]
    return saved
