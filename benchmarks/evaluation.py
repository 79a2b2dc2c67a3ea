"""Evaluation steps/s with the policy's forward pass, against what the emulators alone can do.

`python -m benchmarks.evaluation [--quick]`. All play the same list of full games to the end, the
idle slots of the last games included; the fresh policy's games last as long as random ones.
"""

from __future__ import annotations

import os

from reprl.cli import OPENMP

os.environ.update({**OPENMP, **os.environ})  # before torch loads, as the reprl command does

import argparse
import time
from collections.abc import Callable

import torch

from benchmarks import envs
from benchmarks.common import alternate, load_warning, machine, middle, table
from reprl.algorithms import PPO
from reprl.envs import find, make_vec_env
from reprl.evaluation import Agent, Arena, ModelAgent, RandomAgent, Task

VARIANTS = ("original", "green_lines")
SLOTS = 32


def evaluation(agent: Agent, episodes: int, workers: int, threads: int) -> float:
    """Agent steps a second from the first action to the end of the last game."""
    torch.set_num_threads(threads)
    tasks = [Task(find(v), e, 0) for v in VARIANTS for e in range(episodes)]
    with Arena(n_envs=SLOTS, workers=workers) as arena:
        began = time.perf_counter()
        steps = sum(game.steps for game in arena.play(agent, tasks))
        return steps / (time.perf_counter() - began)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one round of few games")
    quick = parser.parse_args().quick
    episodes, seconds, rounds = (4, 2.0, 1) if quick else (96, 5.0, 3)
    warning = load_warning()
    model = PPO("CnnPolicy", make_vec_env(n_envs=1), n_steps=2, batch_size=2, device="cpu")
    players: dict[str, Agent] = {"no policy": RandomAgent(4), "NatureCNN": ModelAgent(model)}
    ceiling = f"emulators alone, {SLOTS} envs, 2 workers"
    contenders: dict[str, Callable[[], float]] = {ceiling: lambda: envs.ours(SLOTS, 2, seconds)}
    for player, workers, threads in (
        ("no policy", 2, 1),
        ("NatureCNN", 2, 1),
        ("NatureCNN", 2, 2),
        ("NatureCNN", 0, 2),
    ):
        name = f"evaluation, {player}, workers {workers}, threads {threads}"
        contenders[name] = lambda p=player, w=workers, t=threads: evaluation(
            players[p], episodes, w, t
        )
    found = {name: middle(values) for name, values in alternate(contenders, rounds).items()}
    rows = [[n, f"{v:,.0f}", f"{v / found[ceiling]:.0%}"] for n, v in found.items()]
    print(f"\n{machine()} {warning}\n")
    print(table(["", "agent steps/s", "of the emulators' speed"], rows))


if __name__ == "__main__":
    main()
