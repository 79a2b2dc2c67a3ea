"""Small pictures of the variants: the same moment of one game, drawn as each of them.

They head the columns of the report's first plot. A variant that cannot be drawn here (a user's own,
another game's) has none, and the report goes on without.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable
from contextlib import closing
from functools import lru_cache

import numpy as np
from PIL import Image

from reprl import trust
from reprl.envs.defaults import CLEAN, DEFAULT_GAME
from reprl.envs.games import game as game_of
from reprl.envs.variation import find
from reprl.envs.vector import make_vec_env
from reprl.errors import UserError
from reprl.naming import file_name
from reprl.rng import numpy_stream

MOST = 64  # each takes a game's emulator for a moment
MOMENT = 255  # steps into the game: some bricks are gone, the ball is in the air
SEED = 0


def thumbnails(variants: Iterable[str], game: str = DEFAULT_GAME) -> dict[str, str]:
    """Data URIs of those variants that can be drawn."""
    drawn = list(variants)[:MOST]
    with trust.closed():  # the names are those of a table, which imports nobody's module
        pictures = {variant: _picture(variant, game) for variant in drawn}
    return {variant: uri for variant, uri in pictures.items() if uri}


@lru_cache(maxsize=256)
def _picture(variant: str, game: str) -> str:
    try:
        frame = _frame(variant, game)
    except UserError:
        return ""
    return as_uri(frame)


def _frame(variant: str, game: str) -> np.ndarray:
    """The picture (210, 160, 3 in Breakout) after the actions of the clean game."""
    env = make_vec_env(find(variant, None, game), n_envs=1, seed=SEED, training=False, game=game)
    with closing(env):
        env.queue(0, SEED)
        env.reset()
        for action in _actions(game):
            env.step(np.array([action]))
        return env.frame(0)


@lru_cache(maxsize=8)
def _actions(game: str) -> tuple[int, ...]:
    """What the scripted player does in the clean game, or chance where there is none."""
    script = game_of(game).scripted
    env = make_vec_env(CLEAN, n_envs=1, seed=SEED, training=False, game=game)
    with closing(env):
        if script is None:
            stream = numpy_stream(SEED, "thumbnails", file_name(game))
            return tuple(stream.integers(len(env.action_meanings), size=MOMENT).tolist())
        env.queue(0, SEED)
        env.reset()
        agent, out = script(1.0, seed=SEED), []
        for _ in range(MOMENT):
            actions = agent.predict(env.objects())
            env.step(actions)
            out.append(int(actions[0]))
    return tuple(out)


def as_uri(picture: np.ndarray) -> str:
    """A picture (H, W, 3) as lossless WebP in a data URI."""
    out = io.BytesIO()
    Image.fromarray(picture).save(out, "WEBP", lossless=True, quality=100, method=4)
    return f"data:image/webp;base64,{base64.b64encode(out.getvalue()).decode()}"
