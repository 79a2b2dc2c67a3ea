"""Ratings: a hand-worked pair, known orders recovered, and what cannot be rated is refused."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from reprl.analysis.rating import rating_curves, rating_table
from reprl.analysis.report import write_report
from reprl.cli import main
from reprl.envs.games.breakout import ScriptedAgent
from reprl.evaluation import RandomAgent, evaluate
from reprl.evaluation.rating import MIDDLE, rate, resampled, strengths, tallies
from tests.helpers import Commands, refuses


def games(scores: dict[str, list[float]], *, seeds: int = 0, step: int = 0) -> pd.DataFrame:
    """Rows of episodes.csv: agent -> its scores in games 0, 1, ..."""
    rows: list[dict[str, Any]] = []
    for method, values in scores.items():
        for episode, score in enumerate(values):
            common = {"variant": "original", "family": "original", "severity": np.nan}
            common |= {"eval_seed": 0, "sticky": 0.0, "deterministic": False, "length": 10}
            common |= {"algo": "ppo", "encoder": "nature", "attention": "none"}
            common |= {"auxiliary": "none", "augmentation": "none", "train_seed": 0}
            own = {"method": method, "run": method, "step": step, "episode": episode}
            rows.append(common | own | {"episode_return": score, "end": "game_over"})
            rows[-1]["game_seed"] = seeds + episode
    return pd.DataFrame(rows)


def test_three_wins_to_one_is_worth_what_elo_says() -> None:
    wins = np.array([[0.0, 3000.0], [1000.0, 0.0]])  # many: the prior's draw does not count
    first, second = strengths(wins)
    assert first - second == pytest.approx(400 * np.log10(3), abs=0.2)
    assert (first + second) / 2 == pytest.approx(MIDDLE)


def test_wins_are_counted_by_game_and_draws_are_halves() -> None:
    scores = np.array([[1.0, 2.0], [3.0, 2.0], [2.0, 2.0], [np.nan, 9.0]])
    assert tallies(scores).tolist() == [[0.0, 1.5], [1.5, 0.0]]


def test_a_known_order_of_skill_is_recovered_with_its_distances() -> None:
    # Thurstone's model with a logistic difference is Bradley and Terry's own: Gumbel scores.
    rng, true = np.random.default_rng(0), {"novice": 0.0, "amateur": 1.0, "master": 2.0}
    drawn = {name: (skill + rng.gumbel(size=3000)).tolist() for name, skill in true.items()}
    table = rate(games(drawn), resamples=60).set_index("method")
    assert table.index.tolist() == ["master", "amateur", "novice"]
    for name, skill in true.items():
        expected = MIDDLE + (skill - 1.0) * 400 / np.log(10)
        assert table.loc[name, "low"] - 15 < expected < table.loc[name, "high"] + 15
        assert table.loc[name, "high"] - table.loc[name, "low"] < 60


@pytest.mark.slow
def test_scripted_players_are_rated_in_the_order_of_their_skill() -> None:
    skills = (0.3, 0.6, 1.0)
    players = [RandomAgent(), *(ScriptedAgent(skill) for skill in reversed(skills))]
    played = [
        evaluate(player, "original", 8, n_envs=8, frame_limit=1600, size=42) for player in players
    ]
    table = rate(pd.concat(played, ignore_index=True), resamples=30)
    best_first = ["scripted", "scripted skill=0.6", "scripted skill=0.3", "random"]
    assert table["method"].tolist() == best_first
    assert (table["games"] == 3 * 8).all()
    assert (np.diff(table["rating"]) < -50).all()


def test_an_agents_likeliest_and_sampled_actions_are_two_players() -> None:
    sampled = games({"ppo": [1.0, 2.0, 3.0], "random": [0.0, 0.0, 0.0]})
    greedy = games({"ppo": [5.0, 6.0, 7.0]}).assign(deterministic=True)
    for order in ([sampled, greedy], [greedy, sampled]):
        table = rate(pd.concat(order, ignore_index=True), resamples=20)
        assert table["method"].tolist() == ["ppo", "ppo", "random"]
        assert table["deterministic"].tolist() == [True, False, False]
        assert table["wins"].tolist() == [6, 3, 0]


def test_two_scores_of_one_game_are_not_one_of_them() -> None:
    first = games({"ppo": [1.0, 2.0, 3.0], "a2c": [2.0, 2.0, 2.0]})
    assert len(rate(pd.concat([first, first]), resamples=20)) == 2  # read twice: the same games
    other = pd.concat([first, games({"ppo": [1.0, 9.0]})], ignore_index=True)
    with refuses("ppo (ppo at step 0)", "original, episode 1"):
        rate(other)
    shown = rating_table(other)
    assert shown.frame["games"].tolist() == [2, 2]
    assert "2 games with another score" in shown.note


def test_checkpoints_of_a_run_are_agents_of_their_own() -> None:
    early, late = games({"ppo": [1.0, 2.0, 1.0]}, step=10), games({"ppo": [5.0, 6.0, 7.0]}, step=20)
    table = rate(pd.concat([early, late]), resamples=20)
    assert table["step"].tolist() == [20, 10]
    assert table["wins"].tolist() == [3, 0]


def test_what_never_met_is_refused() -> None:
    apart = pd.concat([games({"a": [1.0], "b": [2.0]}), games({"c": [3.0]}, seeds=50)])
    with refuses("c (c at step 0)", "games=shared"):
        rate(apart)
    with refuses("here is 1"):
        rate(games({"a": [1.0, 2.0]}))


def test_the_command_reads_folders(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, scores in {"good": [5.0, 6.0, 7.0, 8.0], "bad": [1.0, 2.0, 9.0, 1.0]}.items():
        file = tmp_path / name / "evaluation" / "episodes.csv"
        file.parent.mkdir(parents=True)
        games({name: scores}).to_csv(file, index=False)
    out = tmp_path / "ratings.csv"
    assert main(["rate", str(tmp_path), "resamples=10", f"out={out}"]) == 0
    said = capsys.readouterr().out
    assert said.index("good") < said.index("bad")
    assert pd.read_csv(out)["wins"].tolist() == [3, 1]
    assert main(["rate", str(tmp_path), "variants=green_lines"]) == 2
    assert "variants=green_lines" in capsys.readouterr().err


def trained(root: Path, name: str, skills: dict[int, float]) -> None:
    """A run of which checkpoints were evaluated, each better than the one before."""
    rng = np.random.default_rng(0)
    played = [
        games({name: (skill + rng.gumbel(size=60)).tolist()}, step=step)
        for step, skill in skills.items()
    ]
    file = root / name / "evaluation" / "episodes.csv"
    file.parent.mkdir(parents=True)
    pd.concat(played).to_csv(file, index=False)
    (root / name / "config.yaml").write_text("env:\n  game: breakout\n")
    (root / name / "run.json").write_text(f'{{"method": "{name}"}}')


def test_a_runs_checkpoints_are_a_curve(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = tmp_path / "runs"
    trained(runs, "quick", {100: 0.0, 200: 1.0, 300: 2.0})
    trained(runs, "slow", {100: -0.6, 300: 0.8})
    trained(runs, "once", {100: 1.0})
    ratings = rate(pd.concat(pd.read_csv(file) for file in runs.rglob("episodes.csv")))
    curves = {curve["name"]: curve["points"] for curve in rating_curves(ratings)}
    assert set(curves) == {"quick", "slow"}
    assert [point[0] for point in curves["quick"]] == [100, 200, 300]
    for points in curves.values():
        values, low, high = np.array(points).T[1:4]
        assert (np.diff(values) > 50).all()
        assert (low <= values).all()
        assert (values <= high).all()
    for suffix in ("png", "svg", "PDF"):
        figure = tmp_path / f"elo.{suffix}"
        assert main(["rate", str(runs), "resamples=20", f"figure={figure}"]) == 0
        assert figure.stat().st_size > 3000
    drawn = (tmp_path / "elo.svg").read_text()
    assert all(words in drawn for words in ("quick", "slow", "training steps", "Elo"))
    assert "once" not in drawn
    refuse = Commands(capsys).refuse
    refuse(["rate", str(runs), "figure=elo.jpg"], "figure=elo.jpg", ".png, .svg or .pdf")
    shutil.rmtree(runs / "quick")
    shutil.rmtree(runs / "slow")
    trained(runs, "other", {100: 2.0})
    alone = ["rate", str(runs), f"figure={tmp_path / 'none.png'}"]
    refuse(alone, "figure=", "no run has two rated steps", "checkpoint=STEP")
    assert not (tmp_path / "none.png").exists()


@pytest.mark.slow
def test_the_report_draws_the_curve_only_where_checkpoints_were_rated(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    trained(runs, "quick", {100: 0.0, 200: 2.5, 300: 4.5})
    trained(runs, "once", {100: 1.0})
    page, _ = write_report([runs], tmp_path / "report")
    assert 'data-plot="rating"' in page.read_text()
    assert 'href="#elo"' in page.read_text()
    assert "quick" in (tmp_path / "report" / "figures" / "rating.svg").read_text()
    shutil.rmtree(runs / "quick")
    trained(runs, "other", {100: 2.0})
    page, _ = write_report([runs], tmp_path / "without")
    assert "rating" in {table.stem for table in (tmp_path / "without" / "tables").iterdir()}
    assert 'data-plot="rating"' not in page.read_text()
    assert 'href="#elo"' not in page.read_text()
    assert not list((tmp_path / "without" / "figures").glob("rating.*"))


def test_games_of_different_games_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for game in ("breakout", "pong"):
        file = tmp_path / game / "evaluation" / "episodes.csv"
        file.parent.mkdir(parents=True)
        games({game: [1.0, 2.0]}).to_csv(file, index=False)
        (tmp_path / game / "config.yaml").write_text(f"env:\n  game: {game}\n")
    Commands(capsys).refuse(["rate", str(tmp_path)], "breakout, pong", "one game at a time")


def test_resampled_wins_are_those_of_the_resampled_games() -> None:
    rng = np.random.default_rng(1)
    scores = rng.integers(0, 3, (7, 3)).astype(float)
    scores[0, 1] = np.nan
    rows = rng.integers(7, size=(4, 7))
    times = np.stack([np.bincount(row, minlength=7) for row in rows]).astype(float)
    for found, row in zip(resampled(scores, times), rows, strict=True):
        assert found.tolist() == tallies(scores[row]).tolist()


def test_the_report_rates_the_largest_group_that_met() -> None:
    early, late = games({"ppo": [1.0, 2.0, 1.0]}, step=10), games({"ppo": [5.0, 6.0, 7.0]}, step=20)
    alone = games({"stranger": [3.0]}, seeds=100)
    table = rating_table(pd.concat([early, late, alone], ignore_index=True))
    assert table.frame["step"].tolist() == [20, 10]
    assert (table.frame["low"] <= table.frame["rating"]).all()
    assert "1 agents" in table.note
    assert rating_table(alone).frame.empty
    assert rating_table(pd.DataFrame()).frame.empty
