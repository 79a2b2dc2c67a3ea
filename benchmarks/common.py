"""What every benchmark shares: alternating rounds, the machine's description, a Markdown table."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import statistics
from collections.abc import Callable, Mapping
from pathlib import Path

PACKAGES = ("torch", "stable-baselines3", "ale-py", "gymnasium", "numpy", "envpool")
BUSY = 0.4  # a load average above this before the start makes every figure doubtful


def machine() -> str:
    """One line a reader needs to place the figures."""
    model = "unknown processor"
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        lines = [x for x in cpuinfo.read_text().splitlines() if x.startswith("model name")]
        model = lines[0].split(":", 1)[1].strip() if lines else model
    versions = []
    for package in PACKAGES:
        try:
            versions.append(f"{package} {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    python = f"Python {platform.python_version()}"
    return f"{os.cpu_count()} cores, {model}; {python}, {', '.join(versions)}."


def load_warning() -> str:
    """A sentence on the load before the start, with a warning where the machine was busy."""
    load = os.getloadavg()[0]
    text = f"Load average before the start: {load:.2f}."
    return text + (" **The machine was busy: do not trust these figures.**" if load > BUSY else "")


def alternate(contenders: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """Measure every contender once a round, so that a noisy minute hits all of them alike."""
    found: dict[str, list[float]] = {name: [] for name in contenders}
    for round_ in range(rounds):
        for name, measure in contenders.items():
            found[name].append(measure())
            print(f"  round {round_ + 1}/{rounds}  {name:40s} {found[name][-1]:10,.1f}", flush=True)
    return found


def table(header: list[str], rows: list[list[str]]) -> str:
    """A Markdown table."""
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def middle(values: list[float]) -> float:
    """The median, which one disturbed round does not move."""
    return statistics.median(values)
