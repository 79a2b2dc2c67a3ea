"""What a probe must rank rightly: first weights < PPO < ST-DIM, on the same frames.

`python -m benchmarks.probe_anchor` trains a short PPO run and, on frames of random play and without
any reward, an encoder with ST-DIM; probes both beside an untrained network of the same shape and
the shipped agent; and writes results/representation/anchor.csv.
Anand et al. (2019) found that a random network holds about half of what can be had, and ST-DIM
nearly all of it.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

import reprl
from reprl.auxiliary.base import Batch, Context
from reprl.auxiliary.spatiotemporal import SpatioTemporal
from reprl.disk import write_atomically
from reprl.envs import make_vec_env
from reprl.rng import numpy_stream

ROOT = Path(__file__).parent.parent
OUT = ROOT / "results" / "representation" / "anchor.csv"
APART = 4  # agent steps between the two pictures of a pair: stacks of four share no frame
LAYER = "linear.0"


def random_frames(steps: int, n_envs: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Observations (T, n, 4, 84, 84) of random play, and whether a game began there (T, n)."""
    env = make_vec_env("original", n_envs, seed, training=False)
    draw = numpy_stream(seed, "anchor", "actions")
    pictures = [env.reset()]
    starts = [np.ones(n_envs, bool)]
    for _ in range(steps - 1):
        _, _, dones, _ = env.step(draw.integers(0, len(env.action_meanings), n_envs))
        pictures.append(env.observations())
        starts.append(np.asarray(dones))
    env.close()
    return np.stack(pictures), np.stack(starts)


def spatiotemporal(model: Any, updates: int, batch: int, seed: int) -> list[float]:
    """Train the model's encoder with ST-DIM alone; the loss after every hundred updates."""
    pictures, starts = random_frames(600, 8, seed)
    whole = np.lib.stride_tricks.sliding_window_view(starts[1:], APART, axis=0).any(axis=-1)
    pairs = np.argwhere(~whole)  # (P, 2): time and game of the earlier picture
    policy = model.policy
    encoder = policy.features_extractor
    loss = SpatioTemporal(coef=1.0)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        space, actions = model.observation_space, model.action_space
        loss.setup(Context(encoder, policy, space, actions, None, history=1))
    parameters = [*encoder.parameters(), *loss.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=3e-4)
    draw, losses = numpy_stream(seed, "anchor", "minibatches"), []
    for update in range(updates):
        time_, game = pairs[draw.choice(len(pairs), batch, replace=False)].T
        earlier = torch.as_tensor(pictures[time_, game])
        now = torch.as_tensor(pictures[time_ + APART, game])
        valid = torch.ones(batch, dtype=torch.bool)
        output = encoder.encode(now.float() / 255)
        minibatch = Batch(
            now,
            torch.zeros(batch, dtype=torch.int64),
            output,
            policy,
            torch.Generator(),
            at=lambda _, earlier=earlier, valid=valid: (earlier, valid),
        )
        found = loss(minibatch, encoder)["spatiotemporal"]
        optimizer.zero_grad()
        found.backward()
        optimizer.step()
        if (update + 1) % 100 == 0:
            losses.append(float(found.detach()))
            print(f"  ST-DIM, update {update + 1}: {losses[-1]:.3f}", flush=True)
    return losses


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--updates", type=int, default=600)
    parser.add_argument("--steps", type=int, default=24_576)
    parser.add_argument("--frames", type=int, default=600)
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows, began = [], time.perf_counter()

    def measure(name: str, model: Any, source: str = "agent") -> None:
        for player in ("random", "scripted"):
            table = reprl.probe(model, frames=options.frames, games=12, player=player)
            for one, called in ((source, name), *((s, s) for s in ("untrained", "pixels"))):
                part = table[table["source"] == one]
                rows.append(part.assign(encoder=called, trained=name))
        print(f"{name}: {time.perf_counter() - began:.0f} s", flush=True)

    with tempfile.TemporaryDirectory() as place:
        words = [f"total_steps={options.steps}", "seed=1", "eval.every=0", "mode=plain"]
        words += ["progress=off", "threads=1", "env.n_envs=8"]
        trained = reprl.train("plain", [*words, f"run_dir={place}/ppo"])
        measure(f"PPO, {options.steps:,} steps", trained.model)
        fresh = reprl.train(
            "plain",
            [
                "total_steps=8",
                "algo.n_steps=1",
                "algo.batch_size=8",
                *words[1:],
                f"run_dir={place}/fresh",
            ],
        )
        spatiotemporal(fresh.model, options.updates, 64, seed=1)
        measure(f"ST-DIM, {options.updates:,} updates", fresh.model)
    measure("imitation (shipped)", "agent:imitation")
    table = pd.concat(rows, ignore_index=True)
    keep = ["encoder", "trained", "player", "layer", "label", "r2", "error", "balanced_accuracy"]
    OUT.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(OUT, table[keep].round(4).to_csv(index=False))
    print(f"{time.perf_counter() - began:.0f} s -> {OUT}")


if __name__ == "__main__":
    main()
