"""The smallest breaking change: the search finds a planted weakness, games have the last word."""

import numpy as np
import pytest

from reprl.analysis.twins import breaking as tool
from reprl.checkpoint import load
from reprl.cli import main
from reprl.envs import make_vec_env
from reprl.schema import BREAKING
from reprl.tables import read
from tests.helpers import refuses
from tests.runs import make_run


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("breaking") / "run", seed=1)


def planted(some):
    """A network that minds what is drawn near row 60, column 20, the brighter the more."""
    found = []
    for drawn in some:
        away = np.hypot(drawn.row - 60, drawn.column - 20)
        found.append((drawn.gray / 255 * np.exp(-away / 30), 0.0))
    return found


def test_the_search_finds_a_planted_weakness():
    best, js, _ = tool.strongest(planted, 3, 3, tries=240, seed=0)
    assert js > 0.8
    assert np.hypot(best.row - 60, best.column - 20) < 6
    _, few, _ = tool.strongest(planted, 3, 3, tries=4, seed=0)
    assert few < js
    assert (
        tool.strongest(planted, 3, 3, tries=24, seed=0)[0]
        == (tool.strongest(planted, 3, 3, tries=24, seed=0)[0])
    )


def test_a_drawing_is_drawn_there_and_hides_nothing():
    drawn = tool.Drawn(height=4, width=6, row=50, column=30, gray=200)
    env = make_vec_env(["original", drawn.variant], 2, training=False)
    for row in range(2):
        env.queue(row, 7)
    env.reset()
    clean, varied = env.frames()
    differs = (clean != varied).any(axis=-1)
    assert differs[34 + 100 : 34 + 108, 60:72].all()
    assert differs.sum() == 8 * 12
    assert (varied[differs] == 200).all()
    for _ in range(40):
        env.step(np.zeros(2, int))
    clean, varied = env.frames()
    changed = (clean != varied).any(axis=-1)
    assert (clean[changed] == 0).all()  # only background gave way
    env.close()


def test_sizes_grow_and_moves_stay_inside():
    draw = np.random.default_rng(0)
    one = tool.Drawn(30, 40, 50, 40, 255)
    for reach in (0.0, 1.0):
        other = one.moved(draw, reach)
        assert 0 <= other.row <= 50
        assert 0 <= other.column <= 40
        assert 1 <= other.gray <= 255


def test_an_agent_is_broken_where_games_say_so(run, monkeypatch):
    monkeypatch.setattr(tool, "divergence_on_states", lambda who, **_: planted)

    def played(who, drawn, episodes, seed):
        return 10.0 if drawn is None else 11.0 - drawn.height * drawn.width

    monkeypatch.setattr(tool, "played", played)
    table = tool.breaking(load(run), size=36, stack=2, tries=24, divergence=0.01)
    assert table["broken"].tolist() == [0] * (len(table) - 1) + [1]
    last = table.iloc[-1]
    assert last["height"] * last["width"] == 8  # keeps 3 of 10; 4 cells kept 7
    assert last["share"] == pytest.approx(0.3)
    never = tool.breaking(load(run), size=36, stack=2, tries=4, divergence=0.69, largest=4)
    assert never["broken"].sum() == 0
    assert never["score"].isna().all()  # nothing moved enough to play games for
    assert (never["height"] * never["width"]).max() == 4


def test_the_command_searches_and_writes(run, capsys, commands):
    words = ["frames=8", "tries=2", "largest=1", "episodes=1", "divergence=0.6"]
    assert main(["breaking", str(run), *words]) == 0
    assert "broken" in capsys.readouterr().out
    table, damaged = read(run / "evaluation" / "breaking.csv", BREAKING)
    assert damaged == 0
    assert len(table) == 1
    assert list(table.columns) == list(BREAKING.columns)
    commands.refuse(["breaking", run, "tries=0"], "tries=0", "2")
    commands.refuse(["breaking", run, "kept=2"], "kept=2", "1")
    with refuses("largest=0", "1"):
        tool.breaking(load(run), largest=0)
