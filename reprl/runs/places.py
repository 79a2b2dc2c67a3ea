"""Folders that a user names: where a run is to be written, where it begins, what cannot be reached.

Whatever the file system answers, a wrong name is one sentence before anything starts.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from reprl import guard, trust
from reprl.checkpoint.files import LONGEST_STEP, candidates
from reprl.disk import not_written, write_atomically
from reprl.errors import UserError, nearest
from reprl.ray_cluster import require_rllib
from reprl.runs.agents import folder_of
from reprl.runs.resources import require_memory
from reprl.schema import AGENT

if TYPE_CHECKING:
    from reprl.config.schema import Config


def expanded(text: str | Path) -> Path:
    """A path with its ~ resolved; an unknown user has no home."""
    try:
        return Path(text).expanduser()
    except RuntimeError:
        raise UserError(f"'{text}' cannot be resolved: that user has no home folder.") from None


def is_folder(path: Path) -> bool:
    """Whether a folder is there; one that cannot be reached, or not even named, is not."""
    try:
        return path.is_dir()
    except OSError:
        return False


def no_folder(kind: str, text: str | Path, path: Path, *, also: tuple[str, ...] = ()) -> UserError:
    """The error for a folder that is not there, with the nearest name of one beside it.

    `also` are endings of files that would be taken too: a name that would be refused misleads.
    """
    try:
        around = list(path.parent.iterdir()) if is_folder(path.parent) else []
        siblings = [p.name for p in around if p.suffix in also or is_folder(p)]
    except OSError:
        siblings = []
    return UserError(f"there is no {kind} '{text}'.{nearest(path.name, siblings)}")


def check_launch(configs: Iterable[Config], *, here: bool = True) -> None:
    """Check what depends on this machine: every parent, wandb's login and, `here`, the memory."""
    configs = list(configs)
    if here:
        require_memory(configs)
    for parent in sorted({c.parent for c in configs if c.parent is not None}):
        path, step = parent_of(parent)
        if path.is_file():
            trust.require_pickles(path)
        else:
            candidates(path, step)
    for config in configs:
        _check_source(config)
    if any(config.wandb == "online" for config in configs):
        from reprl.runs.writers import require_login

        require_login()


def _check_source(config: Config) -> None:
    """Refuse a teacher, frames to learn from, or an engine, that are not there."""
    target = str(config.algo.get("_target_"))
    if target.startswith("reprl.") and target.endswith((".IMPALA", ".APEX")):
        require_rllib(f"algo={config.choices.get('algo')}")
    if target.endswith("algorithms.Distillation"):
        teacher_folder(config.algo.get("teacher"))
    if target.endswith("algorithms.Pretraining"):
        require_recording(str(config.algo.get("data")), config.env.game)


def require_recording(data: str, game: str) -> None:
    """Refuse `data=` that is neither a player of the game nor the folder of a recording."""
    from reprl.envs.games import game as game_of
    from reprl.envs.games import no_script
    from reprl.recordings.storage import PLAYERS, RecordedPlay

    if data == "scripted" and game_of(game).scripted is None:
        raise UserError(no_script("data=scripted", game))
    if data in PLAYERS:
        return
    if not is_folder(path := expanded(data)):
        said = f"data={data} is unknown: random, scripted or the folder of a recording"
        raise UserError(f"{said}, and there is no folder '{path}'.{nearest(data, PLAYERS)}")
    RecordedPlay.open(path)


def parent_of(parent: str) -> tuple[Path, int | None]:
    """The folder and step that `parent=DIR@step` or `parent=agent:NAME` names."""
    if (shipped := folder_of(parent)) is not None:
        return shipped, None
    whole = expanded(parent)
    if is_folder(whole):  # its own name may hold an @, as in green_lines@0.7
        return whole, None
    text, _, step = parent.rpartition("@") if "@" in parent else (parent, "", "")
    if step and not (step.isdecimal() and len(step) <= LONGEST_STEP):
        raise UserError(f"parent={text}@{step[:40]}: the step after @ must be a whole number.")
    path = expanded(text)
    if path.suffix == ".zip" and path.is_file():
        if step:
            raise UserError(f"parent={parent}: {path} is one model, so @{step} chooses nothing.")
        return path, None
    if not is_folder(path):
        raise UserError(f"parent={parent}: there is no checkpoint '{path}'.")
    return path, int(step) if step else None


def teacher_folder(teacher: object) -> Path:
    """The folder that `teacher=DIR` or `teacher=agent:NAME` names, with a checkpoint in it."""
    if not isinstance(teacher, str) or not teacher.strip():
        raise UserError(
            f"algo.teacher={teacher} must name who teaches: the folder of a run, or agent:NAME."
        )
    folder = folder_of(teacher) or expanded(teacher)
    if not is_folder(folder):
        raise no_folder("teacher", teacher, folder)
    candidates(folder, None)
    return folder


def check_new(run_dir: str | None) -> None:
    """Refuse, before anything starts, a run's folder that holds something or cannot be written."""
    final = expanded(run_dir) if run_dir else Path("runs")
    check_writable(final)
    if run_dir is None or not final.is_dir():
        return
    if (final / "run.json").exists():
        raise UserError(f"run_dir={final} already holds a run: `reprl resume {final}` goes on.")
    if any(final.iterdir()):
        raise UserError(f"run_dir={final} is not empty: choose a new folder.")


def check_writable(final: Path, key: str = "run_dir", then: str = "") -> None:
    """Refuse a folder in which, or for lack of it in whose parents, nothing can be written."""
    what = f"{key}={final}" if key else str(final)
    try:
        existing = final.absolute()
        while not existing.exists():
            existing = existing.parent
        if existing == final.absolute() and not final.is_dir():
            raise UserError(f"{what} is a file.")
        for part in final.absolute().relative_to(existing).parts:
            (existing / part).exists()  # raises for a name that is too long
        # permission bits do not tell: a full disk, a read-only mount, a virtual file system
        os.rmdir(tempfile.mkdtemp(prefix=".reprl.", dir=existing))
    except OSError as error:
        raise not_written(what, error, then) from None


def write_game(place: Path, game: str) -> None:
    """Say which game was measured in a folder that has no configuration to say it."""
    file = place / AGENT
    file.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(file, json.dumps({"game": game}) + "\n")


def game_at(place: Path) -> str | None:
    """The game that `write_game` wrote there, None where it did not or the file is damaged."""
    try:
        game = json.loads(guard.read_text(place / AGENT))["game"]
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return None
    return game if isinstance(game, str) else None
