"""Settings to plain data and back, so that a checkpoint needs no pickle."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import nn

from reprl import trust
from reprl.components import described, imported
from reprl.envs.observation import FrameStack
from reprl.errors import UserError
from reprl.schedules import Schedule, schedule

# arguments that may be functions of the remaining progress; all others name classes at most
SCHEDULED = ("learning_rate", "clip_range", "clip_range_vf", "ent_coef", "vf_coef")


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
    path = f"{getattr(value, '__module__', None)}:{getattr(value, '__qualname__', '<')}"
    if _comes_back(name.rpartition(".")[2], path, value):
        return {"~import": path}
    raise UserError(
        f"{name}={value!r} cannot be saved in a checkpoint: give a number, a schedule such as "
        "{'kind': 'linear', 'start': 1e-3, 'end': 0.0}, or a function (elsewhere than in a "
        "schedule: a class of torch's kinds) that another process can import from a module."
    )


def _comes_back(name: str, path: str, value: Any) -> bool:
    """Whether another process would find this very object: not in the script, not bound to one."""
    if "<" in path or path.startswith(("None:", "__main__:")):
        return False
    try:
        return _imported(name, path) is value
    except UserError:
        return False


def decode(value: Any, name: str = "argument") -> Any:
    """Undo `encode`; a file cannot make this return what an argument of that name never is."""
    if isinstance(value, list):
        return [decode(v, name) for v in value]
    if not isinstance(value, dict):
        return value
    if "~schedule" in value:
        return schedule(value["~schedule"])
    if "~import" in value:
        return _imported(name, str(value["~import"]))
    return {k: decode(v, k) for k, v in value.items()}


def _imported(name: str, path: str) -> Any:
    try:
        found = imported(path)
    except UserError:
        raise
    except Exception as error:
        raise UserError(f"the saved {name} '{path}' is not found: {described(error)}") from error
    if name in SCHEDULED:
        # a function takes any number: it must be the user's, not one of ours or of Python's
        home = str(getattr(found, "__module__", ""))
        fits = inspect.isfunction(found) and trust.accepted(home) and not trust.is_ours(home)
        kind = "a function of a module of yours"
    else:
        kinds = (nn.Module, torch.optim.Optimizer)
        fits, kind = isinstance(found, type) and issubclass(found, kinds), "a module or optimizer"
    if not fits:
        raise UserError(f"the saved {name} '{path}' is not {kind}.")
    return found


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
            **({"channels": space.channels} if isinstance(space, FrameStack) else {}),
        }
    raise UserError(f"checkpoints know box and discrete spaces, not {space}.")


def decode_space(data: dict[str, Any]) -> spaces.Space:
    """Undo `encode_space`."""
    if data["kind"] == "discrete":
        return spaces.Discrete(data["n"], start=data["start"])
    if "channels" in data:
        return FrameStack(tuple(data["shape"]), int(data["channels"]))
    dtype, shape = np.dtype(data["dtype"]).type, tuple(data["shape"])
    bounds = [np.broadcast_to(np.array(data[k], dtype), shape).copy() for k in ("low", "high")]
    return spaces.Box(bounds[0], bounds[1], shape, dtype)
