"""The mask during training: on hand-built masks, and in a real run that it must not touch."""

from pathlib import Path

import pandas as pd
from toys import ball_model

from reprl.analysis.attention.watch import watch_mask
from reprl.runs.progress import alarms
from tests.reprl.test_training import LAST, train


def test_a_mask_on_the_ball_and_the_same_one_scattered() -> None:
    found = watch_mask(ball_model(), ["original"], 0)
    assert found["mask/pointing/original"] > 0.75
    assert found["mask/energy/original"] > 20
    scattered = watch_mask(ball_model(shuffled=True), ["original"], 0)
    assert scattered["mask/pointing/original"] < 0.2
    assert scattered["mask/energy/original"] < 3
    assert 0 < found["mask/chance"] == scattered["mask/chance"] < 0.05


def test_a_run_shows_it_and_learns_the_same(tmp_path: Path) -> None:
    assert train(tmp_path / "seen", "attention=gumbel", "total_steps=96", "eval.every=96") == 0
    assert train(tmp_path / "unseen", "attention=gumbel", "total_steps=96", "eval.every=0") == 0
    last = LAST.replace("192", "096")
    for file in ("parameters.safetensors", "optimizer.safetensors", "state.safetensors"):
        one, other = (tmp_path / p / "checkpoints" / last / file for p in ("seen", "unseen"))
        assert one.read_bytes() == other.read_bytes(), file
    row = pd.read_csv(tmp_path / "seen" / "metrics.csv").iloc[-1]
    assert 0 <= row["mask/pointing/original"] <= 1
    assert row["mask/energy/original"] > 0
    assert row["mask/chance"] > 0


def test_an_alarm_once_half_of_training_has_found_nothing() -> None:
    values = {"mask/pointing/original": 0.01, "mask/chance": 0.03}
    assert any("points at" in alarm for alarm in alarms(values, 4, 0.6))
    assert not alarms(values, 4, 0.4)
    assert not alarms(values | {"mask/pointing/original": 0.3}, 4, 0.6)
