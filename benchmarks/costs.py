"""What each part costs: parameters and time of one update against the plain agent, batch 256.

`python -m benchmarks.costs [--quick]`: every encoder, mask, loss and augmentation of conf/, eager
and single-threaded, in CPU time, the least of all rounds: neither the number of cores nor other
work decides.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import torch

from benchmarks.common import load_warning, machine, table
from reprl import components
from reprl.algorithms import PPO
from reprl.envs import make_vec_env

BATCH = 256


def contenders() -> dict[str, dict[str, Any]]:
    """Every part alone; losses that need a mask are measured on the 7x7 one."""
    found: dict[str, dict[str, Any]] = {"plain": {}}
    for name in components.names("encoder"):
        if name != "nature":
            found[f"encoder={name}"] = {"encoder": name}
    for name in components.names("attention"):
        if name != "none":
            found[f"attention={name}"] = {"attention": name}
    for name in components.names("auxiliary"):
        if name != "none":
            found[f"auxiliary={name} (on attention=conv)"] = {
                "attention": "conv",
                "auxiliary": name,
            }
    for name in components.names("augmentation"):
        if name != "none":
            found[f"augmentation={name}"] = {"augmentation": name}
    return found


def build(extras: dict[str, Any]) -> tuple[Callable[[], None], int]:
    """A function that runs one update of one batch, and the number of trained parameters."""
    env = make_vec_env(n_envs=8, seed=0)
    model = PPO(
        "CnnPolicy", env, n_steps=BATCH // 8, batch_size=BATCH, n_epochs=1, seed=0, device="cpu",
        instrument_every=10**9, **extras,
    )  # fmt: skip
    model.learn(2 * BATCH)
    trained = [p for g in model.policy.optimizer.param_groups for p in g["params"]]
    return model.train, sum(p.numel() for p in trained if p.requires_grad)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="3 rounds instead of 9")
    rounds = 3 if parser.parse_args().quick else 9
    torch.set_num_threads(1)
    warning = load_warning()
    built = {name: build(extras) for name, extras in contenders().items()}
    seconds: dict[str, list[float]] = {name: [] for name in built}
    for _ in range(rounds):
        for name, (update, _) in built.items():
            began = time.process_time()
            update()
            seconds[name].append(time.process_time() - began)
    plain, weights = min(seconds["plain"]), built["plain"][1]
    rows = [
        [
            name,
            f"{count / 1e6:.2f} M",
            f"{count / weights:.2f}",
            f"{min(seconds[name]) / plain:.2f}",
        ]
        for name, (_, count) in built.items()
    ]
    print(f"{machine()} {warning} One plain update of {BATCH}: {1e3 * plain:.0f} ms.\n")
    print(table(["part", "parameters", "against plain", "update time against plain"], rows))


if __name__ == "__main__":
    main()
