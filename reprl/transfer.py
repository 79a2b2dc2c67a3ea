"""How arrays reach the device that computes: as bytes, and to a GPU without waiting for them.

rollout and recorded data (numpy) -> **device** -> forward pass and update.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor


def on_device(array: np.ndarray, device: torch.device) -> Tensor:
    """The array as a tensor of the device; on the CPU it stays where it is, without a copy.

    To a GPU it travels from page-locked memory while the program goes on; torch keeps that memory
    until the copy is done.
    """
    host = torch.from_numpy(array)
    if device.type != "cuda":
        return host.to(device)
    return host.pin_memory().to(device, non_blocking=True)
