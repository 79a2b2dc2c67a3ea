"""The analysis understands evaluated games: gaps of blind players, severities, difficulty."""

import numpy as np
import pandas as pd
import pytest

from reprl.analysis.gap import generalization_gap
from reprl.analysis.severity import difficulty, severity_areas, severity_curves
from reprl.envs import ScriptedAgent
from reprl.evaluation import RandomAgent, ScriptedPlayer, evaluate
from reprl.evaluation.players import labels_of

VARIANTS = ["original", "green_lines"]
pytestmark = pytest.mark.slow  # games of a competent player are long


def trained(agent, method, seed):
    """A scripted player in the place of a trained run."""
    player = ScriptedPlayer(agent)
    player.labels = labels_of(
        method, run=f"{method}-{seed}", train_seed=seed, step=1000, algo="ppo"
    )
    return player


@pytest.fixture(scope="module")
def episodes():
    seeing = [trained(ScriptedAgent(0.4, seed=s), "seeing", s) for s in (1, 2)]
    blind = [trained(ScriptedAgent(0.4, "distractor", seed=s), "blind", s) for s in (1, 2)]
    tables = [
        evaluate(agent, VARIANTS, 2, size=36, stack=1) for agent in (RandomAgent(), *seeing, *blind)
    ]
    weaker = [evaluate(a, "green_lines", 2, severities=[0, 1], size=36, stack=1) for a in blind]
    return pd.concat([*tables, *weaker], ignore_index=True)


def test_blindness_to_what_a_variant_draws_is_the_gap(episodes):
    gaps = generalization_gap(episodes).set_index(["method", "variant"])
    assert gaps.loc[("blind", "original"), "score"] == gaps.loc[("seeing", "original"), "score"]
    assert gaps.loc[("seeing", "green_lines"), "gap"] == 0
    assert gaps.loc[("seeing", "green_lines"), "retention"] == pytest.approx(1)
    blind = gaps.loc[("blind", "green_lines")]
    assert blind["gap"] > 5
    assert blind["retention"] < 0.5
    assert blind["n_seeds"] == 2
    assert blind["gap"] == pytest.approx(blind["clean"] - blind["score"])


def test_severity_curves_and_difficulty_come_from_the_same_rows(episodes):
    blind = episodes[episodes["method"].isin(["blind", "random"])]
    curve = severity_curves(blind)
    curve = curve[(curve["method"] == "blind") & (curve["curve"] == "green_lines")]
    assert curve["severity"].tolist() == [0.0, 0.5, 1.0]
    assert curve["score"].iloc[0] > curve["score"].iloc[1:].max() + 5  # severity 0 is no drawing
    areas = severity_areas(blind).set_index(["method", "curve"])
    by_hand = np.trapezoid(curve["score"], curve["severity"])
    assert areas.loc[("blind", "green_lines"), "area"] == pytest.approx(by_hand)
    labels = difficulty(episodes, plain=["seeing"], trained_on={}).set_index("variant")["label"]
    assert labels["green_lines"] == "too easy"
    labels = difficulty(blind, plain=["blind"], trained_on={}).set_index("variant")["label"]
    assert labels["green_lines"] in ("informative", "too hard")
