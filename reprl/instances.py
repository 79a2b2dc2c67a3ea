"""Objects where a spec is taken: `augmentation=Cutout(sides=(9, 9))`, or a module of kornia's.

object -> the arguments that its attributes say -> **spec**, accepted only if building it again
gives an equal object: a checkpoint, which holds the spec, then brings back the very same part.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from reprl.rng import isolated
from reprl.schema import GIVEN

PLAIN = (type(None), bool, int, float, complex, str, bytes, type, torch.dtype, torch.device, Enum)


def arguments_of(part: nn.Module) -> dict[str, Any] | None:
    """What builds an equal object, as JSON can hold it; None where that cannot be found out.

    What has weights of its own is not made again by its arguments.
    """
    if "_parameters" not in vars(part) or any(True for _ in part.parameters()):
        return None
    signature = inspect.signature(type(part))
    given: dict[str, Any] = {}
    for name, parameter in signature.parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        found = [plain(value) for value in _said(part, name)]
        found = [value for value in found if _is_json(value)]
        if found and not _is_default(found[0], parameter.default):
            given[name] = found[0]
        elif parameter.default is parameter.empty:
            return None
    try:
        with isolated():
            again = type(part)(**given)
    except Exception:  # whatever a constructor says to arguments that are none
        return None
    return given if equal(part, again) else None


def _is_default(value: Any, default: Any) -> bool:
    """Whether leaving an argument out says the same; kornia spells its enumerations in capitals."""
    default = plain(default)
    words = isinstance(value, str) and isinstance(default, str)
    return value.lower() == default.lower() if words else equal(value, default)


def _said(part: nn.Module, name: str) -> Iterator[Any]:
    """What an object remembers under the name of an argument; kornia keeps some in other places."""
    if GIVEN in vars(part):
        yield from ([vars(part)[GIVEN][name]] if name in vars(part)[GIVEN] else [])
        return
    holders: list[Mapping[str, Any]] = [vars(part)]
    flags, generator = (vars(part).get(place) for place in ("flags", "_param_generator"))
    holders += [flags] if isinstance(flags, Mapping) else []
    inner = part._modules.get("_param_generator") if generator is None else generator
    holders += [vars(inner)] if hasattr(inner, "__dict__") else []
    for holder in holders:
        for key in (name, f"_{name}"):
            if key in holder:
                yield holder[key]


def plain(value: Any) -> Any:
    """A value as JSON could hold it, where there is a way."""
    if isinstance(value, Enum):
        return value.name.lower()
    if isinstance(value, Tensor | np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Mapping):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    return value


def _is_json(value: Any) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return False
    return True


def equal(a: Any, b: Any, seen: set[tuple[int, int]] | None = None) -> bool:
    """Whether two objects are of the same kind and hold the same, all the way down."""
    seen = set() if seen is None else seen
    if a is b or (id(a), id(b)) in seen:
        return True
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):  # JSON has only one of them
        return len(a) == len(b) and all(map(lambda x, y: equal(x, y, seen), a, b))
    if type(a) is not type(b):
        return False
    seen.add((id(a), id(b)))
    if isinstance(a, PLAIN):
        return bool(a == b)
    if isinstance(a, Tensor):
        return a.dtype == b.dtype and torch.equal(a, b)
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and np.array_equal(a, b)
    if isinstance(a, Mapping):
        keys = [key for key in a if key != GIVEN]
        same = keys == [key for key in b if key != GIVEN]
        return same and all(equal(a[key], b[key], seen) for key in keys)
    if inspect.isroutine(a):
        return getattr(a, "__code__", a) is getattr(b, "__code__", b)
    if hasattr(a, "__dict__"):
        return equal(vars(a), vars(b), seen)
    return bool(a == b)
