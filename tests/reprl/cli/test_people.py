"""`reprl play record=true`: a person's games are those of the agents, and the report has them."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from reprl.analysis.load import collect
from reprl.analysis.severity import difficulty
from reprl.cli import main
from reprl.cli.play import keep
from reprl.envs import find, play
from reprl.evaluation import evaluate
from reprl.evaluation.players import Task, labels_of
from reprl.naming import is_baseline


class Still:
    """Never touches a key."""

    labels = labels_of("still")
    deterministic = False

    def act(self, observations: np.ndarray, *_: Any) -> np.ndarray:
        return np.zeros(len(observations), np.int64)


@pytest.mark.parametrize("where", ["terminal", "window"])
def test_games_are_those_that_agents_play(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if where == "window":
        pytest.importorskip("pygame")
        monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    monkeypatch.setattr(play, "FPS", 100_000)
    monkeypatch.setattr(play, "_keyboard", lambda: nullcontext(lambda: ""))  # nobody presses one
    monkeypatch.setattr(play, "rendered", lambda *_, **__: "")
    chosen = [f"where={where}", "record=true", "episodes=1", "name=Ada L.", f"out={tmp_path}"]
    assert main(["play", "variant=green_lines", *chosen]) == 0
    assert "1 games of Ada L." in capsys.readouterr().out
    row = pd.read_csv(tmp_path / "evaluation" / "episodes.csv").iloc[0]
    (expected,) = evaluate(Still(), ["green_lines"], 1, 0).to_dict("records")
    for column in ("variant", "severity", "episode", "eval_seed", "episode_return", "length"):
        assert row[column] == expected[column], column
    assert int(row["game_seed"]) == expected["game_seed"]
    assert (row["method"], row["run"], row["end"]) == ("person", "person_Ada-L.", "game_over")
    found = collect([tmp_path])
    assert is_baseline(str(found.episodes["method"].iloc[0]))


def test_only_finished_games_are_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    variant = find("original")
    tasks = [Task(variant, e, 0) for e in range(3)]
    keep([], tasks, "me", tmp_path)
    assert not (tmp_path / "evaluation").exists()
    keep([(7.0, 900, False), (9.0, 1000, True)], tasks, "me", tmp_path)
    rows = pd.read_csv(tmp_path / "evaluation" / "episodes.csv")
    assert rows["episode_return"].tolist() == [7, 9]
    assert rows["end"].tolist() == ["game_over", "frame_limit"]
    assert "2 games of me" in capsys.readouterr().out


def test_a_variant_is_too_hard_for_agents_or_for_anyone() -> None:
    rows = []
    scores = {"plain": (50, 1), "random": (1, 1), "person": (40, 30)}
    for method, pair in scores.items():
        for variant, score in zip(("original", "hard"), pair, strict=True):
            rows += [
                {"run": method, "method": method, "train_seed": seed, "variant": variant}
                | {"family": "drawing", "severity": np.nan, "episode": e, "eval_seed": 0}
                | {"episode_return": float(score), "augmentation": "none"}
                for seed in ((1, 2) if method == "plain" else (-1,))
                for e in range(2)
            ]
    frame = pd.DataFrame(rows)
    got = difficulty(frame, ["plain"]).set_index("variant")
    assert got.loc["hard", "label"] == "too hard for agents"
    assert got.loc["hard", "person"] == 30
    assert got.loc["hard", "best_method"] == "plain"
    worse = frame.assign(episode_return=frame["episode_return"].replace(30.0, 1.0))
    assert difficulty(worse, ["plain"])["label"].tolist() == ["too hard for anyone"]
    nobody = frame[frame["method"] != "person"]
    assert difficulty(nobody, ["plain"])["label"].tolist() == ["too hard"]
