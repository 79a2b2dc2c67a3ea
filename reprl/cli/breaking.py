"""`reprl breaking DIR...`: the smallest drawing that breaks an agent, confirmed by full games."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from reprl.cli.arguments import Key, parse
from reprl.cli.representation import COMMON, begin, each_run, found_runs
from reprl.escaping import shown
from reprl.settings import BREAKING

if TYPE_CHECKING:
    from reprl.evaluation.checkpoints import Measured

HELP = "the smallest drawn rectangle that breaks an agent: search by twins, confirmed by games"
_TEXT = {
    "frames": (32, "moments on which each drawing is looked at"),
    "tries": (48, "drawings of each size"),
    "largest": (1200, "cells of the 80x80 grid that a drawing may cover"),
    "divergence": (0.05, "nats by which it must move the policy before games are played"),
    "kept": (0.5, "share of the clean score at and below which an agent counts as broken"),
    "episodes": (5, "full games that confirm it"),
    "seed": (0, "games, drawings and actions are drawn from it"),
}
KEYS = {
    **{
        name: Key(
            default, text, "float" if isinstance(default, float) else "int", allowed=BREAKING[name]
        )
        for name, (default, text) in _TEXT.items()
    },
    **COMMON,
}


def run(arguments: list[str]) -> int:
    """Search for every run below the folders."""
    places, values = parse("breaking", arguments, KEYS, "many", archives=True)
    found = found_runs(places, values, "a search for the smallest breaking change")

    def measure(target: Measured) -> None:
        from reprl.analysis.twins.breaking import breaking, write

        begin(target, "searching")

        def said(words: str) -> None:
            print(f"  {words}", file=sys.stderr, flush=True)

        table = breaking(target, **{name: values[name] for name in _TEXT}, report=said)
        path = write(target, table)
        last = table.iloc[-1]
        name = shown(target.name)
        if last["broken"]:
            print(
                f"{name} is broken by {last['height']}x{last['width']} cells of gray "
                f"{last['gray']:.0f} at row {last['row']:.0f}, column {last['column']:.0f}: "
                f"{last['score']:.1f} of {last['clean']:.1f} points in {last['episodes']} games"
            )
        else:
            print(f"{name} is broken by no drawing up to {last['height']}x{last['width']} cells")
        print(f"  {table.attrs['seconds']:.0f} s -> {shown(path)}")

    return each_run(found, values, measure)
