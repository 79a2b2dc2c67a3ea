"""One rank, or all of it in one process, trained on a rollout that is the same either way.

Started as `python -m tests.reprl.distributed.share OUT LOSSES ALGO [OVERRIDES...]` with a rank's
environment variables; writes the parameters and the numbers it logged.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file

from reprl.algorithms.demonstrations import Chunk, Demonstrations
from reprl.config.schema import load
from reprl.distributed.environment import place
from reprl.distributed.ranks import OneRank, join
from reprl.runs.train import make_env, make_model

STEPS, ENVS, BATCH, PARTS, UPDATES = 8, 4, 16, 2, 3
LOSSES = [
    *("attention=conv", "auxiliary=[contrastive,temporal,spatiotemporal,reward_prediction]"),
    *("auxiliary.contrastive.augmentation=none", "auxiliary.temporal.augmentation=none"),
    *("auxiliary.contrastive.feature=8", "auxiliary.temporal.latent=8"),
]


def settings(algo: str, losses: str, more: list[str]) -> list[str]:
    found = [f"algo={algo}", "threads=1", "device=cpu", f"env.n_envs={ENVS}", "env.size=36"]
    found += [f"algo.n_steps={STEPS}", "encoder.features_dim=16", "env.max_frames=1000"]
    if algo == "imitation":
        found += [f"algo.batch_size={BATCH}", f"algo.updates={UPDATES}"]
    elif algo == "ppo":
        found += [f"algo.batch_size={BATCH}", "algo.n_epochs=2", "algo.normalize_advantage=true"]
    else:
        found += ["algo.normalize_advantage=true"]
    found += ["algo.instrument_every=1"]
    return found + (LOSSES if losses == "losses" else []) + more


def fill(buffer: Any, envs: slice) -> None:
    """A rollout of all environments from one generator, of which a rank takes its own."""
    rng = np.random.default_rng(7)
    shape = (STEPS, ENVS)
    pictures = rng.integers(0, 256, (*shape, *buffer.obs_shape), np.uint8)
    actions = rng.integers(0, 4, (*shape, 1))
    values, log_probs, advantages, returns = rng.normal(size=(4, *shape)).astype(np.float32)
    rewards = rng.integers(-1, 2, shape).astype(np.float32)
    starts = rng.random(shape) < 0.2
    starts[:, 3] = True  # an environment without a valid pair: ranks have different numbers
    buffer.reset()
    buffer.observations[:] = pictures[:, envs]
    buffer.actions[:] = actions[:, envs]
    buffer.values[:], buffer.log_probs[:] = values[:, envs], -1.4 + 0.1 * log_probs[:, envs]
    buffer.advantages[:], buffer.returns[:] = 3 * advantages[:, envs], returns[:, envs]
    buffer.rewards[:], buffer.episode_starts[:] = rewards[:, envs], starts[:, envs]
    buffer.pos, buffer.full = STEPS, True
    last = rng.integers(0, 256, (ENVS, *buffer.obs_shape), np.uint8)
    buffer.finish(last[envs], np.zeros(ENVS, bool)[envs], rewards[:, envs])


def fill_data(buffer: Demonstrations, envs: slice) -> None:
    """The same for imitation: one more labelled rollout behind those before."""
    rng = np.random.default_rng([7, len(buffer.chunks)])
    shape, frame = (STEPS, ENVS), buffer.obs_shape[1:]
    starts = rng.random(shape) < 0.2
    starts[0] = True
    age = np.zeros(shape, np.int64)
    for t in range(1, STEPS):
        age[t] = np.where(starts[t], 0, age[t - 1] + 1)
    probs = rng.random((*shape, 4)).astype(np.float32)
    arrays = {
        "frames": rng.integers(0, 256, (buffer.lead + STEPS, ENVS, *frame), np.uint8),
        "probs": probs / probs.sum(axis=2, keepdims=True),
        "actions": rng.integers(0, 4, shape),
        "rewards": rng.integers(-1, 2, shape).astype(np.float32),
        "returns": rng.normal(size=shape).astype(np.float32),
        "age": age,
        "episode": np.cumsum(starts, axis=0) + 100 * len(buffer.chunks),
    }
    own = {name: np.ascontiguousarray(array[:, envs]) for name, array in arrays.items()}
    buffer.reset()
    buffer.values[:] = rng.normal(size=shape).astype(np.float32)[:, envs]
    buffer.returns[:] = own["returns"]
    buffer.chunks.append(Chunk(STEPS * len(buffer.chunks), own))


def same_draws(model: Any, ranks: OneRank) -> None:
    """Let imitation draw samples that do not depend on the ranks."""
    buffer, share, drawn = model.rollout_buffer, ENVS // PARTS, [0]

    def minibatches(size: int | None) -> Iterator[Any]:
        assert size == BATCH // ranks.size
        for _ in range(buffer.updates):
            drawn[0] += 1
            rows = [
                np.random.default_rng([part, drawn[0]]).integers(
                    len(buffer.chunks) * STEPS * share, size=BATCH // PARTS
                )
                for part in range(PARTS)
            ]
            if ranks.size == 1:
                own = [r // share * ENVS + part * share + r % share for part, r in enumerate(rows)]
                yield buffer.minibatch(np.concatenate(own))
            else:
                yield buffer.minibatch(rows[ranks.rank])

    buffer.minibatches = minibatches


def same_minibatches(model: Any, ranks: OneRank) -> None:
    """Let every epoch visit the samples in an order that does not depend on the ranks."""
    buffer, share = model.rollout_buffer, ENVS // PARTS
    epoch = [0]

    def minibatches(size: int | None) -> Iterator[Any]:
        next(iter(buffer.get(1)))  # lays the arrays out for samples
        epoch[0] += 1
        count = 1 if size is None else STEPS * ENVS // BATCH
        orders = [
            np.random.default_rng([part, epoch[0]]).permutation(STEPS * share)
            for part in range(PARTS)
        ]
        for k in range(count):
            parts = [np.array_split(order, count)[k] for order in orders]
            if ranks.size == 1:
                chosen = np.concatenate(
                    [rows + part * share * STEPS for part, rows in enumerate(parts)]
                )
            else:
                chosen = parts[ranks.rank]
            yield buffer._get_samples(chosen)

    buffer.minibatches = minibatches


def main(out: str, losses: str, algo: str, more: list[str]) -> None:
    torch.set_num_threads(1)
    config = load(settings(algo, losses, more))
    ranks = join(config)
    env = make_env(config, ranks)
    model: Any = make_model(config, env, ranks)
    share = ENVS // ranks.size
    model._current_progress_remaining = 0.7
    imitation = isinstance(model.rollout_buffer, Demonstrations)
    (same_draws if imitation else same_minibatches)(model, ranks)
    logged: list[dict[str, float]] = []
    for model._iterations in (1, 2):
        model.num_timesteps += STEPS * ENVS
        own = slice(ranks.rank * share, (ranks.rank + 1) * share)
        (fill_data if imitation else fill)(model.rollout_buffer, own)
        model.train()
        numbers = {k: float(v) for k, v in model.logger.name_to_value.items()}
        logged.append(numbers)
        model.logger.name_to_value.clear()
    env.close()
    captured = model.capture()
    save_file({k: t.contiguous() for k, t in captured.parameters.items()}, f"{out}.safetensors")
    Path(f"{out}.json").write_text(json.dumps(logged))


if __name__ == "__main__":
    here = place()
    name = f"{sys.argv[1]}-{0 if here is None else here.rank}of{1 if here is None else here.size}"
    main(name, sys.argv[2], sys.argv[3], sys.argv[4:])
    from reprl.distributed.ranks import leave

    leave(0)
