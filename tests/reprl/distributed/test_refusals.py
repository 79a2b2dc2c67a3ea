"""What the ranks of a run refuse, and how the machine's cores are dealt out."""

from __future__ import annotations

import socket
from typing import Any

import numpy as np
import pytest

from reprl.config import placement
from reprl.config.schema import Config, load
from reprl.distributed.environment import own_device, place
from reprl.distributed.ranks import Ranks, join, require_free
from tests.helpers import refuses


def on(cores: int, monkeypatch: pytest.MonkeyPatch, *overrides: str) -> Config:
    """A configuration as it is settled on a machine of so many cores."""
    for module in ("reprl.config.placement", "reprl.config.checks"):
        monkeypatch.setattr(f"{module}.machine_cores", lambda: cores)
    return load(["device=cpu", *overrides])


@pytest.mark.parametrize(
    ("cores", "overrides", "ranks", "threads", "workers"),
    [
        (4, ["ranks=auto"], 4, 1, 0),
        (6, ["ranks=auto"], 4, 1, 0),  # of 8 environments and batches of 256
        (4, ["ranks=auto", "algo.batch_size=130"], 2, 1, 0),
        (4, ["ranks=auto", "env.n_envs=9", "algo.batch_size=96"], 3, 1, 0),
        (1, ["ranks=auto", "env.workers=auto"], 1, 1, 0),
        (4, ["ranks=auto", "env.workers=auto", "algo=reinforce"], 1, 4, 4),
        (4, ["ranks=auto", "algo=imitation", "env.n_envs=8"], 4, 1, 0),
        (4, ["env.workers=auto"], 1, 4, 4),
        (4, [], 1, 4, 0),  # what it was before there were ranks
        (4, ["ranks=2", "threads=2"], 2, 2, 0),
    ],
)
def test_one_rule_deals_out_the_cores(
    cores: int,
    overrides: list[str],
    ranks: int,
    threads: int,
    workers: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = on(cores, monkeypatch, *overrides)
    assert (config.ranks, config.threads, config.env.workers) == (ranks, threads, workers)
    assert f"{ranks} rank" in placement.described(config)


def test_one_rank_is_not_written_down(monkeypatch: pytest.MonkeyPatch) -> None:
    """Configurations, and their hashes, of runs without ranks stay what they were."""
    assert "ranks" not in on(2, monkeypatch).plain()
    assert on(2, monkeypatch, "ranks=2").plain()["ranks"] == 2


def test_workers_of_ranks_need_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    with refuses("ranks=2", "env.workers=2", "2 cores"):
        on(2, monkeypatch, "ranks=2", "env.workers=2")
    assert on(4, monkeypatch, "ranks=2", "env.workers=2").env.workers == 2


def test_ranks_that_torchrun_started_must_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_PORT": "29500"}
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    assert on(4, monkeypatch).ranks == 2
    with refuses("ranks=4", "WORLD_SIZE=2"):
        on(4, monkeypatch, "ranks=4")
    with refuses("RANK=2", "WORLD_SIZE"):
        place(given | {"RANK": "2"})
    with refuses("WORLD_SIZE=two"):
        place(given | {"WORLD_SIZE": "two"})
    with refuses("MASTER_PORT"):
        place({"RANK": "0", "WORLD_SIZE": "2"})


def test_every_rank_has_a_gpu_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("reprl.config.placement", "reprl.config.checks"):
        monkeypatch.setattr(f"{module}.gpu_count", lambda: 2)
    assert on(8, monkeypatch, "ranks=auto", "device=cuda").ranks == 2
    assert on(8, monkeypatch, "ranks=auto", "device=cuda:1").ranks == 1
    with refuses("ranks=4", "2 CUDA", "device=cuda"):
        on(8, monkeypatch, "ranks=4", "device=cuda")
    with refuses("ranks=2", "device=cuda:1"):
        on(8, monkeypatch, "ranks=2", "device=cuda:1")
    assert own_device("cuda") == "cuda"
    given = {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "MASTER_PORT": "29500"}
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    assert own_device("cuda") == "cuda:1"
    assert own_device("cpu") == "cpu"
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")  # the other two are on another machine
    assert on(8, monkeypatch, "device=cuda").ranks == 4


def test_ranks_need_a_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    with refuses("ranks=2", "reprl train"):
        join(on(2, monkeypatch, "ranks=2"))


def test_a_port_in_use_is_refused() -> None:
    with socket.create_server(("", 0)) as taken:
        port = taken.getsockname()[1]
        with refuses(f"MASTER_PORT={port}"):
            require_free(port)
    require_free(port)


class Others:
    """An exchange in which rank 1 always says the same."""

    def __init__(self, said: float) -> None:
        self.said = said

    def gather(self, values: np.ndarray, **_: Any) -> np.ndarray:
        return np.stack([values, np.full_like(values, self.said)])


def test_ranks_with_another_configuration_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    config = on(2, monkeypatch, "ranks=2")
    ranks = object.__new__(Ranks)
    ranks.exchange = Others(float(int(config.hash, 16)))  # type: ignore[assignment]
    ranks.require_same(config)
    ranks.exchange = Others(float(int(on(2, monkeypatch, "ranks=2", "seed=1").hash, 16)))  # type: ignore[assignment]
    with refuses("rank 1", "configuration"):
        ranks.require_same(config)
