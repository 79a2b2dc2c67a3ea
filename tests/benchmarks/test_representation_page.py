"""docs/representation.md says what results/representation holds, and how it was measured."""

import pandas as pd
import pytest

from benchmarks import representation
from reprl.cli import commands as known
from reprl.runs.agents import shipped


def test_the_page_is_what_was_measured() -> None:
    text = representation.PAGE.read_text(encoding="utf-8")
    assert representation.page(text) == text


def test_agents_are_measured_by_commands_that_exist() -> None:
    assert set(representation.agents()) <= set(shipped())
    assert {"imitation", "imitation_background"} <= set(representation.agents())
    for name in representation.agents():
        for words in representation.commands(name):
            assert words[0] in known()
        found = representation.measured(name, "probes")
        assert set(found["variant"]) == {"original", *representation.VARIANTS}
        truth = found[(found["source"] == "truth") & (found["label"] == "ball_x")]
        assert truth["r2"].min() > 0.99


def test_the_reading_counts_lost_scores_and_lost_balls(monkeypatch: pytest.MonkeyPatch) -> None:
    """By hand: one pair keeps both, one loses both, one keeps the ball alone."""
    rows = [("a", "noise", 0.9, 0.8), ("a", "diagonals", 0.4, 0.7), ("b", "noise", 0.1, 0.2)]
    found = pd.DataFrame(rows, columns=["agent", "variant", "kept", "readable"]).assign(off=3.21)
    monkeypatch.setattr(representation, "pairs", lambda: found)
    said = representation.reading()
    assert "3 pairs" in said
    assert "rank correlation of score kept and ball still readable is 1.00" in said
    assert "1 pairs keep at least half of the score: of those 1 keep" in said
    assert "2 pairs lose more than half of the score: in 1 of them" in said
    assert said.endswith("in 1 it is still readable (`a` on diagonals).")
    assert "| a | diagonals | 40 % | 70 % | 3.2 |" in representation.kept()


def test_controls_of_the_published_numbers_hold() -> None:
    for name in representation.agents():
        rows = representation.measured(name, "interventions")
        for thing in ("ball", "paddle"):
            blind = rows[rows["method"] == f"scripted blind_to={thing}"]
            assert (blind.loc[blind["object"] == thing, "flips"] == 0).all()
        layers = representation.measured(name, "layers")
        last = layers[(layers["layer"] == "action_net") & (layers["js"] > 1e-4)]
        assert last["policy_returned"].round(6).eq(1).all()


def test_the_plain_reading_is_what_was_measured() -> None:
    """The numbers in the sentences below the tables, which no function writes."""
    names = ("imitation", "imitation_background")
    found = {name: representation.measured(name, "probes") for name in names}

    def read(name: str, label: str, variant: str, column: str = "r2", **where: str) -> float:
        at = {"source": "agent", "layer": "linear.0", "label": label, "variant": variant} | where
        rows = found[name]
        for key, value in at.items():
            rows = rows[rows[key] == value]
        return float(rows[column].iloc[0])

    drawings = representation.VARIANTS[:4]
    worse = [
        read("imitation_background", label, v, "error")
        - read("imitation_background", label, "original", "error")
        for label in representation.POSITIONS
        for v in drawings
    ]
    assert max(worse) <= 0.35
    clean = representation.score("imitation_background", "original")
    kept = [representation.score("imitation_background", v) / clean for v in drawings]
    assert [round(min(kept), 2), round(max(kept), 2)] == [0.69, 0.96]

    lost = ("constant_rectangle", "green_lines", "diagonals")
    off = [read("imitation", "ball_x", v, "error") for v in lost]
    falls = [read("imitation", "ball_dy", v, "balanced_accuracy") for v in lost]
    assert [round(min(off)), round(max(off))] == [16, 23]
    assert [round(min(falls), 2), round(max(falls), 2)] == [0.50, 0.57]
    assert round(read("imitation", "ball_x", "moving_square", "error")) == 8
    assert round(read("imitation", "ball_dy", "moving_square", "balanced_accuracy"), 2) == 0.91
    assert round(representation.score("imitation", "moving_square")) == 10

    pair = representation.pairs().set_index(["agent", "variant"])
    still = pair.loc[("imitation_adaptive", "moving_square")]
    assert [round(still["kept"], 2), round(still["readable"], 2)] == [0.39, 0.91]

    first = {"source": "untrained"}
    assert round(read("imitation", "ball_y", "original", **first), 2) == -0.06
    assert round(read("imitation", "ball_y", "original"), 2) == 0.86
    before = read("imitation", "bricks_each", "original", "balanced_accuracy", **first)
    assert round(before, 2) == 0.92
    assert round(read("imitation", "bricks_each", "original", "balanced_accuracy"), 2) == 0.72

    table = representation.layered()
    assert "| imitation | cnn.0 | 0.87 / 0.85 |" in table
    assert "| imitation | linear.0 | 0.91 / 0.32 |" in table
    lines = [r.split(" | ") for r in table.splitlines() if r.startswith("| imitation | ")]
    assert max(float(cell.split(" / ")[0]) for r in lines for cell in (r[5], r[6])) == 0.16
