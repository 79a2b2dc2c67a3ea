"""Near and far variants, failed runs and the order of methods."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from reprl.analysis.nearness import NEAR, is_near, near_variants
from reprl.analysis.summary import failed_runs, headline, overall
from reprl.config.compose import options
from reprl.envs.variation.lookup import catalogue


def test_the_table_names_what_there_is() -> None:
    assert set(NEAR) <= set(options("augmentation"))
    families = {f"family:{v.family}" for v in catalogue().values()}
    assert {name for names in NEAR.values() for name in names} <= set(catalogue()) | families


def test_a_part_is_enough_and_severity_does_not_matter() -> None:
    assert is_near("moving_square@0.9", "drawing", ["none", "gray_boxes"])
    assert is_near("green_lines+blur", "drawing+picture", ["blur"])
    assert is_near("player_red", "colour", ["intensity"])
    assert not is_near("green_lines", "drawing", ["gray_boxes", "shift"])
    assert not is_near("moving_square", "drawing", ["none"])


def games(scores: dict[tuple[str, int, str], list[float]]) -> pd.DataFrame:
    rows = [
        (method, method, seed, variant, ("boxes" in method and "gray_boxes") or "none", e, value)
        for (method, seed, variant), values in scores.items()
        for e, value in enumerate(values)
    ]
    names = ["run", "method", "train_seed", "variant", "augmentation", "episode", "episode_return"]
    frame = pd.DataFrame(rows, columns=names)
    return frame.assign(family="drawing", eval_seed=0, severity=np.nan)


def test_order_by_score_near_and_far_apart_and_failures_said() -> None:
    """`small` keeps all of little; `boxes` loses half of much and is still the better agent."""
    scores: dict[tuple[str, int, str], list[float]] = {}
    for seed in (1, 2, 3):
        failed = seed == 3
        values = {"original": 1.0 if failed else 20.0, "moving_square": 12.0, "green_lines": 8.0}
        for variant, value in values.items():
            scores["boxes", seed, variant] = [value - 1, value, value + 1.0 + seed / 10]
            scores["small", seed, variant] = [3.0, 4.0, 5.0 + seed / 10]
    for variant in ("original", "moving_square", "green_lines"):
        scores["random", -1, variant] = [0.0, 1.0, 2.0, 1.0]
    frame = games(scores)
    assert near_variants(frame) == {"moving_square"}
    summary = overall(frame).set_index("method", drop=False)
    boxes, small = summary.loc["boxes"], summary.loc["small"]
    assert (boxes["order"], small["order"]) == (1, 2)
    assert small["retention"] > boxes["retention"]
    assert boxes["near"] > 12 > 8.5 > boxes["far"] > 8
    assert (boxes["near"] + boxes["far"]) / 2 == pytest.approx(boxes["score"])
    assert boxes["failed"] == 1
    assert "1 of 3 runs failed" in failed_runs(boxes)
    assert failed_runs(small) == ""
    gaps = pd.DataFrame(
        {"method": ["boxes"], "variant": ["green_lines"], "score": [8.0], "gap": [12.0]}
    )
    assert "1 of 3 runs failed" in headline(boxes, gaps.assign(retention=0.5), 1.0)
    assert boxes["runs"].count("·") == 2


def test_scores_are_never_said_to_be_below_what_is_possible() -> None:
    scores = {("a", seed, "original"): [0.0, 0.0, 9.0 * (seed == 1)] for seed in (1, 2, 3)}
    low = overall(games(scores))["clean_low"].iloc[0]
    assert low == 0.0
    pong = {("a", seed, "original"): [-21.0, -20.0, 3.0 * (seed == 1)] for seed in (1, 2, 3)}
    assert overall(games(pong))["clean_low"].iloc[0] < -21 + 7  # nothing is cut


def test_the_docs_say_it_of_every_augmentation() -> None:
    page = (Path(__file__).parents[2] / "docs" / "variants.md").read_text()
    section = page.partition("## Near and far")[2].partition("\n## ")[0]
    named = set(re.findall(r"`([a-z_]+)`", section))
    assert set(options("augmentation")) - {"none"} <= named
    near = {name for names in NEAR.values() for name in names if ":" not in name}
    assert near <= named
