"""Suites: which variants an agent may train on, which it is tuned on, and which stay unseen.

Every suite declares its split, so that "generalizes" means the same in every report. Training and
test never share a variant, and what the two have in common is said in the suite's one sentence.
"""

from __future__ import annotations

from collections.abc import Mapping

from reprl.envs.defaults import CLEAN, DEFAULT_GAME
from reprl.envs.variation.lookup import variants
from reprl.errors import unknown

SPLITS = ("train", "validation", "test")

# One sentence, then the three splits in order.
_SUITES: Mapping[str, tuple[str, tuple[str, ...], tuple[str, ...], tuple[str, ...]]] = {
    "published": (
        "The four drawings of Gamrian & Goldberg; the easiest is for tuning.",
        (CLEAN,),
        ("constant_rectangle",),
        ("moving_square", "green_lines", "diagonals"),
    ),
    "drawing": (
        "Train on random drawings, test on the published ones and on their controls.",
        (CLEAN, "random_squares", "random_lines"),
        ("constant_rectangle", "vertical_lines"),
        (
            *("moving_square", "green_lines", "green_lines_under", "green_lines_matched"),
            *("diagonals", "ball_decoys"),
        ),
    ),
    "colour": (
        "Objects and background in other colours; the gray-matched player is the control.",
        (CLEAN, "bricks_resampled"),
        ("player_white", "paddle_white", "bricks_white", "background_gray"),
        (
            *("player_black", "player_red", "player_blue", "player_green", "player_matched"),
            *("player_gray_74", "player_gray_111", "player_gray_142"),
            *("player_gray_170", "player_gray_192"),
            *("paddle_black", "paddle_red", "paddle_blue", "paddle_matched", "paddle_hidden"),
            *("ball_black", "ball_red", "ball_blue", "ball_hidden", "opponent_hidden"),
            *("bricks_black", "bricks_red", "bricks_blue", "bricks_green", "background_blue"),
            *("strobing_player", "strobing_bricks"),
        ),
    ),
    "picture": (
        "The same game through a bad camera.",
        (CLEAN,),
        ("noise",),
        ("blur", "flicker"),
    ),
    "geometry": (
        "The screen itself shifted, turned or smaller, and all that is on it.",
        (CLEAN,),
        ("screen_scaled",),
        ("screen_shifted", "screen_rotated"),
    ),
    "background": (
        "Something moves behind the objects; one standing still is for tuning.",
        (CLEAN,),
        ("background_gray", "moving_texture"),
        ("background_blue", "moving_plasma", "moving_lines", "moving_video"),
    ),
    "mode": (
        "The cartridge's own other games: ALE's modes and difficulty.",
        (CLEAN,),
        ("mode_4", "mode_8"),
        (*(f"mode_{mode}" for mode in range(12, 48, 4)), "small_paddle"),
    ),
    "dynamics": (
        "The picture stays, the ball flies differently.",
        (CLEAN,),
        ("drift_right", "gravity_up", "drift_up"),
        (
            *("drift_left", "gravity_down", "faster_ball"),
            *("drift_down", "faster_rally", "lazy_opponent"),
        ),
    ),
}


def suites() -> list[str]:
    """The names of the suites."""
    return [*_SUITES, "all"]


def suite(name: str, game: str = DEFAULT_GAME) -> dict[str, list[str]]:
    """What a game has of a suite's train, validation and test variants.

    "all" tests on whatever is left.
    """
    here = variants(game)
    if name in _SUITES:
        _, *parts = _SUITES[name]
        return {
            split: [v for v in part if v in here] for split, part in zip(SPLITS, parts, strict=True)
        }
    if name != "all":
        raise unknown("suite", name, suites())
    train = [CLEAN]
    validation = list(dict.fromkeys(v for s in _SUITES for v in suite(s, game)["validation"]))
    rest = [v for v in here if v not in train and v not in validation]
    return {"train": train, "validation": validation, "test": rest}


def lacking(name: str, game: str) -> list[str]:
    """The variants of a suite that a game cannot have."""
    _, *parts = _SUITES.get(name, ("",))
    here = variants(game)
    return [variant for part in parts for variant in part if variant not in here]


def about(name: str) -> str:
    """What a suite asks, in one sentence."""
    if name == "all":
        return "Every variant there is, after training on the original alone."
    if name not in _SUITES:
        raise unknown("suite", name, suites())
    return _SUITES[name][0]
