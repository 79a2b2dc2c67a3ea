"""Training steps/s against stock SB3 for the same algorithm, measured alternately.

`python -m benchmarks.train [--quick] [--rounds N] [--only ppo,a2c,...]`; with `--publish` it makes
the table and the plot of docs/performance.md (`benchmarks.published`). Warm-up and compile time
are excluded from the rates and printed beside them. SB3 runs with its own defaults and without our
environment variables, in the best of Dummy/Subproc and 1/2 threads.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.common import load_warning, machine, middle, table
from reprl.cli import OPENMP

TARGETS = {
    "ppo": ("PPO, 8 envs x 128, 4 epochs, batch 256", 1.7, 2.0),
    "a2c": ("A2C, 16 envs x 5", 1.9, 2.2),
    "mask7": (
        "PPO, 7x7 mask + contrastive + decoder + sparsity + shift, against plain SB3",
        1.0,
        1.2,
    ),
    "mask21": ("the same with a 21x21 mask branch", 0.7, 0.9),
    "pair": ("two single-thread jobs against one two-thread job, total", 1.2, 1.35),
    "parts": ("whole loop against its own parts", 0.8, 0.9),
    "memory": ("bytes of the rollout memory against SB3's (at most)", 0.35, 0.27),
    "start": ("`reprl train` to the first update, compile off / cached, seconds (at most)", 10, 6),
}


def begin(job: dict[str, Any]) -> subprocess.Popen[str]:
    """Start a job; SB3's process never sees our environment variables."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("OMP_", "GOMP_"))}
    if job["side"] == "ours":
        environment |= OPENMP
    command = [sys.executable, "-m", "benchmarks.train_job", json.dumps(job)]
    return subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def finish(process: subprocess.Popen[str]) -> dict[str, Any]:
    out, errors = process.communicate()
    if process.returncode:
        raise SystemExit(f"a measured job failed:\n{errors}")
    return dict(json.loads(out.strip().splitlines()[-1]))


def measure(job: dict[str, Any]) -> dict[str, Any]:
    return finish(begin(job))


def job(side: str, algo: str, quick: bool, **changes: Any) -> dict[str, Any]:
    updates = {"ppo": (4, 6), "a2c": (60, 120)}[algo]
    base = {
        "side": side,
        "algo": algo,
        "threads": 2,
        "workers": 2 if side == "ours" else 0,
        "mode": "fast",
        "extras": "plain",
        "warmup": 2 if algo == "ppo" else 20,
        "updates": updates[0] if quick else updates[1],
    }
    return base | changes


def best_sb3(algo: str, quick: bool) -> dict[str, Any]:
    """The fastest way to run stock SB3 here: screened once, then measured with the others."""
    if quick:  # no time to screen: what was fastest, or level with it, wherever it was screened
        return job("sb3", algo, quick, workers=0, threads=2)
    rates = {}
    for workers in (0, 1):
        for threads in (1, 2):
            candidate = job("sb3", algo, True, workers=workers, threads=threads)
            candidate["updates"] //= 2  # the differences are large
            rates[workers, threads] = measure(candidate)["rate"]
            kind = "SubprocVecEnv" if workers else "DummyVecEnv"
            print(f"  SB3 {algo}, {kind}, {threads} threads: {rates[workers, threads]:,.0f}/s")
    workers, threads = max(rates, key=lambda k: rates[k])
    return job("sb3", algo, quick, workers=workers, threads=threads)


def first_update(compile_on: bool) -> float:
    """Seconds from the command until `reprl train` has written its first update's metrics."""
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        command = [sys.executable, "-m", "reprl", "train", f"run_dir={run}", "total_steps=1024"]
        command += ["mode=fast" if compile_on else "mode=plain", "eval.every=0", "progress=off"]
        began = time.perf_counter()
        with subprocess.Popen([*command, "env.workers=2"], stdout=subprocess.DEVNULL) as process:
            while not (run / "metrics.csv").exists() and process.poll() is None:
                time.sleep(0.05)
            seconds = time.perf_counter() - began
        if process.returncode:
            raise SystemExit("`reprl train` failed: its message is above")
        return seconds


def compare(names: list[str], quick: bool, rounds: int) -> dict[str, tuple[float, str]]:
    """Ratio and details of each job in the table."""
    found: dict[str, tuple[float, str]] = {}
    contenders: dict[str, dict[str, Any]] = {}
    if {"ppo", "mask7", "mask21", "memory"} & set(names):
        contenders["sb3 ppo"] = best_sb3("ppo", quick)
    if {"ppo", "pair", "memory", "parts"} & set(names):
        contenders["ppo"] = job("ours", "ppo", quick)
    if "a2c" in names:
        contenders["sb3 a2c"] = best_sb3("a2c", quick)
        contenders["a2c"] = job("ours", "a2c", quick)
    for name in ("mask7", "mask21"):
        if name in names:
            contenders[name] = job("ours", "ppo", quick, extras=name)
    results: dict[str, list[dict[str, Any]]] = {name: [] for name in contenders}
    pair_rates, part_seconds = [], []
    single = job("ours", "ppo", quick, threads=1, workers=0)
    for round_ in range(rounds):
        for name, contender in contenders.items():
            results[name].append(measure(contender))
            r = results[name][-1]
            print(f"  round {round_ + 1}: {name}: {r['rate']:,.0f}/s, warm-up {r['warmup']:.0f} s")
        if "pair" in names:
            both = [begin(single), begin(single)]
            pair_rates.append(sum(finish(p)["rate"] for p in both))
        if "parts" in names:
            part_seconds.append(measure(contenders["ppo"] | {"parts": True}))
    rate = {name: middle([r["rate"] for r in rs]) for name, rs in results.items()}
    warm = {name: middle([r["warmup"] for r in rs]) for name, rs in results.items()}
    pairs = (("ppo", "sb3 ppo"), ("a2c", "sb3 a2c"), ("mask7", "sb3 ppo"), ("mask21", "sb3 ppo"))
    for name, other in pairs:
        if name in names:
            text = (
                f"{rate[name]:,.0f} against {rate[other]:,.0f} steps/s, warm-up {warm[name]:.0f} s"
            )
            found[name] = (rate[name] / rate[other], text)
    if "pair" in names:
        total = middle(pair_rates)
        found["pair"] = (total / rate["ppo"], f"{total:,.0f} against {rate['ppo']:,.0f} steps/s")
    if "parts" in names:
        alone = {k: middle([p[k] for p in part_seconds]) for k in ("env", "forward", "update")}
        whole = 1024 / rate["ppo"]
        text = ", ".join(f"{k} {v:.2f} s" for k, v in alone.items()) + f"; loop {whole:.2f} s"
        found["parts"] = (sum(alone.values()) / whole, text)
    if "memory" in names:
        ours, theirs = results["ppo"][0]["memory"], results["sb3 ppo"][0]["memory"]
        found["memory"] = (ours / theirs, f"{ours / 1e6:.1f} against {theirs / 1e6:.1f} MB")
    if "start" in names:
        plain = first_update(False)
        first_update(True)  # fills the compile cache
        cached = first_update(True)
        found["start"] = (plain, f"{plain:.1f} s off, {cached:.1f} s cached (at most 20, goal 12)")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one short round: under 3 minutes")
    parser.add_argument(
        "--only", default="", help=f"some of {','.join(TARGETS)}; with --publish rows"
    )
    parser.add_argument("--rounds", type=int, default=3, help="of all jobs in turn; quick has one")
    parser.add_argument("--publish", action="store_true", help="write docs/performance.md")
    parser.add_argument("--more", action="store_true", help="add rounds to those published")
    parser.add_argument("--render", action="store_true", help="the same from kept numbers")
    arguments = parser.parse_args()
    if arguments.publish or arguments.render or arguments.more:
        from benchmarks import published

        if arguments.render:
            published.render()
        else:
            only = [name for name in arguments.only.split(",") if name]
            rounds, more = arguments.rounds, arguments.more
            published.publish(rounds, quick=arguments.quick, only=only, more=more)
        return
    names = arguments.only.split(",") if arguments.only else list(TARGETS)
    if arguments.quick and not arguments.only:
        names = ["ppo", "a2c"]
    for name in names:
        if name not in TARGETS:
            parser.error(f"unknown job '{name}': choose from {', '.join(TARGETS)}")
    warning = load_warning()
    found = compare(names, arguments.quick, 1 if arguments.quick else arguments.rounds)
    rows = []
    for name in names:
        title, least, goal = TARGETS[name]
        value, text = found[name]
        rows.append([title, f"{value:.2f}", f"{least:g}", f"{goal:g}", text])
    print(f"\n{machine()} {warning}\n")
    print(table(["job", "measured", "target", "goal", "details"], rows))


if __name__ == "__main__":
    main()
