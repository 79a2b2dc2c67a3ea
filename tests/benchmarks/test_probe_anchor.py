"""The anchor of the probes: how its scores are taken together, and the order it says."""

from pathlib import Path

import pandas as pd
import pytest

from benchmarks.probe_anchor import (
    FIRST,
    PICTURE,
    PPO,
    STDIM,
    held,
    learned,
    order,
    probes,
    scores,
    trainings,
    written,
)
from benchmarks.timed import costs, keep
from reprl.cli import commands as known


def rows(stdim: float) -> pd.DataFrame:
    """Two labels of every encoder, on both kinds of play."""
    found = []
    for player in ("random", "scripted"):
        for name, value in ((FIRST, 0.2), (PPO, 0.4), (STDIM, stdim), (PICTURE, 0.9)):
            about = {"player": player, "encoder": name, "step": 0 if name == FIRST else 1024}
            found.append(about | {"label": "ball_y", "r2": value})
            found.append(about | {"label": "ball_dx", "balanced_accuracy": 0.5 + value / 2})
            found.append(about | {"label": "score", "r2": 1.0})  # one of theirs alone
            found.append(about | {"label": "lives", "r2": 1.0})  # one of neither
    return pd.DataFrame(found)


def test_a_score_is_the_share_of_what_can_be_had():
    some = pd.DataFrame(
        {"r2": [0.7, -2.0, None, None], "balanced_accuracy": [None, None, 0.8, 0.4]}
    )
    assert held(some).tolist() == pytest.approx([0.7, 0.0, 0.6, 0.0])


@pytest.mark.parametrize(
    ("stdim", "ranked", "said"),
    [
        (0.8, [FIRST, PPO, STDIM], "the published order"),
        (0.3, [FIRST, STDIM, PPO], "another order"),
    ],
)
def test_the_order_is_that_of_the_means(stdim, ranked, said):
    found = scores(rows(stdim))
    assert found.loc[("random", STDIM), "mean"] == pytest.approx(stdim)
    assert list(found) == ["ball_y", "ball_dx", "score", "mean", "mean of theirs"]
    assert found.loc[("random", STDIM), "mean of theirs"] == pytest.approx((stdim + 1) / 2)
    assert order(found, "random") == order(found, "random", "mean of theirs") == ranked
    text = written(rows(stdim))
    assert f"| random | {STDIM} | {stdim:.2f} | {stdim:.2f} | 1.00 | {stdim:.2f} |" in text
    assert text.count(said) == 4
    assert "PPO after 1,024 steps" in text


def test_the_loss_stands_beside_that_of_guessing():
    curve = pd.DataFrame({"step": [1024, 2048], "loss/spatiotemporal": [8.0, 6.5]})
    said = learned(curve)
    assert "8.32 nats for guessing" in said  # twice ln 64
    assert "was 8.00 over its first 1,024 frames and 6.50 over its last" in said


def test_its_commands_are_commands(tmp_path: Path):
    made = [*trainings(tmp_path, 1024, 64, 128).values(), *probes(tmp_path, 160).values()]
    assert {words[0] for words in made} == {"record", "pretrain", "train", "probe"} & set(known())


def test_costs_are_kept_once(tmp_path: Path):
    file = tmp_path / "costs.csv"
    for of, seconds in (("a", 1.0), ("b", 2.0), ("a", 3.04)):
        keep(of, "probe", seconds, file)
    keep("a", "layers", 5.0, file)
    found = costs(file).set_index(["of", "command"])["core_seconds"]
    assert found.to_dict() == {("a", "probe"): 3.0, ("b", "probe"): 2.0, ("a", "layers"): 5.0}
