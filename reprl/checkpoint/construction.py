"""How a model was made, for its checkpoint: the path of its class and what that was called with.

A user's class derived from A2C or PPO is found again by its module, and called with its own
arguments as well as ours.
"""

from __future__ import annotations

import inspect
import traceback
import warnings
from typing import TYPE_CHECKING, Any

from reprl import components
from reprl.checkpoint.serialization import encode
from reprl.errors import UserError

if TYPE_CHECKING:
    from reprl.algorithms.base import Algorithm

NAMED = {"A2C": "reprl.algorithms.A2C", "PPO": "reprl.algorithms.PPO"}  # up to version 0.2.0


def class_path(cls: type[Algorithm]) -> str:
    """Where another process finds a class; ours under the names that are documented."""
    if (path := NAMED.get(cls.__name__)) and components.class_of("algo", path) is cls:
        return path
    if cls.__module__ == "__main__" or "<" in cls.__qualname__:
        warnings.warn(
            f"{cls.__qualname__} is defined in a script or a function, where no other process "
            "finds it: put it into a module to load or evaluate its checkpoints elsewhere.",
            stacklevel=2,
        )
    return f"{cls.__module__}:{cls.__qualname__}"


def class_at(path: str) -> type[Algorithm]:
    """The algorithm that a checkpoint names; whatever else can be imported is refused."""
    path = NAMED.get(path, path)
    if "." not in path and ":" not in path:
        raise UserError(
            f"this checkpoint names its algorithm '{path}' without a module, as reprl 0.2.0 did: "
            f"only {' and '.join(NAMED)} can be built from that."
        )
    found: type[Algorithm] = components.class_of("algo", path)
    return found


def called_with(
    cls: type[Algorithm], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> dict[str, Any]:
    """The arguments of a constructor by name, defaults included, without the environment."""
    signature = inspect.signature(cls.__init__)
    bound = signature.bind(None, *args, **kwargs)
    bound.apply_defaults()
    given: dict[str, Any] = {}
    for position, (name, parameter) in enumerate(signature.parameters.items()):
        value = bound.arguments[name]
        if parameter.kind is parameter.VAR_POSITIONAL:
            # handed on as they are: to SB3's names in their order, without those already taken
            stock = inspect.signature(cls.stock.__init__).parameters
            names = [n for n in list(stock)[1:] if n not in given]
            given |= dict(zip(names, value, strict=False))
        elif parameter.kind is parameter.VAR_KEYWORD:
            given |= value
        elif position > 0:
            given[name] = value
    return {k: v for k, v in given.items() if k not in ("env", "_init_setup_model")}


def plain_call(model: Algorithm) -> dict[str, Any] | None:
    """What a class with a constructor of its own was called with, as JSON can hold it."""
    if model.called_with is None:
        return None
    plain: dict[str, Any] = encode(type(model).__name__, model.called_with)
    return plain


def call(cls: type[Algorithm], given: dict[str, Any], env: Any, meta: dict[str, Any]) -> Any:
    """Call a class's own constructor again; without env it takes the spaces from meta."""
    model = cls.__new__(cls, env=env, **given)
    model.restored_from = meta
    try:
        model.__init__(env=env, **given)  # type: ignore[misc]
    except TypeError as error:
        # arguments that do not fit are refused where a constructor is called, not deeper inside
        if traceback.extract_tb(error.__traceback__)[-1].name not in ("call", "__init__"):
            raise
        raise UserError(
            f"{class_path(cls)} cannot be called again with its saved arguments "
            f"{', '.join(given)}: {error}."
        ) from error
    return model
