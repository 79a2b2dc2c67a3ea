"""The run folder: everything one run leaves behind, in one place that can be copied and verified.

`create` makes it when training is about to begin, never earlier; `RunFolder` reads and updates it.
"""

from __future__ import annotations

import fcntl
import json
import os
import platform
import re
import secrets
import shutil
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import IO, Any

import yaml

from reprl import __version__, guard, trust
from reprl.claims import record_of
from reprl.config.schema import Config, check, hash_of
from reprl.disk import not_written, out_of_space, write_atomically
from reprl.errors import UserError, not_yaml
from reprl.naming import file_name
from reprl.runs import code
from reprl.runs.places import expanded, is_folder, no_folder

ABANDONED = 3600.0  # seconds after which nobody is still making a run's folder
PACKAGES = ("torch", "stable-baselines3", "gymnasium", "ale-py", "numpy", "hydra-core")
OPTIONAL = ("kornia", "captum")  # only their versions that are installed are recorded


@dataclass(frozen=True)
class RunFolder:
    """One run on disk."""

    path: Path

    @property
    def config_file(self) -> Path:
        return self.path / "config.yaml"

    @property
    def record_file(self) -> Path:
        return self.path / "run.json"

    @property
    def metrics_file(self) -> Path:
        return self.path / "metrics.csv"

    @property
    def validation_file(self) -> Path:
        return self.path / "evaluation" / "validation.csv"

    @property
    def tensorboard(self) -> Path:
        return self.path / "tensorboard"

    def config(self) -> Config:
        """The resolved configuration the run was started with."""
        values = self.settings()
        try:
            with trust.reading(self.path):
                return check({**values, "run_dir": None})
        except UserError as error:
            raise UserError(f"{self.config_file}: {error}") from error

    def settings(self) -> dict[str, Any]:
        """What config.yaml holds, unchecked."""
        try:
            values = guard.load_yaml(guard.read_text(self.config_file))
        except UserError:
            raise
        except (OSError, ValueError) as error:
            raise UserError(f"cannot read {self.config_file}: {error}") from error
        except yaml.YAMLError as error:
            raise UserError(f"{self.config_file} {not_yaml(error)}") from error
        if not isinstance(values, dict):
            raise UserError(f"{self.config_file} does not hold a configuration.")
        return values

    def record(self) -> dict[str, Any]:
        """What run.json holds."""
        try:
            values = json.loads(guard.read_text(self.record_file))
        except UserError:
            raise
        except (OSError, ValueError, RecursionError) as error:
            raise UserError(f"cannot read {self.record_file}: {error}") from error
        if not isinstance(values, dict):
            raise UserError(f"cannot read {self.record_file}: it does not hold a run's record.")
        return values

    def config_hash(self) -> str:
        """The hash of config.yaml as it is now; run.json has the one the run began with."""
        return hash_of(self.settings())

    def update(self, **values: Any) -> None:
        """Change entries of run.json, whole or not at all."""
        write_atomically(
            self.record_file, json.dumps(self.record() | values, indent=1, default=str) + "\n"
        )

    def status(self) -> str:
        """The status in run.json; a run that says running but has no process was killed."""
        status = str(self.record().get("status") or "unknown")
        return "killed" if status == "running" and not self._held() else status

    def lock(self) -> IO[str]:
        """Hold the folder for one writer; closing the file, or dying, lets it go."""
        try:
            file = guard.lock_file(self.path / ".lock")
        except OSError as error:
            raise not_written(self.path, error) from None
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.close()
            raise UserError(f"another process is writing to {self.path}.") from None
        return file

    def _held(self) -> bool:
        """Whether a process may be writing here; asked without writing, in anybody's folder."""
        try:
            flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
            with open(os.open(self.path / ".lock", flags)) as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except OSError:  # held, or we cannot tell
            return True
        return False


def open_run(path: str | Path) -> RunFolder:
    """An existing run folder, or the sentence that says why it is none."""
    folder = RunFolder(Path(path))
    if not is_folder(folder.path):
        raise no_folder("run folder", path, folder.path)
    for file in (folder.config_file, folder.record_file):
        try:
            there = file.exists()
        except OSError as error:
            raise UserError(f"{path} cannot be read: {error.strerror}.") from None
        if not there:
            raise UserError(f"{path} is not a run folder: it has no {file.name}.")
    guard.inspect(folder.path)
    return folder


def create(
    config: Config,
    *,
    command: list[str],
    python_path: list[str],
    fill: Callable[[Path], Any] | None = None,
    **extra: Any,
) -> RunFolder:
    """Make the folder of a new run, config.yaml, run.json and what `fill` writes, all at once."""
    from reprl.envs.games import game  # commands that only list runs need no emulator

    final = expanded(config.run_dir or Path("runs") / name_of(config))
    while config.run_dir is None and final.exists():  # twice the same run in the same second
        final = final.with_name(f"{final.name}+")
    text = yaml.safe_dump(config.plain(), sort_keys=False, default_flow_style=None, width=100)
    record = {
        "status": "running",
        "reason": None,
        "config_hash": config.hash,
        "method": config.method,
        "experiment": config.choices.get("experiment"),
        "id": secrets.token_hex(4),
        "started": now(),
        "versions": versions(),
        "code": code.record_of(config.plain()),
        "threads": config.threads,
        "mode": config.mode,
        "precision": config.precision,
        "device": config.device,
        "command": command,
        "parent": config.parent,
        "python_path": python_path,
        "score_scale": game(config.env.game).score_scale,
        **record_of(final.parent),
        **extra,
    }
    draft: Path | None = None
    try:
        final.parent.mkdir(parents=True, exist_ok=True)
        remove_abandoned(final.parent)
        draft = final.parent / f".{final.name[:40]}.{secrets.token_hex(4)}.draft"
        draft.mkdir()
        folder = RunFolder(draft)
        write_atomically(folder.config_file, text)
        write_atomically(folder.record_file, json.dumps(record, indent=1, default=str) + "\n")
        if fill is not None:
            fill(draft)
        if final.is_dir():
            final.rmdir()  # check_new saw that it is empty
        os.rename(draft, final)
    except BaseException as error:
        if draft is not None:
            shutil.rmtree(draft, ignore_errors=True)
        if not isinstance(error, OSError) or out_of_space(error):
            raise
        raise not_written(f"run_dir={final}", error) from error
    return RunFolder(final)


def remove_abandoned(place: Path) -> None:
    """Remove what processes that were killed while they made a run's folder have left of it."""
    for draft in place.glob(".*.draft"):
        ours = re.fullmatch(r"\..+\.[0-9a-f]{8}\.draft", draft.name) and not draft.is_symlink()
        with suppress(OSError):
            inside = {path.name for path in draft.iterdir()} if ours and draft.is_dir() else {"?"}
            old = time.time() - draft.stat().st_mtime >= ABANDONED
            if old and inside <= {"config.yaml", "run.json", "checkpoints"}:
                shutil.rmtree(draft, ignore_errors=True)


def name_of(config: Config) -> str:
    """A folder name that sorts by time and says what the run is."""
    what = str(config.choices.get("experiment") or config.method)
    variants = "+".join(str(v) for v in config.env.variants[:3])
    moment = time.strftime("%Y-%m-%d_%H-%M-%S")
    name = f"{moment}_{what}_{variants}_s{config.seed}_{config.hash[:6]}"
    return file_name(name)


def runs_in(place: Path) -> list[RunFolder]:
    """Every run folder directly or one level below a place (a sweep), oldest first."""
    found = [r for r in _folders_in(place) if problem_of(r) is None]
    return sorted(found, key=lambda run: (str(run.record().get("started")), run.path.name))


def damaged_in(place: Path) -> list[RunFolder]:
    """Run folders at the same places that cannot be read."""
    return [r for r in _folders_in(place) if problem_of(r) is not None]


def _folders_in(place: Path) -> list[RunFolder]:
    files = [f for depth in ("", "*/", "*/*/") for f in sorted(place.glob(f"{depth}run.json"))]
    found = [RunFolder(f.parent) for f in files if not f.parent.name.startswith(".")]
    inside = place.resolve()
    found = [r for r in found if r.path.resolve().is_relative_to(inside)]  # no link leads out
    return [r for r in found if r.config_file.exists()]


def versions() -> dict[str, str]:
    """Of everything that decides a run's numbers."""
    found = {"reprl": __version__, "python": platform.python_version()}
    found |= {name: metadata.version(name) for name in PACKAGES}
    for name in OPTIONAL:
        with suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


def where() -> dict[str, Any]:
    """The process that is writing, and on a cluster which job of it."""
    job = {"job": os.environ["REPRL_JOB"]} if "REPRL_JOB" in os.environ else {}
    return {"host": socket.gethostname(), "pid": os.getpid(), **job}


def step_of(record: dict[str, Any]) -> int:
    """The step a run.json speaks of, 0 where it speaks of none."""
    step = record.get("step")
    return step if isinstance(step, int) else 0


def score_of(folder: RunFolder) -> float | None:
    """The number a sweeper maximizes: the best validation score, else the last one of training."""
    record = folder.record()
    best = record.get("best")
    score = best.get("score") if isinstance(best, dict) else record.get("score")
    return float(score) if isinstance(score, int | float) else None


def now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S%z")


def problem_of(folder: RunFolder) -> str | None:
    """Why a run folder cannot be looked at, or None; its checkpoints are not looked at here."""
    try:
        guard.inspect(folder.path, without=("checkpoints",))
        folder.record()
    except UserError as error:
        return str(error)
    return None
