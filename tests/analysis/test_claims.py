"""Declared comparisons: judged as the difference says, flagged when edited, never silently lost."""

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from reprl.analysis.claims import claims_table, find_claims
from reprl.analysis.gap import run_scores
from reprl.analysis.load import collect
from reprl.analysis.report import write_report
from reprl.claims import read_claims, record_of
from tests.helpers import refuses

BOXES, PLAIN = "ppo softplus + boxes", "ppo nature"
CLAIM = f"claims:\n  - method: {BOXES}\n    baseline: {PLAIN}\n"


@pytest.fixture
def runs(sweep: Path, tmp_path: Path) -> Path:
    """The synthetic sweep with each seed's own games, claims beside it and recorded in its runs."""
    place = Path(shutil.copytree(sweep, tmp_path / "runs"))
    for path in place.glob("ppo*/evaluation/episodes.csv"):
        table = pd.read_csv(path)
        table.assign(game_seed=table["episode"] + 1000 * table["train_seed"]).to_csv(
            path, index=False
        )
    declare(place, CLAIM)
    return place


def declare(place: Path, text: str) -> None:
    (place / "claims.yaml").write_text(text)
    for path in place.glob("*/run.json"):
        record = json.loads(path.read_text()) | record_of(place)
        path.write_text(json.dumps(record))


def judged(place: Path) -> tuple[pd.DataFrame, list[str]]:
    results = collect([place])
    table = claims_table(results, find_claims(results.folders, results.warnings))
    return table.frame, results.warnings


def test_a_claim_is_welchs_test_on_the_mean_of_the_variants(runs: Path) -> None:
    frame, _ = judged(runs)
    (row,) = frame.to_dict("records")
    scores = run_scores(collect([runs]).episodes)
    names = ["constant_rectangle", "moving_square", "green_lines", "diagonals"]
    x, y = (scores.loc[m][names].mean(axis=1) for m in (BOXES, PLAIN))
    want = stats.ttest_ind(x, y, equal_var=False)
    assert row["p"] == pytest.approx(want.pvalue)
    assert row["difference"] == pytest.approx(x.mean() - y.mean())
    bounds = want.confidence_interval(0.95)
    assert (row["difference_low"], row["difference_high"]) == pytest.approx(tuple(bounds))
    assert (row["verdict"], row["declared"]) == ("held", "before training")
    assert row["sentence"].startswith(f"Held: {BOXES} beats {PLAIN} on the mean of constant_")


def test_the_other_way_round_it_is_refuted(runs: Path) -> None:
    declare(runs, f"- method: {PLAIN}\n  baseline: {BOXES}\n")
    assert judged(runs)[0]["verdict"].tolist() == ["refuted"]


def test_a_margin_beyond_the_difference_is_not_held(runs: Path) -> None:
    gap = judged(runs)[0]["difference"].iloc[0]
    declare(runs, f"- {{method: {BOXES}, baseline: {PLAIN}, margin: {gap - 0.01}}}\n")
    row = judged(runs)[0].iloc[0]
    assert row["verdict"] == "undecided"
    assert "more than a thousand seeds" in row["sentence"]
    declare(runs, f"- {{method: {BOXES}, baseline: {PLAIN}, margin: {gap + 50}}}\n")
    assert judged(runs)[0]["verdict"].iloc[0] == "refuted"


def test_an_undecided_claim_says_how_many_seeds_would_decide_it(runs: Path) -> None:
    declare(runs, f"- {{method: {BOXES}, baseline: {PLAIN}, variants: [diagonals]}}\n")
    for path in runs.glob("ppo-softplus*/evaluation/episodes.csv"):
        table = pd.read_csv(path)
        shift = int(path.parts[-3][-1]) - 2  # seeds a point apart: 2 +- 1 against 1.5
        table["episode_return"] = (2.0 + shift) * np.ones(len(table))
        table.to_csv(path, index=False)
    row = judged(runs)[0].iloc[0]
    assert row["verdict"] == "undecided"
    assert "more seeds of each would decide it with power 0.8" in row["sentence"]


def test_holm_counts_the_declared_claims(runs: Path) -> None:
    alone = judged(runs)[0]["p"].iloc[0]
    entry = f"- {{method: {BOXES}, baseline: {PLAIN}, variants: [%s]}}\n"
    declare(
        runs,
        CLAIM.split("\n", 1)[1].replace("  - ", "- ").replace("    ", "  ") + entry % "diagonals",
    )
    both = judged(runs)[0]["p"].tolist()
    assert both[0] == pytest.approx(2 * alone)


def test_a_claim_that_nobody_can_judge_still_counts_in_holms_correction(runs: Path) -> None:
    alone = judged(runs)[0]["p"].iloc[0]
    declare(runs, CLAIM + f"  - method: never_run\n    baseline: {PLAIN}\n")
    frame, warnings = judged(runs)
    assert frame["p"].iloc[0] == pytest.approx(2 * alone)
    assert any("never_run" in warning for warning in warnings)


def test_an_experiment_is_the_method_that_its_file_says_not_an_override_of_it(
    runs: Path,
) -> None:
    """`experiment=plain augmentation=...` records `plain` as well, and once lost the claim."""
    for path in runs.glob("ppo*/run.json"):
        path.write_text(json.dumps(json.loads(path.read_text()) | {"experiment": "plain"}))
    declare(runs, f"claims:\n  - method: {BOXES}\n    baseline: plain\n")
    frame, warnings = judged(runs)
    assert not any("several methods" in warning for warning in warnings), warnings
    assert frame["claim"].tolist() == [f"{BOXES} beats {PLAIN}"]


def test_an_edit_after_the_start_is_flagged(runs: Path) -> None:
    path = runs / "claims.yaml"
    path.write_text(CLAIM + "    margin: 1\n")
    row = judged(runs)[0].iloc[0]
    assert row["declared"] == "edited after 6 of 6 runs had started"
    assert "The claims file was edited after 6 of 6 runs" in row["sentence"]
    path.write_text(CLAIM)
    for record in list(runs.glob("*/run.json"))[:2]:
        values = json.loads(record.read_text())
        del values["claims"]
        record.write_text(json.dumps(values))
    assert judged(runs)[0]["declared"].iloc[0] == "written after 2 of 6 runs had started"


def test_an_unknown_method_is_one_sentence_and_the_rest_is_judged(runs: Path) -> None:
    declare(runs, CLAIM + f"  - {{method: ppo softpuls + boxes, baseline: {PLAIN}}}\n")
    frame, warnings = judged(runs)
    assert len(frame) == 1
    (note,) = [w for w in warnings if "claims.yaml" in w]
    assert "no method 'ppo softpuls + boxes'" in note
    assert f"Did you mean '{BOXES}'?" in note


def test_a_variant_not_everybody_played_is_said(runs: Path) -> None:
    declare(runs, f"- {{method: {BOXES}, baseline: {PLAIN}, variants: [blur]}}\n")
    frame, warnings = judged(runs)
    assert frame.empty
    assert any("blur was not played by every run" in w for w in warnings)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "must hold a list"),
        ("[1]", "must have a method"),
        ("- {method: a}", "baseline=None must be"),
        ("- {method: a, baseline: a}", "both 'a'"),
        ("- {method: a, baseline: b, varaints: [x]}", "Did you mean 'variants'"),
        ("- {method: a, baseline: b, variants: 3}", "must be a list of names"),
        ("- {method: a, baseline: b, margin: much}", "number"),
        ("- [", "is not YAML"),
    ],
)
def test_a_wrong_file_is_one_sentence(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "claims.yaml"
    path.write_text(text)
    with refuses(says):
        read_claims(path)
    warnings: list[str] = []
    assert find_claims([tmp_path], warnings) == []
    assert says in warnings[0]


def test_a_run_records_the_claims_of_its_folder(tmp_path: Path) -> None:
    from reprl.config.schema import load
    from reprl.runs.folder import create

    (tmp_path / "claims.yaml").write_text(CLAIM)
    config = load([f"run_dir={tmp_path / 'a'}"])
    folder = create(config, command=[], python_path=[])
    assert folder.record()["claims"]["sha256"] == read_claims(tmp_path / "claims.yaml").digest
    elsewhere = load([f"run_dir={tmp_path / 'other' / 'b'}"])
    assert "claims" not in create(elsewhere, command=[], python_path=[]).record()


def test_the_page_shows_claims_and_beside_it_lies_the_matrix(runs: Path, tmp_path: Path) -> None:
    page = write_report([runs], tmp_path / "out", figures=False)[0].read_text()
    assert "<b>Declared claim.</b> Held: softplus + boxes beats nature" in page
    assert 'id="table-claims"' in page
    matrix = pd.read_csv(tmp_path / "out" / "run_scores.csv")
    trained = matrix[matrix["train_seed"] > 0]
    assert trained.groupby("method").size().tolist() == [3, 3]
    assert {"original", "green_lines", "green_lines@1"} <= set(matrix.columns)
