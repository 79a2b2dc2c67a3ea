"""Random play, measured once for everybody: what analysis/random_play.csv is made of.

`python -m benchmarks.random_play [--games 500] [--game pong] [--workers 2]` plays the clean game
and every variant that changes the physics of each game whose truth is known, or of one. Its rows
take the place of the file's, as soon as a variant is played. A random player does not see pictures,
so the clean games stand for all other variants, and no pictures are made here. The games are those
`reprl evaluate` shares among players that nobody trained.
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
    for game in played:
        moved = [v for v in variants(game) if "dynamics" in catalogue()[v].family]
        for variant in ["original", *sorted(moved)]:
            keep(measure(game, variant, chosen.games, chosen.workers), chosen.out)


def measure(game: str, variant: str, games: int, workers: int) -> pd.DataFrame:
    """Random play of one variant of a game."""
    frame = evaluate(RandomAgent(), [variant], games, 0, game=game, workers=workers)
    rows = frame.assign(game=game, episode_return=frame["episode_return"].astype(int))[COLUMNS]
    scores = rows["episode_return"]
    print(f"{game} {variant}: {scores.mean():.3f} +- {scores.sem():.3f} over {len(scores)} games")
    return rows


def keep(rows: pd.DataFrame, path: Path) -> None:
    """Put a variant's rows in the place of its older ones."""
    game, variant = rows["game"].iloc[0], rows["variant"].iloc[0]
    parts = [rows]
    if path.exists():
        known = pd.read_csv(path)
        parts.insert(0, known[(known["game"] != game) | (known["variant"] != variant)])
    whole = pd.concat(parts, ignore_index=True).sort_values("game", kind="stable")
    write_atomically(path, whole[COLUMNS].to_csv(index=False))


if __name__ == "__main__":
    main()
