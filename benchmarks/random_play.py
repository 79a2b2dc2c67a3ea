"""Random play, measured once for everybody: what analysis/random_play.csv is made of.

`python -m benchmarks.random_play [--games 500] [--workers 2]` plays the clean game and every
variant that changes the game itself; a random player does not see pictures, so the clean games
stand for all other variants. The games are those `reprl evaluate` shares among players that nobody
trained.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from reprl.disk import write_atomically
from reprl.envs.variation.lookup import catalogue
from reprl.evaluation import RandomAgent, evaluate
from reprl.evaluation.twin import changes_the_game

GAME = "breakout"
COLUMNS = ["game", "variant", "severity", "sticky", "eval_seed", "episode"]
COLUMNS += ["episode_return", "length", "end"]
TARGET = Path(__file__).parent.parent / "analysis" / "random_play.csv"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--games", type=int, default=500)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--out", type=Path, default=TARGET)
    chosen = parser.parse_args()
    moved = [v.name for v in catalogue().values() if changes_the_game(v)]
    variants = ["original", *sorted(moved)]
    frame = evaluate(RandomAgent(), variants, chosen.games, 0, game=GAME, workers=chosen.workers)
    rows = frame.assign(game=GAME, episode_return=frame["episode_return"].astype(int))[COLUMNS]
    write_atomically(chosen.out, rows.to_csv(index=False))
    for variant, scores in rows.groupby("variant", sort=False)["episode_return"]:
        print(f"{variant}: {scores.mean():.3f} +- {scores.sem():.3f} over {len(scores)} games")


if __name__ == "__main__":
    main()
