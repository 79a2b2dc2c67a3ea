"""`make torture`: every fault many times, and the table of what was lost into docs/reliability.md.

    python -m tests.faults.torture kills=30 damages=100 only=disk,clock minutes=45 write=yes

Counts may be small, to run a part of it; without write=yes the table is only printed. All kinds
take turns, so that `minutes=` ends with some of each: the table counts what was really injected.
"""

from __future__ import annotations

import math
import os
import platform
import re
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reprl import __version__
from reprl.disk import write_atomically
from tests.faults import scenarios
from tests.faults.harness import NoDisk, Outcomes, Place, Row, Scenario, table

PAGE = Path(__file__).parents[2] / "docs" / "reliability.md"
BEGIN, END = "<!-- made by `make torture` -->", "<!-- end of what it made -->"
COUNTS = {"kills": 30, "disks": 40, "damages": 100, "runs": 200, "updates": 1000}
OTHERS = ("only", "write", "seed", "minutes")
TURNS = 10  # in how many parts a kind's count is made


@dataclass(frozen=True)
class Kind:
    """One row: what is done, by which scenario, and how often of which count."""

    fault: str
    scenario: Scenario
    counted: str
    share: float = 1.0
    at_once: bool = False  # one measurement over the whole count

    def count(self, counts: dict[str, int]) -> int:
        return max(1, round(counts[self.counted] * self.share))


KINDS = (
    Kind("SIGKILL of train or resume at a random moment", scenarios.kills_while_training, "kills"),
    Kind("SIGKILL inside a checkpoint write", scenarios.kills_in_a_checkpoint, "kills"),
    Kind("SIGTERM, SIGINT, SIGHUP, SIGUSR2", scenarios.signals_while_training, "kills", 0.5),
    Kind("SIGKILL of an environment worker", scenarios.kills_of_a_worker, "kills", 0.5),
    Kind("SIGKILL of one of two ranks", scenarios.kills_of_a_rank, "kills", 0.3),
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
    Kind(
        *("updates in one run, for growth", scenarios.updates_without_growth, "updates"),
        at_once=True,
    ),
    Kind(
        *("short runs in one sweep, for growth", scenarios.a_sweep_without_growth, "runs"),
        at_once=True,
    ),
)


def main(arguments: list[str]) -> int:
    """Run what is asked for; 1 if anything was lost."""
    asked = dict(argument.partition("=")[::2] for argument in arguments)
    if unknown := [name for name in asked if name not in (*COUNTS, *OTHERS)]:
        known = ", ".join((*COUNTS, *OTHERS))
        raise SystemExit(f"no key '{unknown[0]}': choose from {known}")
    counts = {name: int(asked.get(name) or default) for name, default in COUNTS.items()}
    words = asked.get("only", "").split(",")
    chosen = [kind for kind in KINDS if any(word in kind.fault for word in words)]
    chosen = [kind for kind in chosen if counts[kind.counted]]
    began, seed = time.monotonic(), int(asked.get("seed") or 0)
    deadline = began + 60 * float(asked.get("minutes") or "inf")
    with (
        tempfile.TemporaryDirectory(prefix="torture") as folder,
        Place(Path(folder), seed) as place,
    ):
        rows = inject(chosen, place, counts, deadline)
    minutes = (time.monotonic() - began) / 60
    how = f"reprl {__version__}, Python {platform.python_version()}, {os.cpu_count()} cores, "
    how += f"{minutes:.0f} minutes, " + ", ".join(f"{k}={v}" for k, v in counts.items())
    how += f"; it had to end after minutes={asked['minutes']}" if asked.get("minutes") else ""
    chose = f" ONLY={asked['only']}" if asked.get("only") else ""
    said = [f"`make torture{chose}` with {how}."]
    print(table(rows), *said, sep="\n")
    if asked.get("write") == "yes":
        if chose:  # what was measured before stays
            known, earlier = measured(PAGE.read_text(encoding="utf-8"))
            new = {row.fault: row for row in rows}
            rows = [new.pop(row.fault, row) for row in known] + list(new.values())
            said = [*earlier, *said]
        put(PAGE, table(rows) + "".join(f"\n{line}\n" for line in said))
    return int(any(row.lost for row in rows))


def inject(
    kinds: Sequence[Kind], place: Place, counts: dict[str, int], deadline: float = math.inf
) -> list[Row]:
    """The rows of the table, said while they are made; all kinds take turns until the deadline."""
    rows = {kind: Row(kind.fault) for kind in kinds}
    wanted = {kind: kind.count(counts) for kind in kinds}
    waiting = {k: k.scenario(place, wanted[k]) for k in sorted(kinds, key=lambda k: not k.at_once)}
    for turn in range(1, TURNS + 1):
        for kind, outcomes in list(waiting.items()):
            row, part = rows[kind], math.ceil(wanted[kind] * turn / TURNS)
            while row.injected < part and time.monotonic() < deadline:
                if not _once(row, outcomes):
                    break
            if row.injected < part:  # it ended early
                waiting.pop(kind).close()
            print(f"{row.injected:5} {len(row.lost):5} lost  {kind.fault}", **_SAY)
    for outcomes in waiting.values():
        outcomes.close()
    return list(rows.values())


def _once(row: Row, outcomes: Outcomes) -> bool:
    """One more fault of a kind; False if there is none."""
    try:
        lost = next(outcomes)
    except StopIteration:
        return False
    except NoDisk as error:
        print(f"left out: {row.fault} ({error})", **_SAY)
        return False
    except Exception as error:  # the other rows may still be made
        lost = f"the scenario itself failed: {type(error).__name__}: {error}"
    row.injected += 1
    if lost:
        row.lost.append(lost)
        print(f"LOST  {row.fault}: {lost}", **_SAY)
    return True


_SAY: dict[str, Any] = {"file": sys.stderr, "flush": True}


def measured(page: str) -> tuple[list[Row], list[str]]:
    """The rows that a page holds, and the lines that say how they were made."""
    lines = page.partition(BEGIN)[2].partition(END)[0].splitlines()
    found = [re.fullmatch(r"\| ([^*]+) \| (\d+) \| \d+ \| (\d+) \|", line) for line in lines]
    rows = [Row(m[1], int(m[2]), [""] * int(m[3])) for m in found if m]
    for row in rows:
        words = [
            x.removeprefix(f"- {row.fault}: ") for x in lines if x.startswith(f"- {row.fault}")
        ]
        row.lost[: len(words)] = words
    return rows, [line for line in lines if line.startswith("`make torture")]


def put(page: Path, text: str) -> None:
    """Replace what an earlier call wrote into a page."""
    before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    write_atomically(page, f"{before}{BEGIN}\n{text}{END}{rest.partition(END)[2]}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
