"""Interventions: the game changes as asked, blind players do not react, maps are compared."""

import numpy as np
import pytest

from reprl.analysis.twins import interventions as tool
from reprl.checkpoint import load
from reprl.cli import main
from reprl.envs import game, make_vec_env
from reprl.envs.games import Game
from reprl.envs.games.breakout import INTERVENTIONS as CHANGES
from reprl.schema import INTERVENTIONS
from reprl.tables import read
from tests.helpers import refuses
from tests.runs import make_run


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("intervene") / "run", seed=1)


def test_the_game_itself_changes_and_only_the_touched_object():
    env = make_vec_env("original", 1 + len(CHANGES), training=False)
    env.reset()
    script = game("breakout").scripted(seed=0)
    for _ in range(200):
        env.step(np.repeat(script.predict(env.objects()[:1]), env.num_envs))
        ball, paddle = env.objects()[0].ball, env.objects()[0].paddle
        free = ball is not None and 60 < ball.x < 90 and 110 < ball.y < 150 and 40 < paddle.x < 100
        if free:  # far from walls, bricks and paddle
            break
    assert free
    env.repeat(0, range(1, env.num_envs))
    assert len({game("breakout").facts(o) for o in env.objects()}) == 1
    for row, change in enumerate(CHANGES, 1):
        env.intervene(row, change.make())
    for _ in range(2):
        env.step(np.zeros(env.num_envs, int))
    clean, *others = env.objects()
    for change, seen in zip(CHANGES, others, strict=True):
        assert tool.only_changed(clean, seen, change.object), change
        if change.change in ("left", "right"):
            moved = seen.boxes[change.object].x - clean.boxes[change.object].x
            wanted = -16 if change.change == "left" else 16
            assert abs(moved - wanted) <= (0 if change.object == "ball" else 2)
        else:
            wanted = clean.grids["bricks"].cells.copy()
            wanted[int(change.change.removeprefix("row ")) - 1] = False
            np.testing.assert_array_equal(seen.grids["bricks"].cells, wanted)
    pictures = env.frames()
    assert all((pictures[row] != pictures[0]).any() for row in range(1, env.num_envs))
    env.repeat(0, [1])  # ends the change
    env.step(np.zeros(env.num_envs, int))
    assert game("breakout").facts(env.objects()[1]) == game("breakout").facts(env.objects()[0])
    env.close()


def test_only_changed_sees_everything_else():
    env = make_vec_env("original", 2, training=False)
    for row in range(2):
        env.queue(row, 5)
    env.reset()
    env.step(np.array([0, 2]))
    clean, other = env.objects()
    assert tool.only_changed(clean, other, "paddle")
    assert not tool.only_changed(clean, other, "ball")
    assert not tool.only_changed(clean, clean, "paddle")
    env.close()


@pytest.fixture(scope="module")
def table(run):
    words = ["frames=20", "games=1", "player=scripted", "method=gradient"]
    assert main(["intervene", str(run), *words]) == 0
    there, damaged = read(run / "evaluation" / "interventions.csv", INTERVENTIONS)
    assert damaged == 0
    return there


def test_blind_players_do_not_react_and_seeing_ones_do(table):
    def reaction(method, thing):
        rows = table[(table["method"] == method) & (table["object"] == thing)]
        assert len(rows)
        return rows["flips"].mean()

    assert reaction("scripted", "ball") > 0.2
    assert reaction("scripted", "paddle") > 0.2
    assert reaction("scripted", "bricks") == 0  # it never looks at them
    assert reaction("scripted blind_to=ball", "ball") == 0
    assert reaction("scripted blind_to=paddle", "paddle") == 0
    assert reaction("scripted blind_to=paddle", "ball") > 0


def test_reaction_stands_beside_what_the_map_claims(table):
    own = table[~table["method"].str.startswith("scripted")]
    assert len(own) == len(CHANGES)
    assert list(own.columns) == list(INTERVENTIONS.columns)
    known = own[own["n_frames"] >= 10]
    assert known["js"].between(0, np.log(2)).all()
    assert known["claim_density"].gt(0).all()
    assert own["rank_correlation"].nunique() == 1
    assert (own["n_frames"] + own["excluded"]).nunique() == 1


def test_rank_correlation_by_hand():
    assert tool.rank_correlation([1, 2, 3], [10, 20, 30]) == pytest.approx(1)
    assert tool.rank_correlation([1, 2, 3, np.nan], [3, 2, 1, 9]) == pytest.approx(-1)
    assert np.isnan(tool.rank_correlation([1, 2], [1, 2]))
    assert np.isnan(tool.rank_correlation([1, 1, 1], [1, 2, 3]))


def test_the_touched_pixels_of_a_row_are_that_row():
    env = make_vec_env("original", 1, training=False)
    env.reset()
    objects = env.objects()[0]
    env.close()
    mask = tool.touched(objects, CHANGES[4], (210, 160))
    assert mask[57:63, 8:152].all()
    assert mask.sum() == 6 * 144
    assert tool.touched(objects, CHANGES[2], (210, 160)).sum() == objects.paddle.w * 4


def test_wrong_input_is_refused(run, commands):
    commands.refuse(["intervene", run, "method=magic"], "method", "magic")
    commands.refuse(["intervene", run, "player=me"], "player", "me")
    with refuses("pong", "breakout"):
        tool.interventions(load(run), game="pong", size=36, stack=2)
    with refuses("object of an intervention", "moon", "ball"):
        moon = CHANGES[0].__class__("moon", "left", CHANGES[0].make)
        truth = game("breakout").objects
        Game(cartridge="breakout", objects=truth, classes=("ball",), interventions=(moon,))
