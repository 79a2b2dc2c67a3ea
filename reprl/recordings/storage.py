"""A recording's folder: `recording.json` and chunks of steps, each frame once; no pickle.

player -> **chunks** (safetensors, compressed) -> the arrays that pretraining draws stacks from. The
folder appears under its name when every byte of it is on the disk; each chunk has its size and
hash in recording.json, and is never unpacked beyond that size.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
import zlib
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors import numpy as packed

from reprl import guard, trust
from reprl.disk import write_atomically
from reprl.errors import UserError

FORMAT = 1
RECORD = "recording.json"
PLAYERS = ("random", "scripted")  # beside them: the folder of a trained agent
CHUNK = 512  # steps of each environment in one file
MOST_FRAMES = 2_000_000  # of one recording
# name -> (dtype, dimensions): T steps, n environments, E ended episodes
ARRAYS: dict[str, tuple[str, int]] = {
    "frames": ("uint8", 4),  # (T, n, size, size): the newest frame of each step's observation
    "actions": ("int64", 2),  # (T, n), taken after that frame
    "rewards": ("float32", 2),  # (T, n), as training would see them
    "starts": ("uint8", 2),  # (T, n), 1: the first step of an episode
    "ends": ("uint8", 2),  # (T, n), 1: the action ended the episode, 2: a time limit cut it
    "finals": ("uint8", 3),  # (E, size, size): last frames of episodes, in the order of `ends`
}


@dataclass(frozen=True)
class Facts:
    """What was recorded, as recording.json says it."""

    game: str
    variants: list[str]  # one for all environments, or one for each in turn
    size: int
    background: float | str | None
    sticky: float
    seed: int
    player: str
    n_envs: int
    action_meanings: list[str]


@dataclass(frozen=True)
class ChunkFile:
    """One file of a recording."""

    file: str
    steps: int
    bytes: int  # on the disk
    inflated: int  # unpacked
    sha256: str


def is_recording(folder: Path) -> bool:
    """Whether a folder holds a recording, whole or damaged."""
    with suppress(OSError):
        return (folder / RECORD).is_file()
    return False


class Writer:
    """Writes a new recording; use it as a context: only a block that ends well leaves a folder."""

    def __init__(self, folder: Path, facts: Facts) -> None:
        self.final, self.facts = folder, facts
        self.draft = folder.parent / f".{folder.name[:40]}.{secrets.token_hex(4)}.draft"
        self.chunks: list[ChunkFile] = []
        self._rows: dict[str, list[np.ndarray]] = {name: [] for name in ARRAYS}

    def __enter__(self) -> Writer:
        self.final.parent.mkdir(parents=True, exist_ok=True)
        self.draft.mkdir()
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        try:
            if kind is None:
                self._flush()
                self._finish()
        finally:
            shutil.rmtree(self.draft, ignore_errors=True)

    @property
    def frames(self) -> int:
        return (sum(c.steps for c in self.chunks) + len(self._rows["actions"])) * self.facts.n_envs

    def add(
        self,
        *,
        frames: np.ndarray,
        actions: np.ndarray,
        rewards: np.ndarray,
        starts: np.ndarray,
        ends: np.ndarray,
        finals: list[np.ndarray],
    ) -> None:
        """One step of all environments, and the last frames of those that ended with it."""
        step = {"frames": frames, "actions": actions, "rewards": rewards}
        step |= {"starts": starts, "ends": ends}
        for name, rows in step.items():
            self._rows[name].append(np.array(rows, ARRAYS[name][0]))
        self._rows["finals"] += [np.array(frame, np.uint8) for frame in finals]
        if len(self._rows["actions"]) == CHUNK:
            self._flush()

    def _flush(self) -> None:
        if not (steps := len(self._rows["actions"])):
            return
        size = self.facts.size
        finals = self._rows.pop("finals")
        arrays = {name: np.stack(rows) for name, rows in self._rows.items()}
        arrays["finals"] = np.stack(finals) if finals else np.zeros((0, size, size), np.uint8)
        inflated = packed.save(arrays)
        data = zlib.compress(inflated, 1)
        name = f"{len(self.chunks):06d}.frames"
        with open(self.draft / name, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        digest = hashlib.sha256(data).hexdigest()
        self.chunks.append(ChunkFile(name, steps, len(data), len(inflated), digest))
        self._rows = {name: [] for name in ARRAYS}

    def _finish(self) -> None:
        if not self.chunks:
            raise UserError("a recording needs at least one step.")
        record = {"format": FORMAT, "facts": asdict(self.facts), "frames": self.frames}
        record["chunks"] = [asdict(chunk) for chunk in self.chunks]
        write_atomically(self.draft / RECORD, json.dumps(record, indent=1, sort_keys=True) + "\n")
        if self.final.is_dir():
            self.final.rmdir()  # empty, or the rename is refused
        os.rename(self.draft, self.final)


@dataclass
class RecordedPlay:
    """A recording on disk, its facts read; `arrays` unpacks it into memory."""

    path: Path
    facts: Facts
    frames: int
    chunks: list[ChunkFile] = field(repr=False)

    @property
    def identity(self) -> str:
        """The same for the same bytes, wherever they lie."""
        return hashlib.sha256("".join(c.sha256 for c in self.chunks).encode()).hexdigest()[:16]

    @classmethod
    def open(cls, folder: Path) -> RecordedPlay:
        """Read recording.json; whatever else the folder holds is a UserError."""
        if not is_recording(folder):
            hint = ""
            if (folder / "run.json").is_file():
                hint = f" (a run's agent records with `reprl record player={folder} out=DIR`)"
            raise UserError(f"{folder} is no recording: it has no {RECORD}{hint}.")
        guard.inspect(folder)
        try:
            record = json.loads(guard.read_text(folder / RECORD))
            if record["format"] != FORMAT:
                raise UserError(
                    f"{folder} has format {record['format']}, written by another version of reprl."
                )
            facts = Facts(**record["facts"])
            chunks = [ChunkFile(**chunk) for chunk in record["chunks"]]
            found = cls(folder, facts, int(record["frames"]), chunks)
            found._require_sound()
        except UserError:  # which is a ValueError
            raise
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise UserError(f"{folder / RECORD} is damaged: {type(error).__name__}.") from None
        return found

    def _require_sound(self) -> None:
        facts = self.facts
        numbers = [facts.size, facts.n_envs, facts.seed, self.frames]
        numbers += [n for c in self.chunks for n in (c.steps, c.bytes, c.inflated)]
        if not self.chunks or any(type(n) is not int or n < 0 for n in numbers):
            raise ValueError
        if not all(guard.plain_name(c.file) for c in self.chunks):
            raise ValueError
        words = [facts.game, *facts.action_meanings, *facts.variants]
        if not facts.variants or not all(isinstance(word, str) for word in words):
            raise ValueError
        if sum(c.steps for c in self.chunks) * facts.n_envs != self.frames:
            raise ValueError
        with trust.reading(self.path):  # a game or variant of somebody's own is code
            for name in [facts.game, *(part for v in facts.variants for part in v.split("+"))]:
                if trust.names_user_code(name):
                    trust.require(name.partition(":")[0].strip(), name)
        if self.frames > MOST_FRAMES:
            raise UserError(f"{self.path} has {self.frames:,} frames: {MOST_FRAMES:,} at most.")

    def arrays(self) -> dict[str, np.ndarray]:
        """All arrays of ARRAYS, the chunks one after the other, every hash checked."""
        needed = sum(chunk.inflated for chunk in self.chunks)
        guard.require_size(self.path, needed, guard.memory())
        parts = [self._unpacked(chunk) for chunk in self.chunks]
        return {name: np.concatenate([part[name] for part in parts]) for name in ARRAYS}

    def _unpacked(self, chunk: ChunkFile) -> dict[str, np.ndarray]:
        path = self.path / chunk.file
        try:
            data = guard.read_bytes(path, largest=max(chunk.bytes, 1))
        except OSError as error:
            raise UserError(f"{path} cannot be read: {error.strerror}.") from None
        if hashlib.sha256(data).hexdigest() != chunk.sha256:
            raise UserError(f"{path} is damaged: it is not what {RECORD} says.")
        try:
            found = packed.load(guard.inflate(data, chunk.inflated, str(path)))
        except SafetensorError as error:
            raise UserError(f"{path} is damaged: {error}.") from None
        size, n = self.facts.size, self.facts.n_envs
        shapes: dict[str, tuple[int, ...]] = dict.fromkeys(ARRAYS, (chunk.steps, n))
        shapes["frames"] = (chunk.steps, n, size, size)
        shapes["finals"] = (int((found.get("ends", np.zeros(0)) > 0).sum()), size, size)
        for name, (kind, _) in ARRAYS.items():
            if name not in found or found[name].dtype != kind or found[name].shape != shapes[name]:
                raise UserError(f"{path} is damaged: its {name} are not {kind} {shapes[name]}.")
        if (found["actions"] < 0).any() or (
            found["actions"] >= len(self.facts.action_meanings)
        ).any():
            raise UserError(f"{path} is damaged: it holds actions that the game does not have.")
        return found
