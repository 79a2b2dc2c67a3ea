"""The gap table, severity curves, difficulty labels and learning curves on hand-worked games."""

import numpy as np
import pandas as pd
import pytest

from reprl.analysis.curves import banded, load_curve, steps_per_second
from reprl.analysis.gap import (
    generalization_gap,
    main_labels,
    prepare,
    score_estimates,
)
from reprl.analysis.severity import curve_points, difficulty, severity_areas, severity_curves
from reprl.envs import find
from reprl.naming import at_severity, variant_label
from reprl.schema import GAP
from reprl.tables import read_numbers
from tests.helpers import refuses


def table(rows: list[tuple]) -> pd.DataFrame:
    """(method, seed, variant, severity, score): two games each, one point to either side."""
    out = []
    for method, seed, variant, severity, score in rows:
        for episode, offset in enumerate((-1, 1)):
            out.append(
                {
                    "run": f"{method}-{seed}",
                    "method": method,
                    "train_seed": seed,
                    "step": 100,
                    "variant": variant,
                    "family": "f",
                    "severity": severity,
                    "episode": episode,
                    "episode_return": score + offset,
                }
            )
    return pd.DataFrame(out)


GAMES = table(
    [
        ("random", -1, "original", None, 2.0),
        ("random", -1, "lines", None, 1.0),
        ("a", 1, "original", None, 22.0),
        ("a", 2, "original", None, 12.0),
        ("a", 1, "lines", None, 11.0),
        ("a", 2, "lines", None, 5.0),
        ("b", 1, "original", None, 2.5),
        ("b", 1, "lines", None, 2.5),
    ]
)


def row(frame: pd.DataFrame, method: str, variant: str) -> pd.Series:
    return frame[(frame["method"] == method) & (frame["variant"] == variant)].iloc[0]


def test_gap_by_hand() -> None:
    got = generalization_gap(GAMES)
    assert tuple(got.columns) == GAP
    a = row(got, "a", "lines")
    assert (a["n_seeds"], a["score"], a["clean"], a["gap"]) == (2, 8.0, 17.0, 9.0)
    assert a["retention"] == pytest.approx((8 - 1) / (17 - 2))
    # Gaps 11 and 7: half width = t(0.975, 1) * sd / sqrt(2) = 12.706 * 2
    assert a["gap_high"] - a["gap"] == pytest.approx(25.41, abs=0.01)
    b = row(got, "b", "lines")
    assert b["n_seeds"] == 1
    assert np.isnan([b["gap_low"], b["retention"]]).all()  # one seed; 0.5 points above random
    assert row(got, "a", "original")["retention"] == pytest.approx(1.0)


def test_what_is_little_is_for_the_game_to_say() -> None:
    """b is half a point above random play: enough in a game that counts in halves."""
    fine = generalization_gap(GAMES.assign(score_scale=0.5))
    assert row(fine, "b", "lines")["retention"] == pytest.approx((2.5 - 1) / (2.5 - 2))
    coarse = generalization_gap(GAMES.assign(score_scale=16.0))
    assert np.isnan(row(coarse, "a", "lines")["retention"])
    label = difficulty(GAMES.assign(score_scale=16.0), ["a"])["label"]
    assert label.tolist() == ["unknown"]
    assert difficulty(GAMES, ["a"])["label"].tolist() != ["unknown"]


def test_only_the_last_step_of_a_run_counts() -> None:
    early = GAMES.assign(step=50, episode_return=1000.0)
    got = generalization_gap(pd.concat([early, GAMES]))
    pd.testing.assert_frame_equal(got, generalization_gap(GAMES))


def test_nan_scores_and_missing_baselines() -> None:
    broken = GAMES.astype({"episode_return": object})
    broken.loc[broken.index[4], "episode_return"] = "nan"
    assert row(generalization_gap(broken), "a", "original")["clean"] == (23 + 12) / 2
    alone = generalization_gap(GAMES[GAMES["method"] == "a"])
    assert alone["retention"].isna().all()
    assert row(alone, "a", "lines")["gap"] == 9.0


def test_games_without_clean_play_have_a_score_but_no_gap() -> None:
    got = generalization_gap(GAMES[GAMES["variant"] == "lines"])
    assert row(got, "a", "lines")["score"] == 8.0
    assert got[["clean", "gap", "retention"]].isna().all(axis=None)


def test_missing_columns_are_named() -> None:
    with refuses("train_seed"):
        generalization_gap(GAMES.drop(columns="train_seed"))


def test_score_estimates_count_games() -> None:
    got = row(score_estimates(GAMES), "a", "lines")
    assert (got["n_seeds"], got["episodes"], got["score"]) == (2, 4, 8.0)


SEVERE = table(
    [
        ("random", -1, "original", None, 0.0),
        *[("random", -1, "lines", s, 0.0) for s in (0.5, 1.0)],
        *[("a", seed, "original", None, 10.0) for seed in (1, 2)],
        *[("a", seed, "lines", 0.5, 8.0) for seed in (1, 2)],
        *[("a", seed, "lines", 1.0, 2.0) for seed in (1, 2)],
    ]
)


def test_severities_get_labels_as_everywhere_else() -> None:
    assert set(prepare(SEVERE)["variant"]) == {"original", "lines@0.5", "lines@1"}
    assert curve_points(SEVERE) == {
        "lines": [(0.0, "original"), (0.5, "lines@0.5"), (1.0, "lines@1")]
    }
    known = SEVERE.assign(variant=SEVERE["variant"].replace("lines", "green_lines"))
    assert set(prepare(known)["variant"]) == {"original", "green_lines", "green_lines@1"}
    for frame in (SEVERE, known):
        pairs = zip(frame["variant"], frame["severity"], strict=True)
        assert prepare(frame)["variant"].to_list() == [variant_label(*pair) for pair in pairs]


def test_severity_curve_and_area_by_hand() -> None:
    curve = severity_curves(SEVERE)
    a = curve[curve["method"] == "a"]
    assert a["score"].tolist() == [10.0, 8.0, 2.0]
    area = severity_areas(SEVERE).set_index("method").loc["a"]
    assert area["area"] == pytest.approx(0.5 * (10 + 8) / 2 + 0.5 * (8 + 2) / 2)  # 7
    assert area["retention_area"] == pytest.approx(0.7)
    assert area["n_seeds"] == 2


def test_difficulty_labels_follow_the_rule() -> None:
    base = [("random", -1, v, None, 1.0) for v in ("original", "easy", "good", "hard", "open")]
    plain = zip(("original", "easy", "good", "hard", "open"), (11, 10.5, 3, 1.2, 1.1), strict=True)
    expert = [("expert", 1, "open", None, 9.0), ("expert", 1, "original", None, 3.0)]
    games = table([*base, *[("plain", 1, v, None, s) for v, s in plain], *expert])
    got = difficulty(games, ["plain"], {"expert": ["open"]}).set_index("variant")
    labels = got["label"].to_dict()
    assert labels == {
        "easy": "too easy",
        "good": "informative",
        "hard": "too hard",
        "open": "informative",
    }
    assert got.loc["good", "plain_share"] == pytest.approx(0.2)
    assert got.loc["open", ["best_method", "best"]].tolist() == ["expert", 9.0]
    assert got.loc["open", "best_share"] == pytest.approx(0.8)  # of what the plain agent learned
    assert set(difficulty(games)["label"]) == {"unknown"}


def test_learning_curves_skip_damage_and_do_not_invent(tmp_path) -> None:
    path = tmp_path / "metrics.csv"
    path.write_text(
        "step,rollout/ep_rew_mean,time/fps\n10,1,500\n20,nan,510\n30,5,520\n1,2,3,4,5\n40,"
    )
    metrics = read_numbers(path)
    curve = load_curve(metrics)
    assert curve is not None
    assert [c.tolist() for c in curve] == [[10, 30], [1, 5]]
    assert steps_per_second(metrics) == 510
    longer = (np.array([10.0, 50.0]), np.array([3.0, 7.0]))
    band = banded([curve, longer])
    assert band.iloc[0][["n_seeds", "score"]].tolist() == [2, 2.0]
    assert band.iloc[-1][["n_seeds", "score"]].tolist() == [1, 7.0]
    assert np.isnan(band.iloc[-1]["low"])
    assert load_curve(pd.DataFrame({"step": [1]})) is None


def test_a_composition_is_a_variant_of_its_own() -> None:
    games = table(
        [
            ("a", 1, "original", None, 20.0),
            ("a", 1, "green_lines", 0.5, 10.0),
            ("a", 1, "green_lines", 0.7, 8.0),
            ("a", 1, "green_lines@0.7+moving_square", 0.7, 3.0),
            ("a", 1, "green_lines+diagonals", 0.2, 6.0),
        ]
    )
    frame = prepare(games)
    mixed = frame[frame["variant"] == "green_lines@0.7+moving_square"]
    assert set(mixed["curve"]) == {"green_lines@0.7+moving_square"}
    assert mixed["episode_return"].mean() == 3.0
    # one severity for a whole composition is written so that the command line reads it back
    assert "green_lines+diagonals" not in set(frame["variant"])
    label = frame.loc[frame["curve"] == "green_lines+diagonals", "variant"].iloc[0]
    assert label == at_severity("green_lines+diagonals", 0.2)
    again = find(label)
    whole = find("green_lines+diagonals", 0.2)
    assert again.effects == whole.effects
    points = curve_points(games)["green_lines"]
    assert [severity for severity, _ in points] == [0.0, 0.5, 0.7]
    assert "green_lines@0.7+moving_square" in main_labels(frame["variant"].unique())


def test_protocols_are_never_averaged() -> None:
    sampled = GAMES.assign(deterministic=False, sticky=0.0)
    greedy = sampled[sampled["method"] == "a"].assign(deterministic=True, episode_return=99.0)
    sticky = sampled.assign(sticky=0.25)
    for other in (greedy, sticky):
        with refuses("protocols"):
            generalization_gap(pd.concat([sampled, other]))
    # the random player has no greedy form: its games serve greedy agents too
    alone = sampled.assign(deterministic=sampled["method"] != "random")
    pd.testing.assert_frame_equal(generalization_gap(alone), generalization_gap(GAMES))
