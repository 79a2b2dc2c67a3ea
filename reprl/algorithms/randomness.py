"""The global random generators that SB3 draws from, as tensors in a capture and back."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor


def global_random(device: torch.device) -> dict[str, Tensor]:
    """The states of torch's, numpy's and Python's generators, and of the device's own."""
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


@contextmanager
def untouched() -> Iterator[None]:
    """Leave the process's generators as they were found, whatever is seeded inside."""
    numpy_state, python_state = np.random.get_state(), random.getstate()
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        try:
            yield
        finally:
            np.random.set_state(numpy_state)
            random.setstate(python_state)


def load_global_random(state: dict[str, np.ndarray], device: torch.device) -> None:
    """Set the generators back; a state of a device that is not used here is left alone."""
    if device.type == "cuda" and "cuda" in state:
        torch.cuda.set_rng_state(torch.from_numpy(state["cuda"]).clone(), device)
    torch.set_rng_state(torch.from_numpy(state["torch"]).clone())
    *keys, position, has_gauss = state["numpy"].tolist()
    gauss = float(state["numpy_gauss"])
    np.random.set_state(("MT19937", np.array(keys, np.uint32), position, has_gauss, gauss))
    version, *words = state["python"].tolist()
    spare = float(state["python_gauss"])
    random.setstate((version, tuple(words), None if np.isnan(spare) else spare))
