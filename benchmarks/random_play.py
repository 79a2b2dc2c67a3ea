"""Random play, measured once for everybody: what analysis/random_play.csv is made of.

`python -m benchmarks.random_play [--games 500] [--workers 2]` plays the clean game and every
variant that changes the game itself, of each game whose truth is known (or `--game NAME`, whose rows
take the place of the file's); a random player does not see pictures, so the clean games stand for
all other variants, and none are made here. The games are those `reprl evaluate` shares among players that nobody
trained.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import pandas as pd

from reprl.disk import write_atomically
from reprl.envs.emulator import Emulator
from reprl.envs.games import known_games
from reprl.envs.variation import variants
from reprl.envs.variation.lookup import catalogue
from reprl.evaluation import RandomAgent, evaluate
from reprl.evaluation.twin import changes_the_game

COLUMNS = ["game", "variant", "severity", "sticky", "eval_seed", "episode"]
COLUMNS += ["episode_return", "length", "end"]
TARGET = Path(__file__).parent.parent / "analysis" / "random_play.csv"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--games", type=int, default=500)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--game", choices=sorted(known_games()), default=None)
    parser.add_argument("--out", type=Path, default=TARGET)
    chosen = parser.parse_args()
    played = [chosen.game] if chosen.game else sorted(known_games())
    Emulator._observe = lambda self: None  # type: ignore[method-assign]
    rows = [measure(game, chosen.games, chosen.workers) for game in played]
    if chosen.out.exists():
        known = pd.read_csv(chosen.out)
        rows.insert(0, known[~known["game"].isin(played)])
    whole = pd.concat(rows, ignore_index=True).sort_values("game", kind="stable")
    write_atomically(chosen.out, whole[COLUMNS].to_csv(index=False))


def measure(game: str, games: int, workers: int) -> pd.DataFrame:
    """Random play of one game; it does not look, so the pictures are left out."""
    moved = [v for v in variants(game) if changes_the_game(catalogue()[v])]
    names = ["original", *sorted(moved)]
    frame = evaluate(RandomAgent(), names, games, 0, game=game, workers=workers)
    rows = frame.assign(game=game, episode_return=frame["episode_return"].astype(int))[COLUMNS]
    for variant, scores in rows.groupby("variant", sort=False)["episode_return"]:
        print(f"{game} {variant}: {scores.mean():.3f} +- {scores.sem():.3f}, {len(scores)} games")
    return rows


if __name__ == "__main__":
    main()
