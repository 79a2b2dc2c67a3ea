"""`reprl rate DIR...`: ratings of agents, and of a run's checkpoints, from games already played."""

from __future__ import annotations

import sys
from pathlib import Path

from reprl.cli.arguments import Key, parse
from reprl.errors import UserError
from reprl.escaping import shown

PICTURES = (".png", ".svg", ".pdf")
HELP = "Elo ratings of agents and checkpoints, with intervals, from games they played in common"
KEYS = {
    "variants": Key(
        None, "rate on these variants only, by default on all that were played", "list"
    ),
    "out": Key(None, "write the table as CSV into this file", "path"),
    "figure": Key(
        None, "draw Elo over the steps of each run into this .png, .svg or .pdf file", "path"
    ),
}
HINT = "play games with reprl evaluate DIR games=shared first"


def run(arguments: list[str]) -> int:
    """Read every evaluation below the folders, rate, print and, if asked, write."""
    folders, values = parse("rate", arguments, KEYS, "many")
    figure = values["figure"]
    if figure is not None and figure.suffix.lower() not in PICTURES:
        raise UserError(
            f"figure={figure} must end in {', '.join(PICTURES[:-1])} or {PICTURES[-1]}."
        )
    import pandas as pd

    from reprl import guard, tables
    from reprl.evaluation.rating import COLUMNS, rate
    from reprl.schema import EPISODES

    found, kinds = [], set()
    for folder in folders:
        guard.inspect(folder, without=("checkpoints",))
        for file in sorted(Path(folder).rglob("evaluation/episodes.csv")):
            rows, damaged = tables.read(file, EPISODES)
            if damaged:
                print(f"WARNING: {shown(file)}: {damaged} damaged rows left out.", file=sys.stderr)
            found.append(rows)
            kinds |= _game_of(file.parents[1])
    if not found or not sum(map(len, found)):
        names = ", ".join(map(str, folders))
        raise UserError(f"there are no games in {names}: {HINT}.")
    if len(kinds) > 1:
        raise UserError(
            f"these folders hold games of {', '.join(sorted(kinds))}: points of different games "
            "have no common scale, so rate the runs of one game at a time."
        )
    games = pd.concat([rows for rows in found if len(rows)], ignore_index=True)
    for name in values["variants"] or []:
        if name not in set(games["variant"]):
            played = ", ".join(sorted(set(games["variant"])))
            raise UserError(f"variants={name} was not played here: there are {played}.")
    if values["variants"]:
        games = games[games["variant"].isin(values["variants"])]
    ratings = rate(games)
    lines = [
        ["method", "run", "step", "actions", "rating", "95 %", "games", "won", "lost", "drawn"]
    ]
    for row in ratings.to_dict("records"):
        between = f"{row['low']:.0f} to {row['high']:.0f}"
        counts = [str(row[key]) for key in ("games", "wins", "losses", "draws")]
        lines.append(
            [
                *(str(row["method"]), str(row["run"]), f"{row['step']:,}"),
                "likeliest" if row["deterministic"] else "sampled",
                *(f"{row['rating']:.0f}", between, *counts),
            ]
        )
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        print("  ".join(shown(w).ljust(n) for w, n in zip(line, widths, strict=True)).rstrip())
    if values["out"] is not None:
        rows_out = [{key: row[key] for key in COLUMNS} for row in ratings.to_dict("records")]
        tables.write_rows(values["out"], COLUMNS, rows_out)
    if figure is not None:
        from reprl.analysis.rating import draw_ratings

        draw_ratings(ratings, figure)
    return 0


def _game_of(home: Path) -> set[str]:
    """The game of the run, or of the model without one, in a folder; none where nobody knows."""
    from reprl.runs.folder import RunFolder
    from reprl.runs.places import game_at

    try:
        env = RunFolder(home).settings().get("env")
    except UserError:  # players beside runs, or a model without one
        env = {"game": game_at(home)}
    game = env.get("game") if isinstance(env, dict) else None
    return {game} if isinstance(game, str) else set()
