"""Shipped games of random play: used where there are more of them, and only where they apply."""

import numpy as np
import pandas as pd
import pytest

from reprl.analysis.gap import generalization_gap, played, random_scores, run_scores
from reprl.analysis.random_play import measured, with_measured
from reprl.evaluation import RandomAgent, evaluate

ORIGINAL, LINES, DRIFT = (
    ("original", "original"),
    ("green_lines", "drawing"),
    ("drift_left", "dynamics"),
)


def table(*places, sticky=0.0, random=20, method="ppo"):
    rows = [
        {
            "run": name,
            "method": name,
            "train_seed": seed,
            "variant": variant,
            "family": family,
            "severity": np.nan if variant == "original" else 0.5,
            "sticky": sticky,
            "episode": e,
            "eval_seed": 0,
            "episode_return": 9.0,
        }
        for name, seed, count in ((method, 1, 3), (method, 2, 3), ("random", -1, random))
        for variant, family in places
        for e in range(count)
    ]
    return pd.DataFrame(rows)


def of_breakout() -> pd.DataFrame:
    return measured()[measured()["game"] == "breakout"]


def test_pong_has_its_own_random_play() -> None:
    rows = with_measured(table(ORIGINAL), "pong")
    random = rows.loc[rows["method"] == "random", "episode_return"]
    assert len(random) == 500
    assert -21 <= random.min() < random.mean() < -19
    again = evaluate(RandomAgent(), ["original"], 1, size=36, stack=1, n_envs=1, game="pong")
    shipped = measured()[measured()["game"] == "pong"]
    assert shipped["length"].iloc[0] == again["length"].iloc[0]
    assert shipped["episode_return"].iloc[0] == again["episode_return"].iloc[0]


def test_the_file_is_what_its_command_measures() -> None:
    """The first games of the file, played again."""
    assert (measured().groupby(["game", "variant"]).size() == 500).all()
    assert set(measured()["game"]) == {"breakout", "pong"}
    known = of_breakout()
    assert set(known["variant"]) == {
        *("original", "drift_left", "drift_right", "faster_ball", "gravity_down", "gravity_up"),
    }
    again = evaluate(RandomAgent(), ["original", "gravity_up"], 3, size=36, stack=1, n_envs=6)
    for variant, part in again.groupby("variant"):
        rows = known[known["variant"] == variant].iloc[:3]
        assert rows["episode_return"].tolist() == part["episode_return"].tolist()
        assert rows["length"].tolist() == part["length"].tolist()


def test_more_games_take_the_place_of_fewer() -> None:
    got = with_measured(table(ORIGINAL, LINES, DRIFT), "breakout")
    random = got[got["method"] == "random"]
    assert (random.groupby("variant").size() == 500).all()
    scores = random_scores(run_scores(got))
    known = of_breakout().groupby("variant")["episode_return"].mean()
    assert scores["original"] == scores["green_lines"] == pytest.approx(known["original"])
    assert scores["drift_left"] == pytest.approx(known["drift_left"])
    assert len(got[got["method"] == "ppo"]) == 18
    reference = played(got).reference({"green_lines": 1.0})
    assert reference.games is not None
    assert len(reference.games) == 500
    assert (reference.games[:, 0] == reference.games[:, 1]).all()  # the same games, paired
    kept = generalization_gap(got).set_index(["method", "variant"]).loc[("ppo", "green_lines")]
    assert kept["retention"] == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("game", "sticky", "random"),
    [("freeway", 0.0, 20), ("breakout", 0.25, 20), ("breakout", 0, 501)],
)
def test_what_was_not_measured_or_is_more_stays(game: str, sticky: float, random: int) -> None:
    episodes = table(ORIGINAL, sticky=sticky, random=random)
    pd.testing.assert_frame_equal(with_measured(episodes, game), episodes)


def test_an_unmeasured_strength_of_dynamics_is_not_filled() -> None:
    episodes = table(DRIFT).assign(severity=1.0)
    assert with_measured(episodes, "breakout").equals(episodes)
    assert with_measured(episodes.iloc[:0], "breakout").empty
