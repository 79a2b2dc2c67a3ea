"""What a machine gives a training run, measured in about a minute: `reprl doctor`.

Emulators, the update of NatureCNN with one thread and with all, and both in one process a core at
once, because what cores give alone they need not give together. `findings` says what is slow here
and why; each measurement runs in processes of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from reprl.config.placement import machine_cores
from reprl.envs.processes import search_path

ENVS, BATCH = 8, 128
SAMPLES = 4.0  # an update sees each step of a rollout so often: PPO's epochs
BUSY = 0.5  # load average, by core, before the start
LOST = 0.8  # of what cores give alone, when all work at once


@dataclass(frozen=True)
class Rates:
    """Rates of this machine, a second."""

    cores: int
    load: float
    games_one: float  # agent steps of one process
    games_all: float  # of one process a core, together
    update_one: float  # samples of one process, one thread
    update_threads: float  # of one process with a thread a core
    update_all: float  # of one process of one thread a core, together
    bf16: bool  # whether the processor computes in bf16

    def one_rank(self) -> float:
        """Agent steps a second of a PPO loop in one process with all threads."""
        return 1.0 / (1.0 / self.games_one + SAMPLES / self.update_threads)

    def all_ranks(self) -> float:
        """The same of one rank a core."""
        return 1.0 / (1.0 / self.games_all + SAMPLES / self.update_all)


def findings(m: Rates) -> list[str]:
    """What to set on this machine, and what is slow and why; one sentence each."""
    gain = m.all_ranks() / m.one_rank()
    found = []
    if m.cores == 1:
        found.append("One core: ranks, threads and env.workers gain nothing here.")
    elif gain > 1.05:
        found.append(
            f"Set ranks={m.cores} (or auto): {m.cores} processes of one thread should train "
            f"{gain:.2f} times as fast as one process with {m.cores} threads."
        )
    else:
        found.append(
            f"Keep ranks=1: {m.cores} processes together give only {gain:.2f} of one with threads."
        )
    if m.load > BUSY * m.cores:
        found.append(
            f"The machine is busy (load {m.load:.1f} on {m.cores} cores): these numbers are too "
            "low, and a run now would be slow."
        )
    for what, alone, together in (
        ("Emulators", m.games_one, m.games_all),
        ("Updates", m.update_one, m.update_all),
    ):
        share = together / (m.cores * alone)
        if m.cores > 1 and share < LOST:
            found.append(
                f"{what} in all cores at once reach {share:.0%} of what one core alone promises: "
                "cores share their caches and memory, are two threads of one core, or belong to "
                "others as well."
            )
    threads = m.update_threads / m.update_one
    if m.cores > 1 and threads < 0.75 * m.cores:
        found.append(
            f"{m.cores} torch threads update {threads:.2f} times as fast as one: they wait for "
            "each other at every layer, which ranks do once a minibatch."
        )
    update = SAMPLES / m.update_all
    share = update / (update + 1.0 / m.games_all)
    slow = "the network's update" if share > 0.5 else "the emulators"
    found.append(f"A PPO step here spends {max(share, 1 - share):.0%} of its time in {slow}.")
    if not m.bf16:
        found.append("This processor has no bf16 arithmetic: float32 is the fastest it can do.")
    return found


def has_bf16(cpuinfo: Path = Path("/proc/cpuinfo")) -> bool:
    """Whether the processor has AVX512-BF16 or AMX; False where it does not say."""
    try:
        text = cpuinfo.read_text()
    except OSError:
        return False
    flags = next((line for line in text.splitlines() if line.startswith("flags")), "")
    return bool({"avx512_bf16", "amx_bf16"} & set(flags.split()))


def measure(seconds: float, say: Callable[[str], None] = print) -> Rates:
    """Measure this machine; every part takes `seconds` and the start of its processes."""
    cores, load = machine_cores(), os.getloadavg()[0]
    rates = {}
    for name, (what, processes, threads) in {
        "games_one": ("games", 1, 1),
        "games_all": ("games", cores, 1),
        "update_one": ("update", 1, 1),
        "update_threads": ("update", 1, cores),
        "update_all": ("update", cores, 1),
    }.items():
        rates[name] = sum(_together(what, processes, threads, seconds))
        unit = "agent steps/s" if what == "games" else "samples/s"
        say(
            f"{what:7s} {processes} process{'es' if processes > 1 else '':2s} of {threads} "
            f"thread{'s' if threads > 1 else ' '}  {rates[name]:10,.0f} {unit}"
        )
    return Rates(cores=cores, load=load, bf16=has_bf16(), **rates)


def _together(what: str, processes: int, threads: int, seconds: float) -> list[float]:
    """Rates of processes that work at the same time: they begin when all of them are ready."""
    environment: Mapping[str, str] = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(search_path()),
        "OMP_NUM_THREADS": str(threads),
    }
    command = [sys.executable, "-P", "-m", "reprl.doctor", what, str(threads), str(seconds)]
    started = [
        subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(processes)
    ]
    try:
        for process in started:
            assert process.stdout is not None
            if process.stdout.readline() != "ready\n":
                raise RuntimeError(f"a measuring process of {what} failed; its message is above")
        for process in started:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        return [float(process.communicate()[0]) for process in started]
    finally:
        for process in started:
            process.kill()
            process.wait()


def _games() -> tuple[Callable[[], None], int]:
    import numpy as np

    from reprl.envs import make_vec_env

    env = make_vec_env(n_envs=ENVS)
    env.reset()
    rng = np.random.default_rng(0)

    def step() -> None:
        env.step(rng.integers(len(env.action_meanings), size=ENVS))

    return step, ENVS


def _update(threads: int) -> tuple[Callable[[], None], int]:
    import numpy as np
    import torch
    from gymnasium import spaces
    from stable_baselines3.common.torch_layers import NatureCNN

    torch.set_num_threads(threads)
    space = spaces.Box(0, 255, (4, 84, 84), np.uint8)
    network = NatureCNN(space, 512).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    images = torch.rand(BATCH, 4, 84, 84).contiguous(memory_format=torch.channels_last)
    optimizer = torch.optim.Adam(network.parameters(), fused=True)

    def step() -> None:
        optimizer.zero_grad()
        network(images).square().mean().backward()
        optimizer.step()

    return step, BATCH


def _main(what: str, threads: int, seconds: float) -> None:
    step, size = _games() if what == "games" else _update(threads)
    step()
    step()
    print("ready", flush=True)
    sys.stdin.readline()
    began, steps = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        step()
        steps += 1
    print(steps * size / (time.perf_counter() - began))


if __name__ == "__main__":
    _main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
