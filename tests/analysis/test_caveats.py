"""What the report must say before anyone compares: unequal training, single seeds, which share."""

import html
import json
import shutil
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pytest

from reprl.analysis.load import collect
from reprl.analysis.report import compose, write_report

pytestmark = pytest.mark.slow  # writes reports


def shorten(run: Path, step: int) -> None:
    path = run / "evaluation" / "episodes.csv"
    pd.read_csv(path).assign(step=step).to_csv(path, index=False)


def test_runs_of_different_length_are_named(runs: Path, tmp_path: Path) -> None:
    shorten(runs / "ppo-nature-2", 216_064)
    path, _ = write_report([runs], tmp_path / "out", figures=False)
    head = html.unescape(path.read_text()).partition("<main>")[0]
    assert "nature: between 216,064 and 500,000 steps; softplus + boxes: 500,000" in head
    table = pd.read_csv(tmp_path / "out" / "tables" / "ablation.csv").set_index("run")
    assert table.loc["ppo-nature-2", "steps"] == 216_064
    assert table.loc["ppo-nature-1", "steps"] == 500_000


def test_a_rollout_more_or_less_is_the_same_length(runs: Path, tmp_path: Path) -> None:
    shorten(runs / "ppo-nature-2", 499_712)
    path, _ = write_report([runs], tmp_path / "out", figures=False)
    assert 'id="lengths"' not in path.read_text()


def test_steps_of_a_run_without_games_are_those_trained(runs: Path, tmp_path: Path) -> None:
    run = runs / "ppo-nature-1"
    shutil.rmtree(run / "evaluation")
    (runs / "ppo-nature-2" / "metrics.csv").unlink()
    shutil.rmtree(runs / "ppo-nature-2" / "evaluation")
    record = json.loads((runs / "ppo-nature-2" / "run.json").read_text())
    (runs / "ppo-nature-2" / "run.json").write_text(json.dumps(record | {"step": 77}))
    metrics = pd.read_csv(run / "metrics.csv")
    metrics[metrics["step"] <= 40_000].to_csv(run / "metrics.csv", index=False)
    write_report([runs], tmp_path / "out", figures=False)
    table = pd.read_csv(tmp_path / "out" / "tables" / "ablation.csv").set_index("run")
    assert table.loc[["ppo-nature-1", "ppo-nature-2"], "steps"].tolist() == [40_000, 77]


def test_one_seed_each_is_no_ranking(synthetic: ModuleType, tmp_path: Path) -> None:
    synthetic.write_sweep(tmp_path / "runs", seeds=1, episodes=8)
    path, _ = write_report([tmp_path / "runs"], tmp_path / "out", figures=False)
    tables = tmp_path / "out" / "tables"
    overall = pd.read_csv(tables / "overall.csv")
    assert overall["score"].is_monotonic_decreasing
    assert overall["rank"].isna().all()
    compared = pd.read_csv(tables / "comparisons.csv")
    assert len(compared)
    assert compared["difference"].notna().all()
    assert compared["improvement"].isna().all()
    assert "this is no ranking" in path.read_text()
    assert "Without an interval no rank" in path.read_text()


def test_the_shares_of_difficulty_can_be_checked_on_the_page(sweep: Path, tmp_path: Path) -> None:
    path, _ = write_report([sweep], tmp_path / "out", figures=False)
    tables = tmp_path / "out" / "tables"
    hard = pd.read_csv(tables / "difficulty.csv").set_index("variant").loc["green_lines"]
    gap = pd.read_csv(tables / "gap.csv").set_index(["method", "variant"])
    plain, best = (gap.loc[(m, "green_lines")] for m in ("ppo nature", hard["best_method"]))
    assert hard["plain_share"] == pytest.approx(plain["retention"])
    random = gap.loc[("random", "original"), "score"]
    want = (best["score"] - hard["random"]) / (plain["clean"] - random)
    assert hard["best_share"] == pytest.approx(want)
    assert not np.isclose(want, best["retention"])
    assert "Best agent keeps" not in path.read_text()


def test_each_variant_shows_the_view_it_has(runs: Path) -> None:
    for path in runs.glob("*/attention/scores.csv"):
        table = pd.read_csv(path)
        views = np.where(table["variant"] == "original", "mask", "gradient")
        table = table.assign(view=views, player="agent")
        other = table[table["variant"] == "original"].assign(view="gradient")
        watched = table.assign(player="random")
        pd.concat([watched, other, table]).to_csv(path, index=False)
    _, _, data, _ = compose(collect([runs]))
    views = {(a["variant"], a["view"]) for a in data["attention"]}
    own = {("original", "mask"), ("original", "gradient"), ("green_lines", "gradient")}
    assert views == own  # nobody else's games where there are the agent's
    assert {(a["view"], a["kind"]) for a in data["attention"]} == {
        ("mask", "mask"),
        ("gradient", "saliency"),
    }


def test_attention_is_held_against_static_and_ceiling(sweep: Path) -> None:
    _, tables, data, _ = compose(collect([sweep]))
    frame = tables["attention"].frame
    known = frame[frame["metric"] != "lag"]
    assert np.allclose(known["static"], 0.9 * known["value"])
    assert set(known["ceiling"]) == {1.0}
    assert {"Static", "Ceiling"} <= {c.label for c in tables["attention"].columns}
    assert data["attention"][0]["static"] == pytest.approx(known["static"].iloc[0], rel=1e-5)


def test_the_page_opens_with_a_plot_that_shows_trained_methods(runs: Path) -> None:
    opened = 'value="{}" aria-pressed="true"'
    assert opened.format("retention") in compose(collect([runs]))[0]
    for path in runs.glob("ppo-*/evaluation/episodes.csv"):
        pd.read_csv(path).assign(episode_return=2.0).to_csv(path, index=False)
    page, _, data, _ = compose(collect([runs]))
    assert data["points"]["retention"]  # of the scripted players only
    assert opened.format("gap") in page
    assert opened.format("retention") not in page
