"""`reprl diff A B`: the settings in which two runs differ, and the versions."""

from __future__ import annotations

from typing import Any

from reprl.cli.arguments import parse
from reprl.errors import UserError
from reprl.escaping import cell

HELP = "what differs between two runs"


def run(arguments: list[str]) -> int:
    folders, _ = parse("diff", arguments, {}, "many")
    if len(folders) != 2:
        raise UserError(f"reprl diff takes two run folders, got {len(folders)}.")
    from rich.console import Console
    from rich.table import Table

    from reprl.runs.diff import differences
    from reprl.runs.folder import open_run

    a, b = (open_run(folder) for folder in folders)
    changed = differences(a, b)
    ours, theirs = (_versions(folder.record()) for folder in (a, b))
    for name in sorted({*ours, *theirs}):
        if ours.get(name) != theirs.get(name):
            old, new = str(ours.get(name, "-")), str(theirs.get(name, "-"))
            changed.append((f"version of {name}", old, new))
    if not changed:
        print("no difference in configuration or versions")
        return 0
    table = Table("key", box=None, header_style="bold")
    for run_folder in (a, b):
        table.add_column(cell(run_folder.path.name), overflow="fold")
    for key, old, new in changed:
        table.add_row(*map(cell, (key, old, new)))
    console = Console()
    console.print(table) if console.is_terminal else Console(width=200).print(table)
    return 0


def _versions(record: dict[str, Any]) -> dict[str, Any]:
    found = record.get("versions")
    return found if isinstance(found, dict) else {}
