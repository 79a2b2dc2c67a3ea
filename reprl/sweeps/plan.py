"""From one command line to the jobs of a sweep, all checked before the first starts.

`reprl train -m` -> **plan** -> ledger -> launcher -> one run folder a job.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Any, Protocol

import yaml
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from reprl import __version__
from reprl.config.compose import OURS, PRIMARY, options, search_dirs
from reprl.config.overrides import expand, parse
from reprl.config.schema import Config, check, load
from reprl.errors import UserError, nearest
from reprl.naming import file_name
from reprl.runs.code import hashes_of
from reprl.runs.places import expanded
from reprl.settings import SEED
from reprl.validation import Address, Number, flag

# One single-thread job per core: two such jobs do more than one job with two threads.
ALONE = {"threads": "1", "env.workers": "0"}
OUR_LAUNCHER = ("hydra/launcher=reprl",)
LAUNCHER_KEYS = tuple(f"hydra.launcher.{key}" for key in ("jobs", "time_limit", "retry"))
JOBS = Number(1, whole=True)
TRIALS = Number(1, 100_000, whole=True)
MOST_SEEDS = Number(2, 1000, whole=True)
MEMBERS = Number(2, 1000, whole=True)
INTERVAL = Number(1, 10**12, whole=True)
QUANTILE = Number(0, 0.5, open_low=True)
RESAMPLE = Number(0, 1)
OF_POPULATION: dict[str, Any] = {
    "members": MEMBERS,
    "interval": INTERVAL,
    "quantile": QUANTILE,
    "resample": RESAMPLE,
    "address": Address(),
}
SEEDS = ("seeds", "max_seeds")  # keys of a sweep, not of its runs
UNTIL = "until_decided"
FIRST_SEEDS = "0,1,2"  # of a sweep that adds seeds, where its file names none
SECONDS = Number(0, open_low=True)


@dataclass(frozen=True)
class PopulationSettings:
    """How a population of `sweep=pbt` trains."""

    members: int
    interval: int  # steps between two looks at who is behind
    quantile: float = 0.25  # share of the members that take over, and of those they take over from
    resample: float = 0.25  # probability that a value is drawn anew instead of moved a little
    address: str | None = None  # of a Ray cluster; None starts Ray on this machine


@dataclass(frozen=True)
class SweepSettings:
    """How a sweep runs; nothing here changes what its jobs compute."""

    jobs: int | None = None  # at once; None is one per core
    time_limit: float | None = None  # seconds a job may take
    retry: bool = False  # also run again what failed
    trials: int | None = None  # of a search; None is a grid
    prune: bool | None = None  # stop trials that fall behind; None does
    max_seeds: int | None = None  # add seeds up to this number, until the claims are decided
    population: PopulationSettings | None = None  # members that copy each other


class JobSpec(Protocol):
    """What a launcher must know of a job to run it."""

    @property
    def identity(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def overrides(self) -> tuple[str, ...]: ...
    @property
    def config_dirs(self) -> tuple[Path, ...]: ...
    @property
    def threads(self) -> int: ...


@dataclass(frozen=True)
class Job:
    """One run of a sweep."""

    number: int
    overrides: tuple[str, ...]
    config: Config = field(repr=False)
    config_dirs: tuple[Path, ...] = ()

    @cached_property
    def identity(self) -> str:
        """What is computed, by which version of reprl and of the user's modules.

        Launchers ask for it all the time.
        """
        words = [self.config.hash, __version__]
        words += [f"{module}={digest}" for module, digest in hashes_of(self.config.plain()).items()]
        return hashlib.sha256(" ".join(words).encode()).hexdigest()[:12]

    @property
    def threads(self) -> int:
        return self.config.threads

    @property
    def name(self) -> str:
        """The run folder's name; sorts by the sweep's order and ends with the identity."""
        what = f"{self.config.method}_{'+'.join(str(v) for v in self.config.env.variants[:3])}"
        return (
            f"{self.number:03d}_{file_name(what, longest=120)}_s{self.config.seed}_{self.identity}"
        )


@dataclass(frozen=True)
class Plan:
    """A whole sweep."""

    jobs: tuple[Job, ...]
    settings: SweepSettings
    folder: Path
    hydra: tuple[str, ...] = ()  # the launcher of a cluster and its settings


def make(overrides: list[str], config_dirs: list[Path]) -> Plan:
    """Expand and check everything; the first thing wrong raises a UserError."""
    rest, settings, file = settings_of(overrides, config_dirs)
    rest = [o for o in rest if o not in ("hydra/sweeper=basic", "hydra/launcher=reprl")]
    if settings.max_seeds is not None:
        for text, override in zip(rest, parse(rest), strict=True):
            if override.key_or_group == "seed":
                raise UserError(
                    f"seeds={UNTIL} chooses the seeds, beginning with the sweep file's: leave "
                    f"'{text}' out."
                )
        file.setdefault("seed", FIRST_SEEDS)
    hydra = [o for o in rest if is_launcher(o)]
    chosen = {o.lstrip("+~").partition("=")[0] for o in hydra}
    hydra += [f"{k}={v}" for k, v in file.items() if is_launcher(k) and k not in chosen]
    file = {k: v for k, v in file.items() if not is_launcher(k)}
    rest = [o for o in rest if not is_launcher(o)]
    said = [(o.key_or_group, text) for o, text in zip(parse(rest), rest, strict=True)]
    given = dict(said)
    for key, text in said:
        if given[key] != text and "@" not in text:
            raise UserError(
                f"{key} is given twice, as '{text}' and '{given[key]}': once is enough."
            )
    # A key of the file keeps its place, whoever sets it: the first one is the outer loop.
    rest = [given.get(k, f"{k}={v}") for k, v in file.items()]
    rest += [text for key, text in said if key not in file]
    rest += [f"{k}={v}" for k, v in ALONE.items() if k not in given and k not in file]
    place, rest = one_place(rest)
    jobs: list[Job] = []
    seen: dict[str, Job] = {}
    composed: dict[tuple[str, ...], Config] = {}
    dirs = search_dirs(overrides, config_dirs)
    for number, job_overrides in enumerate(expand(rest, lambda group: options(group, dirs))):
        config = _load(job_overrides, config_dirs, composed, elsewhere=bool(hydra))
        job = Job(number, tuple(job_overrides), config, tuple(config_dirs))
        if job.identity in seen:
            raise UserError(
                f"jobs {seen[job.identity].number} and {number} of the sweep are the same run "
                f"({' '.join(job_overrides)}): give each seed and value once."
            )
        seen[job.identity] = job
        jobs.append(job)
    if not jobs:
        empty = next(o for o in rest if not expand([o], lambda group: options(group, dirs)))
        raise UserError(f"the sweep has no job: '{empty}' gives no value.")
    folder = _default_folder(jobs) if place is None else _one_folder(place, jobs)
    return Plan(tuple(jobs), settings, folder, tuple(hydra))


def jobs_of(
    batch: Sequence[Sequence[str]], config_dirs: list[Path], *, first: int, primary: str
) -> list[Job]:
    """The jobs that a sweeper of Hydra asks for, each checked; what is asked twice is done once."""
    jobs = []
    for number, words in enumerate(batch, first):
        rest = [o for o in words if not o.lstrip("+~").startswith(("hydra.", "hydra/"))]
        given = {o.key_or_group for o in parse(rest)}
        rest += [f"{key}={value}" for key, value in ALONE.items() if key not in given]
        rest += [f"{PRIMARY}{primary}"] if primary != OURS else []
        jobs.append(Job(number, tuple(rest), load(rest, config_dirs), tuple(config_dirs)))
    return jobs


def with_seed(job: Job, seed: int, number: int) -> Job:
    """The same job with another seed."""
    rest = [o for o in job.overrides if not o.startswith("seed=")]
    config = replace(job.config, run_dir=None, seed=SEED.checked("seed", seed))
    return Job(number, (*rest, f"seed={seed}"), config, job.config_dirs)


def is_launcher(override: str) -> bool:
    """Whether an override is about Hydra's launcher."""
    return override.lstrip("+~").startswith(("hydra/launcher", "hydra.launcher"))


def one_place(overrides: list[str]) -> tuple[str | None, list[str]]:
    """How the sweep's folder is named, None if it is not named, and the other overrides."""
    place: str | None = None
    rest = []
    for text, override in zip(overrides, parse(overrides), strict=True):
        if override.key_or_group != "run_dir" or override.is_delete():
            rest.append(text)
            continue
        value = None if override.is_sweep_override() else override.value()
        if override.is_sweep_override() or (value is not None and not isinstance(value, str)):
            raise UserError(
                f"'{text}' is no folder: a sweep has one, named by a text as in run_dir=./2024."
            )
        if value == "":
            raise UserError("run_dir= is empty: name the sweep's folder, or leave it out.")
        place = value
    return place, rest


def _one_folder(place: str, jobs: list[Job]) -> Path:
    """The folder a text names, `${...}` resolved; it must be the same one for every job."""
    if "${" not in place:
        return expanded(place)
    found = []
    for job in jobs:
        values = OmegaConf.create({**job.config.plain(), "run_dir": place})
        try:
            found.append(str(values.run_dir))
        except OmegaConfBaseException as error:
            reason = str(error).partition("\n")[0]
            raise UserError(f"run_dir={place} names no folder: {reason}.") from None
    if len(set(found)) > 1:
        first, other = list(dict.fromkeys(found))[:2]
        raise UserError(
            f"run_dir={place} differs between the jobs ({first}, {other}): a sweep has one folder, "
            "in which every job gets a folder of its own; name it without what is swept."
        )
    return expanded(found[0])


def _load(
    overrides: list[str],
    config_dirs: list[Path],
    composed: dict[tuple[str, ...], Config],
    *,
    elsewhere: bool,
) -> Config:
    """Compose and check one job; jobs that differ only in the seed are composed once."""
    devices = [o for o in overrides if o.startswith("device=cuda")]
    if elsewhere and devices:  # whether there is such a device is seen where the job runs
        here = [o for o in overrides if o not in devices]
        config = _load([*here, "device=cpu"], config_dirs, composed, elsewhere=False)
        return replace(config, device=devices[-1].removeprefix("device="))
    seeds = [o for o in overrides if o.startswith("seed=")]
    rest = tuple(o for o in overrides if o not in seeds)
    if rest not in composed or not seeds:
        composed[rest] = load(overrides, config_dirs)
        return composed[rest]
    seed = yaml.safe_load(seeds[-1].removeprefix("seed="))
    return check({**composed[rest].plain(), "run_dir": None, "seed": seed})


def settings_of(
    overrides: list[str], config_dirs: list[Path]
) -> tuple[list[str], SweepSettings, dict[str, str]]:
    """Separate what the runs are set to from how the sweep runs and from `sweep=FILE`."""
    rest = []
    file: dict[str, str] = {}
    values: dict[str, Any] = {}
    ours = not any(o.startswith("hydra/launcher=") for o in overrides if o not in OUR_LAUNCHER)
    for text in overrides:
        key, _, value = text.lstrip("+").partition("=")
        if ours and key in LAUNCHER_KEYS:  # what conf/hydra/launcher/reprl.yaml calls it
            key = key.replace("hydra.launcher.", "sweep.")
        if key == "sweep":
            file |= _sweep_file(value, search_dirs(overrides, config_dirs))
        elif key.startswith("sweep."):
            values[key.removeprefix("sweep.")] = value
        elif key in SEEDS:
            values[key] = value
        else:
            rest.append(text)
    own = {k: v for k, v in file.items() if k.startswith("sweep.") or k in SEEDS}
    values = {k.removeprefix("sweep."): v for k, v in own.items()} | values
    file = {k: v for k, v in file.items() if k not in own}
    return rest, _settings(values), file


def _settings(values: dict[str, Any]) -> SweepSettings:
    known = ("jobs", "time_limit", "retry", "trials", "prune", *OF_POPULATION)
    for key in values:
        if key not in known and key not in SEEDS:
            raise UserError(f"there is no key 'sweep.{key}'.{nearest(key, known)}")
    jobs = values.get("jobs")
    limit = values.get("time_limit")
    retry = str(values.get("retry", "false")).lower()
    if retry not in ("true", "false"):
        flag("sweep.retry", retry)
    count = None if jobs is None else JOBS.checked("sweep.jobs", _parsed(jobs))
    seconds = None if limit is None else SECONDS.checked("sweep.time_limit", _parsed(limit))
    trials = values.get("trials")
    wanted = None if trials is None else TRIALS.checked("sweep.trials", _parsed(trials))
    prune = None if "prune" not in values else flag("sweep.prune", _parsed(values["prune"]))
    if prune is not None and wanted is None:
        raise UserError(f"sweep.prune={values['prune']} belongs to a search: add sweep=tune.")
    population = _population(values)
    if population is not None and wanted is not None:
        raise UserError("sweep.members and sweep.trials exclude each other: choose one.")
    return SweepSettings(
        count, seconds, retry == "true", wanted, prune, _most_seeds(values), population
    )


def _population(values: dict[str, Any]) -> PopulationSettings | None:
    """What a population is set to; None for a sweep of any other kind."""
    given = {key: _parsed(values[key]) for key in OF_POPULATION if key in values}
    if "members" not in given:
        if given:
            key, value = next(iter(given.items()))
            raise UserError(f"sweep.{key}={value} belongs to a population: add sweep=pbt.")
        return None
    if "interval" not in given:
        raise UserError("sweep.members needs sweep.interval, the steps between two looks.")
    for key, allowed in OF_POPULATION.items():
        if key in given:
            given[key] = allowed.checked(f"sweep.{key}", given[key])
    return PopulationSettings(**given)


def _most_seeds(values: dict[str, Any]) -> int | None:
    """How many seeds a method may get at most; None for a sweep of fixed seeds."""
    most = values.get("max_seeds")
    if "seeds" not in values:
        if most is not None:
            raise UserError(f"max_seeds={most} belongs to seeds={UNTIL}: add that.")
        return None
    if values["seeds"] != UNTIL:
        raise UserError(
            f"seeds={values['seeds']} must be {UNTIL}; seeds of your own are seed=0,1,2."
        )
    return int(MOST_SEEDS.checked("max_seeds", 10 if most is None else _parsed(most)))


def _parsed(text: Any) -> Any:
    try:
        return yaml.safe_load(str(text))
    except (yaml.YAMLError, ValueError):
        return text


def _sweep_file(name: str, dirs: list[Path]) -> dict[str, str]:
    offered = options("sweep", dirs)
    if name not in offered:
        raise UserError(
            f"sweep={name} is unknown: choose from {', '.join(offered)}.{nearest(name, offered)}"
        )
    roots = [*dirs, resources.files("reprl.conf")]
    file = next(f for r in roots if (f := r / "sweep" / f"{name}.yaml").is_file())
    try:
        values = yaml.safe_load(file.read_bytes()) or {}
    except (yaml.YAMLError, ValueError):
        values = None
    if not isinstance(values, dict):
        raise UserError(f"sweep={name}: {file} must hold lines of 'key: values' in UTF-8.")
    return {str(key): str(value) for key, value in values.items()}


def _default_folder(jobs: list[Job]) -> Path:
    """The folder this very sweep had before, or a new one that sorts by time."""
    mark = hashlib.sha256("".join(sorted(j.identity for j in jobs)).encode()).hexdigest()[:8]
    before = sorted(Path("runs").glob(f"*_sweep_{mark}"))
    return (
        before[-1]
        if before
        else Path("runs") / f"{time.strftime('%Y-%m-%d_%H-%M-%S')}_sweep_{mark}"
    )
