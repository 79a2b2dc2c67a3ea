"""Pong: ground truth against the screen itself, its variants, and its scripted player."""

import json

import numpy as np
import pytest

from reprl.envs import game, make_vec_env
from reprl.envs.games.pong import PongAgent, pong_objects, turned
from reprl.envs.objects import Box, Objects
from reprl.envs.variation import find, variants
from reprl.envs.variation.drawing import gray
from reprl.envs.variation.lookup import catalogue
from tests.envs.console import Console

GREEN, ORANGE, WHITE = (92, 186, 92), (213, 130, 74), (236, 236, 236)
GROUND = (144, 72, 17)
KEYS = (0, 3, 4)  # ALE's NOOP, RIGHT (up), LEFT (down)
OWN = [n for n in variants("pong") if catalogue()[n].games == ("pong",)]
PHYSICS = [n for n in OWN if catalogue()[n].family == "dynamics"]


def follow(console: Console, count: int, rng: np.random.Generator):
    """Play so many frames: mostly after the ball, sometimes anywhere; yields after each."""
    key = 0
    for i in range(count):
        if console.ale.game_over():
            console.reset(console.effects)
        if i % 6 == 0:
            ram = console.ram
            key = 3 if int(ram[54]) < int(ram[51]) + 7 else 4
            key = int(rng.choice(KEYS)) if rng.random() < 0.35 else key
        yield console.act(key)


def bytes_of(console: Console) -> dict[tuple, int]:
    """The palette byte of each colour: comparing bytes is faster than comparing colours."""
    colours, screen = console.screen().reshape(-1, 3), console.ale.getScreen().reshape(-1)
    return {tuple(c): int(b) for c, b in zip(colours.tolist(), screen.tolist(), strict=True)}


def test_objects_are_where_the_screen_shows_them() -> None:
    console, rng = Console("pong"), np.random.default_rng(3)
    for _ in follow(console, 90, rng):
        pass
    known = bytes_of(console)
    green, orange, white, ground = (known[c] for c in (GREEN, ORANGE, WHITE, GROUND))
    field, shape = slice(34, 194), (210, 160)
    balls = right = 0
    seen: set[str] = set()
    for i, _ in enumerate(follow(console, 5000, rng)):
        screen, objects = console.ale.getScreen(), pong_objects(console.ram)
        if screen[100, 60] not in (ground, white):
            continue  # a new game's first frames have other colours
        expected = np.full(shape, ground, np.uint8)
        for name, byte in (("paddle", green), ("opponent", orange)):
            box = objects.boxes[name]
            if box is not None:
                expected[box.slices(shape)] = byte
            seen.add(f"{name} {'none' if box is None else 'whole' if box.h == 16 else 'cut'}")
        ball = objects.ball
        balls += ball is not None
        if ball is not None and ball.x < 125:
            expected[ball.slices(shape)] = white  # the ball is over the paddles
        elif ball is not None:  # there the console may be a scanline early
            near = Box(ball.x, max(ball.y - 1, 34), 2, ball.h + 1).slices(shape)
            column = screen[near] == white
            assert column.any(axis=1).sum() >= min(ball.h - 1, 3), i
            expected[near] = np.where(column, white, expected[near])
            right += 1
        assert (screen[field] == expected[field]).all(), (i, objects.boxes)
    assert balls > 2500
    assert right > 150
    assert {"paddle whole", "paddle cut", "opponent whole", "opponent cut"} <= seen
    assert "opponent none" in seen  # it hides behind the wall before a serve


def test_score_is_the_sum_of_rewards() -> None:
    console, total = Console("pong"), 0.0
    for points in follow(console, 2500, np.random.default_rng(1)):
        total += points
        assert pong_objects(console.ram).score == total
    assert total < 0


# -- variants ----------------------------------------------------------------------------------


def test_pong_has_its_own_variants_and_none_of_breakouts() -> None:
    assert {"paddle_red", "ball_hidden", "drift_up", "lazy_opponent", "noise"} <= set(
        variants("pong")
    )
    assert not {"player_red", "drift_left"} & set(variants("pong"))
    assert not set(OWN) & set(variants("breakout"))


@pytest.mark.parametrize("name", [n for n in OWN if n not in PHYSICS])
def test_a_colour_changes_one_object_and_nothing_else(name: str) -> None:
    """The maximum of two consecutive frames, as an agent sees it, with ball and paddles moving."""
    console = Console("pong")
    for _ in follow(console, 130, np.random.default_rng(0)):
        before = console.screen().copy()
    console.act(3)
    pooled = np.maximum(before, console.screen())
    picture, mask = pooled.copy(), np.zeros((210, 160), bool)
    (effect,) = find(name, game="pong").build()
    effect.draw(picture, None)
    effect.mask(mask)
    target = name.partition("_")[0]
    now = pong_objects(console.ram)
    changed = (picture != pooled).any(-1)
    assert changed.sum() > (2 if target == "ball" else 30)
    box = now.boxes[target]
    near = Box(box.x - 8, box.y - 12, box.w + 16, box.h + 24).mask()
    assert not (changed & ~near).any()
    assert not mask.any()
    if name.endswith("_hidden"):
        assert (picture[changed] == (144, 72, 17)).all()
    if name == "paddle_matched":
        assert {gray(c) for c in picture[now.paddle.mask()].tolist()} <= {151, 161}


def test_physics_change_the_game_itself() -> None:
    """The same keys in the same game: only the ball's and the opponent's way differ."""

    def played(name: str, severity: float | None = None) -> tuple[np.ndarray, list]:
        effects = find(name, severity, "pong").build() if name != "original" else []
        console = Console("pong")
        console.reset(effects)
        truth = []
        for i in range(420):
            console.act(0 if i % 3 else 3)
            truth.append(pong_objects(console.ram))
        return truth

    def ball(truth: list) -> list:
        return [t.ball for t in truth]

    def opponent(truth: list) -> list:
        return [t.opponent for t in truth]

    clean = played("original")
    for name in PHYSICS:
        assert opponent(played(name, 0.0)) == opponent(clean), name
        assert ball(played(name, 0.0)) == ball(clean), name
    first = next(i for i, t in enumerate(clean) if t.ball)
    for name, sign in (("drift_up", -1), ("drift_down", 1)):
        pushed = played(name)
        moved = [
            b.ball.y - a.ball.y
            for a, b in zip(clean[first : first + 30], pushed[first : first + 30], strict=True)
        ]
        assert moved[-1] * sign == 6, name  # 2 px every 10 frames
    fast = played("faster_rally", 1.0)
    ways = [abs(t[first + 21].ball.x - t[first + 1].ball.x) for t in (clean, fast)]
    assert ways[1] == 2 * ways[0] > 0
    lazy = played("lazy_opponent")

    def wandered(truth: list) -> float:
        """How far it goes in a flight of the ball away from it."""
        begin = next(i for i in range(first, 400) if _leaves(truth, i))
        places = [t.opponent.y for t in truth[begin + 2 : begin + 50]]
        assert all(_leaves(truth, i) for i in range(begin, begin + 50))
        return max(places) - min(places)

    assert wandered(lazy) <= 2 < 10 < wandered(clean)  # it steps off and is put back


def _leaves(truth: list, i: int) -> bool:
    now, later = truth[i].ball, truth[i + 1].ball
    return now is not None and later is not None and later.x > now.x


def test_a_lazy_opponents_place_is_part_of_its_state() -> None:
    effect, other = (find("lazy_opponent", game="pong").build()[0] for _ in range(2))
    effect.reset(np.random.default_rng(0))
    effect.place = 99
    other.load_state(json.loads(json.dumps(effect.state())))
    assert other.place == 99


# -- the scripted player -----------------------------------------------------------------------


def scene(ball: tuple | None, paddle: float = 106) -> Objects:
    box = None if ball is None else Box(*ball, 2, 4)
    return Objects(
        {"ball": box, "paddle": Box(140, paddle, 4, 16), "opponent": Box(16, 100, 4, 16)}
    )


def test_it_goes_where_the_ball_will_arrive() -> None:
    """The ball is above the paddle but turns at the wall and comes down below it."""
    agent = PongAgent()
    actions = [int(agent.predict([scene((80 + 4 * k, 60 - 8 * k))])[0]) for k in range(3)]
    assert 2 not in actions  # a ball at y 44 going up 2 px a frame arrives at 120, not above
    agent = PongAgent()
    actions = [int(agent.predict([scene((80 + 4 * k, 120 + 4 * k))])[0]) for k in range(3)]
    assert actions[1:] == [3, 3]
    assert agent.predict([scene(None)]).tolist()[0] in (0, 2, 3)


def test_a_ball_turns_at_the_walls() -> None:
    assert turned(100) == 100
    assert turned(31 - 10) == 41
    assert turned(192 + 7) == 185


def test_costs_mean_what_predict_does_and_state_goes_on() -> None:
    agent, judge = PongAgent(), PongAgent()
    before = [0]
    for k in range(12):
        seen = [scene((60 + 4 * k, 100 + 6 * k))]
        costs = judge.costs(seen, before)
        assert np.isinf(costs[0, [1, 4, 5]]).all()
        action = agent.predict(seen)
        assert costs[0].argmin() == action[0]
        before = [int(action[0])]
    other = PongAgent()
    other.load_state(json.loads(json.dumps(agent.state())))
    seen = [scene((120, 170), 130)]
    assert (agent.predict(seen) == other.predict(seen)).all()


def test_what_a_steady_player_means_can_be_seen() -> None:
    """Its place on the paddle is always the same; others draw one of two at every turn."""
    steady = [PongAgent(seed=seed, steady=True) for seed in range(4)]
    others = [PongAgent(seed=seed) for seed in range(4)]
    apart = False
    for k in range(24):
        x = 60 + 8 * (k if k < 6 else 12 - k if k < 12 else k - 12)  # there, back and there
        seen = [scene((x, 100 + 2 * k))]
        costs = [agent.costs(seen, [0]) for agent in steady]
        assert all((c == costs[0]).all() for c in costs)
        drawn = [agent.costs(seen, [0]) for agent in others]
        apart |= any((c != drawn[0]).any() for c in drawn)
    assert apart


def play(agent: PongAgent, steps: int, variant: str = "original") -> tuple[int, int]:
    env = make_vec_env(variant, n_envs=2, training=False, seed=2, game="pong", size=36, stack=1)
    env.reset()
    won = lost = 0
    for _ in range(steps):
        _, points, _, _ = env.step(agent.predict(env.objects()))
        won, lost = won + int((points > 0).sum()), lost + int((points < 0).sum())
    return won, lost


@pytest.mark.slow
def test_it_holds_its_own_where_random_play_loses_everything() -> None:
    _, lost = play(PongAgent(), 300)
    assert lost <= 2
    random_won, random_lost = play(PongAgent(0.0), 300)
    assert random_lost >= 8 > 2 >= random_won
    assert play(PongAgent(blind_to={"ball"}), 200)[1] >= 4


def test_the_game_declares_what_evaluation_needs() -> None:
    found = game("pong")
    assert found.has_truth
    assert (found.tracked, found.scripted) == ("ball", PongAgent)
    assert found.classes == ("ball", "paddle", "opponent")
