"""The command as a Hydra application: Hydra's own options, sweepers and launchers over one task.

overrides -> Hydra (`--cfg`, `--info`, `hydra.*`, any sweeper, any launcher) -> **task** -> a run
folder. A run or a sweep that asks nothing of Hydra but its configuration does without: see
`reprl.config.compose` and `reprl.sweeps.plan`. Your own `@hydra.main` can call `task` as well.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import hydra
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from reprl import trust
from reprl.components import require_known_keys
from reprl.config.checks import check_attainable
from reprl.config.compose import (
    PRIMARY,
    SEARCHPATH,
    choices_of,
    decoded,
    primary,
    rewritten,
    search_dirs,
)
from reprl.config.inheritance import inherited, parent_named
from reprl.config.overrides import first_line, quoted, spelled
from reprl.config.schema import Config, check, load
from reprl.errors import UserError
from reprl.runs.folder import RunFolder, score_of
from reprl.schema import CHOSEN
from reprl.sweeps.launcher import register

__all__ = ["asks_for_hydra", "asks_for_sweeper", "inspect", "register", "run", "sweep", "task"]
CONF = "pkg://reprl.conf"


def asks_for_hydra(overrides: list[str]) -> bool:
    """Whether a run is to have something that only Hydra itself does, such as hydra.job.chdir."""
    known = (SEARCHPATH, PRIMARY)
    return any(o.lstrip("+~").startswith(("hydra.", "hydra/")) for o in _but(overrides, known))


def asks_for_sweeper(overrides: list[str]) -> bool:
    """Whether a sweep is to be expanded by another sweeper than Hydra's basic one."""
    chosen = [o.partition("=")[2] for o in overrides if o.startswith("hydra/sweeper=")]
    return bool(chosen) and chosen[-1] != "basic"


def inspect(overrides: list[str], config_dirs: list[Path], flags: list[str]) -> int:
    """Let Hydra print what it knows: the configuration, its defaults tree, plugins, search path."""
    if "-m" not in flags:
        config = load([o for o in overrides if not o.startswith("hydra/launcher")], config_dirs)
        for part in CHOSEN:
            require_known_keys(part, getattr(config, part))
    _main(lambda _: None, overrides, config_dirs, flags)
    return 0


def run(overrides: list[str], config_dirs: list[Path], train: Callable[[], int]) -> int:
    """Train one run inside Hydra's job, with its working folder, environment and callbacks."""
    codes: list[int] = []
    _main(lambda _: codes.append(train()), overrides, config_dirs, [])
    return codes[-1]


def sweep(overrides: list[str], config_dirs: list[Path]) -> int:
    """Run a sweep whose jobs a sweeper of Hydra chooses; the exit code says if all are finished."""
    from reprl.sweeps.plan import one_place, settings_of

    rest, settings, file = settings_of(overrides, config_dirs)
    if file:
        raise UserError("sweep=NAME lists jobs of Hydra's basic sweeper: leave hydra/sweeper= out.")
    place, rest = one_place(rest)
    ours = not any(o.startswith("hydra/launcher=") for o in rest)
    if ours:
        given = {k: v for k, v in vars(settings).items() if v not in (None, False)}
        rest += [f"hydra.launcher.{key}={value}" for key, value in given.items()]
    if place is not None:
        rest.append(f"hydra.sweep.dir={quoted(place)}")
    os.environ.update(trust.environment())  # what the user named, for the processes of a launcher
    _main(task, rest, config_dirs, ["-m"])
    return 0


def task(config: DictConfig) -> float | None:
    """What Hydra calls for a run, or a launcher for each job of a sweep: its score, if it has one.

    The score is the best of the validation, else the last of training. In a sweep the job keeps the
    ledger of the sweep's folder itself: what is finished there is not done again.
    """
    about = HydraConfig.get()
    values = decoded(OmegaConf.to_container(config), OmegaConf.to_container(config, resolve=True))
    assert isinstance(values, dict)
    values["choices"] = choices_of(dict(about.runtime.choices))
    words = [*about.overrides.task]
    if (parent := parent_named(words)) is not None:
        values = inherited(values, words, [], parent)
    checked = check({str(key): value for key, value in values.items()})
    check_attainable(checked)
    if about.mode == RunMode.MULTIRUN:
        return _job(about, checked)
    from reprl.runs.train import run as train

    named = [*about.overrides.task]
    code, folder, _ = train(checked, command=["reprl", "train", *named], python_path=[])
    if code:
        raise SystemExit(code)
    return score_of(folder)


def _job(about: Any, config: Config) -> float | None:
    """One job under somebody else's launcher: claimed in the ledger, in a process of its own."""
    from reprl.sweeps.cluster.job import Launch, Worker
    from reprl.sweeps.cluster.launch import spec
    from reprl.sweeps.ledger import Ledger
    from reprl.sweeps.plan import Job

    folder = Path(about.sweep.dir).absolute()
    sources = [s.path for s in about.runtime.config_sources if s.schema == "file"]
    named = [o for o in about.overrides.task if not o.lstrip("+~").startswith("hydra")]
    name = about.job.config_name
    overrides = tuple(named + ([f"{PRIMARY}{name}"] if name != "train" else []))
    job = Job(int(about.job.num), overrides, config, tuple(Path(s) for s in sources))
    folder.mkdir(parents=True, exist_ok=True)
    handed = Launch(
        id=f"{about.job.num}_{os.getpid()}",
        folder=folder,
        cwd=Path(about.runtime.cwd),
        jobs=(spec(job),),
        retry=False,
        time_limit=None,
        ray=None,
        trust=trust.environment(),
    )
    status = Worker(handed, spec(job)).run()
    ledger = Ledger(folder)
    ledger.open([job])
    entry = ledger.entries[job.identity]
    if entry.status != "finished":
        raise UserError(f"{entry.folder} is {status}: {entry.reason or 'see its log'}.")
    return score_of(RunFolder(folder / entry.folder))


def _main(
    called: Callable[[DictConfig], Any],
    overrides: list[str],
    config_dirs: list[Path],
    flags: list[str],
) -> None:
    """`@hydra.main` with this command line; what it raises becomes one sentence."""
    register()
    dirs = search_dirs(overrides, config_dirs)
    name, home = primary(overrides, dirs)
    words = spelled([o for o in overrides if not o.startswith((SEARCHPATH, PRIMARY))])
    if "-m" not in flags:
        own = [o for o in words if o.lstrip("+~").startswith(("hydra.", "hydra/"))]
        words = [*rewritten([o for o in words if o not in own], dirs), *own]
    first = home or (dirs[0] if dirs else None)
    others = [f"file://{d.resolve()}" for d in dirs if d.resolve() != first]
    if others:
        words.append(f"{SEARCHPATH}[{','.join(map(quoted, others))}]")
    place = ["--config-dir", str(first)] if first is not None else []
    with _argv(["reprl", *flags, *place, "--config-name", name, *words]):
        GlobalHydra.instance().clear()
        try:
            hydra.main(version_base="1.3", config_path=CONF, config_name=name)(called)()
        except UserError:
            raise
        except (HydraException, OmegaConfBaseException) as error:
            raise UserError(f"Hydra: {first_line(error)}") from error


@contextmanager
def _argv(words: list[str]) -> Iterator[None]:
    """Hydra reads the command line itself, and hides what a job raised unless told not to."""
    before, told = sys.argv, os.environ.get("HYDRA_FULL_ERROR")
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level  # --info logs everything from then on
    sys.argv = words
    os.environ["HYDRA_FULL_ERROR"] = "1"
    try:
        yield
    finally:
        sys.argv = before
        root.handlers[:] = handlers
        root.setLevel(level)
        if told is None:
            os.environ.pop("HYDRA_FULL_ERROR", None)


def _but(overrides: list[str], prefixes: tuple[str, ...]) -> list[str]:
    return [o for o in overrides if not o.startswith(prefixes)]
