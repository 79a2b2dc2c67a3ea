"""One command of reprl in this process, and the seconds of one core that it took, kept in a file.

benchmarks of representations -> **`timed`** -> results/representation/costs.csv, a row a command.
"""

from __future__ import annotations

import time
from pathlib import Path

import pandas as pd

from reprl.cli import main as reprl
from reprl.disk import write_atomically

COSTS = Path(__file__).parent.parent / "results" / "representation" / "costs.csv"


def timed(words: list[str], of: str, file: Path | None = None) -> None:
    """Run `reprl WORDS`; a command that fails ends the benchmark. `of` names what it belongs to."""
    print("reprl", *words, flush=True)
    began, cpu = time.perf_counter(), time.process_time()
    if reprl(words, process=False):
        raise SystemExit(1)
    core = time.process_time() - cpu
    print(f"{time.perf_counter() - began:.0f} s, {core:.0f} s of one core", flush=True)
    keep(of, words[0], core, file or COSTS)


def keep(of: str, command: str, core: float, file: Path) -> None:
    """Put the row into the file; the same command measured again is replaced."""
    row = {"of": of, "command": command, "core_seconds": round(core, 1)}
    known = costs(file).to_dict("records")
    others = [r for r in known if (r["of"], r["command"]) != (of, command)]
    write_atomically(file, pd.DataFrame([*others, row]).to_csv(index=False))


def costs(file: Path | None = None) -> pd.DataFrame:
    """What has been measured: of, command, core_seconds; nothing where there is no file."""
    file = file or COSTS
    if not file.is_file():
        return pd.DataFrame(columns=["of", "command", "core_seconds"])
    return pd.read_csv(file)
