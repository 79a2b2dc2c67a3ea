"""Who may have code run: the user, by naming a module; never a folder that was sent to them.

A name in a configuration, a checkpoint or an environment snapshot -> **trust** -> import. Names
that the user writes are imported as they are. Inside `reading` the names come from a folder, and
only our own packages and modules the user named pass: in a folder given with `--config-dir` or
PYTHONPATH, with `trust=`, or imported by the user's own script. Inside `closed` only ours pass.
A file that is unpickled runs whatever it holds, so it takes `trust=true`.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from reprl.errors import UserError

OURS = ("reprl", "torch.nn", "torch.optim", "stable_baselines3", "kornia")
# what a process tells the workers and jobs it starts
MODULES, FOLDERS = "REPRL_TRUST", "REPRL_TRUST_FOLDERS"
PICKLES, NOTHING = "true", "false"  # words of trust= that name no module


@dataclass
class _Named:
    """What the user has named in this process, or in the one that started it."""

    modules: set[str] = field(default_factory=set)  # with everything below them
    exact: set[str] = field(default_factory=set)  # named in full, by a part's path
    folders: list[Path] = field(default_factory=list)
    pickles: bool = False  # files that run code when they are loaded


@dataclass(frozen=True)
class _Scope:
    folder: Path | None = None  # whose names are being read
    closed: bool = False


_scope: ContextVar[_Scope | None] = ContextVar("reprl_trust", default=None)


def _from_environment() -> _Named:
    # a worker's PYTHONPATH is its parent's whole search path, so that the parent says what counts
    text = os.environ.get(FOLDERS, os.environ.get("PYTHONPATH", ""))
    words = {word for word in os.environ.get(MODULES, "").split(",") if word}
    return _Named(
        modules=words - {PICKLES},
        folders=[Path(p).resolve() for p in text.split(os.pathsep) if p],
        pickles=PICKLES in words,
    )


_named = _from_environment()


def begin(*, process: bool = False) -> None:
    """Start a command, which knows only what its environment names.

    A `process` of our own does not search the working folder either, unless PYTHONPATH names it:
    a random.py there must not stand in for Python's.
    """
    global _named
    _named = _from_environment()
    if process:
        here = Path.cwd()
        wanted = [p for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p]
        if not any(Path(p).resolve() == here for p in wanted):
            sys.path[:] = [p for p in sys.path if p and Path(p) != here]


def allow(modules: Iterable[str] = (), folders: Iterable[Path | str] = ()) -> None:
    """Take modules, and all modules in folders, for the user's own."""
    for name in modules:
        if name in (PICKLES, NOTHING):
            _named.pickles |= name == PICKLES
            continue
        if not all(part.isidentifier() for part in name.split(".")):
            raise UserError(f"trust={name} must be the name of a module, such as trust=my_losses.")
        _named.modules.add(name)
    known = {*_named.folders}
    _named.folders += [f for f in (Path(g).resolve() for g in folders) if f not in known]


def folders() -> list[str]:
    """The folders in which the user's own modules may lie."""
    return [str(folder) for folder in _named.folders]


def environment() -> dict[str, str]:
    """What a process that we start must be told, to know what the user named."""
    return {
        MODULES: ",".join(
            [*sorted(_named.modules | _named.exact), *([PICKLES] if _named.pickles else [])]
        ),
        FOLDERS: os.pathsep.join(folders()),
    }


@contextmanager
def reading(folder: Path | str | None = None) -> Iterator[None]:
    """Within this, names come from a folder (or from data whose folder is not known)."""
    outer = _scope.get()
    place = outer.folder if folder is None and outer else folder
    token = _scope.set(_Scope(None if place is None else Path(place), bool(outer and outer.closed)))
    try:
        yield
    finally:
        _scope.reset(token)


@contextmanager
def closed() -> Iterator[None]:
    """Within this, no code of anybody but ours is imported, whatever the user has named."""
    token = _scope.set(_Scope(closed=True))
    try:
        yield
    finally:
        _scope.reset(token)


def looks_only() -> bool:
    """Whether we are within `closed`."""
    scope = _scope.get()
    return scope is not None and scope.closed


def is_ours(module: str) -> bool:
    """Whether a module belongs to the packages that every command may import."""
    return _within(module, OURS)


def names_user_code(spec: Any) -> bool:
    """Whether a variant's name or mapping names a module that is not ours."""
    if isinstance(spec, Mapping):
        return not is_ours(str(spec.get("_target_")).partition(":")[0])
    words = str(spec).split("+")
    return any(":" in word and not is_ours(word.partition(":")[0].strip()) for word in words)


def require(module: str, path: str | None = None) -> None:
    """Refuse, before it is imported, a module that a folder names and the user does not."""
    scope = _scope.get()
    if scope is None:
        _named.exact.add(module)  # the user's own word, also for what is read later
        return
    if not accepted(module):
        raise UserError(_refusal(module, path or module, scope))


def require_named(module: str, path: str) -> None:
    """Refuse what a folder names and the user does not, also of packages that we import anyway.

    A callback acts: Stable-Baselines3's own write files wherever they are told.
    """
    scope = _scope.get()
    named = _within(module, _named.modules) or module in _named.exact
    if scope is not None and (scope.closed or (is_ours(module) and not named)):
        raise UserError(_refusal(module, path, scope))


def require_pickles(path: Path | str) -> None:
    """Refuse a file whose loading runs code, unless the user has said trust=true."""
    if not _named.pickles or looks_only():
        raise UserError(
            f"{path} is a model of Stable-Baselines3, and loading it runs code that is in it: add "
            "trust=true if you trust whoever made it."
        )


def accepted(module: str) -> bool:
    """Whether a module that a folder names may be imported."""
    scope = _scope.get() or _Scope()
    if not all(part.isidentifier() and not part.startswith("__") for part in module.split(".")):
        return False
    if is_ours(module):
        return True
    if scope.closed:
        return False
    if _within(module, _named.modules) or module in _named.exact:
        return True
    return _is_of_the_script(module) or _lies_in_a_named_folder(module, scope.folder)


def _within(module: str, packages: Iterable[str]) -> bool:
    return any(module == name or module.startswith(f"{name}.") for name in packages)


def _is_of_the_script(module: str) -> bool:
    """Whether the user's own code has already imported it; what is installed does not count."""
    there = sys.modules.get(module)
    file = getattr(there, "__file__", None)
    if not isinstance(there, ModuleType) or not file:
        return False
    return not any(Path(file).resolve().is_relative_to(place) for place in _installed())


def _installed() -> list[Path]:
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    return [Path(sysconfig.get_path(name)).resolve() for name in names]


def _lies_in_a_named_folder(module: str, reading_from: Path | None) -> bool:
    """Whether the import would take it from a folder of the user's.

    Only whole packages count: a folder without __init__.py may be anything, such as runs/.
    """
    top = module.partition(".")[0]
    try:
        spec = importlib.util.find_spec(top)  # of a name without dots: runs nothing
    except (ImportError, ValueError):
        return False
    if spec is None or not spec.origin or not spec.has_location:
        return False
    file = Path(spec.origin).resolve()
    package = file.parent if spec.submodule_search_locations else file
    if package.parent not in _named.folders:
        return False
    if reading_from is None:
        return True
    theirs = reading_from.resolve()
    return not (file.is_relative_to(theirs) or theirs.is_relative_to(package))


def _refusal(module: str, path: str, scope: _Scope) -> str:
    if scope.closed:
        return f"'{path}' is not part of reprl, and this command imports nothing else."
    where = "a checkpoint or snapshot" if scope.folder is None else str(scope.folder)
    top = module.partition(".")[0]
    used = _recorded(scope.folder)
    from_where = f" (the run looked for its own modules in {', '.join(used)})" if used else ""
    return (
        f"'{path}' is named by {where}{from_where} and not by you, so it is not imported: if you "
        f"trust it, give --config-dir with the folder of {top}.py, or trust={top} where it is "
        "installed."
    )


def _recorded(folder: Path | None) -> list[str]:
    """Where a run says it found its modules: shown, never searched."""
    from reprl import guard

    if folder is None:
        return []
    try:
        found = json.loads(guard.read_text(folder / "run.json")).get("python_path")
    except (UserError, OSError, ValueError, AttributeError, RecursionError):
        return []
    words = [p for p in found if isinstance(p, str)] if isinstance(found, list) else []
    return ["".join(c if c.isprintable() else "?" for c in word)[:200] for word in words[:3]]
