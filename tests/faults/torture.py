"""`make torture`: every fault many times, and the table of what was lost into docs/reliability.md.

    python -m tests.faults.torture kills=30 damages=200 only=disk,clock write=yes

Counts may be small, to run a part of it; without write=yes the table is only printed.
"""

from __future__ import annotations

import os
import platform
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from reprl import __version__
from reprl.disk import write_atomically
from tests.faults import scenarios
from tests.faults.harness import NoDisk, Place, Row, Scenario, table

PAGE = Path(__file__).parents[2] / "docs" / "reliability.md"
BEGIN, END = "<!-- made by `make torture` -->", "<!-- end of what it made -->"
COUNTS = {"kills": 30, "disks": 40, "damages": 200, "runs": 200, "updates": 1000}


@dataclass(frozen=True)
class Kind:
    """One row: what is done, by which scenario, and how often of which count."""

    fault: str
    scenario: Scenario
    counted: str
    share: float = 1.0


KINDS = (
    Kind("SIGKILL of train or resume at a random moment", scenarios.kills_while_training, "kills"),
    Kind("SIGKILL inside a checkpoint write", scenarios.kills_in_a_checkpoint, "kills"),
    Kind("SIGTERM, SIGINT, SIGUSR2", scenarios.signals_while_training, "kills", 0.5),
    Kind("SIGKILL of an environment worker", scenarios.kills_of_a_worker, "kills", 0.5),
    Kind("SIGSTOP of a worker for a second", scenarios.stops_of_a_worker, "kills", 0.3),
    Kind("SIGKILL of evaluate", scenarios.kills_of_evaluate, "kills", 0.5),
    Kind("SIGKILL of a sweep's launcher", scenarios.kills_of_a_launcher, "kills", 0.2),
    Kind("two resumes of one folder at once", scenarios.two_resumes, "kills", 0.3),
    Kind("two evaluations of one folder at once", scenarios.two_evaluations, "kills", 0.3),
    Kind("disk full, each writing command in turn", scenarios.full_disks, "disks"),
    Kind("read-only folder, each command in turn", scenarios.read_only_folders, "disks", 0.75),
    Kind("a file cut, emptied, bit-flipped, garbled or gone", scenarios.damaged_files, "damages"),
    Kind("a file of a later version", scenarios.later_versions, "disks", 0.5),
    Kind("wall clock jumps by a day", scenarios.clock_jumps, "kills", 0.1),
    Kind("TensorBoard's file fails", scenarios.tensorboard_dies, "kills", 0.1),
    Kind("SIGKILL of wandb's service", scenarios.wandb_dies, "kills", 0.2),
    Kind("updates in one run, for growth", scenarios.updates_without_growth, "updates"),
    Kind("short runs in one sweep, for growth", scenarios.a_sweep_without_growth, "runs"),
)


def main(arguments: list[str]) -> int:
    """Run what is asked for; 1 if anything was lost."""
    asked = dict(argument.partition("=")[::2] for argument in arguments)
    if unknown := [name for name in asked if name not in (*COUNTS, "only", "write", "seed")]:
        raise SystemExit(
            f"no key '{unknown[0]}': choose from {', '.join(COUNTS)}, only, write, seed"
        )
    counts = {name: int(asked.get(name) or default) for name, default in COUNTS.items()}
    words = asked.get("only", "").split(",")
    chosen = [kind for kind in KINDS if any(word in kind.fault for word in words)]
    began, seed = time.monotonic(), int(asked.get("seed") or 0)
    with (
        tempfile.TemporaryDirectory(prefix="torture") as folder,
        Place(Path(folder), seed) as place,
    ):
        rows = [inject(kind, place, counts[kind.counted]) for kind in chosen]
    minutes = (time.monotonic() - began) / 60
    how = f"reprl {__version__}, Python {platform.python_version()}, {os.cpu_count()} cores, "
    how += f"{minutes:.0f} minutes, " + ", ".join(f"{k}={v}" for k, v in counts.items())
    text = f"{table(rows)}\n`make torture` with {how}.\n"
    print(text)
    if asked.get("write") == "yes":
        put(PAGE, text)
    return int(any(row.lost for row in rows))


def inject(kind: Kind, place: Place, count: int) -> Row:
    """One row of the table, said while it is made."""
    row = Row(kind.fault)
    try:
        for lost in kind.scenario(place, max(1, round(count * kind.share)) if count else 0):
            row.injected += 1
            row.lost += [lost] if lost else []
            if lost:
                print(f"LOST  {kind.fault}: {lost}", file=sys.stderr, flush=True)
    except NoDisk as error:
        print(f"left out: {kind.fault} ({error})", file=sys.stderr, flush=True)
    except Exception as error:  # the other rows may still be made
        row.injected += 1
        row.lost.append(f"the scenario itself failed: {type(error).__name__}: {error}")
    print(f"{row.injected:5} {len(row.lost):5} lost  {kind.fault}", file=sys.stderr, flush=True)
    return row


def put(page: Path, text: str) -> None:
    """Replace what an earlier call wrote into a page."""
    before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    write_atomically(page, f"{before}{BEGIN}\n{text}{END}{rest.partition(END)[2]}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
