"""Does curiosity explore? The same agent with and without `intrinsic=rnd`, and where each has been.

`python -m benchmarks.exploration [--game montezuma_revenge] [--steps 100_000] [--seeds 1 2]
[OVERRIDE ...]`: PPO in a game that pays next to nothing. After every step the player's place is
read from the console's memory: a cell of 4 x 4 pixels of one room (of Freeway, 4
pixels of the way across). The table says how many cells were entered, by a quarter of training,
by half of it and in all, how many in its last quarter alone, how many rooms, and the points made.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from stable_baselines3.common.callbacks import BaseCallback

from benchmarks.common import load_warning, machine, table
from reprl.algorithms import PPO

SIDE = 4  # pixels of a cell
# the cell of a console's memory: room, column and row, or how far up the road
PLACES: dict[str, Callable[[np.ndarray], tuple[int, ...]]] = {
    # room 3, x 42, y 43 as annotated by Anand et al. 2019
    "montezuma_revenge": lambda ram: (int(ram[3]), int(ram[42]) // SIDE, int(ram[43]) // SIDE),
    "freeway": lambda ram: (0, 0, int(ram[14]) // SIDE),
    # the scene's number, 196 where a game begins, x 97 and y 105
    "pitfall": lambda ram: (int(ram[1]), int(ram[97]) // SIDE, int(ram[105]) // SIDE),
}
SETTINGS = [
    *("env.n_envs=16", "env.size=44", "threads=1", "device=cpu", "algo.instrument_every=0"),
    *("algo.learning_rate=2.5e-4", "algo.clip_range=0.1", "algo.gamma=0.999", "env.sticky=0.25"),
    *("algo.ent_coef=0.001", "env.reward=clip"),
]
METHODS = {"ppo": "intrinsic=none", "ppo with rnd": "intrinsic=rnd"}
COLUMNS = [
    *("game", "method", "seed", "steps", "cells_at_quarter", "cells_at_half", "cells"),
    *("cells_in_last_quarter", "rooms", "points", "games", "seconds"),
]


class Visits(BaseCallback):
    """Counts the cells that any environment's player stood in after a step."""

    def __init__(self, game: str, total: int) -> None:
        super().__init__()
        self.place, self.total = PLACES[game], total
        self.first: dict[tuple[int, ...], int] = {}  # cell -> the step at which it was entered
        self.last: dict[tuple[int, ...], int] = {}
        self.points, self.games = 0.0, 0

    def _on_step(self) -> bool:
        env: Any = self.model.get_env()
        for machine_ in env.get_attr("machine"):
            self.note(self.place(machine_.ram), self.num_timesteps)
        for info in self.locals["infos"]:
            self.points += float(info["raw_reward"])
            self.games += int("episode" in info)
        return True

    def note(self, cell: tuple[int, ...], step: int) -> None:
        self.first.setdefault(cell, step)
        self.last[cell] = step

    def row(self) -> dict[str, Any]:
        """What the table says of one run."""
        began = {share: share * self.total for share in (0.25, 0.5, 0.75)}
        return {
            "cells_at_quarter": sum(step <= began[0.25] for step in self.first.values()),
            "cells_at_half": sum(step <= began[0.5] for step in self.first.values()),
            "cells": len(self.first),
            "cells_in_last_quarter": sum(step > began[0.75] for step in self.last.values()),
            "rooms": len({cell[0] for cell in self.first}),
            "points": self.points,
            "games": self.games,
        }


def run(game: str, method: str, seed: int, steps: int, overrides: list[str]) -> dict[str, Any]:
    """Train one agent and say where it has been."""
    words = [f"env.game={game}", *SETTINGS, METHODS[method], f"seed={seed}", *overrides]
    model = PPO.from_experiment("plain", None, words)
    visits, began = Visits(game, steps), time.perf_counter()
    model.learn(steps, callback=visits, log_interval=None)  # type: ignore[arg-type]
    assert model.env is not None
    model.env.close()
    seconds = round(time.perf_counter() - began)
    named = {"game": game, "method": method, "seed": seed, "steps": model.num_timesteps}
    return {**named, **visits.row(), "seconds": seconds}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--game", choices=sorted(PLACES), default="montezuma_revenge")
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--out", type=Path, default=None, help="a CSV file, extended run by run")
    parser.add_argument("overrides", nargs="*", help="as of reprl train, for both methods")
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(machine(), load_warning(), flush=True)
    rows = []
    for seed in options.seeds:
        for method in METHODS:
            rows.append(run(options.game, method, seed, options.steps, options.overrides))
            print(rows[-1], flush=True)
            if options.out is not None:
                known = [pd.read_csv(options.out)] if options.out.exists() else []
                whole = pd.concat([*known, pd.DataFrame(rows[-1:])], ignore_index=True)
                whole[COLUMNS].to_csv(options.out, index=False)
    print(table(COLUMNS, [[str(row[column]) for column in COLUMNS] for row in rows]))


if __name__ == "__main__":
    main()
