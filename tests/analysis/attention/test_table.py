"""The report's table of attention: possible intervals, and one row a way of measuring."""

import pandas as pd
import pytest

from reprl.analysis.measured import attention_table, faithfulness_table
from reprl.analysis.tables import form


def measured(values: dict[str, float], **columns: object) -> pd.DataFrame:
    """One score of the ball for each run, each of a seed of its own."""
    seeds = range(len(values))
    rows = [
        {"run": r, "value": values[r], "train_seed": s} for r, s in zip(values, seeds, strict=True)
    ]
    fixed = {"method": "m", "step": 8, "variant": "original", "object": "ball"}
    fixed |= {"view": "mask", "player": "agent", "metric": "auc", "low": 0.1, "high": 0.2}
    return pd.DataFrame(rows).assign(
        **fixed | {"chance": 0.5, "static": 0.5, "ceiling": 1.0} | columns
    )


def test_intervals_over_runs_stay_within_what_is_possible():
    auc = attention_table(measured({"a": 0.7, "b": 0.99, "c": 0.8})).frame.iloc[0]
    assert 0.4 < auc["value_low"] < 0.7
    assert auc["value_high"] == 1.0
    low = attention_table(measured({"a": 0.0, "b": 0.02, "c": 0.001}, metric="pointing"))
    assert low.frame.iloc[0]["value_low"] == 0.0
    lag = attention_table(measured({"a": 2.0, "b": 3.0, "c": 4.0}, metric="lag")).frame.iloc[0]
    assert lag["value_high"] > 4


def test_one_run_has_its_own_interval_over_games():
    table = attention_table(measured({"a": 0.7}))
    assert table.frame.iloc[0][["value_low", "value_high"]].tolist() == [0.1, 0.2]
    assert "over frames" not in table.note


def test_players_are_not_averaged():
    both = pd.concat([measured({"a": 0.7}), measured({"a": 0.1}, player="random")])
    found = attention_table(both).frame.set_index("view")["value"].to_dict()
    assert found == pytest.approx({"mask": 0.7, "mask, random plays": 0.1})
    before = attention_table(measured({"a": 0.7}).drop(columns=["player", "view"])).frame
    assert before["view"].tolist() == ["mask"]


def test_faithfulness_of_players_is_not_averaged():
    rows = {"test": "deletion", "condition": "random", "advantage": 0.3}
    rows |= {"advantage_low": 0.1, "advantage_high": 0.5}
    both = pd.concat(
        [measured({"a": 0.7}, **rows), measured({"a": 0.1}, **rows, player="scripted")]
    )
    assert faithfulness_table(both).frame["view"].tolist() == ["mask", "mask, scripted plays"]


def test_the_energy_of_a_ball_keeps_its_digits():
    assert [form(v, "small") for v in (0.00129, 0.0007, 0.0)] == ["0.00129", "0.000700", "0.000"]
