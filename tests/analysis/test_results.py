"""Collecting runs: everything wrong on disk becomes a clear note, the rest is still there."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from reprl.analysis.finding import best_in_words
from reprl.analysis.gap import played
from reprl.analysis.load import Run, collect
from reprl.analysis.summary import against_plain, verdict
from tests.helpers import refuses


def edit_csv(path: Path, change: Callable[[pd.DataFrame], pd.DataFrame]) -> None:
    change(pd.read_csv(path)).to_csv(path, index=False)


def test_a_sweep_is_collected_whole(sweep: Path) -> None:
    got = collect([sweep])
    assert got.warnings == []
    assert {r.method for r in got.runs} == {"ppo nature", "ppo softplus + boxes"}
    assert len(got.runs) == 6
    assert len(got.episodes) == 6 * 8 * 20 + 3 * 8 * 40
    assert len(got.twin) == 6 * 4 * 60
    assert len(got.attention) == 3 * 2 * (5 * 3 + 1)


def test_no_runs_at_all_is_the_users_error(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with refuses("empty"):
        collect([tmp_path / "empty"])


def test_an_empty_folder_beside_a_good_one_is_a_note(sweep: Path, tmp_path: Path) -> None:
    got = collect([sweep, tmp_path])
    assert len(got.runs) == 6
    assert any(str(tmp_path) in w and "no run folder" in w for w in got.warnings)


def test_the_same_folder_twice_counts_once(sweep: Path) -> None:
    got = collect([sweep, sweep / "ppo-nature-1", sweep])
    assert len(got.runs) == 6
    assert len(got.episodes) == 6 * 8 * 20 + 3 * 8 * 40


FIRST = "ppo-nature-1"


def no_evaluation(run: Path) -> None:
    shutil.rmtree(run / "evaluation")


def stray_quote(run: Path) -> None:
    path = run / "evaluation" / "episodes.csv"
    lines = path.read_text().splitlines()
    lines[3] = '"' + lines[3]  # to a parser of the whole file all that follows is one field
    path.write_text("\n".join(lines) + "\n")


def no_seed(run: Path) -> None:
    def change(table: pd.DataFrame) -> pd.DataFrame:
        seeds = table["train_seed"].astype(object)
        seeds.iloc[:2] = ["x1", "inf"]
        return table.assign(train_seed=seeds)

    edit_csv(run / "evaluation" / "episodes.csv", change)


def fewer_games(run: Path) -> None:
    edit_csv(run / "evaluation" / "episodes.csv", lambda t: t[t["episode"] < 7])


def torn_rows(run: Path) -> None:
    path = run / "evaluation" / "episodes.csv"
    lines = path.read_text().splitlines()
    lines[3] += ",1,2,3,4"
    path.write_text("\n".join(lines) + "\nppo-nature-1,ppo nat")


def nan_scores(run: Path) -> None:
    path = run / "evaluation" / "episodes.csv"
    edit_csv(path, lambda t: t.assign(episode_return=t["episode_return"].where(t.index > 2)))


def missing_column(run: Path) -> None:
    edit_csv(run / "evaluation" / "episodes.csv", lambda t: t.drop(columns="episode_return"))


def binary_csv(run: Path) -> None:
    (run / "evaluation" / "episodes.csv").write_bytes(bytes(range(256)) * 9)


def empty_csv(run: Path) -> None:
    (run / "evaluation" / "episodes.csv").write_text("")


def broken_config(run: Path) -> None:
    (run / "config.yaml").write_text("algo: [unclosed")


def broken_record(run: Path) -> None:
    (run / "run.json").write_text("{")


def empty_metrics(run: Path) -> None:
    (run / "metrics.csv").write_text("")


def greedy_games(run: Path) -> None:
    edit_csv(run / "evaluation" / "episodes.csv", lambda t: t.assign(deterministic=True))


def same_seed(run: Path) -> None:
    config = run / "config.yaml"
    config.write_text(config.read_text().replace("seed: 1", "seed: 2"))


BAD = [
    (no_evaluation, "ppo-nature-1: not evaluated yet", 5),
    (stray_quote, "episodes.csv: 1 damaged rows", 6),
    (no_seed, "episodes.csv: 2 damaged rows", 6),
    (fewer_games, "between 7 and 20 games", 6),
    (torn_rows, "episodes.csv: 2 damaged rows", 6),
    (nan_scores, "3 damaged rows or scores that are no number", 6),
    (missing_column, "lacks the columns episode_return", 5),
    (binary_csv, "episodes.csv", 5),
    (empty_csv, "episodes.csv: cannot be read", 5),
    (broken_config, "config.yaml: cannot be read", 6),
    (broken_record, "run.json: cannot be read", 6),
    (empty_metrics, "metrics.csv cannot be read", 6),
    (greedy_games, "2 protocols; only those with sampled actions, sticky 0", 5),
    (same_seed, "several runs have seed 2", 6),
]


@pytest.mark.parametrize(("damage", "note", "left"), BAD, ids=[b[0].__name__ for b in BAD])
def test_damage_is_said_and_the_rest_reported(runs: Path, damage, note: str, left: int) -> None:
    damage(runs / FIRST)
    got = collect([runs])
    assert any(pd.Series([w]).str.contains(note).all() for w in got.warnings), got.warnings
    assert len(got.runs) == 6
    scored = got.episodes.loc[got.episodes["train_seed"] >= 0, "run"]
    assert scored.nunique() == left


def test_renamed_and_equally_named_runs_stay_apart(runs: Path) -> None:
    (runs / "a").mkdir()
    (runs / "b").mkdir()
    shutil.move(runs / "ppo-nature-1", runs / "a" / "run")
    shutil.move(runs / "ppo-nature-2", runs / "b" / "run")
    got = collect([runs])
    assert {"run", "b/run"} <= set(got.episodes["run"])
    assert got.episodes["run"].nunique() == 9


def test_one_name_with_different_settings_becomes_two_methods(runs: Path) -> None:
    config = runs / FIRST / "config.yaml"
    config.write_text(config.read_text().replace("0.00025", "0.001"))
    got = collect([runs])
    methods = {r.method for r in got.runs}
    assert "ppo nature · learning_rate=0.001" in methods
    assert "ppo nature · learning_rate=0.00025" in methods
    assert "ppo nature · learning_rate=0.001" in set(got.episodes["method"])


def test_labels_are_read(sweep: Path) -> None:
    by_name = {r.name: r for r in collect([sweep]).runs}
    assert by_name["ppo-softplus-boxes-2"].labels == {"original": [], "green_lines": ["stuck"]}
    written = json.loads((sweep / "ppo-softplus-boxes-2" / "attention" / "labels.json").read_text())
    assert set(written) == {"labels"}


def test_baselines_of_another_stickiness_stand_apart(runs: Path) -> None:
    path = runs / "baselines" / "evaluation" / "episodes.csv"
    there = pd.read_csv(path)
    sticky = there.assign(sticky=0.25, episode_return=99.0)
    kept = there[there["method"] != "scripted"]
    pd.concat([kept, sticky]).to_csv(path, index=False)
    got = collect([runs])
    random = got.episodes[got.episodes["method"] == "random"]
    assert len(random) == 8 * 40
    assert set(random["sticky"]) == {0.0}
    assert "scripted" not in set(got.episodes["method"])
    assert any(w.startswith("scripted: not measured at sticky 0") for w in got.warnings)


def test_games_of_two_protocols_are_not_the_same_game(runs: Path) -> None:
    path = runs / FIRST / "evaluation" / "episodes.csv"
    games = pd.read_csv(path)
    pd.concat([games.assign(sticky=0.25), games]).to_csv(path, index=False)
    got = collect([runs])
    assert (got.episodes["run"] == FIRST).sum() == len(games)
    assert any("2 protocols; only those with sampled actions, sticky 0 " in w for w in got.warnings)
    assert not any("Nothing is left" in w for w in got.warnings)


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        (5.0, 4.0, "On the variants a scores 6.0, b 3.0."),
        (2.0, 4.0, "their intervals overlap"),
        (np.nan, np.nan, "not both have an interval, so this is no ranking"),
    ],
)
def test_the_headline_says_how_sure_the_order_is(low: float, high: float, words: str) -> None:
    summary = pd.DataFrame(
        {
            "method": ["a", "b"],
            "order": [1, 2],
            "ranked": [True, True],
            "score": [6.0, 3.0],
            "score_low": [low, 2.0],
            "score_high": [7.0, high],
        }
    )
    assert words in verdict(summary)


def compared(*rows: tuple[str, str, float, float, float]) -> pd.DataFrame:
    columns = ["method", "against", "difference", "difference_low", "difference_high"]
    return pd.DataFrame(rows, columns=columns).assign(variant="all variants")


def test_what_is_clear_of_the_plain_agent_is_said_with_its_interval() -> None:
    boxes = ("boxes", "plain", 4.9, 3.1, 6.7)
    assert against_plain(compared(boxes), "plain") == (
        "Points against plain on the mean of the variants: boxes +4.9 [3.1, 6.7]."
    )
    turned = ("plain", "mask", 2.0, 1.0, 3.0)
    unsure = ("curl", "plain", 3.0, -1.0, 7.0)
    text = against_plain(
        compared(boxes, turned, unsure, ("curl", "boxes", -3.0, -4.0, -2.0)), "plain"
    )
    assert (
        "boxes +4.9 [3.1, 6.7], mask \u22122.0 [\u22123.0, \u22121.0]; of 1 more the interval"
        in text
    )
    assert text.endswith("includes 0 (not corrected for their number).")
    assert "no difference to plain is clear of 0" in against_plain(compared(unsure), "plain")
    one_seed = ("boxes", "plain", 4.9, np.nan, np.nan)
    assert against_plain(compared(one_seed), "plain") == ""
    assert against_plain(compared(boxes).assign(variant="diagonals"), "plain") == ""
    assert against_plain(pd.DataFrame(), "plain") == ""


@pytest.mark.parametrize(
    ("game", "recorded", "scale"),
    [
        ("breakout", None, 1.0),  # older runs have not recorded it
        ("mine:GAME", 0.5, 0.5),  # which is not imported for a report
        ("mine:GAME", None, 1.0),
        ("mine:GAME", "-3", 1.0),
    ],
)
def test_a_run_says_its_games_score_scale(
    tmp_path: Path, game: str, recorded: object, scale: float
) -> None:
    record = {} if recorded is None else {"score_scale": recorded}
    run = Run("r", tmp_path, "m", 1, {"env": {"game": game}}, record)
    assert run.score_scale == scale


def test_the_best_method_has_a_weakness_and_a_place_it_looks_at(sweep: Path) -> None:
    table = played(collect([sweep]).episodes)
    best, means = "ppo softplus + boxes", table.scores.loc["ppo softplus + boxes"].mean()
    names = ["constant_rectangle", "moving_square", "green_lines", "diagonals"]
    worst = min(names, key=lambda name: means[name])
    seen = {"view": "mask", "clean": "24×", "varied": "15×", "distractor": "1.0×"}
    text = best_in_words(table, best, seen, "ball")
    assert text.startswith(
        f"Weakest on {worst}: {means[worst]:.1f} points ({means['original']:.1f}"
    )
    assert text.endswith(
        "Looks at the ball: its mask peaks there 24× as often as chance, 15× on the variants; at "
        "what is drawn over the game 1.0×."
    )
    blind = best_in_words(table, best, {"view": "mask", "varied": "0.4×"}, "ball")
    assert blind.endswith(
        "Does not look at the ball: its mask peaks there 0.4× as often as chance on the variants."
    )
    for unknown in (best_in_words(table, best, {}, "ball"), best_in_words(table, best, seen, None)):
        assert unknown.endswith("Where it looks was not measured.")
    assert best_in_words(table, None, {}, "ball") == best_in_words(None, best, {}, "ball") == ""
