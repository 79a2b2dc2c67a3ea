"""The one rule that lays a run out on a machine: how many ranks, torch threads and env workers.

Small networks gain little from a second thread and lose at every layer's barrier, so cores are
given to ranks first: processes that wait for each other once a minibatch. What a run cannot share
(an algorithm of one process, environments or minibatches that do not divide) gets threads and env
workers instead.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from reprl.errors import UserError

if TYPE_CHECKING:
    from reprl.config.schema import Config

AUTO = "auto"
LEFT_OPEN = ("ranks", "env.workers")  # numbers in the YAML that may say auto
SHARED = ("A2C", "PPO", "Imitation")  # of reprl's algorithms, those that train over several ranks


def machine_cores() -> int:
    """The cores this process may use."""
    return len(os.sched_getaffinity(0))


def gpu_count() -> int:
    """The CUDA devices that torch finds."""
    import torch

    return torch.cuda.device_count() if torch.cuda.is_available() else 0


def shares_minibatches(algo: Mapping[str, Any]) -> bool:
    """Whether an algorithm trains on shares; one of the user's own says so when it is built."""
    words = re.split(r"[.:]", str(algo.get("_target_")))
    return words[0] != "reprl" or words[-1] in SHARED


@dataclass(frozen=True)
class Chosen:
    """Which of ranks, threads and workers are left to the machine."""

    ranks: bool
    threads: bool
    workers: bool

    @classmethod
    def of(cls, values: dict[str, Any]) -> Chosen:
        """Note what says auto, and put a number in its place for the checks of types."""
        env = values.get("env")
        workers = isinstance(env, Mapping) and env.get("workers") == AUTO
        chosen = cls(values.get("ranks") == AUTO, values.get("threads") == AUTO, workers)
        if chosen.ranks:
            values["ranks"] = 1
        if chosen.threads:
            values["threads"] = 1
        if workers:
            values["env"] = {**values["env"], "workers": 0}
        return chosen

    def settled(self, config: Config, cores: int | None = None) -> Config:
        """The configuration with numbers for what was left open."""
        cores = machine_cores() if cores is None else cores
        ranks = best_ranks(config, cores) if self.ranks else config.ranks
        config = replace(config, ranks=ranks)
        if self.threads:
            config = replace(config, threads=cores if ranks == 1 else 1)
        if self.workers:
            alone = ranks == 1 and cores > 1
            workers = min(cores, config.env.n_envs) if alone else 0
            config = replace(config, env=replace(config.env, workers=workers))
        return config


def best_ranks(config: Config, cores: int) -> int:
    """As many ranks as cores (or GPUs), or as the environments and minibatches divide into."""
    if not shares_minibatches(config.algo):
        return 1
    if config.device.startswith("cuda"):
        cores = gpu_count() if config.device == "cuda" else 1
    batch = config.algo.get("batch_size") or config.rollout
    for ranks in range(min(cores, config.env.n_envs), 1, -1):
        if config.env.n_envs % ranks == 0 and batch % ranks == 0:
            return ranks
    return 1


def described(config: Config) -> str:
    """One line: how the run lies on this machine."""
    cores, env, ranks = machine_cores(), config.env, config.ranks
    of_cores = f"{cores} core{'s' if cores > 1 else ''}"
    threads = f"{config.threads} torch thread{'s' if config.threads > 1 else ''}"
    share = env.n_envs // ranks
    games = f"{share} environment{'s' if share > 1 else ''}"
    where = (
        f"{env.workers} worker process{'es' if env.workers > 1 else ''}"
        if env.workers
        else "the same process"
    )
    if ranks == 1:
        return f"on {of_cores}: 1 rank, {threads}, {games} in {where}"
    return f"on {of_cores}: {ranks} ranks, each {threads} and {games} in {where}"


def ranks_under_torchrun(asked: Any, size: int) -> int:
    """What torchrun has started; a number of the user's own must be the same."""
    if asked not in (AUTO, 1, size):
        raise UserError(
            f"ranks={asked}, but torchrun has started WORLD_SIZE={size}: leave ranks out, or make "
            "them agree."
        )
    return size
