"""What a folder from elsewhere may hold: plain files of a bounded size, and no link that leads out.

A run or sweep folder -> **guard** -> whatever reads or writes in it. `inspect` looks at a folder
before anything in it is opened; files are then read, and locks taken, through the functions here.
"""

from __future__ import annotations

import os
import stat
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import yaml

from reprl.errors import UserError

# what reprl reads or writes by name in the folder of a run or of a sweep
FOLDERS = (
    "attention",
    "baselines",
    "checkpoints",
    "evaluation",
    "logs",
    "recording",
    "replay",
    "tensorboard",
    "wandb",
)
FILES = (
    *("claims.yaml", "looks.json"),  # beside runs
    *("config.yaml", "run.json", "metrics.csv", "ledger.json", "manifest.json", "state.json"),
    "recording.json",
)
KINDS = (".safetensors", ".draft", ".frames")
NOT_OURS = ("wandb",)  # its own files are never opened here

LARGEST = {  # bytes of a file, by its ending
    ".yaml": 1 << 20,
    ".json": 64 << 20,
    ".csv": 256 << 20,
    ".png": 64 << 20,
    ".svg": 16 << 20,
}
MOST_PIXELS = 60_000_000  # of a picture, whatever its file weighs
MOST_ENTRIES = 100_000
MOST_NODES = 100_000  # of a YAML file, counted as if every alias were written out


def inspect(folder: Path, *, without: tuple[str, ...] = (), only: tuple[str, ...] = ()) -> None:
    """Refuse a folder in which a name of ours is a link that leads out, a pipe or a device.

    `only` looks at these names alone: the folder is not a run's.
    """
    try:
        inside = folder.resolve()
        with os.scandir(folder) as entries:
            ours = [e for e in entries if (e.name in only if only else _is_ours(e.name))]
        count = 0
        for entry in ours:
            if entry.name in without:
                continue
            for path in _below(Path(entry.path)):
                _check(path, folder, inside)
                count += 1
                if count > MOST_ENTRIES:
                    raise UserError(f"{folder} holds more than {MOST_ENTRIES:,} files.")
    except OSError as error:
        raise UserError(f"{folder} cannot be read: {error.strerror}.") from None


def _is_ours(name: str) -> bool:
    return name in FOLDERS or name in FILES or name.startswith(".") or name.endswith(KINDS)


def _below(path: Path) -> Iterator[Path]:
    """A path and, where it is a folder and no link, everything in it."""
    yield path
    if path.name in NOT_OURS or path.is_symlink() or not path.is_dir():
        return
    with os.scandir(path) as entries:
        children = [Path(entry.path) for entry in entries]
    for child in children:
        yield from _below(child)


def _check(path: Path, folder: Path, inside: Path) -> None:
    name = path.relative_to(folder)
    if path.is_symlink():
        try:
            target = path.resolve()
        except (OSError, RuntimeError):
            raise UserError(f"{folder}: {name} is a link that leads nowhere.") from None
        if not target.is_relative_to(inside):
            raise UserError(
                f"{folder}: {name} is a link out of the folder, and reprl follows none: put the "
                "file itself there, or move the whole folder and link that."
            )
        if not path.exists():
            return  # an old link to a file that was removed inside the folder
    status = path.stat()
    if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
        raise UserError(f"{folder}: {name} is neither a file nor a folder.")


def read_bytes(path: Path, largest: int | None = None) -> bytes:
    """A plain file as a whole; a pipe, a device or one beyond its size is a UserError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise UserError(f"{path} is not a plain file.")
        allowed = largest or LARGEST.get(path.suffix) or memory()
        require_size(path, status.st_size, allowed)
        return file.read(status.st_size)


def read_text(path: Path) -> str:
    """A plain text file of a bounded size."""
    return read_bytes(path).decode("utf-8")


def require_size(what: Path | str, size: int, allowed: int) -> None:
    if size > allowed:
        raise UserError(f"{what} has {size:,} bytes, more than the {allowed:,} it may have.")


def memory() -> int:
    """Bytes of memory of this machine: nothing larger can be read into it."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def inflate(data: bytes, size: int, what: str) -> bytes:
    """Decompress what must give exactly `size` bytes, and never make more than these."""
    try:
        machine = zlib.decompressobj()
        found = machine.decompress(data, size + 1)
    except zlib.error as error:
        raise UserError(f"{what} is damaged: {error}.") from None
    if len(found) != size:
        raise UserError(f"{what} does not hold the {size:,} bytes it should.")
    return found


def load_yaml(text: str) -> Any:
    """Safe YAML whose aliases, written out, stay small; YAMLError where it is none."""
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        if node is not None and _nodes(node, {}, set()) > MOST_NODES:
            raise yaml.YAMLError("too many values")
        return yaml.safe_load(text)
    except RecursionError:
        raise yaml.YAMLError("too deeply nested") from None


def _nodes(node: yaml.Node, known: dict[int, int], open_: set[int]) -> int:
    """How many values a node stands for, each alias counted as what it repeats."""
    if id(node) in open_:
        raise yaml.YAMLError("a value that contains itself")
    if id(node) not in known:
        open_.add(id(node))
        children: list[yaml.Node] = []
        if isinstance(node, yaml.MappingNode):
            children = [part for pair in node.value for part in pair]
        elif isinstance(node, yaml.SequenceNode):
            children = list(node.value)
        known[id(node)] = 1 + sum(_nodes(child, known, open_) for child in children)
        open_.discard(id(node))
    return known[id(node)]


def lock_file(path: Path) -> IO[str]:
    """A file to hold a lock on: made if it is missing, never emptied, never behind a link."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    descriptor = os.open(path, flags, 0o644)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise UserError(f"{path} is not a plain file.")
    return open(descriptor, "r+")


def plain_name(name: Any) -> bool:
    """Whether text from a file can be the name of a folder beside it, and no way out of it."""
    if not isinstance(name, str) or not name or name in (".", "..") or name.startswith("~"):
        return False
    return "/" not in name and "\\" not in name and "\0" not in name
