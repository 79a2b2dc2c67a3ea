"""Continues a snapshot from standard input in a process of its own and prints what it saw."""

import hashlib
import sys

import numpy as np

from reprl.envs import make_vec_env


def digest(env, steps: int) -> str:
    """A hash of everything the next seeded steps give."""
    rng = np.random.default_rng(1)
    out = hashlib.sha256(env.observations().tobytes())
    for _ in range(steps):
        observations, rewards, dones, infos = env.step(rng.integers(4, size=env.num_envs))
        lengths = [i["episode"]["l"] if "episode" in i else 0 for i in infos]
        out.update(observations.tobytes() + rewards.tobytes() + dones.tobytes())
        out.update(repr(lengths).encode())
    out.update(env.frames().tobytes() + repr([str(o.ball) for o in env.objects()]).encode())
    return out.hexdigest()


if __name__ == "__main__":
    variant, workers, steps = sys.argv[1:]
    names = variant.split(",")
    env = make_vec_env(names, n_envs=len(names), seed=99, workers=int(workers), sticky=0.25)
    env.restore(sys.stdin.buffer.read())
    print(digest(env, int(steps)))
    env.close()
