"""What share of the convolutions' own rate an update reaches, with one thread.

`python -m benchmarks.update [--quick]`: samples/s of PPO's update of NatureCNN (fast mode) beside
the same layers' convolutions and matrix products alone, forward and backward, on the same number of
pictures in the same layout. CPU time of this process, alternately, the least of several rounds: a
busy machine moves it less than the clock on the wall.
"""

from __future__ import annotations

import os

from reprl.cli import OPENMP

os.environ.update({**OPENMP, **os.environ})  # before torch loads, as the reprl command does

import argparse
import time
from collections.abc import Callable

import numpy as np
import torch
from torch import nn

from benchmarks.common import load_warning, machine, table
from reprl.algorithms import PPO
from reprl.envs import make_vec_env

BATCH = 256


def cpu_seconds(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def layers_alone() -> Callable[[], object]:
    """The multiplications of one minibatch, each layer on its own input: no ReLU, loss or step."""
    layers = [nn.Conv2d(4, 32, 8, 4), nn.Conv2d(32, 64, 4, 2), nn.Conv2d(64, 64, 3, 1)]
    shapes = [(4, 84, 84), (32, 20, 20), (64, 9, 9)]
    work: list[tuple[nn.Module, torch.Tensor, torch.Tensor]] = []
    for layer, shape in zip(layers, shapes, strict=True):
        layer.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        given = torch.rand(BATCH, *shape).contiguous(memory_format=torch.channels_last)
        # the pictures themselves get no gradient
        given.requires_grad_(shape[0] != 4)
        work.append((layer, given, torch.ones_like(layer(given))))
    linear = nn.Linear(3136, 512)
    given = torch.rand(BATCH, 3136, requires_grad=True)
    work.append((linear, given, torch.ones(BATCH, 512)))

    def run() -> None:
        for layer, given, gradient in work:
            layer.zero_grad()
            layer(given).backward(gradient)

    return run


def update(mode: str, precision: str = "fp32") -> tuple[PPO, Callable[[], object]]:
    """A model whose rollout is kept, and one epoch over it: four minibatches."""
    env = make_vec_env("original", 8, 0, 0)
    settings = {"n_steps": 128, "n_epochs": 1, "batch_size": BATCH, "instrument_every": 0}
    model = PPO("CnnPolicy", env, seed=0, device="cpu", mode=mode, precision=precision, **settings)
    model.learn(128 * 8)
    return model, model.train


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two rounds")
    rounds = 2 if parser.parse_args().quick else 6
    warning = load_warning()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    np.random.seed(0)
    model, fast = update("fast")
    _, plain = update("plain")
    alone = layers_alone()
    work: dict[str, tuple[Callable[[], object], int]] = {
        "convolutions and matrix products alone": (alone, BATCH),
        "update, fast mode": (fast, 4 * BATCH),
        "update, plain mode (SB3's layout)": (plain, 4 * BATCH),
    }
    seconds: dict[str, list[float]] = {name: [] for name in work}
    for _ in range(rounds):
        for name, (run, _samples) in work.items():
            seconds[name].append(cpu_seconds(run))
    rates = {name: samples / min(seconds[name]) for name, (_, samples) in work.items()}
    own = rates["convolutions and matrix products alone"]
    rows = [[name, f"{rate:,.0f}", f"{rate / own:.0%}"] for name, rate in rates.items()]
    print(f"\n{machine()} {warning} Compiled: {model.compiled}.\n")
    print(table(["one thread", "samples/s of CPU time", "of the layers' own rate"], rows))


if __name__ == "__main__":
    main()
