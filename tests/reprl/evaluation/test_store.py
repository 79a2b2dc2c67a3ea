"""Rows on disk and lists of variants: reuse by protocol, damage, severities, suites."""

from multiprocessing.pool import ThreadPool

import pandas as pd
import pytest

from reprl.envs import find
from reprl.errors import UserError
from reprl.evaluation import COLUMNS, store
from reprl.evaluation.episodes import Game
from reprl.evaluation.evaluate import table
from reprl.evaluation.players import RandomAgent, Task
from reprl.evaluation.variants import expand, label

PROTOCOL = {"method": "random", "step": 0, "deterministic": False, "sticky": 0.0}


def rows(*specs, episodes=2, seed=0, score=1.0, sticky=0.0):
    tasks = [Task(find(s), e, seed) for s in specs for e in range(episodes)]
    games = [Game(task, score, 800, 190, "game_over", "") for task in tasks]
    return tasks, table(games, RandomAgent(4), sticky)


def test_what_is_there_is_not_missing(tmp_path):
    path = tmp_path / "evaluation" / "episodes.csv"
    tasks, frame = rows("original", "green_lines@0.25", "green_lines")
    assert store.missing(store.read(path)[0], tasks, **PROTOCOL) == tasks
    store.add(path, frame)
    there, damaged = store.read(path)
    assert damaged == 0
    pd.testing.assert_frame_equal(there, frame)
    assert store.missing(there, tasks, **PROTOCOL) == []
    for change in ({"method": "scripted"}, {"step": 5}, {"deterministic": True}, {"sticky": 0.25}):
        assert store.missing(there, tasks, **PROTOCOL | change) == tasks
    other_seed, _ = rows("original", seed=1)
    assert store.missing(there, other_seed, **PROTOCOL) == other_seed
    more, _ = rows("original", "green_lines", "diagonals", episodes=3)
    left = [(task.variant.name, task.episode) for task in store.missing(there, more, **PROTOCOL)]
    assert left == [("original", 2), ("green_lines", 2), *(("diagonals", e) for e in range(3))]


def test_adding_keeps_other_rows_and_replaces_equal_games(tmp_path):
    path = tmp_path / "episodes.csv"
    store.add(path, rows("original", score=1.0)[1])
    store.add(path, rows("original", score=1.0, sticky=0.25)[1])
    there = store.add(path, rows("original", "diagonals", score=3.0)[1])
    assert there.groupby(["variant", "sticky"]).size().to_dict() == {
        ("original", 0.0): 2,
        ("original", 0.25): 2,
        ("diagonals", 0.0): 2,
    }
    assert there.loc[there["sticky"] == 0.0, "episode_return"].tolist() == [3.0] * 4
    assert not list(tmp_path.glob(".*draft"))


def test_evaluations_at_the_same_time_lose_nothing(tmp_path):
    path = tmp_path / "episodes.csv"
    with ThreadPool(8) as pool:
        pool.map(lambda seed: store.add(path, rows("original", seed=seed)[1]), range(24))
    there, _ = store.read(path)
    assert len(there) == 48
    assert there["eval_seed"].nunique() == 24


def test_damaged_rows_are_counted_and_left_out(tmp_path):
    path = tmp_path / "episodes.csv"
    tasks, frame = rows("original", episodes=5)
    lines = frame.to_csv(index=False).splitlines()
    lines[2] = lines[2].replace("1.0", "many")  # episode 1: no number
    lines[3] = lines[3][: len(lines[3]) // 2]  # episode 2: cut short
    lines[4] += ",surplus"  # episode 3
    path.write_text("\n".join(lines))
    there, damaged = store.read(path)
    assert damaged == 3
    assert there["episode"].tolist() == [0, 4]
    assert [t.episode for t in store.missing(there, tasks, **PROTOCOL)] == [1, 2, 3]
    assert there["episode"].dtype == frame["episode"].dtype
    path.write_text("a,b\n1,2\n")
    with pytest.raises(UserError, match="no column run"):
        store.read(path)
    path.write_text("")
    with pytest.raises(UserError, match="cannot read"):
        store.read(path)


def test_a_stray_quote_costs_one_line_and_what_is_dropped_is_kept_aside(tmp_path):
    path = tmp_path / "episodes.csv"
    _, frame = rows("original", episodes=5)
    lines = frame.to_csv(index=False).splitlines()
    lines[2] = '"' + lines[2]
    path.write_text("\n".join(lines) + "\n")
    before = path.read_text()
    there, damaged = store.read(path)
    assert (there["episode"].tolist(), damaged) == ([0, 2, 3, 4], 1)
    store.add(path, rows("original", episodes=1)[1])
    assert len(store.read(path)[0]) == 4
    assert (tmp_path / "episodes.csv.damaged").read_text() == before


def test_columns_are_those_of_the_design():
    text = (
        "run, method, algo, encoder, attention, auxiliary, augmentation, train_seed, step, "
        "variant, family, severity, episode, eval_seed, deterministic, sticky, "
        "episode_return, length, end, game_seed"
    )
    assert list(COLUMNS) == text.split(", ")
    assert list(rows("original")[1].columns) == text.split(", ")


def test_severities_multiply_variants_that_have_one():
    found = expand(["original", "green_lines", "diagonals@0.7", "green_lines@1"], [0.25, 1])
    assert [(v.name, v.severity) for v in found] == [
        ("original", None),
        ("green_lines", 0.25),
        ("green_lines", 1.0),
        ("diagonals", 0.7),
    ]
    assert [label(v) for v in found][1:] == ["green_lines@0.25", "green_lines@1", "diagonals@0.7"]
    assert label(find("green_lines")) == "green_lines"


def test_different_variants_are_played_beside_each_other():
    lines = {"_target_": "reprl.envs.variation.shapes:Lines", "colour": [200, 0, 0]}
    blue = {**lines, "colour": [0, 0, 200]}
    assert len(expand([lines, blue, lines])) == 2
    with pytest.raises(UserError, match="two different variants are called 'stripes@0.5'"):
        expand([{**lines, "name": "stripes"}, {**blue, "name": "stripes"}])
    user = "reprl.envs.variation.picture:Noise"
    mixed = expand([f"{user}@0.3+drift_left", f"{user}@0.9+drift_left"])
    tasks = [Task(variant, 0, 0) for variant in mixed]
    played = table([Game(tasks[0], 1.0, 400, 100, "game_over", "0" * 16)], RandomAgent(4), 0.0)
    assert store.missing(played, tasks, **PROTOCOL) == tasks[1:]
    levels = expand([f"{user}+drift_left"], [0.25, 1])
    assert len({label(variant) for variant in levels}) == 2


def test_suites_and_compositions():
    names = [v.name for v in expand(["suite:published", "green_lines+diagonals", "original"])]
    assert names == [
        *("original", "constant_rectangle", "moving_square", "green_lines", "diagonals"),
        "green_lines+diagonals",
    ]
    assert [v.name for v in expand("suite:published/validation")] == ["constant_rectangle"]
    for wrong, hint in (
        ("suite:publshed", "'published'"),
        ("suite:published/tst", "'test'"),
        ("gren_lines", "'green_lines'"),
    ):
        with pytest.raises(UserError, match=f"Did you mean {hint}"):
            expand(wrong)
    with pytest.raises(UserError, match="empty"):
        expand([])
    with pytest.raises(UserError, match="severity=1.5"):
        expand("green_lines", [1.5])
