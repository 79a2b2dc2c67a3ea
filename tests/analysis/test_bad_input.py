"""Reports of little, uneven or wrong data: said on the page, the rest is there, nothing breaks."""

import json
import shutil
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml

from reprl.analysis.report import write_report

pytestmark = pytest.mark.slow


@pytest.fixture
def runs(sweep: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(sweep, tmp_path / "runs"))


def keep(runs: Path, pattern: str, wanted: Any) -> None:
    for path in runs.glob(pattern):
        table = pd.read_csv(path)
        table[wanted(table)].to_csv(path, index=False)


def checked(page: Any, path: Path) -> str:
    """The page in a browser, at both widths, without an error; its text."""
    page.errors.clear()
    for width in (1280, 390):
        page.resize(width)
        page.open(path)
        assert page.run("document.documentElement.scrollWidth") <= width
    assert page.errors == []
    assert "NaN" not in page.run("document.querySelector('main').innerHTML")
    return str(page.run("document.body.textContent"))


def test_one_seed_on_one_variant(synthetic: ModuleType, tmp_path: Path, shared: Any) -> None:
    runs = synthetic.write_sweep(tmp_path / "runs", seeds=1, episodes=6)
    only = ["original", "moving_square"]
    keep(runs, "*/evaluation/episodes.csv", lambda t: t["variant"].isin(only))
    text = checked(shared, write_report([runs], tmp_path / "out", figures=False)[0])
    assert "2 methods × 1 seed" in text
    assert "A single training run has no interval." in text
    assert "on moving_square, minus nature" in text


def test_variants_that_some_runs_lack(runs: Path, tmp_path: Path, shared: Any) -> None:
    keep(runs, "ppo-nature-2/evaluation/episodes.csv", lambda t: t["variant"] != "diagonals")
    keep(runs, "ppo-softplus*/evaluation/episodes.csv", lambda t: t["variant"] != "moving_square")
    text = checked(shared, write_report([runs], tmp_path / "out", figures=False)[0])
    assert "diagonals was not played by ppo-nature-2: averages leave it out." in text
    assert "not played" in text
    assert "mean of the 2 variants" in text


def test_no_variant_at_all(runs: Path, tmp_path: Path, shared: Any) -> None:
    keep(runs, "*/evaluation/episodes.csv", lambda t: t["variant"] == "original")
    path, _ = write_report([runs], tmp_path / "out")
    text = checked(shared, path)
    assert "No method was played on the variants yet" in text


def test_two_games_claims_of_nobody_and_damaged_rows(
    runs: Path, tmp_path: Path, shared: Any
) -> None:
    config = runs / "ppo-softplus-boxes-3" / "config.yaml"
    settings = yaml.safe_load(config.read_text())
    settings["env"]["game"] = "pong"
    config.write_text(yaml.safe_dump(settings))
    claims = [{"method": "ppo softplus + boxes", "baseline": "ppo natur"}]
    (runs / "claims.yaml").write_text(yaml.safe_dump({"claims": claims}))
    games = runs / "ppo-nature-1" / "evaluation" / "episodes.csv"
    lines = games.read_text().splitlines()
    games.write_text("\n".join([*lines[:-1], "half a row", "a,b,c"]) + "\n")
    path, results = write_report([runs], tmp_path / "out", figures=False)
    text = checked(shared, path)
    for words in (
        "different games: only those of breakout are reported",
        "no method 'ppo natur' here",
        "damaged rows",
    ):
        assert any(words in warning for warning in results.warnings), words
        assert words in text
    assert "softplus + boxes scores" in text


def test_a_game_that_nobody_here_knows_has_no_pictures(
    runs: Path, tmp_path: Path, shared: Any
) -> None:
    for path in runs.glob("*/config.yaml"):
        settings = yaml.safe_load(path.read_text())
        settings["env"]["game"] = "someone.elses:game"
        path.write_text(yaml.safe_dump(settings))
    checked(shared, write_report([runs], tmp_path / "out", figures=False)[0])
    assert shared.run("document.querySelectorAll('.overview img').length") == 0
    assert shared.run("document.querySelectorAll('.overview .strip').length") > 4


def test_as_many_variants_as_there_are_fit(runs: Path, tmp_path: Path, shared: Any) -> None:
    rng = np.random.default_rng(0)
    for path in runs.glob("*/evaluation/episodes.csv"):
        table = pd.read_csv(path)
        base = table[table["variant"] == "moving_square"]
        extra = [
            base.assign(variant=f"mine_{i}", episode_return=rng.poisson(4, len(base)))
            for i in range(14)
        ]
        pd.concat([table, *extra]).to_csv(path, index=False)
    path, _ = write_report([runs], tmp_path / "out", figures=False)
    checked(shared, path)
    shared.resize(1280)
    shared.open(path)
    assert shared.run("document.querySelectorAll('.overview button.column').length") == 19
    assert shared.run("document.querySelectorAll('.overview .board').length") > 1


def test_methods_without_a_common_word_or_record(runs: Path, tmp_path: Path, shared: Any) -> None:
    for path in runs.glob("*/run.json"):
        path.write_text(json.dumps({"status": "finished"}))
    text = checked(shared, write_report([runs], tmp_path / "out", figures=False)[0])
    assert "softplus + boxes" in text
