"""Optuna as it is installed: the search of examples/ really searches, and goes on."""

from __future__ import annotations

import os
import runpy
from pathlib import Path

import pytest

from reprl.runs.folder import open_run, score_of
from tests.runs import TINY

EXAMPLE = Path(__file__).parents[2] / "examples" / "optuna_search.py"


@pytest.mark.slow
def test_the_search_of_the_examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    search = runpy.run_path(str(EXAMPLE), run_name="example")["search"]
    small = [*TINY, "total_steps=32", "eval.every=32", "checkpoint.every=32"]
    search(1, *small)
    study = search(1, *small)
    assert [trial.number for trial in study.trials] == [0, 1]  # it went on
    runs = [open_run(trial.user_attrs["run"]) for trial in study.trials]
    assert len({run.path for run in runs}) == 2
    assert [score_of(run) for run in runs] == [trial.value for trial in study.trials]
    for trial, run in zip(study.trials, runs, strict=True):
        config = run.config()
        assert config.algo["learning_rate"] == trial.params["rate"]
        assert bool(config.attention) == (trial.params["attention"] != "none")
    assert study.best_value == max(trial.value or 0.0 for trial in study.trials)
    assert os.path.getsize("search.db") > 0
