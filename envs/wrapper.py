"""A variant on anybody's Atari environment: `VariantWrapper(gymnasium.make("ALE/Breakout-v5"))`.

variant -> effects -> **screen of the ALE interface** -> any wrapper, any loop. Other wrappers read
the emulator's screen past `step()` (gymnasium's AtariPreprocessing does), so the drawing must be in
the ALE interface itself: it is replaced by one that draws.
"""

from __future__ import annotations

from typing import Any

import cv2
import gymnasium
import numpy as np
from gymnasium.utils import RecordConstructorArgs

from reprl.envs.games import Game, game
from reprl.envs.machine import SKIP, AleMachine
from reprl.envs.objects import Objects
from reprl.envs.protocol import VariantSpec
from reprl.envs.variation import Effect, Variant, find
from reprl.errors import UserError
from reprl.rng import numpy_stream
from reprl.settings import SEED


class VariantWrapper(gymnasium.Wrapper, RecordConstructorArgs):
    """Plays a variant in an environment of ale-py; `info["objects"]` is the truth, where known.

    It may stand anywhere among the wrappers; two of them add up.
    """

    def __init__(
        self, env: gymnasium.Env, variant: VariantSpec, *, severity: float | None = None
    ) -> None:
        RecordConstructorArgs.__init__(self, variant=variant, severity=severity)
        super().__init__(env)
        inner: Any = env.unwrapped
        if not hasattr(inner, "ale") or not hasattr(inner, "_game"):
            raise UserError(
                f"VariantWrapper changes environments of ale-py, such as ALE/Breakout-v5, and "
                f"{inner!r} is none: it has no ALE interface."
            )
        self.game = game(str(inner._game))
        self.variant = find(variant, severity, self.game.cartridge)
        skip = inner._frameskip
        self.screen = VariedScreen(
            inner.ale,
            self.variant,
            self.game,
            skip=skip if isinstance(skip, int) and skip > 1 else SKIP,
        )
        if self.screen.draws:
            _require_pictures(inner, self.variant)
        inner.ale = self.screen

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin a game; with `seed` also the games that follow are those of this seed."""
        if seed is not None:
            self.screen.seed(SEED.checked("seed", seed))
        observation, info = self.env.reset(seed=seed, options=options)
        return observation, self._told(info)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        return observation, reward, terminated, truncated, self._told(info)

    def _told(self, info: dict[str, Any]) -> dict[str, Any]:
        objects = self.screen.objects()
        return info if objects is None else {**info, "objects": objects}


class VariedScreen:
    """An ALE interface whose games are a variant's; whatever is not named here is the console's.

    Effects advance once in `skip` frames, the pictures of one observation, as in `make_vec_env`.
    """

    def __init__(self, ale: Any, variant: Variant, played: Game, *, skip: int) -> None:
        self._ale, self._game, self._skip = ale, played, skip
        self._machine = AleMachine(ale)
        self.effects: list[Effect] = variant.build()
        self.draws = [e for e in self.effects if type(e).draw is not Effect.draw]
        self._before: list[dict[str, Any]] = []  # the effects as this observation found them
        self._drawn: np.ndarray | None = None  # (height, width, 3) of this frame, once asked for
        self._observation = -1
        self.seed(int(np.random.SeedSequence().generate_state(1)[0]) // 2)
        self._begin()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "_ale" not in self.__dict__:  # a copy that is being made
            raise AttributeError(name)
        return getattr(self._ale, name)

    def seed(self, seed: int) -> None:
        """Restart the stream that gives each game its seed."""
        self._games = numpy_stream(seed, "games", 0)

    def reset_game(self) -> None:
        self._begin()
        self._ale.reset_game()
        self._changed()

    def act(self, *arguments: Any, **named: Any) -> Any:
        """One frame of the console, with what the variant does before it."""
        for effect in self.effects:
            effect.before_frame(self._machine)
        reward = self._ale.act(*arguments, **named)
        self._machine.frame += 1
        self._changed()
        return reward

    def loadROM(self, *arguments: Any) -> Any:
        self._changed()
        return self._ale.loadROM(*arguments)

    def restoreState(self, *arguments: Any) -> Any:
        self._changed()
        return self._ale.restoreState(*arguments)

    def getScreenRGB(self, out: np.ndarray | None = None) -> np.ndarray | None:
        """The picture as it is shown, (height, width, 3) uint8, or into `out`."""
        if not self.draws:
            return self._ale.getScreenRGB() if out is None else self._ale.getScreenRGB(out)
        return _given(self._picture(), out)

    def getScreenGrayscale(self, out: np.ndarray | None = None) -> np.ndarray | None:
        """The same in gray, (height, width) uint8; where nothing is drawn it is the console's."""
        gray = self._ale.getScreenGrayscale()
        if self.draws:
            shown = self._picture()
            differ = (shown != self._ale.getScreenRGB()).any(axis=2)
            gray[differ] = cv2.cvtColor(shown, cv2.COLOR_RGB2GRAY)[differ]
        return _given(gray, out)

    def getScreen(self, *arguments: Any) -> Any:
        """The console's bytes of its palette, which has no colour for what is drawn."""
        if self.draws:
            raise UserError(
                "getScreen() gives bytes of the console's palette, in which a variant cannot draw: "
                "read getScreenRGB() or getScreenGrayscale()."
            )
        return self._ale.getScreen(*arguments)

    def objects(self) -> Objects | None:
        """The truth of this frame with the variant's distractor mask, None where nobody knows."""
        objects = self._truth()
        if objects is None:
            return None
        if self.draws:
            self._picture()  # whose masks are asked for
        for effect in self.effects:
            effect.mask(objects.distractor)
            objects = effect.moved(objects)
        return objects

    def _begin(self) -> None:
        """A game of its own seed: the effects start anew."""
        seed = int(self._games.integers(2**62))
        for k, effect in enumerate(self.effects):
            effect.reset(numpy_stream(seed, "effect", k))
        self._machine.frame = 0
        self._observation = -1
        self._drawn = None

    def _changed(self) -> None:
        self._drawn = None

    def _truth(self) -> Objects | None:
        return None if self._game.objects is None else self._game.objects(self._machine.ram)

    def _picture(self) -> np.ndarray:
        if self._drawn is not None:
            return self._drawn
        now = self._machine.frame // self._skip
        if now != self._observation:
            self._observation, self._before = now, [e.state() for e in self.draws]
        else:  # another frame of the same observation
            for effect, state in zip(self.draws, self._before, strict=True):
                effect.load_state(state)
        frame = self._ale.getScreenRGB()
        objects = self._truth() if any(e.needs_objects for e in self.draws) else None
        for effect in self.draws:
            effect.draw(frame, objects)
            objects = objects and effect.moved(objects)
        self._drawn = frame
        return frame


def _given(picture: np.ndarray, out: np.ndarray | None) -> np.ndarray | None:
    if out is None:
        return picture.copy()
    out[...] = picture.reshape(out.shape)
    return None


def _require_pictures(env: Any, variant: Variant) -> None:
    """Refuse what would show, or learn from, a game without its drawing."""
    if env._obs_type == "ram":
        raise UserError(
            f"variant '{variant.name}' draws on the screen, and obs_type='ram' does not show it: "
            "make the environment with obs_type='rgb' or 'grayscale'."
        )
    if env.render_mode == "human":
        raise UserError(
            f"variant '{variant.name}': render_mode='human' is ALE's own window, which does not "
            "show the drawing: use render_mode='rgb_array', and around this wrapper "
            "gymnasium.wrappers.HumanRendering."
        )
