"""How much faster recurrent PPO is with `algo.at_once=true`: both ways alternately, in one process.

`python -m benchmarks.recurrent` prints steps a second of each round, and the ratio of the medians.
"""

from __future__ import annotations

import argparse
import statistics
import time

import torch

from reprl.algorithms import RecurrentPPO
from reprl.envs import make_vec_env


def speed(at_once: bool, size: int, steps: int) -> float:
    """Steps a second of a fresh model, one rollout before the clock starts."""
    env = make_vec_env(n_envs=8, stack=1, size=size)
    model = RecurrentPPO(
        "CnnPolicy", env, seed=0, n_steps=128, batch_size=256, n_epochs=4, at_once=at_once
    )
    model.learn(1024)
    began = time.perf_counter()
    model.learn(steps, reset_num_timesteps=False)
    taken = time.perf_counter() - began
    env.close()
    return steps / taken


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--rounds", type=int, default=3)
    asked.add_argument("--steps", type=int, default=2048)
    asked.add_argument("--size", type=int, default=44)
    given = asked.parse_args()
    torch.set_num_threads(1)
    found: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(given.rounds):
        for at_once, rates in found.items():
            rates.append(speed(at_once, given.size, given.steps))
            print(f"at_once={str(at_once).lower()}: {rates[-1]:.0f} steps/s", flush=True)
    medians = {key: statistics.median(rates) for key, rates in found.items()}
    print(f"ratio of the medians: {medians[True] / medians[False]:.2f}")


if __name__ == "__main__":
    main()
