"""Training from Python: the folder, the name and the bits of the command, and results in memory."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from stable_baselines3.common.callbacks import BaseCallback

import reprl
from reprl import checkpoint
from reprl.algorithms import A2C, PPO
from tests.helpers import refuses
from tests.runs import TINY, same_runs, train

EXPERIMENT = "attention_contrastive"


class Count(BaseCallback):
    """How often the model stepped."""

    def _on_step(self) -> bool:
        return True


def test_train_and_from_experiment_are_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert train(tmp_path / "command", f"experiment={EXPERIMENT}") == 0
    monkeypatch.chdir(tmp_path)
    count = Count()
    done = reprl.train(experiment=EXPERIMENT, overrides=TINY, callbacks=[count])
    assert done.status == "finished"
    assert count.n_calls == 192 / 2
    assert same_runs(tmp_path / "command", done.path)
    assert done.path.parent == Path("runs")
    assert f"_{EXPERIMENT}_original_s0_" in done.path.name
    command = checkpoint.load(tmp_path / "command")
    records = [f.record() for f in (done.folder, type(done.folder)(tmp_path / "command"))]
    for key in ("method", "config_hash", "experiment", "versions"):
        assert records[0][key] == records[1][key]
    assert done.metrics["step"].iloc[-1] == 192
    assert set(done.validation["variant"]) == {"original"}
    script = PPO.from_experiment(EXPERIMENT, overrides=TINY)
    script.learn(192)
    for model in (done.model, script):
        for name, value in command.policy.state_dict().items():
            assert torch.equal(model.policy.state_dict()[name], value), name
    with refuses(EXPERIMENT, "A2C"):
        A2C.from_experiment(EXPERIMENT, overrides=TINY)
