"""The one table and the one plot of docs/performance.md, made from raw numbers that are committed.

`python -m benchmarks.train --publish` measures three rounds, or what fits into 20 minutes of two
quiet cores, writes `benchmarks/results/train.json` after every round, and calls `render`; `--more`
adds rounds on the same machine, `--render` only redraws from that file. `--publish --quick` goes
the same way with the smallest sizes, into a folder of its own.
"""

from __future__ import annotations

import json
import os
import re
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pandas as pd

from benchmarks.common import load_warning, machine, middle, table
from reprl.config.placement import machine_cores
from reprl.precision import cpu_has_bf16

RESULTS = Path(__file__).parent / "results" / "train.json"
PAGE = Path(__file__).parents[1] / "docs" / "performance.md"
PLOT = Path(__file__).parents[1] / "docs" / "images" / "performance.png"
BEGIN, END = "<!-- benchmarks.train: begin -->", "<!-- benchmarks.train: end -->"
BUDGET = 20 * 60.0  # seconds after which no further round begins
VARIANTS = ("original", "green_lines", "diagonals", "moving_square")  # drawn in turn
SIZES = (8, 64, 256)  # environments over which the cost of a step should stay the same

# name -> algorithm, what it is called, what it is compared with, the least ratio that is aimed at
ROWS: dict[str, tuple[str, str, str | None, float | None]] = {
    "sb3_ppo": ("PPO", "stock SB3, its best set-up", None, None),
    "envpool": ("PPO", "EnvPool loop in one file", "sb3_ppo", None),
    "ppo_core": ("PPO", "reprl, 1 rank on one core", "sb3_ppo", None),
    "ppo_1": ("PPO", "reprl, 1 rank on {n} cores", "sb3_ppo", None),
    "ppo_n": ("PPO", "reprl, {n} ranks", "sb3_ppo", 2.0),
    "ppo_1_bf16": ("PPO", "reprl, 1 rank, bf16", "sb3_ppo", None),
    "ppo_n_bf16": ("PPO", "reprl, {n} ranks, bf16", "sb3_ppo", 2.7),
    "mask_n": ("PPO", "reprl, {n} ranks, 7x7 mask + three losses + shift", "sb3_ppo", 1.2),
    "sb3_a2c": ("A2C", "stock SB3, its best set-up", None, None),
    "a2c_1": ("A2C", "reprl, 1 rank on {n} cores", "sb3_a2c", None),
    "a2c_n": ("A2C", "reprl, {n} ranks", "sb3_a2c", 2.0),
    "a2c_n_bf16": ("A2C", "reprl, {n} ranks, bf16", "sb3_a2c", None),
}
GAMES = {  # environments alone: no network
    "games_envpool": ("EnvPool, {n} threads, 32 environments", None),
    "games_n": ("reprl, {n} processes, 32 environments, variants drawn", "games_envpool"),
}
PAIRS: tuple[tuple[str, str, str, float | None], ...] = (
    ("ppo_n", "ppo_core", "{n} ranks against one on one core, PPO", 1.8),
    ("ppo_n", "ppo_1", "{n} ranks against one on {n} cores, PPO", None),
    ("ppo_n", "envpool", "{n} ranks against the EnvPool loop", 1.3),
)
MASK = [
    *("attention=conv", "auxiliary=attention_contrastive", "augmentation=shift"),
    *("augmentation.use=views",),
]


@dataclass(frozen=True)
class Size:
    """How much is measured; one look of the diagnostics falls into what counts, as in a run."""

    ppo: tuple[int, int] = (1, 5)  # updates to warm up, and updates that count
    a2c: tuple[int, int] = (20, 50)
    sb3_ppo: tuple[int, int] = (1, 3)
    sb3_a2c: tuple[int, int] = (10, 50)
    envpool: tuple[int, int] = (1, 4)
    seconds: float = 3.0  # of environments alone
    sizes: tuple[int, ...] = SIZES
    screen: bool = True  # SB3's four set-ups, to take the fastest
    more: tuple[str, ...] = ()


QUICK = Size(
    ppo=(1, 1),
    a2c=(10, 10),
    sb3_ppo=(1, 1),
    sb3_a2c=(2, 2),
    envpool=(0, 1),
    seconds=0.3,
    sizes=(8, 16),
    screen=False,
    more=("algo.compile=false",),
)


@dataclass
class Watched:
    """What one `reprl train` showed while it ran."""

    line: float | None = None  # seconds to its first printed line
    update: float | None = None  # to the first row of its metrics
    memory: float | None = None  # MB of the largest rank, as it says itself
    rows: pd.DataFrame = field(default_factory=pd.DataFrame)


def watch(command: list[str], metrics: Path) -> Watched:
    """Run a training to its end with a clock on its output."""
    found, text, began = Watched(), b"", time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, bufsize=0) as process:
        assert process.stdout is not None
        end = process.stdout.fileno()
        while True:
            if select.select([end], [], [], 0.05)[0]:
                if not (part := os.read(end, 65536)):
                    break
                text += part
                found.line = found.line or time.perf_counter() - began
            if found.update is None and metrics.exists():
                found.update = time.perf_counter() - began
    if process.returncode:
        raise SystemExit(f"`{' '.join(command)}` failed: its message is above")
    if said := re.search(rb"memory: ([\d,]+) MB", text):
        found.memory = float(said[1].replace(b",", b""))
    found.rows = pd.read_csv(metrics)
    return found


class Bench:
    """Measures what ROWS and GAMES name, each once a call."""

    def __init__(self, cores: int, size: Size) -> None:
        self.cores, self.size = cores, size
        self.seen: dict[str, list[float]] = {"line": [], "update": [], "memory": []}
        self.chosen: dict[str, list[int]] = {}  # SB3's fastest workers and threads, by algorithm

    def ours(self, algo: str, ranks: int, more: list[str]) -> float:
        """Steps/s of `reprl train`, from the rows of its own metrics.csv after the warm-up."""
        warm, updates = self.size.ppo if algo == "ppo" else self.size.a2c
        rollout, rows = (1024, 1) if algo == "ppo" else (80, 10)
        with tempfile.TemporaryDirectory() as folder:
            run = Path(folder) / "run"
            command = [
                *(sys.executable, "-m", "reprl", "train", f"algo={algo}", "mode=fast"),
                *("device=cpu", f"env.n_envs={8 if algo == 'ppo' else 16}", f"ranks={ranks}"),
                *(f"total_steps={rollout * (warm + updates)}", f"log.every={rollout * rows}"),
                *("eval.every=0", "checkpoint.every=1_000_000", f"run_dir={run}", *more),
                *self.size.more,
            ]
            if ranks == 1 and "threads=1" not in more:
                command.append("env.workers=auto")
            found = watch(command, run / "metrics.csv")
        if algo == "ppo" and ranks > 1 and not more:
            for name, values in self.seen.items():
                if (value := getattr(found, name)) is not None:
                    values.append(value)
        counted = found.rows[found.rows["step"] >= rollout * warm]
        first, last = counted.iloc[0], counted.iloc[-1]
        return float(
            (last["step"] - first["step"]) / (last["time/elapsed"] - first["time/elapsed"])
        )

    def sb3(self, algo: str) -> Callable[[], float]:
        """Stock SB3 in the fastest of its set-ups here."""
        from benchmarks import train

        warm, updates = self.size.sb3_ppo if algo == "ppo" else self.size.sb3_a2c

        def job(workers: int, threads: int, count: int) -> dict[str, Any]:
            sized = {"warmup": warm, "updates": count}
            return train.job("sb3", algo, False, workers=workers, threads=threads) | sized

        rates = {tuple(self.chosen.get(algo, (0, 2))): 0.0}
        if self.size.screen and algo not in self.chosen:
            few = max(1, updates // 3)  # the differences are large
            set_ups = [(workers, threads) for workers in (0, 1) for threads in (1, 2)]
            rates = {s: train.measure(job(*s, few))["rate"] for s in set_ups}
            for (workers, threads), rate in rates.items():
                kind = "SubprocVecEnv" if workers else "DummyVecEnv"
                print(f"  SB3 {algo}, {kind}, {threads} threads: {rate:,.0f}/s", flush=True)
        workers, threads = max(rates, key=lambda s: rates[s])
        self.chosen[algo] = [workers, threads]
        return lambda: float(train.measure(job(workers, threads, updates))["rate"])

    def envpool_loop(self) -> float:
        warm, updates = self.size.envpool
        job = json.dumps({"threads": self.cores, "warmup": warm, "updates": updates})
        command = [sys.executable, "-m", "benchmarks.envpool_loop", job]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        return float(json.loads(done.stdout.strip().splitlines()[-1])["rate"])

    def games(self, n: int) -> float:
        """Steps/s of n environments of ours in a process a core, as ranks play them."""
        from benchmarks.envs import together

        return together(n, min(self.cores, n), self.size.seconds, VARIANTS)

    def contenders(self) -> dict[str, Callable[[], float]]:
        """What is measured in turn, by name."""
        from benchmarks import envs

        n, found = self.cores, {}
        for algo in ("ppo", "a2c"):
            found[f"sb3_{algo}"] = self.sb3(algo)
            found[f"{algo}_1"] = lambda a=algo: self.ours(a, 1, [])
            found[f"{algo}_n"] = lambda a=algo: self.ours(a, n, [])
            if cpu_has_bf16():
                bf16 = ["precision=bf16"]
                found[f"{algo}_1_bf16"] = lambda a=algo, p=bf16: self.ours(a, 1, p)
                found[f"{algo}_n_bf16"] = lambda a=algo, p=bf16: self.ours(a, n, p)
        found["ppo_core"] = lambda: self.ours("ppo", 1, ["threads=1"])
        found["mask_n"] = lambda: self.ours("ppo", n, MASK)
        if find_spec("envpool") is None:
            print("EnvPool is not installed (pip install 'reprl[bench]'): left out.")
        else:
            found["envpool"] = self.envpool_loop
            found["games_envpool"] = lambda: envs.envpool(32, n, self.size.seconds)
        found["games_n"] = lambda: self.games(32)
        return {name: found[name] for name in (*ROWS, *GAMES) if name in found}


def publish(
    rounds: int = 3, *, quick: bool = False, only: list[str] | None = None, more: bool = False
) -> None:
    """Measure everything in turn, keep every number after every round, and redraw the page.

    `more` adds rounds to those that are kept, where the machine is the same.
    """
    began, cores = time.monotonic(), machine_cores()
    results, page, plot = RESULTS, PAGE, PLOT
    if quick:
        place = Path(tempfile.mkdtemp(prefix="reprl_publish_"))
        results, page, plot = place / "train.json", place / "performance.md", place / "plot.png"
        page.write_text(PAGE.read_text())
    bench = Bench(cores, QUICK if quick else Size())
    record: dict[str, Any] = {
        "machine": machine(),
        "load": load_warning(),
        "cores": cores,
        "bf16": cpu_has_bf16(),
        "date": time.strftime("%Y-%m-%d"),
        "rates": {},
        "sizes": {},
    }
    earlier = json.loads(results.read_text()) if more and results.exists() else {}
    if earlier:
        if earlier["machine"] != record["machine"]:
            raise SystemExit(f"--more: {results} is of another machine: {earlier['machine']}")
        record = earlier | {"load": f"{earlier['load']} Of later rounds: {record['load']}"}
        bench.seen, bench.chosen = earlier["seen"], earlier["sb3"]
        only = list(earlier["rates"])  # every row has every round
    measured = bench.contenders()
    record["sb3"] = bench.chosen
    measured = {name: m for name, m in measured.items() if not only or name in only}
    last = 0.0
    for round_ in range(1 if quick else rounds):
        started = time.monotonic()
        if started - began + last > BUDGET and round_:
            print(f"{round_} of {rounds} rounds fit into {BUDGET / 60:.0f} minutes.")
            break
        rates = {}
        for name, measure in measured.items():
            rates[name] = measure()
            shown = f"{name:14s} {rates[name]:8,.0f} steps/s"
            print(f"  round {round_ + 1}/{rounds}  {shown}", flush=True)
        for name, rate in rates.items():  # whole rounds only: ratios are of one round
            record["rates"].setdefault(name, []).append(rate)
        record["seen"] = bench.seen
        keep(record, results)
        last = time.monotonic() - started
    for n in () if earlier else bench.size.sizes:  # once: emulators take long to start
        record["sizes"][str(n)] = bench.games(n)
        print(f"  {n} environments: {record['sizes'][str(n)]:,.0f} steps/s", flush=True)
    minutes = (time.monotonic() - began) / 60 + earlier.get("minutes", 0.0)
    record["minutes"] = round(minutes, 1)
    keep(record, results)
    render(results, page, plot)
    print(f"{page} and {plot} are made of {results}.")


def keep(record: dict[str, Any], results: Path) -> None:
    results.parent.mkdir(exist_ok=True)
    results.write_text(json.dumps(record, indent=1) + "\n")


def ratio(record: dict[str, Any], name: str, other: str) -> float | None:
    """The median over rounds of one rate by another of the same round."""
    rates = record["rates"]
    if name not in rates or other not in rates:
        return None
    return middle([a / b for a, b in zip(rates[name], rates[other], strict=True)])


def text_of(record: dict[str, Any]) -> str:
    """The page's measured part: the table, the plot and what was not measured."""
    rates, n, rows = record["rates"], record["cores"], []

    def row(kind: str, name: str, title: str, other: str | None, least: float | None) -> None:
        found = ratio(record, name, other) if other else 1.0
        times = "" if found is None else f"**{found:.2f}**"
        low, high = min(rates[name]), max(rates[name])
        spread = f"{low:,.0f} to {high:,.0f}"
        aim = "" if least is None else f"{least:g}"
        rows.append([kind, title.format(n=n), f"{middle(rates[name]):,.0f}", spread, times, aim])

    for name, (algo, title, other, least) in ROWS.items():
        if name in rates:
            row(algo, name, title, other, least)
    for name, other, title, least in PAIRS:
        if (found := ratio(record, name, other)) is not None:
            aim = "" if least is None else f"{least:g}"
            rows.append(["", title.format(n=n), "", "", f"**{found:.2f}**", aim])
    for name, (title, other) in GAMES.items():
        if name in rates:
            row("games alone", name, title, other, None if other is None else 1.0)
    rounds = max(map(len, rates.values()))
    lines = [
        table(["", "", "steps/s", "rounds", "times", "aim"], rows),
        "",
        "![steps a second of each](images/performance.png)",
        "",
        "*times*: the median over rounds of the rate by SB3's for the same algorithm in the same "
        "round; games alone by EnvPool's.",
        f"{record['date']}, {rounds} round{'s' if rounds > 1 else ''} in turn"
        + (f", {record['minutes']:g} minutes" if "minutes" in record else "")
        + f". {record['machine']} {record['load']}",
    ]
    if sizes := record.get("sizes"):
        costs = {int(k): 1e6 / v for k, v in sizes.items()}
        few, many = min(costs), max(costs)
        said = ", ".join(f"{cost:,.0f} µs with {k}" for k, cost in sorted(costs.items()))
        lines.append(
            f"The cost of a step of games alone, over all processes: {said} environments "
            f"({costs[many] / costs[few]:.2f} times from {few} to {many})."
        )
    lines += seen_of(record)
    left_out = {name: f"{row[0]} {row[1].format(n=n)}" for name, row in ROWS.items()}
    left_out = {name: title for name, title in left_out.items() if name not in rates}
    if not record.get("bf16", True):
        lines.append("bf16 was not measured: this CPU has no instructions for it.")
        left_out = {k: title for k, title in left_out.items() if not k.endswith("bf16")}
    if left_out:
        lines.append(f"Not measured here: {'; '.join(left_out.values())}.")
    return "\n".join(lines)


def seen_of(record: dict[str, Any]) -> list[str]:
    """What `reprl train` of PPO with all ranks showed: start and memory."""
    seen = record.get("seen") or {}
    words = []
    if seen.get("line"):
        words.append(f"{min(seen['line']):.1f} s to its first line (aim 2)")
    if seen.get("update"):
        words.append(f"{min(seen['update']):.1f} s to its first update with a warm cache (aim 8)")
    if seen.get("memory"):
        words.append(f"{max(seen['memory']):,.0f} MB in a rank at most (aim 600)")
    return [f"`reprl train` with all ranks, PPO: {', '.join(words)}."] if words else []


def render(results: Path = RESULTS, page: Path = PAGE, plot: Path = PLOT) -> None:
    """Put the table of a results file between the page's marks, and draw its plot."""
    record = json.loads(results.read_text())
    before, _, rest = page.read_text().partition(BEGIN)
    _, found, after = rest.partition(END)
    if not found:
        raise SystemExit(f"{page} has lost its marks {BEGIN} and {END}.")
    page.write_text(f"{before}{BEGIN}\n{text_of(record)}\n{END}{after}")
    draw(record, plot)


def draw(record: dict[str, Any], plot: Path) -> None:
    """A bar for each contender with a dot for each round."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    rates, n = record["rates"], record["cores"]
    names = [name for name in ROWS if name in rates][::-1]
    figure, axes = pyplot.subplots(figsize=(8, 0.45 * len(names) + 1))
    labels = [f"{ROWS[name][0]}: {ROWS[name][1].format(n=n)}" for name in names]
    colours = ["#b0b0b0" if "reprl" not in label else "#2f6db3" for label in labels]
    axes.barh(labels, [middle(rates[name]) for name in names], color=colours)
    for place, name in enumerate(names):
        axes.plot(rates[name], [place] * len(rates[name]), "k.", markersize=4)
    axes.set_xlabel("agent steps a second")
    axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(plot, dpi=120, metadata={"Software": None})
    pyplot.close(figure)
