"""IMPALA and Ape-X on a real Ray cluster of two nodes: they learn, go on, and stand in the report.

Ray lives in an environment of its own, which `make setup-ray` makes; `make test-ray` runs this.
"""

import json
import os
import signal
import subprocess
from pathlib import Path

import pandas as pd
import pytest

from reprl import checkpoint
from reprl.cli import main
from tests.ray_nodes import BIN, NEEDS_RAY, TOYS, bare, cluster, reprl
from tests.reprl.sweeps.test_slurm import finish, wait_for

__all__ = ["cluster"]  # pytest finds the fixture by its name
pytestmark = NEEDS_RAY

GAME = [
    *("env=gymnasium", "env.id=catch_gym:Catch-v0", "env.n_envs=4", "device=cpu", "media=0"),
    *("encoder=nature", "encoder.features_dim=64", "threads=1", "seed=3", "progress=off"),
    *("eval.episodes=40", f"--config-dir={TOYS}", "checkpoint.every=2000", "log.every=1000"),
]
LEARN = {
    "impala": [
        *("total_steps=12000", "eval.every=4000", "algo.n_steps=20", "algo.batch_size=160"),
        *("algo.gamma=0.9", "algo.learning_rate=1e-3"),
    ],
    "apex": [
        *("total_steps=8000", "eval.every=4000", "algo.learning_starts=500", "algo.gamma=0.9"),
        *("algo.learning_rate=1e-3", "algo.target_update_interval=500", "algo.n_steps=1"),
        *("algo.batch_size=64", "algo.buffer_size=5000", "algo.train_freq=2"),
    ],
}


def train(algo: str, place: Path, address: str, *more: str) -> list[str]:
    where = [f"algo={algo}", f"algo.address={address}", f"run_dir={place}"]
    return ["train", *GAME, *LEARN[algo], *where, *more]


@pytest.mark.parametrize("algo", ["impala", "apex"])
def test_the_toy_game_is_learned_on_two_nodes_and_reported(algo, cluster, tmp_path, capsys):
    address, environment = cluster
    run = tmp_path / "runs" / algo
    code, output = finish(reprl(environment, *train(algo, run, address)))
    print(output)
    assert code == 0, output
    rows = pd.read_csv(run / "metrics.csv")
    print(rows[["step", "rollout/score", "validation/score", "train/actors"]])
    assert rows["train/actors"].iloc[-1] == 2
    assert rows["validation/score"].dropna().iloc[-1] > 0.6  # random play: about -0.3
    assert rows["rollout/score"].iloc[-1] > rows["rollout/score"].iloc[0] + 0.3
    # from here on without Ray
    toys = f"--config-dir={TOYS}"
    assert main(["evaluate", str(run), "episodes=20", "agents=random", toys]) == 0
    games = pd.read_csv(run / "evaluation" / "episodes.csv")
    assert games["episode_return"].mean() > 0.6
    assert main(["report", str(tmp_path / "runs"), f"out={tmp_path / 'report'}"]) == 0
    assert algo in (tmp_path / "report" / "report.html").read_text()
    capsys.readouterr()


def test_a_killed_run_goes_on_from_its_checkpoint_and_says_so(cluster, tmp_path):
    address, environment = cluster
    run = tmp_path / "killed"
    words = train("impala", run, address, "total_steps=6000", "checkpoint.every=1000")
    words = [w for w in words if w not in ("total_steps=12000", "checkpoint.every=2000")]
    process = reprl(environment, *words)
    wait_for(lambda: run.exists() and checkpoint.steps(run), "checkpoint")
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    had = checkpoint.steps(run)[-1]
    code, output = finish(reprl(environment, "resume", str(run), f"--config-dir={TOYS}"))
    print(output)
    assert code == 0, output
    assert "not the same run bit for bit" in output
    assert f"IMPALA goes on from step {had:,}" in output
    rows = pd.read_csv(run / "metrics.csv")
    assert rows["step"].is_monotonic_increasing
    assert rows["step"].iloc[-1] >= 6000
    record = json.loads((run / "run.json").read_text())
    assert record["status"] == "finished"


SAME = """
import sys
import numpy as np, torch
from reprl.algorithms import {cls}
from reprl.algorithms.rllib_engine import Engine
from reprl.envs import make_vec_env
from ray.rllib.core.columns import Columns

env = make_vec_env(n_envs=2, size=36)
model = {cls}("CnnPolicy", env, seed=1, runners=1, encoder="nature", attention="conv")
with torch.no_grad():
    for parameter in model.policy.parameters():
        parameter.add_(0.01)
with Engine(model) as engine:
    policy, optimizer = engine._learner()
    for (name, ours), theirs in zip(model.policy.named_parameters(), policy.parameters()):
        assert torch.equal(ours, theirs), name
    seen = np.random.default_rng(0).integers(0, 255, (6, 4, 36, 36), np.uint8)
    batch = {{Columns.OBS: torch.as_tensor(seen)}}
    module = engine.algorithm.learner_group._learner.module["default_policy"]
    {check}
    before = {{name: p.clone() for name, p in model.policy.named_parameters()}}
    done = engine.train()
    assert done.steps >= model._nominal, done
    for (name, ours), theirs in zip(model.policy.named_parameters(), policy.parameters()):
        assert torch.equal(ours, theirs), name
    now = dict(model.policy.named_parameters())
    moved = [name for name, p in before.items() if not torch.equal(p, now[name])]
    assert any("attention" in name for name in moved), moved
    assert any("attention" not in name for name in moved), moved
    state = model.policy.optimizer.state
    assert any(len(kept) for kept in state.values())
    print("same", done.steps)
"""
CHECKS = {
    "IMPALA": """
    out = module.forward_train(batch)
    logits = model.policy.get_distribution(batch[Columns.OBS]).distribution.logits
    theirs = torch.log_softmax(out[Columns.ACTION_DIST_INPUTS], 1)
    torch.testing.assert_close(theirs, logits)
    values = module.compute_values(batch, out[Columns.EMBEDDINGS])
    torch.testing.assert_close(values, model.policy.predict_values(batch[Columns.OBS])[:, 0])
""",
    "APEX": """
    from ray.rllib.algorithms.dqn.dqn_learner import QF_PREDS
    torch.testing.assert_close(
        module.compute_q_values(batch)[QF_PREDS], model.policy.q_net(batch[Columns.OBS])
    )
    model.learning_starts = 0
""",
}


@pytest.mark.parametrize("cls", sorted(CHECKS))
def test_rllib_trains_the_very_network_that_is_evaluated(cls, tmp_path):
    text = SAME.format(cls=cls, check=CHECKS[cls].strip())
    file = tmp_path / "same.py"
    file.write_text(text)
    done = subprocess.run(
        [str(BIN / "python"), str(file)], capture_output=True, text=True, env=bare(), check=False
    )
    print(done.stdout, done.stderr[-3000:])
    assert done.returncode == 0
    assert done.stdout.startswith("same")
