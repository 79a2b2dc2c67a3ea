"""Ratings: a hand-worked pair, known orders recovered, and what cannot be rated is refused."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import brentq, minimize

from reprl.analysis.rating import rating_curves, rating_table
from reprl.analysis.report import write_report
from reprl.cli import main
from reprl.envs.games.breakout import ScriptedAgent
from reprl.evaluation import RandomAgent, evaluate, rating
from reprl.evaluation.rating import MIDDLE, PRIOR, SCALE, rate, tallies
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
    many = games({"a": [1.0, 1.0, 1.0, 0.0] * 1000, "b": [0.5] * 4000})  # the prior does not count
    first, second = rate(many)["rating"]
    assert first - second == pytest.approx(400 * np.log10(3), abs=0.2)
    assert (first + second) / 2 == pytest.approx(MIDDLE)


def likelihood_ends(won: int, lost: int) -> tuple[float, float, float]:
    """Rating and the ends of 95 % of the first of two agents, by hand: the prior's half draw in."""
    a, b = won + PRIOR / 2, lost + PRIOR / 2

    def fallen(apart: float) -> float:
        up, down = (-np.logaddexp(0, -sign * apart) for sign in (1, -1))
        return float(2 * (top - a * up - b * down) - 1.959964**2)

    best = np.log(a / b)
    top = a * np.log(a / (a + b)) + b * np.log(b / (a + b))
    ends = brentq(fallen, best - 90, best), brentq(fallen, best, best + 90)
    low, high = (MIDDLE + SCALE * end / 2 for end in ends)
    return MIDDLE + SCALE * best / 2, low, high


@pytest.mark.parametrize("won", [3, 20])
def test_who_never_lost_has_an_interval_that_says_how_little_is_known(won: int) -> None:
    table = rate(games({"a": [1.0] * won, "b": [0.0] * won}))
    point, low, high = likelihood_ends(won, 0)
    found = table.loc[0, ["rating", "low", "high"]].tolist()
    assert found == pytest.approx([point, low, high], abs=4)  # t of the starts instead of normal
    other = [2 * MIDDLE - found[k] for k in (0, 2, 1)]
    assert table.loc[1, ["rating", "low", "high"]].tolist() == pytest.approx(other)
    assert (low < MIDDLE) == (won == 3)  # three games of three are no proof
    assert high > MIDDLE + 700 / 2  # of 20 games, 700 Elo win every one with a chance of 0.70


def test_many_games_of_two_agents_have_the_likelihoods_interval() -> None:
    scores = np.random.default_rng(0).permutation([1.0] * 300 + [0.0] * 100)
    table = rate(games({"a": scores.tolist(), "b": [0.5] * 400}))
    found = table.loc[0, ["rating", "low", "high"]].tolist()
    assert found == pytest.approx(likelihood_ends(300, 100), abs=0.5)  # t of 399 instead of normal


def random_results(rng: np.random.Generator, agents: int, starts: int) -> np.ndarray:
    """Wins by start of agents who play every start, or a part of them, and often draw."""
    scores = rng.integers(0, 4, (starts, agents)) + np.linspace(0, 3, agents)
    scores[:, 1:][rng.random((starts, agents - 1)) < rng.choice([0.0, 0.4])] = np.nan
    return rating.wins_by_start(scores, np.arange(starts))


def test_a_rating_lies_inside_its_interval_and_the_likelihood_ends_it_there() -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        won = random_results(rng, int(rng.integers(2, 7)), int(rng.integers(3, 30)))
        if len(rating.connected(won.sum(0))) < won.shape[1]:
            continue
        found = rating.strengths(won)
        low, high = rating.bounds(found)
        assert (low < found.best - 0.01).all()
        assert (found.best + 0.01 < high).all()
        for end in (low, high):
            assert rating.deviance(found, end) == pytest.approx(found.limit, rel=1e-6)


def test_the_likelihood_is_at_its_maximum() -> None:
    won = random_results(np.random.default_rng(3), 4, 25)
    found = rating.strengths(won)

    def lost(at: np.ndarray) -> float:
        return float(np.sum(found.won * np.logaddexp(0, at[None, :] - at[:, None])))

    best = minimize(lost, np.zeros(4), tol=1e-10)
    assert found.best == pytest.approx(best.x - best.x.mean(), abs=1e-4)
    truth = found.best + [0.3, -0.2, 0.0, 0.9]
    for agent, fallen in enumerate(rating.deviance(found, truth)):

        def held(x: np.ndarray, agent: int = agent) -> float:
            return float(x[agent] - x.mean() - truth[agent])

        away = minimize(lost, found.best, constraints={"type": "eq", "fun": held}, tol=1e-12)
        assert fallen == pytest.approx(2 * (away.fun - best.fun), abs=1e-4)


def test_the_priors_start_ends_in_any_order() -> None:
    rng = np.random.default_rng(0)
    sizes = np.array([[0.0, 2.0, 1.0], [2.0, 0.0, 0.0], [1.0, 0.0, 0.0]])  # two of them never met
    p = np.array([[0.5, 0.8, 0.6], [0.2, 0.5, 0.4], [0.4, 0.6, 0.5]])
    place = rng.random((400_000, 3))
    above = place[:, :, None] > place[:, None, :]
    surprise = (sizes * (above - p)).sum(-1)
    expected = surprise.T @ surprise / len(place)
    assert rating._any_order(sizes, p) == pytest.approx(expected, abs=0.01)


def gumbel(rng: np.random.Generator, skill: float, starts: int) -> list[float]:
    """Scores of which Bradley and Terry's model is true: their difference is logistic."""
    return (skill + rng.gumbel(size=starts)).tolist()


@pytest.mark.parametrize(("apart", "starts"), [(0.0, 5), (4.0, 5), (1.0, 20), (4.0, 20)])
def test_intervals_hold_the_truth(apart: float, starts: int) -> None:
    rng, held, repeats = np.random.default_rng(0), 0, 100
    for _ in range(repeats):
        table = rate(games({"a": gumbel(rng, 0.0, starts), "b": gumbel(rng, apart, starts)}))
        found = table.set_index("method").loc["b"]
        held += found["low"] <= MIDDLE + SCALE * apart / 2 <= found["high"]
    assert held / repeats > 0.86  # four standard errors below 0.95


def test_copies_of_a_start_say_nothing_new() -> None:
    # A scripted player does not see pictures: its games on all variants that draw are the same.
    rng = np.random.default_rng(5)
    once = games({name: gumbel(rng, skill, 20) for name, skill in (("a", 0.0), ("b", 1.0))})
    again = [once.assign(variant=f"drawn_{k}") for k in range(9)]
    single, copied = rate(once), rate(pd.concat([once, *again], ignore_index=True))
    columns = ["rating", "low", "high"]
    assert copied["games"].tolist() == [200, 200]
    assert copied[columns].to_numpy() == pytest.approx(single[columns].to_numpy())


def test_common_luck_is_not_counted_as_evidence() -> None:
    # The better half wins together: 12 agents in a game are not 66 independent games.
    rng = np.random.default_rng(6)
    drawn = {f"agent_{k}": gumbel(rng, 0.0, 30) for k in range(12)}
    table = rate(games(drawn))
    width = (table["high"] - table["low"]).mean()
    # By hand, of equal agents: the information of n(n-1)/2 independent games has a variance of
    # 4 (1 - 1/n) / (n S), and places among n, which are what is seen, (n + 1) / 3 times as much.
    independent = 2 * 1.96 * SCALE * np.sqrt(4 / 12 / 30 * (1 - 1 / 12))
    assert width / independent == pytest.approx(np.sqrt(13 / 3), rel=0.15)


def test_wins_are_counted_by_game_and_draws_are_halves() -> None:
    scores = np.array([[1.0, 2.0], [3.0, 2.0], [2.0, 2.0], [np.nan, 9.0]])
    assert tallies(scores).tolist() == [[0.0, 1.5], [1.5, 0.0]]


def test_a_known_order_of_skill_is_recovered_with_its_distances() -> None:
    # Thurstone's model with a logistic difference is Bradley and Terry's own: Gumbel scores.
    rng, true = np.random.default_rng(0), {"novice": 0.0, "amateur": 1.0, "master": 2.0}
    drawn = {name: (skill + rng.gumbel(size=3000)).tolist() for name, skill in true.items()}
    table = rate(games(drawn)).set_index("method")
    assert table.index.tolist() == ["master", "amateur", "novice"]
    for name, skill in true.items():
        expected = MIDDLE + (skill - 1.0) * 400 / np.log(10)
        assert table.loc[name, "low"] < expected < table.loc[name, "high"]
        assert table.loc[name, "high"] - table.loc[name, "low"] < 60


@pytest.mark.slow
def test_scripted_players_are_rated_in_the_order_of_their_skill() -> None:
    skills = (0.3, 0.6, 1.0)
    players = [RandomAgent(), *(ScriptedAgent(skill) for skill in reversed(skills))]
    played = [
        evaluate(player, "original", 8, n_envs=8, frame_limit=1600, size=42) for player in players
    ]
    table = rate(pd.concat(played, ignore_index=True))
    best_first = ["scripted", "scripted skill=0.6", "scripted skill=0.3", "random"]
    assert table["method"].tolist() == best_first
    assert (table["games"] == 3 * 8).all()
    assert (np.diff(table["rating"]) < -50).all()
    assert table["low"][0] > table["high"][3]


def test_an_agents_likeliest_and_sampled_actions_are_two_players() -> None:
    sampled = games({"ppo": [1.0, 2.0, 3.0], "random": [0.0, 0.0, 0.0]})
    greedy = games({"ppo": [5.0, 6.0, 7.0]}).assign(deterministic=True)
    for order in ([sampled, greedy], [greedy, sampled]):
        table = rate(pd.concat(order, ignore_index=True))
        assert table["method"].tolist() == ["ppo", "ppo", "random"]
        assert table["deterministic"].tolist() == [True, False, False]
        assert table["wins"].tolist() == [6, 3, 0]


def test_two_scores_of_one_game_are_not_one_of_them() -> None:
    first = games({"ppo": [1.0, 2.0, 3.0], "a2c": [2.0, 2.0, 2.0]})
    assert len(rate(pd.concat([first, first]))) == 2  # read twice: the same games
    other = pd.concat([first, games({"ppo": [1.0, 9.0]})], ignore_index=True)
    with refuses("ppo (ppo at step 0)", "original, episode 1"):
        rate(other)
    shown = rating_table(other)
    assert shown.frame["games"].tolist() == [2, 2]
    assert "2 games with another score" in shown.note


def test_checkpoints_of_a_run_are_agents_of_their_own() -> None:
    early, late = games({"ppo": [1.0, 2.0, 1.0]}, step=10), games({"ppo": [5.0, 6.0, 7.0]}, step=20)
    table = rate(pd.concat([early, late]))
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
    assert main(["rate", str(tmp_path), f"out={out}"]) == 0
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
        figure, again = tmp_path / f"elo.{suffix}", tmp_path / f"again.{suffix}"
        for file in (figure, again):
            assert main(["rate", str(runs), f"figure={file}"]) == 0
        assert figure.stat().st_size > 3000
        assert figure.read_bytes() == again.read_bytes()
        assert not any(word in figure.read_bytes() for word in (b"<dc:date>", b"CreationDate"))
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


def test_wins_of_a_start_are_those_of_its_games() -> None:
    rng = np.random.default_rng(1)
    scores = rng.integers(0, 3, (7, 3)).astype(float)
    scores[0, 1] = np.nan
    starts = np.array([0, 1, 0, 2, 2, 1, 2])
    for start, found in enumerate(rating.wins_by_start(scores, starts)):
        assert found.tolist() == tallies(scores[starts == start]).tolist()


def test_the_report_rates_the_largest_group_that_met() -> None:
    early, late = games({"ppo": [1.0, 2.0, 1.0]}, step=10), games({"ppo": [5.0, 6.0, 7.0]}, step=20)
    alone = games({"stranger": [3.0]}, seeds=100)
    table = rating_table(pd.concat([early, late, alone], ignore_index=True))
    assert table.frame["step"].tolist() == [20, 10]
    assert (table.frame["low"] <= table.frame["rating"]).all()
    assert "1 agents" in table.note
    assert rating_table(alone).frame.empty
    assert rating_table(pd.DataFrame()).frame.empty
