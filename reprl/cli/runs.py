"""`reprl runs [DIR]`: what ran, oldest first, with its status, score and gap.

With `export=` the runs listed are also copied, small and without traces of this machine.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from reprl.cli.arguments import Key, parse
from reprl.errors import UserError
from reprl.escaping import cell, shown
from reprl.schema import STATUSES

if TYPE_CHECKING:
    from reprl.runs.folder import RunFolder

HELP = "what ran: status, steps, score and gap of every run in a folder, oldest first"

NUMBERS = ("steps", "score", "gap")
OPTIONAL = ("best on validation", "reason")
TITLES = ("run", "started", "status", *NUMBERS, *OPTIONAL)
KEYS = {
    "status": Key(None, "only these", kind="list", choices=lambda: STATUSES),
    "match": Key(None, "only folders whose name contains this"),
    "weights": Key(False, "with export: the newest checkpoint too, as an agent that plays", "bool"),
    "export": Key(None, "copy settings, games and curves of these runs to this folder", "path"),
}
Found = list[tuple["RunFolder", dict[str, Any], str]]  # a run, its run.json, its status


def run(arguments: list[str]) -> int:
    """List the runs below a folder, `runs` if none is given."""
    folders, values = parse("runs", arguments, KEYS, "perhaps")
    from reprl.runs.folder import damaged_in, problem_of, runs_in

    place = folders[0] if folders else Path("runs")
    found = [(folder, folder.record(), folder.status()) for folder in runs_in(place)]
    damage = damaged_in(place)
    for damaged in damage:
        print(shown(f"note: {damaged.path} is left out: {problem_of(damaged)}"))
    if values["status"]:
        found = [entry for entry in found if entry[2] in values["status"]]
    if values["match"]:
        found = [entry for entry in found if values["match"] in entry[0].path.name]
    if not found:
        asked = [f"{k}={values[k]}" for k in ("status", "match") if values[k]]
        print(
            shown(
                f"no {'other ' * (bool(damage) and not asked)}runs in {place}"
                + (f" with {' and '.join(asked)}" if asked else "")
            )
        )
        return 0
    show(found, place)
    if values["export"]:
        export(found, place, values["export"], weights=values["weights"])
    elif values["weights"]:
        raise UserError("weights=true says what to export: give export=FOLDER too.")
    return 0


def show(found: Found, place: Path) -> None:
    """Print the table; columns that nobody fills are left out."""
    from rich.console import Console
    from rich.table import Table

    from reprl.runs.folder import step_of
    from reprl.runs.metrics import evaluated_gap, progress_of

    rows = []
    for folder, record, status in found:
        step, score, validation = progress_of(folder.path)
        evaluated = evaluated_gap(folder.path)
        values = (
            str(folder.path.relative_to(place) if folder.path != place else place.name),
            str(record.get("started") or "")[:16].replace("T", " "),
            status,
            f"{max(step, step_of(record)):,}",
            _number(record.get("score") if score is None else score),
            _number(validation if evaluated is None else evaluated),
            _best(record.get("best")),
            str(record.get("reason") or ""),
        )
        rows.append(dict(zip(TITLES, values, strict=True)))
    titles = [
        t for t in TITLES if t not in OPTIONAL or any(row[t] not in ("", "-") for row in rows)
    ]
    table = Table(box=None, header_style="bold")
    for title in titles:
        # names and reasons wrap where there is no room: cut off, they could not be copied
        fold = title in ("run", "reason")
        justify: Literal["left", "right"] = "right" if title in NUMBERS else "left"
        table.add_column(title, justify=justify, overflow="fold", no_wrap=not fold)
    for row in rows:
        table.add_row(*(cell(row[title]) for title in titles))
    console = Console()
    console.print(table) if console.is_terminal else Console(width=200).print(table)


def export(found: Found, place: Path, target: Path, *, weights: bool = False) -> None:
    """Copy what a paper's appendix needs; a run still at work is left out by name."""
    from reprl.disk import out_of_space
    from reprl.runs.publish import publish, size

    for folder, _, status in found:
        if status == "running":
            print(shown(f"note: {folder.path.name} is still running and left out."))
    try:
        ended = [f for f, _, status in found if status != "running"]
        copies = publish(ended, place, target, weights=weights)
    except OSError as error:
        if out_of_space(error):
            raise
        raise UserError(f"export={target}: {error.strerror} ({error.filename}).") from None
    total = sum(size(copy) for copy in copies)
    print(f"{len(copies)} runs -> {shown(target)} ({total / 1e3:,.0f} kB)")


def _number(value: Any) -> str:
    return f"{value:.1f}" if isinstance(value, int | float) and value == value else "-"


def _best(best: Any) -> str:
    try:
        return f"{best['score']:.1f} at {best['step']:,}" if best else "-"
    except (TypeError, ValueError, LookupError):  # not as we write it
        return "-"
