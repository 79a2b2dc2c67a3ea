"""`reprl verify DIR`: is the run folder whole, and what are the hashes of its newest checkpoint."""

from __future__ import annotations

import json
from pathlib import Path

from reprl import guard
from reprl.cli.arguments import parse
from reprl.escaping import shown

HELP = "check a run folder: checksums of every checkpoint, hashes of the newest"


def run(arguments: list[str]) -> int:
    folders, _ = parse("verify", arguments, {}, "one")
    from reprl.runs.folder import open_run

    folder = open_run(folders[0])
    folder.config()  # it must still be one
    record = folder.record()
    print(shown(f"{folder.path}: {folder.status()}" + _reason(record)))
    found, began = folder.config_hash(), record.get("config_hash")
    sound = found == began
    expected = "" if sound else f", but run.json says {began or 'nothing of it'}"
    print(shown(f"config.yaml   {'ok' if sound else 'CHANGED'}  {found}{expected}"))
    for line in _code(record):
        print(shown(line))
    from reprl import checkpoint

    steps = checkpoint.steps(folder.path)
    if not steps:
        print("checkpoints   none")
    for step in steps:
        path = folder.path / "checkpoints" / f"{step:012d}"
        whole = _report(path, newest=step == steps[-1])
        sound &= whole or not path.exists()  # a run at work removes its older ones
    last = record.get("step")
    if steps and isinstance(last, int) and last > steps[-1]:
        sound = False
        print(f"run.json      CHANGED  it speaks of step {last}, of which there is no checkpoint")
    return 0 if sound else 1


def _report(path: Path, *, newest: bool) -> bool:
    from reprl import checkpoint

    try:
        found = checkpoint.verify(path)
    except checkpoint.Damaged as damage:
        found = {"manifest.json": str(damage)}
    if not path.exists():
        print(f"{path.name}  removed by the run while it was read")
        return False
    damaged = {file: state for file, state in found.items() if state != "ok"}
    text = "; ".join(damaged.values())
    print(shown(f"{path.name}  {'DAMAGED: ' + text if damaged else 'ok'}"))
    if newest and not damaged:
        for file, digest in json.loads(guard.read_text(path / "manifest.json"))["sha256"].items():
            print(f"  {shown(file):<24}{shown(digest)}")
    return not damaged


def _code(record: dict[str, object]) -> list[str]:
    """The user's modules: they lie outside of the folder, so a changed one does not damage it."""
    from reprl.runs.code import changed

    code = record.get("code")
    modules = code.get("modules") if isinstance(code, dict) else None
    if not isinstance(modules, dict):
        return []
    now, lines = changed(record), []
    for module, began in modules.items():
        digest = now.get(module, (began, began))[1]
        state = "ok" if digest == began else "CHANGED" if digest else "not found here"
        expected = "" if digest == began else f", run.json says {began}"
        lines.append(f"{f'code {module}':<12}  {state}  {digest or ''}{expected}")
    return lines


def _reason(record: dict[str, object]) -> str:
    return f" ({record['reason']})" if record.get("reason") else ""
