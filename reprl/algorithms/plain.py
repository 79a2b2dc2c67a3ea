"""Settings to plain data and back, so that a checkpoint needs no pickle."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from gymnasium import spaces

from reprl.errors import UserError
from reprl.schedules import Schedule, schedule


def encode(name: str, value: Any) -> Any:
    """Turn an argument into something JSON can hold, or refuse it by name."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.integer | np.floating | np.bool_):
        return value.item()
    if isinstance(value, Schedule):
        return {"~schedule": value.plain()}
    if isinstance(value, torch.device):
        return str(value)
    if isinstance(value, Mapping):
        return {str(k): encode(f"{name}.{k}", v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [encode(f"{name}[{i}]", v) for i, v in enumerate(value)]
    module, path = getattr(value, "__module__", None), getattr(value, "__qualname__", "<")
    if module and "<" not in path:
        return {"~import": f"{module}:{path}"}
    raise UserError(
        f"{name}={value!r} cannot be saved in a checkpoint: give a number, a schedule such as "
        "{'kind': 'linear', 'start': 1e-3, 'end': 0.0}, or something that can be imported by name."
    )


def decode(value: Any) -> Any:
    """Undo `encode`."""
    if isinstance(value, list):
        return [decode(v) for v in value]
    if not isinstance(value, dict):
        return value
    if "~schedule" in value:
        return schedule(value["~schedule"])
    if "~import" in value:
        module, _, path = value["~import"].partition(":")
        found: Any = importlib.import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
        return found
    return {k: decode(v) for k, v in value.items()}


def encode_space(space: spaces.Space) -> dict[str, Any]:
    """A space as data; boxes keep one bound for all cells where they have one."""
    if isinstance(space, spaces.Discrete):
        return {"kind": "discrete", "n": int(space.n), "start": int(space.start)}
    if isinstance(space, spaces.Box):
        low, high = np.unique(space.low), np.unique(space.high)
        return {
            "kind": "box",
            "low": low.tolist()[0] if low.size == 1 else space.low.tolist(),
            "high": high.tolist()[0] if high.size == 1 else space.high.tolist(),
            "shape": list(space.shape),
            "dtype": str(space.dtype),
        }
    raise UserError(f"checkpoints know box and discrete spaces, not {space}.")


def decode_space(data: dict[str, Any]) -> spaces.Space:
    """Undo `encode_space`."""
    if data["kind"] == "discrete":
        return spaces.Discrete(data["n"], start=data["start"])
    dtype, shape = np.dtype(data["dtype"]).type, tuple(data["shape"])
    bounds = [np.broadcast_to(np.array(data[k], dtype), shape).copy() for k in ("low", "high")]
    return spaces.Box(bounds[0], bounds[1], shape, dtype)
