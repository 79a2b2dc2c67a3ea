"""What a run will need of this machine, said before any of it is taken: memory, and time to start.

A checked configuration -> **resources** -> a run that begins, or one sentence that says why not.
"""

from __future__ import annotations

import resource
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from reprl import guard
from reprl.envs.defaults import GYMNASIUM
from reprl.errors import UserError

if TYPE_CHECKING:
    from reprl.config.schema import Config

EMULATOR = 1 << 20  # bytes that one environment takes, besides its pictures
STARTING = 0.15  # seconds until one environment stands at the beginning of its game
WORTH_A_WORD = 10.0  # seconds of silence that nobody wonders about
FLOAT = 4  # bytes


def require_memory(configs: Iterable[Config]) -> None:
    """Refuse a run whose rollout and minibatches cannot fit into this machine's memory."""
    available = memory()
    for config in configs:
        needed, why = estimate(config)
        if needed > available:
            raise UserError(
                f"{why} needs {needed / 2**30:,.0f} GB of memory, and this machine has "
                f"{available / 2**30:,.0f}: make it smaller."
            )


def estimate(config: Config) -> tuple[int, str]:
    """Bytes that a run needs at least, and the settings that most of them are for."""
    env, algo = config.env, config.algo
    picture = _picture(env)
    kept = config.rollout if config.mode == "fast" else config.rollout * env.stack
    batch = algo.get("batch_size") if "batch_size" in algo else config.rollout
    batch = batch if isinstance(batch, int) else config.rollout
    rollout = f"algo.n_steps={algo.get('n_steps')} x env.n_envs={env.n_envs}"
    parts = {
        f"{rollout} (a rollout's pictures)": kept * picture,
        f"env.n_envs={env.n_envs} (emulators)": env.n_envs * EMULATOR,
        # as floats for the network, and once more for the gradient
        f"algo.batch_size={batch}" if "batch_size" in algo else f"{rollout} (one minibatch)": (
            2 * batch * env.stack * picture * FLOAT
        ),
    }
    if isinstance(algo.get("frames"), int):
        parts[f"algo.frames={algo['frames']} (a recording)"] = algo["frames"] * picture
    phases = algo.get("n_policy_phases")
    if isinstance(phases, int) and algo.get("auxiliary_epochs"):
        parts[f"algo.n_policy_phases={phases} x {rollout}"] = phases * config.rollout * picture
    buffer = algo.get("buffer_size")
    if isinstance(buffer, int):
        # ours keep each frame once, RLlib's whole stacks
        frames = env.stack if str(algo.get("_target_")).endswith(".APEX") else 1
        parts[f"algo.buffer_size={buffer}"] = buffer * frames * picture
    return sum(parts.values()), max(parts, key=lambda name: parts[name])


def _picture(env: Any) -> int:
    """Bytes of one frame, or of what an environment of gymnasium shows."""
    if not env.game.startswith(GYMNASIUM):
        return int(env.size * env.size * _channels(env))
    from reprl.envs.gymnasium_ids import spaces_of

    shown = spaces_of(env.game)[0]
    return int(np.prod(shown.shape or (1,))) * np.dtype(shown.dtype).itemsize


def _channels(env: Any) -> int:
    """Of one frame."""
    if env.observation == "planes":
        from reprl.envs.games import game

        return len(game(env.game).classes)
    return 1 if env.gray else 3


def memory() -> int:
    """Bytes of memory that a process may take here: the machine's, or less in a container."""
    limits = [guard.memory()]
    for file in ("memory.max", "memory/memory.limit_in_bytes"):
        with suppress(OSError, ValueError):  # "max", or no control groups
            limits.append(int((Path("/sys/fs/cgroup") / file).read_text()))
    return min(limits)


def peak_memory() -> float:
    """The most bytes of memory that this process has held at once."""
    kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return float(kilobytes * (1 if sys.platform == "darwin" else 1024))


def say_start(config: Config) -> None:
    """Say how long the emulators will take, where that is long enough to wonder."""
    seconds = config.env.n_envs * STARTING / max(1, config.env.workers)
    if seconds >= WORTH_A_WORD:
        print(
            f"starting {config.env.n_envs:,} emulators takes about {seconds:,.0f} s ...",
            file=sys.stderr,
            flush=True,
        )
