"""Environment steps/s: ours, EnvPool and SB3's vector environments, measured alternately.

`python -m benchmarks.envs [--quick]`. EnvPool comes with `pip install reprl[bench]`.
"""

from __future__ import annotations

import argparse
import multiprocessing
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from benchmarks.common import alternate, load_warning, machine, middle, table

DRAWN = "green_lines"  # ours draws it; the others have no variants to draw


def rate(step: Callable[[np.ndarray], Any], n: int, actions: int, seconds: float) -> float:
    """Agent steps a second over a fixed time, after a short warm-up."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        step(rng.integers(actions, size=n))
    steps, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        step(rng.integers(actions, size=n))
        steps += n
    return steps / (time.perf_counter() - start)


def ours(n: int, workers: int, seconds: float, variant: str = "original") -> float:
    from reprl.envs import make_vec_env

    env = make_vec_env(variant, n, 0, workers)
    env.reset()
    try:
        return rate(env.step, n, 4, seconds)
    finally:
        env.close()


def together(n: int, processes: int, seconds: float, variants: Sequence[str]) -> float:
    """n environments dealt out to processes that do not wait for each other, as ranks play them."""
    context = multiprocessing.get_context("spawn")
    ready, found = context.Barrier(processes), context.Queue()
    shares = [(n + i) // processes for i in range(processes)]
    started = [
        context.Process(target=_share, args=(share, seconds, list(variants), ready, found))
        for share in shares
    ]
    for process in started:
        process.start()
    rates = [found.get(timeout=600) for _ in started]
    for process in started:
        process.join()
    return float(sum(rates))


def _share(n: int, seconds: float, variants: list[str], ready: Any, found: Any) -> None:
    from reprl.envs import make_vec_env

    env = make_vec_env(variants[: max(1, min(n, len(variants)))], n, 0, 0)
    env.reset()
    ready.wait()
    found.put(rate(env.step, n, 4, seconds))
    env.close()


def sb3(n: int, subprocesses: bool, seconds: float) -> float:
    import ale_py
    import gymnasium
    from stable_baselines3.common.env_util import make_atari_env
    from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecFrameStack

    gymnasium.register_envs(ale_py)
    kind = SubprocVecEnv if subprocesses else DummyVecEnv
    game = "ale_py:BreakoutNoFrameskip-v4"  # the prefix imports ale_py in every process
    env = VecFrameStack(make_atari_env(game, n, seed=0, vec_env_cls=kind), 4)
    env.reset()
    try:
        return rate(env.step, n, 4, seconds)
    finally:
        env.close()


def envpool(n: int, threads: int, seconds: float) -> float:
    import envpool as pool

    env = pool.make_gymnasium(
        "Breakout-v5",
        num_envs=n,
        num_threads=threads,
        episodic_life=True,
        reward_clip=True,
        use_fire_reset=True,
    )
    env.reset()
    return rate(lambda a: env.step(a.astype(np.int32)), n, 4, seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one round of 2 s each")
    quick = parser.parse_args().quick
    seconds, rounds = (2.0, 1) if quick else (5.0, 3)
    warning = load_warning()
    contenders: dict[str, Callable[[], float]] = {}
    for n in (8, 16, 32):
        for workers in (0, 1, 2):
            contenders[f"ours, workers {workers}|{n}"] = lambda n=n, w=workers: ours(n, w, seconds)
        contenders[f"ours, workers 2, {DRAWN}|{n}"] = lambda n=n: ours(n, 2, seconds, DRAWN)
        contenders[f"EnvPool, 2 threads|{n}"] = lambda n=n: envpool(n, 2, seconds)
        contenders[f"SB3 DummyVecEnv|{n}"] = lambda n=n: sb3(n, False, seconds)
        contenders[f"SB3 SubprocVecEnv|{n}"] = lambda n=n: sb3(n, True, seconds)
    try:
        import envpool as _  # noqa: F401
    except ImportError:
        print("EnvPool is not installed (pip install 'reprl[bench]'): left out.")
        contenders = {k: v for k, v in contenders.items() if not k.startswith("EnvPool")}
    found = {name: middle(values) for name, values in alternate(contenders, rounds).items()}
    kinds = list(dict.fromkeys(name.split("|")[0] for name in found))
    rows = [[kind] + [f"{found[f'{kind}|{n}']:,.0f}" for n in (8, 16, 32)] for kind in kinds]
    print(f"\n{machine()} {warning}\n")
    print(table(["agent steps/s", "8 envs", "16 envs", "32 envs"], rows))
    dummy = [found[f"ours, workers 0|{n}"] / found[f"SB3 DummyVecEnv|{n}"] for n in (8, 16, 32)]
    print("\nin-process against DummyVecEnv: " + ", ".join(f"{r:.2f}x" for r in dummy))
    if f"EnvPool, 2 threads|{8}" in found:
        pool = [
            found[f"ours, workers 2|{n}"] / found[f"EnvPool, 2 threads|{n}"] for n in (8, 16, 32)
        ]
        print("2 workers against EnvPool's 2 threads: " + ", ".join(f"{r:.2f}x" for r in pool))


if __name__ == "__main__":
    main()
