"""The user's own code: imported by its path, and what it raises as one sentence with the line.

Whatever builds parts from a configuration runs inside `blamed`; an exception that never passed
through the user's files keeps its traceback, because then it is ours.
"""

from __future__ import annotations

import importlib
import sys
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from reprl import trust
from reprl.errors import UserError


def imported(path: str) -> Any:
    """The object at "module:object" or, as Hydra writes it, "module.object".

    Whose module may be imported is decided in `reprl.trust`; the caller checks what the object is.
    """
    module, _, attribute = path.partition(":") if ":" in path else path.rpartition(".")
    trust.require(module, path)
    try:
        found: Any = importlib.import_module(module)
    except ModuleNotFoundError as error:
        top = module.partition(".")[0]
        if error.name == top and (
            Path(f"{top}.py").is_file() or Path(top, "__init__.py").is_file()
        ):
            hint = f"{error}; {top} in the current folder is found with --config-dir=. only"
            raise ModuleNotFoundError(hint, name=error.name) from None
        raise
    for name in attribute.split("."):
        found = getattr(found, name)
    return found


@contextmanager
def blamed(folders: Iterable[str]) -> Iterator[None]:
    """Turn what the user's modules in `folders` raise into a UserError."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        line = own_line(error, folders)
        if line is None:
            raise
        raise UserError(f"{line} raised {described(error)}") from error


def described(error: BaseException) -> str:
    """An exception in one line, with the name of its kind."""
    first = (str(error).strip() or "without a word").splitlines()[0].rstrip(".:")
    return f"{type(error).__name__}: {first}."


def own_line(error: BaseException, folders: Iterable[str]) -> str | None:
    """The innermost line of the user's code that an exception passed, as `f() in mine.py:12`."""
    places = [Path(f).resolve() for f in folders]
    loaded = list(sys.modules.items())
    ours = {getattr(m, "__file__", None) for name, m in loaded if name.split(".")[0] == "reprl"}
    installed = Path(sys.prefix).resolve()
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        file = Path(frame.filename).resolve()
        if frame.filename in ours or file.is_relative_to(installed):
            continue
        if any(file.is_relative_to(place) for place in places):
            return f"{frame.name}() in {file.name}:{frame.lineno}"
    return None
