"""Games: named ones, any other of ALE, a user's own, and what is wrong with one."""

import pickle
import subprocess
import sys

import numpy as np
import pytest

from reprl.envs import Box, Game, Grid, Objects, Roles, ScriptedAgent, game, make_vec_env
from reprl.envs.games import breakout, canonical, mirrored
from reprl.envs.protocol import GameVecEnv
from tests.envs.console import Console
from tests.helpers import refuses
from tests.toys.freeway import FREEWAY, Crosser, freeway_objects

OWN = "tests.toys.freeway:FREEWAY"
ROAD = (142, 142, 142)


def test_a_name_finds_its_game() -> None:
    found = game("breakout")
    assert found is breakout.GAME
    assert (found.tracked, found.scripted) == ("ball", ScriptedAgent)
    assert game(OWN) is FREEWAY
    assert game("boxing") == Game(cartridge="boxing")
    assert not game("boxing").has_truth


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("Pong", "pong"),
        ("ALE/Pong-v5", "pong"),
        ("PongNoFrameskip-v4", "pong"),
        ("MsPacman", "ms_pacman"),
        ("ms_pacman", "ms_pacman"),
        ("SpaceInvadersDeterministic-v0", "space_invaders"),
        ("Brekout", "Brekout"),
        (OWN, OWN),
    ],
)
def test_games_are_found_as_people_write_them(written: str, name: str) -> None:
    assert canonical(written) == name
    if name != "Brekout":
        assert game(written) == game(name)


@pytest.mark.parametrize(
    ("name", "names"),
    [
        ("brekout", ["'brekout'", "'breakout'"]),
        ("tests.toys.freeway:FREWAY", ["tests.toys.freeway:FREWAY"]),
        ("no_such_module:GAME", ["no_such_module"]),
        ("tests.toys.freeway:Crosser", ["tests.toys.freeway:Crosser", "reprl.envs.games.Game"]),
        ("tests.toys.freeway:WRONG", ["chicken, cars", "cars, chicken"]),
    ],
)
def test_a_wrong_name_is_refused(name: str, names: list[str]) -> None:
    with refuses(*names):
        make_vec_env(n_envs=1, game=name)


@pytest.mark.parametrize(
    ("fields", "names"),
    [
        ({"classes": ("ball",)}, ["objects"]),
        ({"objects": freeway_objects, "classes": ("distractor",)}, ["'distractor'"]),
        ({"objects": freeway_objects, "classes": ("two words",)}, ["'two words'"]),
        (
            {"objects": freeway_objects, "classes": ("chicken",), "tracked": "chiken"},
            ["'chiken'", "'chicken'"],
        ),
    ],
)
def test_a_game_that_contradicts_itself_is_refused(fields: dict, names: list[str]) -> None:
    with refuses(*names):
        Game(cartridge="freeway", **fields)


def test_roles_are_positions_of_the_minimal_action_set() -> None:
    assert Roles.of(["NOOP", "FIRE", "RIGHT", "LEFT"]) == Roles(0, 1, 3, 2, (0, 1, 3, 2))
    assert Roles.of(["NOOP", "UP", "DOWN"]) == Roles(0, None, None, None, None)
    assert mirrored(["NOOP", "LEFT"]) is None  # an action without its mirror image
    assert mirrored(None) is None


def test_objects_have_their_names_as_attributes_and_travel() -> None:
    cells = np.array([[True, False], [False, True]])
    made = Objects({"car": Box(1, 2, 3, 4), "dog": None}, {"holes": Grid(cells, 10, 20, 2, 3)}, 7)
    for seen in (made, pickle.loads(pickle.dumps(made))):
        assert seen.car == Box(1, 2, 3, 4)
        assert seen.dog is None
        assert seen.holes.tolist() == cells.tolist()
        assert list(seen.masks()) == ["car", "dog", "holes", "distractor", "background"]
        with pytest.raises(AttributeError, match="'ball': there are car, dog, holes"):
            _ = seen.ball
    holes = made.masks()["holes"]
    assert holes.sum() == 2 * 2 * 3
    assert holes[20:23, 10:12].all()
    assert holes[23:26, 12:14].all()
    assert (made.shown() == (made.car.mask() | holes)).all()
    moved = Objects({"car": Box(1, 2, 3, 4), "dog": None}, {"holes": Grid(~cells, 10, 20, 2, 3)}, 7)
    assert made.facts() == pickle.loads(pickle.dumps(made)).facts()
    assert made.facts() != moved.facts()
    assert made.scaled(84).holes.shape == (2, 2)
    assert made.scaled(84).car.w == pytest.approx(3 * 84 / 160)


def test_names_of_the_last_release_are_still_there() -> None:
    from reprl.envs import objects, scripted

    assert objects.breakout_objects is breakout.breakout_objects
    assert objects.FIELD == breakout.FIELD
    assert scripted.ScriptedAgent is ScriptedAgent
    assert scripted.folded is breakout.folded


def test_freeway_is_where_the_screen_shows_it() -> None:
    console, rng, total, key = Console("freeway"), np.random.default_rng(0), 0.0, 2
    seen_whole = 0
    for i in range(900):
        if i % 40 == 0:
            key = int(rng.choice([0, 2, 2, 2, 2, 2, 5]))  # ALE's NOOP, UP, DOWN
        total += console.act(key)
        screen, seen = console.screen(), freeway_objects(console.ram)
        assert seen.score == total
        masks = seen.masks()
        for lane in range(10):
            band = (slice(27 + 16 * lane, 37 + 16 * lane), slice(60, 104))  # without the chickens
            lit = (screen[band] != ROAD).any(axis=(0, 2))
            cars = masks["cars"][band].any(axis=0)
            assert not (lit & ~cars).any(), (i, lane)
            assert (cars & ~lit).sum() <= 1, (i, lane)
        columns = (slice(180, 200), slice(40, 56))  # below the lanes there is only the chicken
        bird = (screen[columns] == (252, 252, 84)).all(axis=2)
        assert not (bird & ~masks["chicken"][columns]).any(), i
        seen_whole += int(bird.sum() > 20 and masks["chicken"][columns].sum() == 7 * 8)
    assert total > 0
    assert seen_whole > 10


@pytest.mark.slow
def test_the_vector_environment_is_what_evaluation_asks_for() -> None:
    env = make_vec_env("green_lines", n_envs=2, game=OWN, workers=1, training=False)
    try:
        assert isinstance(env, GameVecEnv)
        assert env.game is FREEWAY
        env.queue(0, 5)
        first = env.reset()[0]
        agent = Crosser()
        for _ in range(3):
            env.step(agent.predict(env.objects()))
        (here, there), seen = env.objects(), env.frame(1)
        assert here.distractor.sum() > 0  # drawn variants mark their pixels in any game
        assert (seen == env.frames()[1]).all()
        assert env.standing(0)[1] > 12
        env.queue(0, 5)
        assert (env.restart(0) == first).all()
        assert (env.observations()[0] == first).all()
        assert env.objects()[1].facts() == there.facts()  # the other game stands still
    finally:
        env.close()


def test_a_scripted_agent_is_as_good_as_its_skill() -> None:
    def points(skill: float) -> float:
        env = make_vec_env(n_envs=2, seed=1, training=False, game=OWN)
        env.reset()
        agent, total = Crosser(skill), 0.0
        for _ in range(250):
            total += env.step(agent.predict(env.objects()))[1].sum()
        env.close()
        return total

    assert points(1.0) >= 4
    assert points(0.0) <= 1
    with refuses("blind_to=car", "'cars'"):
        Crosser(blind_to="car")


@pytest.mark.slow
def test_games_need_no_torch() -> None:
    code = "import sys, reprl.envs.games as g; g.game('pong'); print('torch' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "False"
