"""Attention over training: only like is joined with like, and nothing of another kind is lost."""

import pandas as pd
import pytest

from reprl.analysis.attention.study import _merge
from reprl.analysis.attention.trend import trend, write_trend
from reprl.schema import SCORES

IDENTITY = {"run": "r", "method": "m", "train_seed": 0}


def rows(value: float) -> pd.DataFrame:
    row = {"object": "ball", "metric": "energy", "value": value, "low": value / 2}
    return pd.DataFrame([row | {"high": value * 2, "chance": 0.01}])


def add(path, step, value, view="mask", player="agent", variant="green_lines"):
    columns = IDENTITY | {"step": step, "variant": variant, "view": view, "player": player}
    _merge(path, rows(value), columns, SCORES)


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "scores.csv"
    add(path, 1024, 0.02)
    add(path, 2048, 0.03)
    add(path, 2048, 0.9, view="gradient")
    add(path, 2048, 0.5, player="random")
    return path


def test_views_and_players_do_not_replace_each_other(table):
    add(table, 2048, 0.04)  # the same again
    found = pd.read_csv(table).set_index(["view", "player", "step"])["value"].to_dict()
    assert found == {
        ("mask", "agent", 1024): 0.02,
        ("mask", "agent", 2048): 0.04,
        ("gradient", "agent", 2048): 0.9,
        ("mask", "random", 2048): 0.5,
    }


def test_a_line_joins_one_view_of_one_player(table, tmp_path):
    found = trend(pd.read_csv(table), "green_lines")
    own = found[(found["view"] == "mask") & (found["player"] == "agent")]
    assert own["value"].tolist() == pytest.approx([2.0, 3.0])
    assert own["step"].tolist() == [1024, 2048]
    picture = tmp_path / "trend.svg"
    assert write_trend(table, "green_lines", picture)
    alone = picture.read_text()
    assert "<!-- mask -->" in alone
    assert "gradient" not in alone
    add(table, 1024, 0.8, view="gradient")
    assert write_trend(table, "green_lines", picture)
    assert "<!-- gradient -->" in picture.read_text()


def test_two_views_of_one_checkpoint_each_are_no_history(tmp_path):
    path, picture = tmp_path / "scores.csv", tmp_path / "trend.svg"
    add(path, 1024, 0.02)
    add(path, 2048, 0.9, view="gradient")
    picture.write_text("drawn when they were joined")
    assert not write_trend(path, "green_lines", picture)
    assert not picture.exists()


def test_rows_from_before_players_were_told_apart_are_the_agents(table):
    pd.read_csv(table).query("player == 'agent'").drop(columns="player").to_csv(table, index=False)
    add(table, 2048, 0.05)
    found = pd.read_csv(table).query("view == 'mask'")
    assert found["player"].tolist() == ["agent", "agent"]
    assert found["value"].tolist() == [0.02, 0.05]
