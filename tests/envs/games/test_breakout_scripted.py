"""The scripted player: competent, as skilled as asked, and blind where asked."""

import numpy as np
import pytest

from reprl.envs import ScriptedAgent, make_vec_env
from reprl.envs.games.breakout import folded
from reprl.envs.objects import Box, Grid, Objects
from tests.helpers import refuses


def play(agent: ScriptedAgent, steps: int, variant="original", n_envs: int = 2, seed: int = 3):
    """Points made and balls lost by all environments in so many steps, and the actions."""
    env = make_vec_env(variant, n_envs=n_envs, training=False, seed=seed)
    env.reset()
    points = lost = 0.0
    actions = []
    lives = np.full(n_envs, 5)
    for _ in range(steps):
        actions.append(agent.predict(env.objects()))
        _, rewards, dones, infos = env.step(actions[-1])
        points += rewards.sum()
        now = np.array([info["lives"] for info in infos])
        lost += (now < lives).sum()
        lives = np.where(dones, 5, now)
    env.close()
    return points, lost, np.array(actions)


def test_it_plays_well_and_repeats_itself() -> None:
    points, lost, actions = play(ScriptedAgent(), 500)
    assert points > 25
    assert lost == 0
    _, _, again = play(ScriptedAgent(), 120)
    assert (again == actions[:120]).all()
    _, _, other = play(ScriptedAgent(seed=1), 120)
    assert (other != again).any()


def test_what_a_steady_player_means_can_be_seen() -> None:
    """Players of two seeds judge one game alike, and it is played well; others aim apart."""
    env = make_vec_env(n_envs=2, training=False, seed=3)
    env.reset()
    steady = [ScriptedAgent(seed=seed, steady=True) for seed in (0, 1)]
    others = [ScriptedAgent(seed=seed) for seed in (0, 1)]
    before, points, apart = np.zeros(2, np.int64), 0.0, 0
    lives = np.full(2, 5)
    for _ in range(400):
        objects = env.objects()
        costs, again = (agent.costs(objects, before) for agent in steady)
        assert (costs == again).all()
        one, other = (agent.costs(objects, before) for agent in others)
        apart += int((one != other).any())
        before = costs.argmin(axis=1)
        _, rewards, _, infos = env.step(before)
        points += rewards.sum()
        assert ([info["lives"] for info in infos] == lives).all()  # not a ball is lost
    assert points > 20
    assert apart > 40
    env.close()


@pytest.mark.slow
def test_it_reaches_hundreds_of_points() -> None:
    points, _, _ = play(ScriptedAgent(), 1500, n_envs=3)
    assert points / 3 > 100


@pytest.mark.slow
def test_skill_is_monotone() -> None:
    """Balls lost per point made fall with skill; skill 0 is random play."""
    rates = []
    for skill in (0.0, 0.5, 0.8, 1.0):
        points, lost, actions = play(ScriptedAgent(skill), 500, n_envs=3)
        rates.append(points / max(lost, 1))
        if skill == 0:
            share = np.bincount(actions.ravel(), minlength=4) / actions.size
            assert share == pytest.approx([0.25] * 4, abs=0.04)
    assert rates == sorted(rates)
    assert rates[0] < 1
    assert rates[-1] > 5 * rates[1]


@pytest.mark.slow
def test_blindness_makes_the_gap() -> None:
    """Blind to the distractor: lost on green lines, untouched without a drawing."""
    clean = play(ScriptedAgent(blind_to={"distractor"}), 400)
    assert clean[:2] == play(ScriptedAgent(), 400)[:2]
    seeing = play(ScriptedAgent(), 400, "green_lines")
    blind = play(ScriptedAgent(blind_to={"distractor"}), 400, "green_lines")
    assert seeing[:2] == clean[:2]
    assert blind[0] / max(blind[1], 1) < 2 < seeing[0] / max(seeing[1], 1)
    for what in ("ball", "paddle"):
        points, lost, _ = play(ScriptedAgent(blind_to={what}), 300)
        assert points / max(lost, 1) < 2


def test_a_ball_turns_at_the_walls() -> None:
    assert folded(80) == 80
    assert folded(150 + 10) == 140
    assert folded(8 - 10) == 18
    assert folded(150 + 142 + 5) == 13


def scene(ball: Box | None, *, score: int = 0, lives: int = 5, paddle: float = 72) -> Objects:
    bricks = np.ones((6, 18), dtype=bool)
    drawing = np.zeros((210, 160), dtype=bool)
    boxes = {"ball": ball, "paddle": Box(paddle, 189, 16, 4)}
    return Objects(boxes, {"bricks": Grid(bricks)}, score, lives, drawing)


def test_it_goes_where_the_ball_will_land() -> None:
    """The ball is left of the paddle but comes down far to the right of it."""
    agent = ScriptedAgent()
    actions = []
    for k in range(8):
        actions += agent.predict([scene(Box(40 + 8 * k, 110 + 8 * k, 2, 4))]).tolist()
    assert actions[2:5] == [2, 2, 2]
    assert agent.predict([scene(None)]).tolist() == [1]


def test_a_drawing_below_the_ball_is_taken_for_it() -> None:
    blind, seeing = ScriptedAgent(blind_to=["distractor"]), ScriptedAgent()
    for _ in range(4):
        now = scene(Box(20, 120, 2, 4))
        now.distractor[160:164, 140:144] = True
        actions = [agent.predict([now])[0] for agent in (blind, seeing)]
        assert actions == [2, 3]
    now = scene(Box(20, 170, 2, 4))  # now the ball is the lower one
    now.distractor[160:164, 140:144] = True
    assert blind.predict([now])[0] == 3


def test_a_game_has_its_own_stream_and_memory() -> None:
    scenes = [scene(Box(40, 110 + 5 * k, 2, 4)) for k in range(12)]

    def actions(agent: ScriptedAgent, game: int | None) -> list[int]:
        games = None if game is None else [game]
        return [int(agent.predict([s], games)[0]) for s in scenes]

    agent = ScriptedAgent(0.3)
    first = actions(agent, 7)
    assert actions(agent, 8) != first
    assert actions(agent, 7) == first
    counted = ScriptedAgent(0.3)
    begin = actions(counted, None)
    counted.predict([scene(None, score=4, lives=1)])
    assert actions(counted, None) != begin  # lives went up: the second game
    assert actions(ScriptedAgent(0.3), None) == begin


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({"skill": 1.5}, ["skill=1.5", "0 to 1"]),
        ({"skill": "good"}, ["skill=good"]),
        ({"blind_to": {"bal"}}, ["blind_to=bal", "'ball'"]),
    ],
)
def test_wrong_input(options: dict, names: list[str]) -> None:
    with refuses(*names):
        ScriptedAgent(**options)
