"""Training beside one other busy process: reprl against stock SB3, in turn.

`python -m benchmarks.beside [--quick]`. The neighbour counts as fast as one core lets it. SB3 runs
in its best set-up beside that neighbour; reprl with a rank a core, and with one rank.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from benchmarks.common import alternate, machine, middle, table
from benchmarks.published import QUICK, Bench, Size
from reprl.config.placement import machine_cores


@contextmanager
def neighbour() -> Iterator[None]:
    """Another program that wants a whole core."""
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as process:
        try:
            yield
        finally:
            process.kill()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one short round, SB3 not screened")
    quick, n = parser.parse_args().quick, machine_cores()
    load = os.getloadavg()[0]
    bench = Bench(n, QUICK if quick else Size())
    with neighbour():
        stock = "stock SB3, its best set-up"
        contenders: dict[str, Callable[[], float]] = {
            stock: bench.sb3("ppo"),
            f"reprl, {n} ranks": lambda: bench.ours("ppo", n, []),
            "reprl, 1 rank": lambda: bench.ours("ppo", 1, []),
        }
        found = {k: middle(v) for k, v in alternate(contenders, 1 if quick else 3).items()}
    rows = [[name, f"{rate:,.0f}", f"{rate / found[stock]:.2f}"] for name, rate in found.items()]
    print(f"\n{machine()} Load average before the neighbour began: {load:.2f}.\n")
    print(table(["PPO beside one busy process", "steps/s", "times"], rows))


if __name__ == "__main__":
    main()
