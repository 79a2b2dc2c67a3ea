"""Random numbers: every choice of reprl draws from a named stream, none from global state.

SB3 itself draws from the global generators of torch, numpy and Python; their states are saved and
set back here too, so that a continued run goes on with the same numbers.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:  # emulator workers start without torch
    import torch
    from torch import Tensor


def _key(names: tuple[str | int, ...]) -> list[int]:
    return [n if isinstance(n, int) else zlib.crc32(n.encode()) for n in names]


def numpy_stream(seed: int, *names: str | int) -> np.random.Generator:
    """A numpy generator that depends only on the seed and the stream's name."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=_key(names)))


def stream_seed(seed: int, *names: str | int) -> int:
    """A 63-bit seed for libraries that take an integer, derived like numpy_stream."""
    return int(numpy_stream(seed, *names).integers(2**63 - 1))


def torch_stream(seed: int, *names: str | int, device: str = "cpu") -> torch.Generator:
    """A torch generator that depends only on the seed and the stream's name."""
    import torch

    return torch.Generator(device=device).manual_seed(stream_seed(seed, *names))


class ModuleStream:
    """A stream for layers such as dropout, which know torch's global generator only."""

    def __init__(self, seed: int, *names: str | int) -> None:
        self.state: Tensor = torch_stream(seed, *names).get_state()

    @contextmanager
    def active(self) -> Iterator[None]:
        """Let this stream be torch's global generator inside the block."""
        import torch

        outside = torch.get_rng_state()
        torch.set_rng_state(self.state)
        try:
            yield
        finally:
            self.state = torch.get_rng_state()
            torch.set_rng_state(outside)


# -- the global generators that SB3 draws from --------------------------------------------------


def global_state(device: torch.device) -> dict[str, Tensor]:
    """The states of torch's, numpy's and Python's generators, and of the device's own."""
    import torch

    kind, keys, position, has_gauss, gauss = np.random.get_state(legacy=True)
    assert kind == "MT19937"
    version, words, spare = random.getstate()
    on_device = {}
    if device.type == "cuda":
        on_device["cuda"] = torch.cuda.get_rng_state(device)
    return on_device | {
        "torch": torch.get_rng_state(),
        "numpy": torch.tensor([*map(int, keys), position, has_gauss], dtype=torch.int64),
        "numpy_gauss": torch.tensor(gauss, dtype=torch.float64),
        "python": torch.tensor([version, *words], dtype=torch.int64),
        "python_gauss": torch.tensor(float("nan") if spare is None else spare).double(),
    }


def load_global_state(state: dict[str, np.ndarray], device: torch.device) -> None:
    """Set the generators back; a state of a device that is not used here is left alone."""
    import torch

    if device.type == "cuda" and "cuda" in state:
        torch.cuda.set_rng_state(torch.from_numpy(state["cuda"]).clone(), device)
    torch.set_rng_state(torch.from_numpy(state["torch"]).clone())
    *keys, position, has_gauss = state["numpy"].tolist()
    gauss = float(state["numpy_gauss"])
    np.random.set_state(("MT19937", np.array(keys, np.uint32), position, has_gauss, gauss))
    version, *words = state["python"].tolist()
    spare = float(state["python_gauss"])
    random.setstate((version, tuple(words), None if np.isnan(spare) else spare))


@contextmanager
def isolated() -> Iterator[None]:
    """Leave the process's generators as they were found, whatever is seeded inside."""
    import torch

    numpy_state, python_state = np.random.get_state(), random.getstate()
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        try:
            yield
        finally:
            np.random.set_state(numpy_state)
            random.setstate(python_state)
