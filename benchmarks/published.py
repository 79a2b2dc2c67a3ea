"""The one table and the one plot of docs/performance.md, made from raw numbers that are committed.

`python -m benchmarks.train --publish` measures (at most 15 minutes on two cores), writes
`benchmarks/results/train.json`, and calls `render`; `--render` only redraws from that file.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pandas as pd

from benchmarks.common import load_warning, machine, middle, table
from reprl.config.placement import machine_cores

RESULTS = Path(__file__).parent / "results" / "train.json"
PAGE = Path(__file__).parents[1] / "docs" / "performance.md"
PLOT = Path(__file__).parents[1] / "docs" / "images" / "performance.png"
BEGIN, END = "<!-- benchmarks.train: begin -->", "<!-- benchmarks.train: end -->"
BUDGET = 13 * 60.0  # seconds after which no further round begins

# name -> algorithm, what it is called, what it is compared with, the least ratio that is aimed at
ROWS: dict[str, tuple[str, str, str | None, float | None]] = {
    "sb3_ppo": ("PPO", "stock SB3, its best set-up", None, None),
    "envpool": ("PPO", "EnvPool loop in one file", "sb3_ppo", None),
    "ppo_1": ("PPO", "reprl, 1 rank", "sb3_ppo", None),
    "ppo_n": ("PPO", "reprl, {n} ranks", "sb3_ppo", 2.0),
    "mask_n": ("PPO", "reprl, {n} ranks, 7x7 mask + three losses + shift", "sb3_ppo", 1.2),
    "sb3_a2c": ("A2C", "stock SB3, its best set-up", None, None),
    "a2c_1": ("A2C", "reprl, 1 rank", "sb3_a2c", None),
    "a2c_n": ("A2C", "reprl, {n} ranks", "sb3_a2c", 2.0),
}
PAIRS = (
    ("ppo_n", "ppo_1", "{n} ranks against 1, PPO", 1.8),
    ("ppo_n", "envpool", "{n} ranks against the EnvPool loop", 1.3),
)
MASK = [
    *("attention=conv", "auxiliary=attention_contrastive", "augmentation=shift"),
    *("augmentation.use=views",),
]


def ours(algo: str, ranks: int, more: list[str]) -> float:
    """Steps/s of `reprl train`, from the rows of its own metrics.csv after the warm-up."""
    rollout, warm, updates = (1024, 3, 4) if algo == "ppo" else (80, 30, 100)
    every = rollout if algo == "ppo" else 10 * rollout
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        command = [
            *(sys.executable, "-m", "reprl", "train", f"algo={algo}", "mode=fast", "device=cpu"),
            *(f"env.n_envs={8 if algo == 'ppo' else 16}", f"ranks={ranks}", "progress=off"),
            *(f"total_steps={rollout * (warm + updates)}", f"log.every={every}", "eval.every=0"),
            *("checkpoint.every=1_000_000", f"run_dir={run}", *more),
        ]
        if ranks == 1:
            command.append("env.workers=auto")
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        rows = pd.read_csv(run / "metrics.csv")
    rows = rows[rows["step"] >= rollout * warm]
    # Not the last: it is written beside the final checkpoint.
    first, last = rows.iloc[0], rows.iloc[-1]
    seconds = last["time/elapsed"] - first["time/elapsed"]
    return float((last["step"] - first["step"]) / seconds)


def contenders(cores: int) -> dict[str, Any]:
    """What is measured, by name: how to measure it once."""
    from benchmarks import train

    found: dict[str, Any] = {}
    for algo in ("ppo", "a2c"):
        best = train.best_sb3(algo, False) | {"updates": 4 if algo == "ppo" else 80}
        found[f"sb3_{algo}"] = lambda job=best: train.measure(job)["rate"]
        found[f"{algo}_1"] = lambda a=algo: ours(a, 1, [])
        found[f"{algo}_n"] = lambda a=algo: ours(a, cores, [])
    found["mask_n"] = lambda: ours("ppo", cores, MASK)
    if find_spec("envpool") is None:
        print("EnvPool is not installed (pip install 'reprl[bench]'): left out.")
    else:
        found["envpool"] = lambda: envpool_loop(cores)
    return {name: found[name] for name in ROWS if name in found}


def envpool_loop(threads: int) -> float:
    job = json.dumps({"threads": threads, "warmup": 1, "updates": 4})
    command = [sys.executable, "-m", "benchmarks.envpool_loop", job]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(json.loads(done.stdout.strip().splitlines()[-1])["rate"])


def publish(rounds: int = 3) -> None:
    """Measure everything in turn, keep every number, and redraw the page."""
    began, cores = time.monotonic(), machine_cores()
    record: dict[str, Any] = {
        "machine": machine(),
        "load": load_warning(),
        "cores": cores,
        "date": time.strftime("%Y-%m-%d"),
        "rates": {},
    }
    measured = contenders(cores)
    longest = 0.0
    for round_ in range(rounds):
        started = time.monotonic()
        if started - began + longest > BUDGET:
            print(f"{round_} of {rounds} rounds fit into {BUDGET / 60:.0f} minutes.")
            break
        for name, measure in measured.items():
            rate = measure()
            record["rates"].setdefault(name, []).append(rate)
            print(f"  round {round_ + 1}/{rounds}  {name:10s} {rate:8,.0f} steps/s", flush=True)
        longest = max(longest, time.monotonic() - started)
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(record, indent=1) + "\n")
    render()


def ratio(record: dict[str, Any], name: str, other: str) -> float | None:
    """The median over rounds of one rate by another of the same round."""
    rates = record["rates"]
    if name not in rates or other not in rates:
        return None
    return middle([a / b for a, b in zip(rates[name], rates[other], strict=True)])


def text_of(record: dict[str, Any]) -> str:
    """The page's measured part: the table, the plot and what was not measured."""
    rates, n, rows = record["rates"], record["cores"], []
    for name, (algo, title, other, least) in ROWS.items():
        if name not in rates:
            continue
        found = ratio(record, name, other) if other else 1.0
        aim = "" if least is None else f"{least:g}"
        low, high = min(rates[name]), max(rates[name])
        rate = f"{middle(rates[name]):,.0f}"
        spread = f"{low:,.0f} to {high:,.0f}"
        rows.append([algo, title.format(n=n), rate, spread, f"**{found:.2f}**", aim])
    for name, other, title, least in PAIRS:
        if (found := ratio(record, name, other)) is not None:
            rows.append(["", title.format(n=n), "", "", f"**{found:.2f}**", f"{least:g}"])
    rounds = max(map(len, rates.values()))
    lines = [
        table(["", "", "steps/s", "rounds", "against SB3", "aim"], rows),
        "",
        "![steps a second of each](images/performance.png)",
        "",
        f"{record['date']}, {rounds} rounds in turn, fp32. {record['machine']} {record['load']}",
    ]
    left_out = [title.format(n=n) for name, (_, title, *_) in ROWS.items() if name not in rates]
    if left_out:
        lines.append(f"Not measured here: {', '.join(left_out)}.")
    return "\n".join(lines)


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
