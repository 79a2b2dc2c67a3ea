"""ALE's own modes and difficulty of Breakout as variants, told from the game's RAM and screen."""

import ale_py
import numpy as np
import pytest
from ale_py import roms

from reprl.envs import make_vec_env
from reprl.envs.variation import find, variants
from reprl.envs.variation.modes import INVISIBLE, MODES
from reprl.evaluation.twin import changes_the_game
from tests.helpers import refuses


def test_every_mode_that_ale_has_is_a_variant() -> None:
    ale = ale_py.ALEInterface()
    ale.loadROM(roms.get_rom_path("breakout"))
    assert [0, *MODES] == sorted(ale.getAvailableModes())
    assert {f"mode_{m}" for m in MODES} | {"small_paddle"} <= set(variants())
    assert not {"mode_4", "small_paddle"} & set(variants("pong"))
    assert changes_the_game(find("mode_4+green_lines"))


@pytest.mark.parametrize("mode", [4, 12])
def test_a_mode_is_the_one_ale_plays(mode: int) -> None:
    """The same actions in a bare console: the same RAM, and no bricks to see where there are none.

    A game queued behind another mode is the same again, and the clean game after it is clean.
    """
    env = make_vec_env(n_envs=1, seed=0, training=False, noop_max=0)
    actions = np.random.default_rng(mode).integers(4, size=10)
    first = _played(env, "original", actions)
    found = _played(env, f"mode_{mode}", actions)
    assert _played(env, f"mode_{mode}+small_paddle", actions)[0] == {12}
    again = _played(env, f"mode_{mode}", actions)
    assert all((a == b).all() for a, b in zip(found[1:], again[1:], strict=True))
    clean = _played(env, "original", actions)
    assert all((a == b).all() for a, b in zip(first[1:], clean[1:], strict=True))

    ale = ale_py.ALEInterface()
    ale.setInt("random_seed", 1)
    ale.setFloat("repeat_action_probability", 0.0)
    ale.loadROM(roms.get_rom_path("breakout"))
    ale.setMode(mode)
    ale.reset_game()
    minimal = list(ale.getMinimalActionSet())
    for action in (1, 2, *actions.tolist()):
        for _ in range(4):
            ale.act(minimal[action])
    assert (ale.getRAM() == found[1]).all()
    bricks = found[2][57:93, 8:152].any()
    assert bricks == (mode not in INVISIBLE)


def _played(env, name: str, actions: np.ndarray) -> tuple[set, np.ndarray, np.ndarray]:
    env.queue(0, 5, name)
    env.reset()
    widths = set()
    for action in actions:
        env.step(np.array([action]))
        widths.add(env.objects()[0].paddle.w)
    return widths, env.get_attr("machine")[0].ram.copy(), env.frames()[0]


def test_a_mode_that_is_not_there_is_refused() -> None:
    target = {"_target_": "reprl.envs.variation.modes:Mode"}
    with refuses("mode=3", "0, 4, 8"):
        find({**target, "mode": 3})
    with refuses("difficulty=2", "0, 1"):
        find({**target, "difficulty": 2})
    with refuses("'mode_4'", "'pong'"):
        find("mode_4", game="pong")
