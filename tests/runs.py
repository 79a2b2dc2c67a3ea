"""Small runs: the settings they share, one that is trained, folders of agents that are not."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from reprl import checkpoint
from reprl.cli import main
from reprl.config.schema import load
from reprl.runs.folder import create
from reprl.runs.train import make_env, make_model

SMALL = [
    *("threads=1", "device=cpu", "progress=off", "env.n_envs=2", "env.max_frames=1000", "media=0"),
    *("algo.n_steps=16", "algo.batch_size=16", "encoder.features_dim=16"),
]
TINY = [
    *(*SMALL, "algo.n_epochs=1", "total_steps=192", "checkpoint.every=64", "log.every=48"),
    *("eval.every=96", "eval.episodes=1", "eval.variants=[original]"),
]
LAST = "000000000192"


def train(place: Path, *more: str) -> int:
    """The exit code of a run of six updates on Breakout."""
    return main(["train", *TINY, f"run_dir={place}", *more])


def same_runs(a: Path, b: Path) -> bool:
    """Equal in the sense of the design: checkpoints, metrics without the clock, validation."""
    assert checkpoint.steps(a)[-1] == checkpoint.steps(b)[-1]
    for step in set(checkpoint.steps(a)) & set(checkpoint.steps(b)):
        for file in checkpoint.FILES:
            first, second = (p / "checkpoints" / f"{step:012d}" / file for p in (a, b))
            assert first.read_bytes() == second.read_bytes(), f"{file} at step {step}"
    rows = [pd.read_csv(p / "metrics.csv") for p in (a, b)]
    rows = [frame[[c for c in frame if not c.startswith("time/")]] for frame in rows]
    pd.testing.assert_frame_equal(*rows, check_exact=True)
    games = [p / "evaluation" / "validation.csv" for p in (a, b)]
    assert games[0].exists() == games[1].exists()
    return not games[0].exists() or games[0].read_bytes() == games[1].read_bytes()


def make_run(place: Path, steps: Sequence[int] = (0,), **overrides: Any) -> Path:
    """A run folder with checkpoints of an untrained agent that likes two actions."""
    settings = {"env.size": 36, "env.stack": 2, "env.n_envs": 2, "env.workers": 0}
    settings |= {"algo.n_steps": 8, "algo.batch_size": 16, "threads": 1, "run_dir": place}
    config = load([f"{key}={value}" for key, value in (settings | overrides).items()])
    env = make_env(config)
    model = make_model(config, env)
    with torch.no_grad():
        model.policy.action_net.weight *= 200  # pictures decide, not only the dice
    folder = create(config, command=["reprl", "train"], python_path=[], id="test")
    for model.num_timesteps in steps:
        checkpoint.save(model, folder.path)
    folder.update(status="finished")
    env.close()
    return folder.path
