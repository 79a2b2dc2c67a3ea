"""One measured training job in a process of its own; `benchmarks.train` starts it.

Takes one JSON argument and prints one JSON line, so that SB3 and reprl run with their own
environment variables and thread counts and never share a process.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

PPO = {"n_steps": 128, "n_epochs": 4, "batch_size": 256, "ent_coef": 0.01, "vf_coef": 0.5}
A2C = {"n_steps": 5, "ent_coef": 0.01, "vf_coef": 0.25}
ENVS = {"ppo": 8, "a2c": 16}
DECODER = {
    "_target_": "reprl.auxiliary.Representation",
    "repr_coef": 0.05,
    "contra_coef": 0.01,
    "encoder_coef": 1e-4,
    "decoder_coef": 0.1,
    "contrastive": {"_target_": "reprl.auxiliary.Contrastive", "anchor": "batch"},
    "sparsity": {"_target_": "reprl.auxiliary.Sparsity"},
    "decoder": {"_target_": "reprl.auxiliary.Decoder", "target": "features", "view": "image"},
}
EXTRAS: dict[str, dict[str, Any]] = {
    "plain": {},
    "mask7": {"attention": "conv", "auxiliary": DECODER},
    "mask21": {"attention": "conv_21", "auxiliary": DECODER},
}


def make_sb3(job: dict[str, Any]) -> Any:
    """Stock SB3 on its own Atari environments, as its documentation shows it."""
    import ale_py
    import gymnasium
    import stable_baselines3
    from stable_baselines3.common.env_util import make_atari_env
    from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecFrameStack

    gymnasium.register_envs(ale_py)
    kind = SubprocVecEnv if job["workers"] else DummyVecEnv
    game = "ale_py:BreakoutNoFrameskip-v4"
    env = VecFrameStack(make_atari_env(game, ENVS[job["algo"]], seed=0, vec_env_cls=kind), 4)
    algorithm, arguments = getattr(stable_baselines3, job["algo"].upper()), settings(job["algo"])
    return algorithm("CnnPolicy", env, seed=0, device="cpu", **arguments)


def make_ours(job: dict[str, Any]) -> Any:
    from reprl import algorithms
    from reprl.envs import make_vec_env

    env = make_vec_env("original", ENVS[job["algo"]], 0, job["workers"])
    extras = dict(EXTRAS[job["extras"]])
    if extras:
        extras["augmentation"] = {"_target_": "reprl.augmentation.Shift", "use": "views"}
    algorithm, arguments = getattr(algorithms, job["algo"].upper()), settings(job["algo"])
    return algorithm(
        "CnnPolicy", env, seed=0, device="cpu", mode=job["mode"], **arguments, **extras
    )


def settings(algo: str) -> dict[str, Any]:
    """The zoo's hyperparameters with constant schedules: the speed is the same."""
    if algo == "ppo":
        return {**PPO, "learning_rate": 2.5e-4, "clip_range": 0.1}
    from stable_baselines3.common.sb2_compat.rmsprop_tf_like import RMSpropTFLike

    return {
        **A2C,
        "policy_kwargs": {"optimizer_class": RMSpropTFLike, "optimizer_kwargs": {"eps": 1e-5}},
    }


def loop(model: Any, warmup: int, updates: int) -> dict[str, Any]:
    """Steps/s of `learn` after the warm-up updates (which include any compilation)."""
    from stable_baselines3.common.callbacks import BaseCallback

    class Clock(BaseCallback):
        def __init__(self) -> None:
            super().__init__()
            self.ticks: list[float] = []

        def _on_rollout_start(self) -> None:
            self.ticks.append(time.perf_counter())

        def _on_step(self) -> bool:
            return True

    clock = Clock()
    steps = model.n_steps * model.n_envs
    began = time.perf_counter()
    model.learn(steps * (warmup + updates + 1), callback=clock)
    ticks = clock.ticks
    seconds = ticks[warmup + updates] - ticks[warmup]
    return {"rate": steps * updates / seconds, "warmup": ticks[warmup] - began}


def parts(model: Any, rounds: int) -> dict[str, float]:
    """Seconds an iteration would take if its parts ran alone: environment, forward, update."""
    import numpy as np
    import torch

    model.learn(model.n_steps * model.n_envs * 3)
    env, n = model.env, model.n_envs
    rng = np.random.default_rng(0)
    found = {}
    began = time.perf_counter()
    for _ in range(rounds * model.n_steps):
        env.step(rng.integers(4, size=n))
    found["env"] = (time.perf_counter() - began) / rounds
    observations = torch.as_tensor(env.observations())
    began = time.perf_counter()
    for _ in range(rounds * model.n_steps):
        model.network.act(observations)
    found["forward"] = (time.perf_counter() - began) / rounds
    began = time.perf_counter()
    for _ in range(rounds):
        model.train()
    found["update"] = (time.perf_counter() - began) / rounds
    return found


def main() -> None:
    job = json.loads(sys.argv[1])
    import torch

    torch.set_num_threads(job["threads"])
    model = make_sb3(job) if job["side"] == "sb3" else make_ours(job)
    if job.get("parts"):
        result: dict[str, Any] = parts(model, 4)
    else:
        result = loop(model, job["warmup"], job["updates"])
    buffer = model.rollout_buffer
    held = [v for v in vars(buffer).values() if hasattr(v, "nbytes")]
    result["memory"] = sum(int(v.nbytes) for v in held)
    model.env.close()
    print(json.dumps(result))


if __name__ == "__main__":
    main()
