"""Objects where a spec is taken: `augmentation=Cutout(sides=(9, 9))`, or a module of kornia's.

object -> the arguments it was made with, or that its attributes say -> **spec**, accepted only if
building it again gives an equal object: a checkpoint, which holds the spec, then brings back the
very same part. Encoders and masks have weights, which an agent draws from its seed: such an object
is equal while it is as it was made, and refused once its weights were trained or loaded.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from reprl.rng import isolated
from reprl.schema import GIVEN

PLAIN = (type(None), bool, int, float, complex, str, bytes, type, torch.dtype, torch.device, Enum)


@dataclass(frozen=True)
class Made:
    """How a part was made: its arguments, and the generator from which its weights were drawn."""

    arguments: dict[str, Any]
    drawn: Tensor


class RemembersArguments:
    """A part that keeps how it was made: its attributes may not say it."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        part = super().__new__(cls)
        signature = inspect.signature(cls.__init__)
        with suppress(TypeError):  # which __init__ says
            bound = signature.bind(part, *args, **kwargs).arguments
            given = {k: v for k, v in bound.items() if v is not part}
            for name in [k for k in given if signature.parameters[k].kind is _OTHERS]:
                given |= given.pop(name)
            part.__dict__[GIVEN] = Made(given, torch.get_rng_state())
        return part


_OTHERS = inspect.Parameter.VAR_KEYWORD


def arguments_of(part: nn.Module, supplied: Sequence[str] = ()) -> dict[str, Any] | None:
    """What builds an equal object, as JSON can hold it; None where that cannot be found out.

    Arguments do not make weights again, so what has some is refused; but for parts to which an
    agent gives the `supplied` arguments, such as a mask's size, and whose weights it draws itself.
    """
    if "_parameters" not in vars(part):
        return None
    if not supplied and any(True for _ in part.parameters()):
        return None
    made: Made | None = vars(part).get(GIVEN)
    given = _by_attributes(part) if made is None else _by_memory(part, made, supplied)
    if given is None:
        return None
    known = {} if made is None else {k: v for k, v in made.arguments.items() if k in supplied}
    again = _again(part, {**known, **given})
    return given if again is not None and equal(part, again) else None


def has_new_weights(part: nn.Module) -> bool:
    """Whether an object that keeps its arguments was trained, or loaded, since it was made."""
    made: Made | None = vars(part).get(GIVEN)
    again = None if made is None else _again(part, made.arguments)
    if again is None:
        return False
    pairs = zip(part.parameters(), again.parameters(), strict=False)
    return not all(equal(ours, first) for ours, first in pairs)


def _again(part: nn.Module, arguments: Mapping[str, Any]) -> nn.Module | None:
    made: Made | None = vars(part).get(GIVEN)
    try:
        with isolated():
            if made is not None:
                torch.set_rng_state(made.drawn)
            return type(part)(**arguments)
    except Exception:  # whatever a constructor says to arguments that are none
        return None


def _by_memory(part: nn.Module, made: Made, supplied: Sequence[str]) -> dict[str, Any] | None:
    """The arguments that an object remembers; None where JSON cannot hold one."""
    known = inspect.signature(type(part)).parameters
    given = {}
    for name, value in made.arguments.items():
        if name in supplied or (name in known and _is_default(plain(value), known[name].default)):
            continue
        if not _is_json(plain(value)):
            return None
        given[name] = plain(value)
    return given


def _by_attributes(part: nn.Module) -> dict[str, Any] | None:
    """The arguments that an object's attributes say; None where a needed one is nowhere."""
    given: dict[str, Any] = {}
    for name, parameter in inspect.signature(type(part)).parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        found = [plain(value) for value in _said(part, name)]
        found = [value for value in found if _is_json(value)]
        if found and not _is_default(found[0], parameter.default):
            given[name] = found[0]
        elif parameter.default is parameter.empty:
            return None
    return given


def _is_default(value: Any, default: Any) -> bool:
    """Whether leaving an argument out says the same; kornia spells its enumerations in capitals."""
    default = plain(default)
    words = isinstance(value, str) and isinstance(default, str)
    return value.lower() == default.lower() if words else equal(value, default)


def _said(part: nn.Module, name: str) -> Iterator[Any]:
    """What an object remembers under the name of an argument; kornia keeps some in other places."""
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
        same = a.dtype == b.dtype and a.requires_grad == b.requires_grad
        return same and torch.equal(a, b)
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
