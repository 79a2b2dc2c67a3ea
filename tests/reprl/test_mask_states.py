"""What became of a mask is said where it matters: an alarm in training, a word in the report."""

import shutil
from pathlib import Path

import pandas as pd
import pytest
import torch

from reprl.algorithms.diagnostics import MaskMonitor, mask_entropy
from reprl.analysis.ablation import attention_state
from reprl.analysis.attention.study import mask_labels
from reprl.analysis.load import collect
from reprl.cli import main
from reprl.encoders.hard import Hard, gate_of
from reprl.runs.progress import alarms
from reprl.schema import MASK_STATES
from tests.runs import SMALL

RESULTS = Path(__file__).parents[2] / "results" / "methods"
TINY = [
    *(*SMALL, "progress=auto", "algo.n_epochs=4", "algo.instrument_every=1"),
    *("total_steps=128", "log.every=32", "eval.every=0", "attention=conv_21"),
]


@pytest.mark.slow
def test_a_run_whose_mask_goes_black_raises_the_alarm(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # a price on every cell, far above what the game pays
    price = ["auxiliary=sparsity", "auxiliary.coef=10", "algo.learning_rate=0.05"]
    assert main(["train", *TINY, *price, f"run_dir={tmp_path / 'black'}"]) == 0
    said = [row for row in capsys.readouterr().out.splitlines() if row.startswith("step ")]
    black = pd.read_csv(tmp_path / "black" / "metrics.csv")["attention/black"]
    assert black.iloc[0] == 0
    assert black.iloc[-1] == 1
    alarm = "ALARM the attention mask is black: nothing gets through"
    assert [alarm in row for row in said] == list(black > 0.5)


@pytest.mark.parametrize("by", ["top_k", "gumbel"])
def test_a_hard_mask_is_judged_by_what_gets_through(by: str) -> None:
    hard = Hard(by=by).train()
    spot = 0.02 * torch.rand(4, 1, 21, 21, generator=torch.Generator().manual_seed(0))
    for soft, labels in ((spot, ()), (spot + 0.97, ())):
        gate = hard.opened(soft)
        if by == "top_k":  # a tenth gets through, however faint or bright
            assert gate.mean() == pytest.approx(44 / 441)
            assert MaskMonitor().look(soft, soft, gate).labels == labels
        else:  # a cell is shut below a half and open above it
            found = MaskMonitor().look(soft, soft, gate).labels
            assert found == (("black",) if soft.max() < 0.5 else ("saturated",))
        encoder = torch.nn.Sequential(hard)
        assert torch.equal(gate_of(encoder, soft), gate)
    assert gate_of(torch.nn.Identity(), spot) is None


def test_every_state_has_its_alarm_and_no_other_metric_of_attention_has_one() -> None:
    monitor = MaskMonitor(patience=1)
    corner = torch.zeros(4, 1, 7, 7)
    corner[:, :, 0, 0] = 1
    masks = {
        "black": torch.full((4, 1, 7, 7), 0.01),
        "saturated": torch.full((4, 1, 7, 7), 0.99),
        "open": opened(),
        "stuck": corner.roll((3, 3), (2, 3)),
        "border": corner,
    }
    for label, mask in masks.items():
        report = monitor.look(mask)
        assert label in report.labels
        metrics = {f"attention/{name}": value for name, value in report.numbers().items()}
        found = alarms(metrics | {"train/entropy_loss": -1.2}, 4, 0.5)
        assert len(found) == len(report.labels)
        assert any(f"is {label}: {MASK_STATES[label]}" in alarm for alarm in found)
    fine = MaskMonitor().look(torch.rand(4, 1, 7, 7, generator=torch.Generator().manual_seed(0)))
    assert alarms({f"attention/{k}": v for k, v in fine.numbers().items()}, 4, 0.5) == []


def opened(size: int = 21) -> torch.Tensor:
    """A mask as runs have had it: mean 0.95, entropy 0.999, its darkest cells below 0.8."""
    mask = torch.full((8, 1, size, size), 0.97)
    mask[:, :, ::5, ::5] = 0.7
    return mask


def test_a_mask_that_lets_everything_through_is_open() -> None:
    mask = opened()
    assert mask.mean().item() == pytest.approx(0.95, abs=0.01)
    assert mask_entropy(mask) > 0.999
    assert MaskMonitor().look(mask).labels == ("open",)
    assert mask_labels(torch.full((4, 1, 7, 7), 0.905) + 0.01 * torch.rand(4, 1, 7, 7)) != ["flat"]
    # what hides something is not open: one cell of 7x7, or 2 % of 21x21
    for size, shut in ((7, 1), (21, 9)):
        hiding = torch.ones(4, 1, size * size)
        hiding[..., torch.arange(shut) * 3] = 0.0
        assert "open" not in MaskMonitor().look(hiding.reshape(4, 1, size, size)).labels
    assert "open" not in MaskMonitor().look(torch.full((4, 1, 7, 7), 0.85)).labels


def test_the_report_says_it_of_runs_from_before_there_was_a_word(tmp_path: Path) -> None:
    (run,) = RESULTS.glob("005_*")  # mean 0.95 and 0.96, entropy 0.9996
    shutil.copytree(run, tmp_path / run.name)
    (found,) = collect([tmp_path]).runs
    assert found.labels["green_lines"] == ["open"]
    assert "open on original, green_lines" in attention_state(found)
