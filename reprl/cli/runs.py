"""`reprl runs`: what ran, oldest first, with its status, score and gap on validation variants."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from reprl.cli.arguments import Key, parse

HELP = "what ran: status, steps, score and gap of every run in a place, oldest first"

STATUSES = ("running", "finished", "interrupted", "failed", "killed")
NUMBERS = ("steps", "score", "gap")
TITLES = ("run", "started", "status", *NUMBERS, "best on validation", "reason")
KEYS = {
    "place": Key("runs", "the folder the runs are in"),
    "status": Key(None, "only these", kind="list", choices=lambda: STATUSES),
    "match": Key(None, "only folders whose name contains this"),
}


def run(arguments: list[str]) -> int:
    _, values = parse("runs", arguments, KEYS, "none")
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from reprl.metrics import progress_of
    from reprl.run_folder import runs_in

    place = Path(values["place"]).expanduser()
    found = [(folder, folder.record(), folder.status()) for folder in runs_in(place)]
    if values["status"]:
        found = [entry for entry in found if entry[2] in values["status"]]
    if values["match"]:
        found = [entry for entry in found if values["match"] in entry[0].path.name]
    if not found:
        print(f"no runs in {place}")
        return 0
    table = Table(box=None, header_style="bold")
    for title in TITLES:
        table.add_column(title, justify="right" if title in NUMBERS else "left")
    for folder, record, status in found:
        step, score, gap = progress_of(folder.path)
        table.add_row(
            escape(str(folder.path.relative_to(place) if folder.path != place else place.name)),
            str(record.get("started") or "")[:16].replace("T", " "),
            status,
            f"{max(step, int(record.get('step') or 0)):,}",
            _number(record.get("score") if score is None else score),
            _number(gap),
            _best(record.get("best")),
            escape(str(record.get("reason") or "")),
        )
    console = Console()
    console.print(table) if console.is_terminal else Console(width=200).print(table)
    return 0


def _number(value: Any) -> str:
    return f"{value:.1f}" if isinstance(value, int | float) and value == value else "-"


def _best(best: dict[str, Any] | None) -> str:
    return f"{best['score']:.1f} at {best['step']:,}" if best else "-"
