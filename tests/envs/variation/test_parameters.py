"""What effects refuse, in one sentence that names the parameter, and what a black player hides."""

import numpy as np
import pytest

from reprl.envs import ScriptedAgent, make_vec_env
from reprl.envs.variation import find
from tests.helpers import refuses

SHAPES = "reprl.envs.variation.shapes"
RED, GREEN = (200, 72, 72), (102, 203, 50)


@pytest.mark.parametrize(
    ("shape", "options"),
    [
        ("Lines", {"colour": [300, 0, 0]}),
        ("Lines", {"colour": "green"}),
        ("Lines", {"colour": "123"}),
        ("Lines", {"colour": [1.0, 0.5, 0.0]}),
        ("Lines", {"colour": [True, 0, 0]}),
        ("Lines", {"colour": [1, 2]}),
        ("Lines", {"opacity": 2}),
        ("Lines", {"under": "no"}),
        ("Lines", {"count": -1}),
        ("Lines", {"count": 2.7}),
        ("Lines", {"thickness": 0}),
        ("Lines", {"direction": "upwards"}),
        ("Lines", {"luminance": 256}),
        ("Lines", {"published": "no"}),
        ("Lines", {"published": True, "direction": "vertical"}),
        ("Lines", {"position_seed": -1}),
        ("Rectangles", {"position_seed": "x"}),
        ("Rectangles", {"at": [[60]]}),
        ("Rectangles", {"at": [[-5, 10]]}),
        ("Rectangles", {"at": [[200, 200]]}),
        ("Rectangles", {"at": [[60.5, 60]]}),
        ("Rectangles", {"at": []}),
        ("Rectangles", {"at": 5}),
        ("MovingSquare", {"row": -5}),
        ("MovingSquare", {"row": 200}),
        ("MovingSquare", {"columns": [-10]}),
        ("MovingSquare", {"columns": [100]}),
        ("MovingSquare", {"columns": []}),
        ("MovingSquare", {"columns": 20}),
        ("MovingSquare", {"colour": np.array([1, 2, 3])}),
    ],
)
def test_wrong_parameters_are_named(shape: str, options: dict) -> None:
    spec = {"_target_": f"{SHAPES}:{shape}", "colour": [1, 2, 3], **options}
    with refuses(next(iter(reversed(options)))):
        find(spec)


@pytest.mark.parametrize("period", [0, -0.5, 2.5, True])
def test_a_push_needs_a_whole_period(period: float) -> None:
    spec = {"_target_": "reprl.envs.variation.dynamics:Push", "direction": "left"}
    with refuses(f"period={period}"):
        find({**spec, "period": period})


def test_a_place_at_the_edge_is_inside() -> None:
    for place, pixels in (([0, 0], 36), ([79, 79], 4)):
        spec = {"_target_": f"{SHAPES}:Rectangles", "colour": [1, 200, 3], "at": [place]}
        (effect,) = find(spec).build()
        mask = np.zeros((210, 160), bool)
        effect.mask(mask)
        assert mask.sum() == pixels


def test_another_background_does_not_cover_black_objects() -> None:
    """They have the background's colour, so the colour alone does not tell them apart."""
    names = ["background_gray", "player_black+background_gray", "background_gray+bricks_black"]
    env = make_vec_env([*names, "player_black+green_lines_under"], n_envs=4, training=False)
    for index in range(4):
        env.queue(index, 3)
    env.reset()
    agent, on_a_line = ScriptedAgent(), 0
    for _ in range(90):
        seen = env.objects()[0]
        gray, player, bricks, lines = env.frames()
        paddle, wall = seen.masks()["paddle"], seen.masks()["bricks"]
        paddle[195:] = False
        assert (player[paddle] == 0).all()
        assert (bricks[wall] == 0).all()
        changed = (gray != player).any(-1)
        assert (gray[changed] == RED).all()  # and nothing else became black
        if seen.ball is not None and 100 < seen.ball.y < 180:
            ball = seen.ball.mask()
            assert (player[ball] == 0).all()
            assert (lines[ball] == 0).all()
            on_a_line += int((lines[ball.any(axis=1)] == GREEN).all(-1).any())
        env.step(np.repeat(agent.predict([seen]), 4))
    assert on_a_line > 5


def test_only_what_blackens_objects_makes_others_look_for_them() -> None:
    for name, wanted in (
        ("background_gray", False),
        ("player_red+background_gray", False),
        ("player_black+green_lines", False),
        ("player_black+background_gray", True),
        ("green_lines_under+bricks_black", True),
    ):
        assert any(effect.needs_objects for effect in find(name).build()) == wanted, name
