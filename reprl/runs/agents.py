"""Agents that ship: `agent:NAME` in the place of a run folder.

A shipped agent is a run folder as `reprl runs DIR export=FOLDER weights=true` writes it: settings,
curves, published games and the weights in half precision. It plays, is looked at and begins other
runs (`parent=agent:NAME`); what is measured of it goes to `runs/agents/NAME`.
"""

from __future__ import annotations

from contextlib import suppress
from importlib.resources import files
from pathlib import Path

from reprl.disk import write_atomically
from reprl.errors import UserError, unknown

PREFIX = "agent:"
WORK = Path("runs") / "agents"  # where results of a shipped agent are written


def shipped() -> dict[str, Path]:
    """The run folders of all shipped agents by name."""
    place = Path(str(files("reprl.agents")))
    return {p.name: p for p in sorted(place.iterdir()) if (p / "run.json").is_file()}


def folder_of(text: str) -> Path | None:
    """The folder of `agent:NAME`, None for any other text; a name that is not there is refused."""
    if not text.startswith(PREFIX):
        return None
    name, there = text.removeprefix(PREFIX), shipped()
    if name not in there:
        raise unknown("shipped agent", name, there)
    return there[name]


def is_shipped(place: Path) -> bool:
    """Whether a folder is that of an agent that ships."""
    return place.resolve() in {p.resolve() for p in shipped().values()}


def require_own(place: Path, command: str) -> None:
    """Refuse to train in the folder of an agent that ships: everybody starts from the same one."""
    if is_shipped(place):
        raise UserError(
            f"reprl {command} trains in the run's own folder, and {PREFIX}{place.name} ships as it "
            f"is: reprl train parent={PREFIX}{place.name} goes on from it in a folder of yours."
        )


def work_folder(place: Path, out: Path | None) -> Path | None:
    """Where results go: `out`, and for a shipped agent without it a folder of its own.

    A shipped agent's settings and curves are copied there, so that a report can read it; its
    published games stay where they are, or evaluation would find nothing left to play.
    """
    if not is_shipped(place):
        return out
    resolved = place.resolve()
    work = out or WORK / resolved.name
    with suppress(OSError):  # whether it can be written is asked, and said, by who writes there
        work.mkdir(parents=True, exist_ok=True)
        for name in ("config.yaml", "run.json", "metrics.csv"):
            if (resolved / name).is_file() and not (work / name).exists():
                write_atomically(work / name, (resolved / name).read_text(encoding="utf-8"))
    return work
