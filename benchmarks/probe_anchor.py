"""What a probe must rank rightly: first weights < PPO < ST-DIM, on the same frames.

`python -m benchmarks.probe_anchor` records random play, pretrains an encoder on it with ST-DIM and
without any reward, trains a short PPO run, and probes both beside first weights of the same shape:
raw rows in results/representation/anchor/, from which benchmarks.representation writes the page.
Anand et al. (2019) found that a random network holds about half of what can be had, and ST-DIM
nearly all of it.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path

import pandas as pd

from benchmarks.timed import timed
from reprl import tables
from reprl.disk import write_atomically
from reprl.schema import CLEAN, FILES, PROBES

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "results" / "representation" / "anchor"
PLAYERS = ("random", "scripted")
LAYER = "linear.0"  # what the heads read
LABELS = ("ball_x", "ball_y", "ball_dx", "ball_dy", "paddle_x", "bricks_each")
# What Anand et al. ask of Breakout: places, bricks and score, and no directions of motion.
THEIRS = ("ball_x", "ball_y", "paddle_x", "bricks_left", "bricks_each", "score")
MEANS = {"mean": LABELS, "mean of theirs": THEIRS}
FIRST, PPO, STDIM, PICTURE = "first weights", "PPO", "ST-DIM", "the picture"
RUNS = {"ppo": PPO, "stdim": STDIM}
BATCH = 64
AUTHORS = (f"algo.batch_size={BATCH}", "algo.learning_rate=3e-4")  # of ST-DIM, Anand et al. 2019
CURVE, LOSS = "metrics.csv", "loss/spatiotemporal"


def trainings(runs: Path, steps: int, frames: int, drawn: int) -> dict[str, list[str]]:
    """The commands that make both encoders, by the folder that each makes."""
    common = ["seed=1", "eval.every=0", "mode=fast", "algo.compile=false", "threads=1"]
    common += ["env.n_envs=8", "progress=off"]
    film = ["record", "player=random", f"frames={frames}", "seed=1"]
    stdim = ["pretrain", f"data={runs / 'random'}", "auxiliary=spatiotemporal", *common]
    stdim += ["auxiliary.coef=1", f"total_frames={drawn}", *AUTHORS]
    ppo = ["train", "experiment=plain", *common, f"total_steps={steps}"]
    return {
        "random": [*film, f"out={runs / 'random'}"],
        "stdim": [*stdim, f"run_dir={runs / 'stdim'}"],
        "ppo": [*ppo, f"run_dir={runs / 'ppo'}"],
    }


def probes(runs: Path, frames: int) -> dict[str, list[str]]:
    """The commands that measure both encoders on the same states, by what they measure."""
    return {
        f"anchor {name} {player}": [
            *("probe", str(runs / name), f"frames={frames}", f"player={player}"),
            f"out={RESULTS / name}",
        ]
        for name in RUNS
        for player in PLAYERS
    }


def measured() -> pd.DataFrame:
    """The committed rows, clean frames only, with the column `encoder`."""
    parts = []
    for folder, name in RUNS.items():
        rows, _ = tables.read(RESULTS / folder / FILES["probes"], PROBES)
        rows = rows[rows["variant"] == CLEAN]
        own = rows[(rows["source"] == "agent") & (rows["layer"] == LAYER)]
        parts.append(own.assign(encoder=name))
        if name == PPO:  # the controls are the same of both
            first = rows[(rows["source"] == "untrained") & (rows["layer"] == LAYER)]
            parts.append(first.assign(encoder=FIRST, step=0))
            parts.append(rows[rows["source"] == "pixels"].assign(encoder=PICTURE, step=0))
    return pd.concat(parts, ignore_index=True)


def held(rows: pd.DataFrame) -> pd.Series:
    """R2, and balanced accuracy as twice its distance from chance: 0 nothing, 1 all, none below."""
    return rows["r2"].fillna(2 * rows["balanced_accuracy"] - 1).clip(lower=0)


def scores(rows: pd.DataFrame) -> pd.DataFrame:
    """A row for each player and encoder, a column for each label, and the two means."""
    asked = tuple(dict.fromkeys((*LABELS, *THEIRS)))
    rows = rows[rows["label"].isin(asked)].assign(held=held(rows))
    wide = rows.pivot_table(index=["player", "encoder"], columns="label", values="held")
    known = [label for label in asked if label in wide]
    means = {
        name: wide[[label for label in labels if label in wide]].mean(axis=1)
        for name, labels in MEANS.items()
    }
    return wide[known].assign(**means)


def order(found: pd.DataFrame, player: str, by: str = "mean") -> list[str]:
    """First weights, PPO and ST-DIM, from what holds least to what holds most."""
    means = found.loc[player, by]
    return sorted((FIRST, PPO, STDIM), key=lambda name: means[name])


def table() -> str:
    """What each encoder holds, as the page shows it, and whether the order is the published one."""
    if not all((RESULTS / folder / FILES["probes"]).is_file() for folder in RUNS):
        return "**Not measured yet.**"
    return f"{written(measured())} {learned(pd.read_csv(RESULTS / 'stdim' / CURVE))}"


def learned(curve: pd.DataFrame) -> str:
    """How far ST-DIM's loss fell, beside what guessing costs: two terms of ln(batch) nats."""
    first, last = curve[LOSS].iloc[0], curve[LOSS].iloc[-1]
    return (
        f"ST-DIM's loss, {2 * math.log(BATCH):.2f} nats for guessing, was {first:.2f} over its "
        f"first {curve['step'].iloc[0]:,} frames and {last:.2f} over its last ones."
    )


def written(rows: pd.DataFrame) -> str:
    """The table of measured rows, and a sentence for each kind of play."""
    found = scores(rows)
    lines = [["played by", "encoder", *found], ["---", "---", *["---:"] * len(found.columns)]]
    for player in PLAYERS:
        for name in (FIRST, PPO, STDIM, PICTURE):
            values = found.loc[(player, name)]
            lines.append([player, name, *(f"{v:.2f}" for v in values)])
    text = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    steps = rows.drop_duplicates("encoder").set_index("encoder")["step"]
    said = [f"PPO after {steps[PPO]:,} steps, ST-DIM after {steps[STDIM]:,} frames."]
    for player in PLAYERS:
        for by in MEANS:
            ranked = order(found, player, by)
            verdict = "the published order" if ranked == [FIRST, PPO, STDIM] else "another order"
            means = found.loc[player, by]
            chain = " < ".join(f"{name} ({means[name]:.2f})" for name in ranked)
            said.append(f"On {player} play, {by}: {chain}: {verdict}.")
    return f"{text}\n\n{' '.join(said)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=Path, default=ROOT / "runs" / "anchor")
    parser.add_argument("--steps", type=int, default=49_152, help="agent steps of PPO")
    parser.add_argument("--recorded", type=int, default=16_384, help="frames of random play")
    parser.add_argument("--drawn", type=int, default=100_352, help="frames that ST-DIM learns from")
    parser.add_argument("--frames", type=int, default=1200, help="moments of each probe")
    options = parser.parse_args()
    made = trainings(options.runs, options.steps, options.recorded, options.drawn)
    for folder, words in made.items():
        if not (options.runs / folder).exists():
            timed(words, f"anchor {folder}")
    for of, words in probes(options.runs, options.frames).items():
        timed(words, of)
    for folder in RUNS:
        text = (options.runs / folder / CURVE).read_text(encoding="utf-8")
        write_atomically(RESULTS / folder / CURVE, text)
    print(table())


if __name__ == "__main__":
    main()
