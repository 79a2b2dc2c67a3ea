"""What bf16 costs in learning: the toy game's curves in both precisions, over several seeds.

`python -m benchmarks.precision [--quick]` trains PPO (fast mode) on the catching game of the tests,
whose pictures are small enough that a CPU without instructions for bfloat16 can emulate it; the
numbers are the same as with them, only slower. Writes `benchmarks/results/precision.csv` and draws
docs/images/precision.png.
"""

from __future__ import annotations

import os

from reprl.cli import OPENMP

os.environ.update({**OPENMP, **os.environ})  # before torch loads, as the reprl command does

import argparse
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from stable_baselines3.common.callbacks import BaseCallback

from benchmarks.common import table
from reprl.algorithms import PPO
from reprl.disk import write_atomically
from reprl.precision import BF16, FP32
from tests.toys.catch import SMALL_ENCODER, Catch

RESULTS = Path(__file__).parent / "results" / "precision.csv"
PLOT = Path(__file__).parents[1] / "docs" / "images" / "precision.png"
ENVS, STEPS, UPDATES, SEEDS = 16, 32, 40, 3


class Scores(BaseCallback):
    """The mean score of the games that ended in each rollout."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[dict[str, Any]] = []

    def _on_rollout_start(self) -> None:
        self.games: list[float] = []

    def _on_step(self) -> bool:
        infos = self.locals["infos"]
        self.games += [info["episode"]["r"] for info in infos if "episode" in info]
        return True

    def _on_rollout_end(self) -> None:
        mean = sum(self.games) / len(self.games)
        self.rows.append({"step": self.num_timesteps, "score": round(mean, 4)})


def curve(precision: str, seed: int, updates: int) -> pd.DataFrame:
    """One training: a row a rollout."""
    env, scores = Catch(ENVS, 1000 * seed, stack=2, cut=False), Scores()
    settings = {"n_steps": STEPS, "batch_size": 128, "n_epochs": 4, "learning_rate": 5e-4}
    model = PPO(
        *("CnnPolicy", env),
        seed=seed,
        device="cpu",
        mode="fast",
        compile=False,  # the same layers compute in bfloat16, and six models need no compiling
        precision=precision,
        encoder=SMALL_ENCODER,
        instrument_every=0,
        **settings,  # type: ignore[arg-type]
    )
    model.learn(ENVS * STEPS * updates, callback=scores)
    return pd.DataFrame(scores.rows).assign(precision=precision, seed=seed)


def draw(found: pd.DataFrame, plot: Path) -> None:
    """A line for each training, the means over seeds thick."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 3.2))
    for precision, colour in ((FP32, "#2f6db3"), (BF16, "#d1662c")):
        chosen = found[found["precision"] == precision]
        for _, rows in chosen.groupby("seed"):
            axes.plot(rows["step"], rows["score"], color=colour, alpha=0.25, linewidth=0.8)
        mean = chosen.groupby("step")["score"].mean()
        axes.plot(mean.index, mean, color=colour, linewidth=2, label=precision)
    axes.set_xlabel("agent steps")
    axes.set_ylabel("mean score of a game")
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(plot, dpi=120, metadata={"Software": None})
    pyplot.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one seed, three updates, no files")
    quick = parser.parse_args().quick
    torch.set_num_threads(1)
    curves = []
    for seed in range(1 if quick else SEEDS):
        for precision in (FP32, BF16):
            curves.append(curve(precision, seed, 3 if quick else UPDATES))
            print(f"  {precision}, seed {seed}: {curves[-1]['score'].iloc[-1]:.2f}", flush=True)
    found = pd.concat(curves)[["precision", "seed", "step", "score"]]
    if not quick:
        write_atomically(RESULTS, found.to_csv(index=False))
        draw(found, PLOT)
    ends = found[found["step"] > 0.75 * found["step"].max()]
    means = ends.groupby(["precision", "seed"])["score"].mean().groupby("precision")
    rows = [
        [name, f"{means.mean()[name]:.3f}", f"{means.min()[name]:.3f} to {means.max()[name]:.3f}"]
        for name in (FP32, BF16)
    ]
    print(table(["precision", "mean score, last quarter", "over seeds"], rows))


if __name__ == "__main__":
    main()
