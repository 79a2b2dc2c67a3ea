"""Whose code a run computes with: a hash of every module of the user's, and the state of its git.

Configuration -> modules behind its `_target_` and `module:object` names -> **hashes**, which are
in run.json, in a job's identity, and compared by `verify`, `evaluate` and `resume`. Nothing is
imported here: sources are found, read and parsed only.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from reprl import guard, trust
from reprl.errors import UserError

GIT_PATIENCE = 5.0  # seconds
LARGEST = 16 << 20  # bytes of a source


def hashes_of(config: Mapping[str, Any]) -> dict[str, str]:
    """Module -> hash of its source and of what it imports from its own folder; ours are not named.

    A module that is not found has no hash: building the run says so.
    """
    found = {module: _hash(module) for module in sorted(set(_modules(config)))}
    return {module: digest for module, digest in found.items() if digest is not None}


def changed(record: Mapping[str, Any]) -> dict[str, tuple[str, str | None]]:
    """Modules whose source is another than run.json says: both hashes, None if not found here."""
    code = record.get("code")
    began = code.get("modules") if isinstance(code, Mapping) else None
    if not isinstance(began, Mapping):
        return {}
    now = {str(module): (str(digest), _hash(str(module))) for module, digest in began.items()}
    return {module: both for module, both in now.items() if both[0] != both[1]}


def warnings_of(record: Mapping[str, Any], name: str) -> list[str]:
    """A sentence for each module that was edited after a run began."""
    return [
        f"{module} was edited after {name} began (its hash is {now}, run.json says {began})."
        for module, (began, now) in changed(record).items()
        if now is not None
    ]


def record_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """What run.json holds of the code: hashes, and the git commit around them, if there is one."""
    modules = hashes_of(config)
    files = [file for module in modules if (file := _source(module)) is not None]
    return {"modules": modules, "git": git_of(files[0].parent if files else Path.cwd())}


def git_of(folder: Path) -> dict[str, Any] | None:
    """The commit a folder is at, and whether tracked files differ from it; None without git.

    A repository may name programs that git starts to compare files (filters): whoever sent the
    folder wrote that, so where it names any, nothing is compared and `dirty` is unknown.
    """
    head = _git(folder, "rev-parse", "HEAD")
    if head is None:
        return None
    settings = _git(folder, "config", "--list", "--name-only", "--show-scope")
    status = None
    if settings is not None and not _names_programs(settings):
        asked = ("--porcelain", "--untracked-files=no", "--ignore-submodules=all")
        status = _git(folder, "status", *asked)
    return {"commit": head, "dirty": None if status is None else bool(status)}


def _names_programs(settings: str) -> bool:
    """Whether a repository's own settings, not the user's, have git start other programs."""
    pairs = (line.split(None, 1) for line in settings.splitlines())
    own = [pair[1] for pair in pairs if len(pair) == 2 and pair[0] in ("local", "worktree")]
    return any(name.lower().startswith("filter.") for name in own)


def _git(folder: Path, *words: str) -> str | None:
    off = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null")
    command = ["git", "--no-optional-locks", *off, "-C", str(folder), *words]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=GIT_PATIENCE, check=False
        )
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _modules(config: Mapping[str, Any]) -> Iterator[str]:
    """The modules that a configuration names and that are not ours."""
    named = [str(path) for path in _targets(config)]
    env, validation = config.get("env") or {}, config.get("eval") or {}
    for value in (env.get("game"), env.get("variant"), validation.get("variants")):
        texts = value if isinstance(value, list) else [value]
        words = [w.strip() for t in texts if isinstance(t, str) for w in t.split("+")]
        named += [word for word in words if ":" in word]
    for path in named:
        module = path.partition(":")[0] if ":" in path else path.rpartition(".")[0]
        if all(part.isidentifier() for part in module.split(".")) and not trust.is_ours(module):
            yield module


def _targets(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping):
        if value.get("_target_"):
            yield value["_target_"]
        for part in value.values():
            yield from _targets(part)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _targets(part)


def _hash(module: str) -> str | None:
    """One hash over a module and all modules of its folder that it imports, itself or by them."""
    if not all(part.isidentifier() for part in module.split(".")):
        return None  # run.json says so, and a path would lead anywhere
    if (first := _source(module)) is None:
        return None
    home = _home(module)
    seen: dict[Path, bytes] = {}
    todo = [first]
    while todo:
        file = todo.pop()
        if file in seen:
            continue
        try:
            seen[file] = guard.read_bytes(file, LARGEST)
        except (OSError, UserError):
            return None
        for name in _imports(file, seen[file], home):
            near = _below(home, name)
            todo += [near] if near is not None else []
    digest = hashlib.sha256()
    for file in sorted(seen):
        digest.update(f"{file.relative_to(home)} {len(seen[file])} ".encode() + seen[file])
    return digest.hexdigest()[:12]


def _source(module: str) -> Path | None:
    home = _home(module)
    return None if home is None else _below(home, module)


def _home(module: str) -> Any:
    """The folder on the search path from which a module would be imported."""
    try:
        spec = importlib.util.find_spec(module.partition(".")[0])  # without dots: runs nothing
    except (ImportError, ValueError):
        return None
    if spec is None or not spec.has_location or not spec.origin:
        return None
    file = Path(spec.origin).resolve()
    return file.parent.parent if spec.submodule_search_locations else file.parent


def _below(home: Path, module: str) -> Path | None:
    """The source of a module in a folder, None where there is none."""
    path = home.joinpath(*module.split("."))
    for file in (path / "__init__.py", path.with_name(f"{path.name}.py")):
        if file.is_file():
            return file
    return None


def _imports(file: Path, source: bytes, home: Path) -> Iterator[str]:
    """The modules a source names in its imports, relative ones from the folder it lies in."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # the parser's stack is small
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            around = file.parent
            for _ in range(node.level - 1):
                around = around.parent
            inside = around.is_relative_to(home)
            start = list(around.relative_to(home).parts) if node.level and inside else []
            base = ".".join([*start, *([node.module] if node.module else [])])
            if base:
                yield base
            yield from (f"{base}.{a.name}".lstrip(".") for a in node.names if a.name != "*")
