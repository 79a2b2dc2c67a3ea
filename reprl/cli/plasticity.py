"""`reprl plasticity DIR`: whether a trained encoder can still fit random targets."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from reprl.cli.arguments import OUT, TRUST, Key, parse
from reprl.escaping import shown
from reprl.settings import PLASTICITY, THREADS

HELP = "can it still learn: fit random targets from a checkpoint and from scratch"
LOW = 0.5  # of a fresh network: much of the plasticity is lost

KEYS = {
    "frames": Key(64, "different pictures of random play", "int", allowed=PLASTICITY["frames"]),
    "steps": Key(600, "gradient steps", "int", allowed=PLASTICITY["steps"]),
    "seed": Key(0, "pictures and targets are drawn from it", "int", allowed=PLASTICITY["seed"]),
    "checkpoint": Key("newest", "newest, best or a step"),
    "threads": Key(1, "torch's threads", "int", allowed=THREADS),
    "out": OUT,
    "trust": TRUST,
}


def run(arguments: list[str]) -> int:
    """Measure every run below the folder."""
    (place,), values = parse("plasticity", arguments, KEYS, "one")
    from reprl.evaluation.checkpoints import each, require_ale, targets

    found, problems = targets(place, values["checkpoint"], out=values["out"])
    require_ale(found, "reprl plasticity", procgen=True)
    for problem in problems:
        print(f"WARNING: {shown(problem)}", file=sys.stderr)
    import torch

    torch.set_num_threads(values["threads"])
    return 1 if each(found, lambda target: _measure(target, values)) else 0


def _measure(target: Any, values: dict[str, Any]) -> None:
    import pandas as pd

    from reprl import tables
    from reprl.plasticity import measure
    from reprl.schema import FILES, PLASTICITY_TABLE

    model = target.load()
    step = int(model.num_timesteps)
    pictures = played(target.settings, values["frames"], values["seed"])
    result = measure(model, pictures, steps=values["steps"], seed=values["seed"])
    labels = {k: v for k, v in target.labels(step).items() if k in PLASTICITY_TABLE.columns}
    asked = {"eval_seed": values["seed"], "frames": len(pictures), "fit_steps": values["steps"]}
    numbers = {"trained": result.trained, "fresh": result.fresh, "ratio": result.ratio}
    path = target.place / FILES["plasticity"]
    tables.merge(path, pd.DataFrame([{**labels, **asked, **numbers}]), PLASTICITY_TABLE)
    print(
        f"{shown(target.name)} at step {step}: fits {result.trained:.0%} of random targets, a "
        f"fresh network {result.fresh:.0%}; plasticity {result.ratio:.2f} -> {shown(path)}"
    )
    if result.ratio < LOW:
        print(f"ALARM plasticity {result.ratio:.2f} is below {LOW}: most of it is lost")


def played(settings: dict[str, Any], frames: int, seed: int) -> np.ndarray:
    """Observations (frames, stack, size, size) of random play on the clean game, none twice."""
    from gymnasium import spaces

    from reprl.envs import make_vec_env
    from reprl.rng import numpy_stream

    n = 8
    env = make_vec_env(n_envs=n, seed=seed % 2**31, **settings)
    rng = numpy_stream(seed, "plasticity", "play")
    try:
        seen = [env.reset()]
        while len(seen) * n < 4 * frames:
            if isinstance(box := env.action_space, spaces.Box):
                env.step(rng.uniform(box.low, box.high, (n, *box.shape)).astype(np.float32))
            else:
                env.step(rng.integers(len(env.action_meanings), size=n))
            seen.append(env.observations())
    finally:
        env.close()
    everything = np.unique(np.concatenate(seen), axis=0)  # equal pictures cannot be told apart
    return everything[rng.permutation(len(everything))[:frames]]
