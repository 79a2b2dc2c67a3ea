"""Tables on disk: reuse by protocol, merging by key, damage, files that are appended to."""

from multiprocessing.pool import ThreadPool

import pandas as pd

from reprl.envs import find
from reprl.evaluation import COLUMNS
from reprl.evaluation.campaign import missing
from reprl.evaluation.episodes import FinishedGame
from reprl.evaluation.evaluate import table
from reprl.evaluation.players import RandomAgent, Task
from reprl.schema import EPISODES, FAITHFULNESS, MEASURED, NUMERIC, SCORES, TWIN, VALIDATION
from reprl.tables import merge, read, read_mixed, read_numbers, read_rows, write_rows
from tests.helpers import refuses

PROTOCOL = {"method": "random", "step": 0, "deterministic": False, "sticky": 0.0}


def rows(*specs, episodes=2, seed=0, score=1.0, sticky=0.0):
    tasks = [Task(find(s), e, seed) for s in specs for e in range(episodes)]
    games = [FinishedGame(task, score, 800, 190, "game_over", "") for task in tasks]
    return tasks, table(games, RandomAgent(4), sticky)


def test_what_is_there_is_not_missing(tmp_path):
    path = tmp_path / "evaluation" / "episodes.csv"
    tasks, frame = rows("original", "green_lines@0.25", "green_lines")
    assert missing(read(path, EPISODES)[0], tasks, **PROTOCOL) == tasks
    merge(path, frame, EPISODES)
    there, damaged = read(path, EPISODES)
    assert damaged == 0
    pd.testing.assert_frame_equal(there, frame)
    assert missing(there, tasks, **PROTOCOL) == []
    for change in ({"method": "scripted"}, {"step": 5}, {"deterministic": True}, {"sticky": 0.25}):
        assert missing(there, tasks, **PROTOCOL | change) == tasks
    other_seed, _ = rows("original", seed=1)
    assert missing(there, other_seed, **PROTOCOL) == other_seed
    more, _ = rows("original", "green_lines", "diagonals", episodes=3)
    left = [(task.variant.name, task.episode) for task in missing(there, more, **PROTOCOL)]
    assert left == [("original", 2), ("green_lines", 2), *(("diagonals", e) for e in range(3))]


def test_adding_keeps_other_rows_and_replaces_equal_games(tmp_path):
    path = tmp_path / "episodes.csv"
    merge(path, rows("original", score=1.0)[1], EPISODES)
    merge(path, rows("original", score=1.0, sticky=0.25)[1], EPISODES)
    there = merge(path, rows("original", "diagonals", score=3.0)[1], EPISODES)
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
        pool.map(lambda seed: merge(path, rows("original", seed=seed)[1], EPISODES), range(24))
    there, _ = read(path, EPISODES)
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
    there, damaged = read(path, EPISODES)
    assert damaged == 3
    assert there["episode"].tolist() == [0, 4]
    assert [t.episode for t in missing(there, tasks, **PROTOCOL)] == [1, 2, 3]
    assert there["episode"].dtype == frame["episode"].dtype
    path.write_text("a,b\n1,2\n")
    with refuses("column run"):
        read(path, EPISODES)
    path.write_text("")
    with refuses(str(path)):
        read(path, EPISODES)


def test_a_stray_quote_costs_one_line_and_what_is_dropped_is_kept_aside(tmp_path):
    path = tmp_path / "episodes.csv"
    _, frame = rows("original", episodes=5)
    lines = frame.to_csv(index=False).splitlines()
    lines[2] = '"' + lines[2]
    path.write_text("\n".join(lines) + "\n")
    before = path.read_text()
    there, damaged = read(path, EPISODES)
    assert (there["episode"].tolist(), damaged) == ([0, 2, 3, 4], 1)
    merge(path, rows("original", episodes=1)[1], EPISODES)
    assert len(read(path, EPISODES)[0]) == 4
    assert (tmp_path / "episodes.csv.damaged").read_text() == before


def test_columns_are_those_of_the_design():
    text = (
        "run, method, algo, encoder, attention, auxiliary, augmentation, train_seed, step, "
        "variant, family, severity, episode, eval_seed, deterministic, sticky, "
        "episode_return, length, end, game_seed"
    )
    assert list(COLUMNS) == text.split(", ")
    assert list(rows("original")[1].columns) == text.split(", ")


def test_every_tables_columns_hold_its_key_and_what_the_report_needs():
    for name, kind in MEASURED.items():
        assert {*kind.key, *kind.needed, *kind.measures} <= set(kind.columns), name
        assert set(kind.measures) <= set(NUMERIC), name
        assert len(set(kind.columns)) == len(kind.columns), name
    assert set(VALIDATION) <= set(EPISODES.columns)
    assert TWIN.key == (*EPISODES.key, "step_in_game")


def looks(step=8, player="agent", value=0.5, objects=("ball", "paddle")):
    identity = {"run": "r", "method": "m", "train_seed": 1, "step": step, "variant": "original"}
    identity |= {"view": "mask", "player": player}
    return pd.DataFrame(
        [{**identity, "object": o, "metric": "auc", "value": value} for o in objects]
    )


def test_a_measurement_of_several_rows_is_replaced_as_a_whole(tmp_path):
    path = tmp_path / "scores.csv"
    merge(path, looks(), SCORES)
    merge(path, looks(step=16, value=1 / 3), SCORES)
    before = path.read_text().splitlines()
    merge(path, looks(player="random"), SCORES)
    there = merge(path, looks(value=0.25, objects=("ball",)), SCORES)
    assert sorted(zip(there["step"], there["player"], there["value"], strict=True)) == [
        (8, "agent", 0.25),
        (8, "random", 0.5),
        (8, "random", 0.5),
        *[(16, "agent", 1 / 3)] * 2,
    ]
    assert path.read_text().splitlines()[1:3] == before[3:5]  # untouched rows keep their bytes
    pd.testing.assert_frame_equal(read(path, SCORES)[0], there)


def test_a_file_from_before_players_were_told_apart_is_the_agents(tmp_path):
    path = tmp_path / "scores.csv"
    looks().drop(columns="player").to_csv(path, index=False)
    assert read(path, SCORES)[0]["player"].tolist() == ["agent", "agent"]
    there = merge(path, looks(value=0.75), SCORES)
    assert there["value"].tolist() == [0.75, 0.75]
    faithful = (
        looks().assign(test="deletion", condition="random").drop(columns=["object", "metric"])
    )
    assert len(merge(tmp_path / "faithfulness.csv", faithful, FAITHFULNESS)) == 2


def test_columns_of_others_stay_in_the_file(tmp_path):
    path = tmp_path / "episodes.csv"
    rows("original")[1].assign(note="mine, and yours").to_csv(path, index=False)
    there = merge(path, rows("diagonals")[1], EPISODES)
    assert list(there.columns) == list(EPISODES.columns)
    written = pd.read_csv(path)
    assert written["note"].fillna("").tolist() == ["mine, and yours"] * 2 + [""] * 2
    assert read(path, EPISODES)[1] == 0


def test_large_seeds_are_told_apart(tmp_path):
    path = tmp_path / "episodes.csv"
    merge(path, rows("original", seed=2**62)[1], EPISODES)
    there = merge(path, rows("original", seed=2**62 + 1)[1], EPISODES)
    assert there["eval_seed"].tolist() == [2**62] * 2 + [2**62 + 1] * 2


def test_a_file_that_is_appended_to_may_end_within_a_number(tmp_path):
    path = tmp_path / "metrics.csv"
    assert read_rows(path) == []
    write_rows(path, ["step", "a"], [{"step": 1, "a": 0.1 + 0.2}, {"step": 2, "a": float("nan")}])
    assert path.read_text() == "step,a\n1,0.30000000000000004\n2,nan\n"
    with open(path, "a") as file:
        file.write('"3,4\n1,2,3\n4,12.34')
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())  # as an editor saves it
    assert [row["step"] for row in read_rows(path)] == ["1", "2"]
    numbers = read_numbers(path)
    assert numbers["step"].tolist() == [1, 2]
    assert numbers["a"][0] == 0.1 + 0.2
    assert numbers["a"].isna().tolist() == [False, True]
    path.write_text("")
    assert read_rows(path) == []


def test_words_and_numbers_of_one_file_keep_their_kinds(tmp_path):
    (tmp_path / "games.csv").write_text("step,variant,severity,end\n8,original,nan,1\n16,2,0.5,x\n")
    frame = read_mixed(tmp_path / "games.csv")
    assert list(frame["step"]) == [8, 16]
    assert list(frame["variant"]) == ["original", "2"]
    assert pd.isna(frame["severity"][0])
    assert frame["severity"][1] == 0.5
    assert list(frame["end"]) == ["1", "x"]
