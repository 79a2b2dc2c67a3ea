"""Uneven evaluations: what is missing is said by name, and only what is fair is averaged."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from reprl.analysis.ablation import ablation_table
from reprl.analysis.gap import generalization_gap
from reprl.analysis.load import collect
from reprl.analysis.report import compose, write_report
from reprl.analysis.summary import headline, overall, verdict

pytestmark = pytest.mark.slow  # writes reports

FIRST = "ppo-nature-1"


def edit(path: Path, change: Callable[[pd.DataFrame], pd.DataFrame]) -> None:
    change(pd.read_csv(path)).to_csv(path, index=False)


def said(runs: Path) -> tuple[list[str], str]:
    """The notes, and the sentences on all methods."""
    got = collect([runs])
    summary, gaps = overall(got.episodes), generalization_gap(got.episodes)
    return got.warnings, " ".join(headline(row, gaps, 1.7) for _, row in summary.iterrows())


def test_a_run_without_variants_is_named_and_not_called_a_bad_learner(runs: Path) -> None:
    path = runs / FIRST / "evaluation" / "episodes.csv"
    edit(path, lambda t: t[t["variant"] == "original"])
    notes, text = said(runs)
    assert "no variant was played by every run" in text
    assert "too little was learned" not in text
    assert any(n == f"diagonals was not played by {FIRST}: averages leave it out." for n in notes)


def test_random_play_missing_on_one_variant_costs_only_that_variant(runs: Path) -> None:
    path = runs / "baselines" / "evaluation" / "episodes.csv"
    gone = "diagonals"
    edit(path, lambda t: t[(t["method"] != "random") | (t["variant"] != gone)])
    notes, text = said(runs)
    assert "is unknown" not in text
    assert any("not measured on diagonals: retention there is unknown" in n for n in notes)


def test_random_play_missing_on_the_clean_game_is_the_reason(runs: Path) -> None:
    path = runs / "baselines" / "evaluation" / "episodes.csv"
    edit(path, lambda t: t[(t["method"] != "random") | (t["variant"] != "original")])
    notes, text = said(runs)
    assert "because random play was not measured on the clean game" in text
    assert any("random player was not measured on original, so retention" in n for n in notes)


def test_single_games_cannot_be_held_against_random(runs: Path) -> None:
    for path in runs.glob("ppo*/evaluation/episodes.csv"):
        edit(path, lambda t: t[t["episode"] == 0])
    assert "fewer than two different games" in said(runs)[1]


def test_copies_of_one_greedy_game_are_no_evidence(runs: Path) -> None:
    for path in runs.glob("ppo*/evaluation/episodes.csv"):
        edit(path, lambda t: t.assign(deterministic=True, episode_return=9.0, length=900))
    notes, text = said(runs)
    assert "fewer than two different games" in text
    assert any("of 20 games a variant as few as 1 differ" in n for n in notes)
    assert verdict(overall(collect([runs]).episodes)).startswith("No method can be ranked")


def test_greedy_games_that_differ_count(runs: Path) -> None:
    for path in runs.glob("ppo*/evaluation/episodes.csv"):
        edit(path, lambda t: t.assign(deterministic=True, length=range(len(t))))
    assert "fewer than two" not in said(runs)[1]


def test_seeds_of_one_name_with_different_last_steps_all_count(runs: Path) -> None:
    """Games of `evaluate(model, ...)` in a script are all of the run that has the method's name."""
    games = collect([runs]).episodes
    own = games[games["method"] == "ppo nature"]
    own = own.assign(run="ppo nature", step=100_000 + own["train_seed"])
    gaps = generalization_gap(own)
    assert set(gaps["n_seeds"]) == {3}


def test_baselines_alone_make_a_report(runs: Path, tmp_path: Path) -> None:
    for path in runs.glob("ppo*/evaluation"):
        shutil.rmtree(path)
    page = write_report([runs], tmp_path / "report")[0].read_text()
    assert "Nothing has been evaluated yet" in page


def test_twins_without_a_measure_and_of_other_variants(runs: Path, tmp_path: Path) -> None:
    for path in runs.glob("ppo*/evaluation/twin.csv"):
        edit(path, lambda t: t.assign(js=None, flip=None, value_error=None))
        edit(path, lambda t: t.assign(feature_distance=None, attention_shift=None))
    write_report([runs], tmp_path / "report")
    assert not (tmp_path / "report" / "figures" / "twin.svg").exists()
    for path in runs.glob("ppo*/evaluation/twin.csv"):
        edit(path, lambda t: t.assign(js=0.1, severity=1.0))
    data = compose(collect([runs]))[2]
    assert "green_lines@1" in data["twin_variants"]
    assert {row["variant"] for row in data["twin"]} <= set(data["twin_variants"])
    write_report([runs], tmp_path / "report")
    assert "green_lines@1" in (tmp_path / "report" / "figures" / "twin.svg").read_text()


def test_greedy_games_of_uneven_number_that_all_differ_are_no_copies(runs: Path) -> None:
    for path in runs.glob("ppo*/evaluation/episodes.csv"):
        edit(path, lambda t: t.assign(deterministic=True, length=range(len(t))))
    edit(runs / FIRST / "evaluation" / "episodes.csv", lambda t: t[t["episode"] < 2])
    assert not any("repeat games" in note for note in said(runs)[0])
    path = runs / FIRST / "evaluation" / "episodes.csv"
    edit(path, lambda t: t.assign(length=1, episode_return=3.0))
    assert any("of 2 games a variant as few as 1 differ" in note for note in said(runs)[0])


def test_a_seed_without_the_clean_game_is_not_counted_with_it(runs: Path) -> None:
    edit(runs / FIRST / "evaluation" / "episodes.csv", lambda t: t[t["variant"] != "original"])
    row = overall(collect([runs]).episodes).set_index("method").loc["ppo nature"]
    assert row["n_seeds"] == row["beat_random"] == 2


def test_a_single_usable_seed_has_no_rank(runs: Path) -> None:
    for path in sorted(runs.glob("ppo-nature-[0-9]/evaluation/episodes.csv"))[1:]:
        path.unlink()
    row = overall(collect([runs]).episodes).set_index("method").loc["ppo nature"]
    assert pd.isna(row["rank"])
    assert row["order"] >= 1


def test_run_by_run_keeps_what_is_known_of_retention(runs: Path) -> None:
    path = runs / "baselines" / "evaluation" / "episodes.csv"
    edit(path, lambda t: t[(t["method"] != "random") | (t["variant"] != "diagonals")])
    got = collect([runs])
    kept = ablation_table(got).frame.groupby("method")["retention"].mean()
    summary = overall(got.episodes).set_index("method")["retention"]
    assert kept.notna().any()
    assert kept.notna().equals(summary.reindex(kept.index).notna())


def test_players_need_no_seed_of_training(runs: Path) -> None:
    edit(runs / "baselines" / "evaluation" / "episodes.csv", lambda t: t.assign(train_seed=None))
    got = collect([runs])
    assert not any("damaged" in w for w in got.warnings)
    assert "random" in set(got.episodes["method"])
