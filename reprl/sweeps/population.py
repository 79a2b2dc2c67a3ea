"""`reprl train -m sweep=pbt`: a population whose members copy each other while they train.

plan -> **population** -> Ray Tune's scheduler (`population_tune`) -> one run folder a piece. A
member trains in pieces of `sweep.interval` steps; each piece is a run that begins with `parent=` at
the checkpoint of the piece before, with the values that the scheduler has chosen, and ends at its
`stop.step`: schedules are over `total_steps`, as in a run of one piece. What is decided after a
round depends on the seed, the round and the scores alone, and a piece that is finished is not
trained again: so the same command goes on with a population that was killed as if nothing had
happened.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from reprl import guard
from reprl.config.checks import ON_RAY
from reprl.config.compose import options, search_dirs
from reprl.config.schema import Config, load
from reprl.disk import write_atomically
from reprl.errors import UserError
from reprl.rng import numpy_stream
from reprl.runs.places import check_launch, check_writable, expanded
from reprl.settings import LIVE, SWITCHES, algorithm_keys
from reprl.sweeps.plan import (
    ALONE,
    Job,
    PopulationSettings,
    SweepSettings,
    one_place,
    settings_of,
)
from reprl.sweeps.search import Interval, Space, Words, space_of

VERSION = 2  # of what a piece is: since 2 it ends by stop.step and knows the whole run's length
RECORD = "population.json"
TABLE = "population.csv"
OWN = ("seed", "total_steps", "parent", "parent_load", "parent.load", "stop.step")
MISSING = "sweep=pbt needs Ray Tune, which is not installed: pip install 'reprl[ray]'."

Values = dict[str, float | int | str]


@dataclass(frozen=True)
class Population:
    """A population that was checked and has not begun."""

    space: Space
    common: tuple[str, ...]  # overrides that all pieces share
    settings: SweepSettings
    folder: Path
    seed: int
    total_steps: int
    config_dirs: tuple[Path, ...]

    @property
    def about(self) -> PopulationSettings:
        assert self.settings.population is not None
        return self.settings.population

    @property
    def rounds(self) -> int:
        """How many pieces a member trains in."""
        return math.ceil(self.total_steps / self.about.interval)

    def end_of(self, number: int) -> int:
        """The step at which a round, counted from 1, ends."""
        return min(number * self.about.interval, self.total_steps)

    def piece(
        self, member: int, number: int, values: Values, *, seed: int, parent: Path | None
    ) -> Job:
        """One member's part of one round as a job, its configuration checked."""
        words = [*self.common, *(f"{key}={_word(value)}" for key, value in values.items())]
        words += [f"seed={seed}", f"total_steps={self.total_steps}"]
        words.append(f"stop.step={self.end_of(number)}")
        if parent is not None:
            words.append(f"parent={parent}")
        config = load(words, list(self.config_dirs))
        place = (number - 1) * self.about.members + member
        return Job(place, tuple(words), config, self.config_dirs)

    def beginning(self, member: int) -> Values:
        """The values a member begins with: drawn from a stream of its own."""
        found: Values = {}
        for key, allowed in self.space.items():
            draw = numpy_stream(self.seed, "pbt", "begin", member, key)
            if isinstance(allowed, Words):
                found[key] = allowed.values[int(draw.integers(len(allowed.values)))]
                continue
            found[key] = within(allowed, drawn(allowed, float(draw.random())))
        return found


def drawn(allowed: Interval, share: float) -> float:
    """The number at a share of an interval, by its logarithm where that is asked for."""
    if not allowed.log:
        return allowed.low + share * (allowed.high - allowed.low)
    low, high = math.log(allowed.low), math.log(allowed.high)
    return math.exp(low + share * (high - low))


def within(allowed: Interval, value: float) -> float | int:
    """A number moved back into its interval, whole where it must be."""
    value = min(max(value, allowed.low), allowed.high)
    return round(value) if allowed.whole else float(value)


def plan(overrides: list[str], config_dirs: list[Path]) -> Population:
    """Check a population before its first piece; the first thing wrong raises a UserError."""
    rest, settings, file = settings_of(overrides, config_dirs)
    about = settings.population
    assert about is not None
    if settings.max_seeds is not None:
        raise UserError("sweep=pbt and seeds=until_decided exclude each other: choose one.")
    rest = [o for o in rest if o not in ("hydra/sweeper=basic", "hydra/launcher=reprl")]
    if theirs := [o for o in rest if o.lstrip("+~").startswith(("hydra/", "hydra."))]:
        raise UserError(f"'{theirs[0]}': sweep=pbt is run by Ray Tune, without Hydra's launchers.")
    given = {o.lstrip("+~").partition("=")[0] for o in rest}
    defaults = {**file, **ALONE, "eval.every": str(about.interval)}
    rest += [f"{key}={value}" for key, value in defaults.items() if key not in given]
    place, rest = one_place(rest)
    if own := [o for o in rest if o.lstrip("+~").partition("=")[0] in OWN[2:]]:
        raise UserError(
            f"'{own[0]}': sweep=pbt says where each piece begins and ends: leave it out."
        )
    dirs = search_dirs(overrides, config_dirs)
    space, common = space_of(rest, lambda group: options(group, dirs), kind="sweep=pbt", example="")
    for key in space:
        if not key.startswith("algo."):
            raise UserError(
                f"'{key}' cannot change while an agent trains: sweep=pbt is for keys of algo such "
                "as algo.learning_rate and algo.gamma."
            )
    first = {key: allowed.edges[0] for key, allowed in space.items()}
    whole = load([*common, *(f"{k}={v}" for k, v in first.items())], list(config_dirs))
    for key, allowed in space.items():  # each value by itself, the other keys at their first
        _check_live(key, whole)
        tried = [
            load([*common, *(f"{k}={v}" for k, v in {**first, key: edge}.items())], config_dirs)
            for edge in allowed.edges[1:]
        ]
        _check_switch(key, [whole, *tried])
    _check_pieces(whole, about)
    common = [o for o in common if o.lstrip("+~").partition("=")[0] not in OWN]
    mark = hashlib.sha256(
        repr((sorted(space.items()), sorted(common), whole.seed, asdict(about))).encode()
    ).hexdigest()[:8]
    folder = expanded(place) if place is not None else _folder(mark)
    return Population(
        space=space,
        common=tuple(common),
        settings=settings,
        folder=folder.absolute(),
        seed=whole.seed,
        total_steps=whole.total_steps,
        config_dirs=tuple(config_dirs),
    )


def _check_live(key: str, config: Config) -> None:
    """Refuse a key that shapes networks or what a checkpoint keeps.

    A class of the user's own is asked for our keys only; what it adds is its own affair.
    """
    name = key.removeprefix("algo.")
    ours = str(config.algo.get("_target_")).startswith("reprl.")
    if name in LIVE or (not ours and name.partition(".")[0] not in algorithm_keys()):
        return
    live = ", ".join(f"algo.{name}" for name in config.algo if name in LIVE)
    raise UserError(
        f"'{key}' cannot change while an agent trains: networks, or what a checkpoint keeps, "
        f"depend on it; these can: {live}."
    )


def _check_switch(key: str, configs: Sequence[Config]) -> None:
    """Refuse a value with which the algorithm has other parts than with the rest."""
    name = key.removeprefix("algo.")
    without = SWITCHES.get(name)
    if without is not None and any(config.algo.get(name) == without for config in configs):
        raise UserError(
            f"{key}={without} cannot be one of several values: the algorithm has other parts then, "
            f"which a checkpoint keeps; leave {without} out."
        )


def _check_pieces(config: Config, about: PopulationSettings) -> None:
    """Refuse what means something else in a run that is trained in pieces."""
    if about.interval >= config.total_steps:
        raise UserError(
            f"sweep.interval={about.interval} leaves nothing to decide: it must be below "
            f"total_steps={config.total_steps}."
        )
    if about.interval < config.rollout:
        raise UserError(
            f"sweep.interval={about.interval} is less than one rollout of {config.rollout} steps."
        )
    if not config.eval.every:
        raise UserError("eval.every=0: a population is judged by validation: leave it out.")
    before = math.ceil(config.total_steps / about.interval) - 1  # the rounds before the last
    ends = math.ceil(before * about.interval / config.rollout) * config.rollout
    if ends >= config.total_steps:
        raise UserError(
            f"sweep.interval={about.interval} leaves the last round nothing: by rollouts of "
            f"{config.rollout} steps the one before it ends at step {ends}, and total_steps="
            f"{config.total_steps}."
        )
    if config.stop.score is not None:
        raise UserError(
            f"stop.score={config.stop.score:g} would end a piece before its round: leave it out."
        )
    if _is_ours(config, *ON_RAY):
        raise UserError(
            f"algo={config.choices.get('algo')} does not go on exactly from a checkpoint, as the "
            "pieces of sweep=pbt do: choose an algorithm that trains without Ray."
        )
    if _is_ours(config, "Pretraining"):
        raise UserError(
            f"algo={config.choices.get('algo')} plays no games, by which sweep=pbt judges."
        )
    if config.env.curriculum is not None:
        raise UserError(
            f"env.curriculum={config.env.curriculum} follows one run from its first step: "
            "sweep=pbt trains in pieces and has none."
        )
    if config.ranks > 1:
        raise UserError(f"ranks={config.ranks}: a member of sweep=pbt trains in one process.")


def _is_ours(config: Config, *names: str) -> bool:
    words = str(config.algo.get("_target_")).split(".")
    return words[0] == "reprl" and words[-1] in names


def _folder(mark: str) -> Path:
    """The folder this very population had before, or a new one that sorts by time."""
    before = sorted(Path("runs").glob(f"*_pbt_{mark}"))
    new = Path("runs") / f"{time.strftime('%Y-%m-%d_%H-%M-%S')}_pbt_{mark}"
    return before[-1] if before else new


def _word(value: float | int | str) -> str:
    return value if isinstance(value, str) else repr(value)


def described(population: Population) -> str:
    """What a population would do, for --cfg."""
    about = population.about
    lines = [
        f"{about.members} members in {population.folder}, {population.rounds} rounds of "
        f"{about.interval} steps, each with",
        f"  {' '.join(population.common)}",
        "beginning with",
    ]
    for member in range(about.members):
        values = population.beginning(member)
        said = " ".join(f"{key}={_shown(value)}" for key, value in values.items())
        lines.append(f"  member {member}, seed {population.seed + member}: {said}")
    return "\n".join(lines)


@dataclass
class Lineage:
    """Who trained what in each round, with which values, copied from whom: population.csv."""

    file: Path
    keys: tuple[str, ...]
    rows: list[dict[str, Any]] = field(default_factory=list)

    def add(self, row: Mapping[str, Any]) -> None:
        """Note one member's part of a round; what is noted already is written over."""
        new = {name: row[name] for name in self.columns}
        same = ("round", "member")
        self.rows = [r for r in self.rows if any(r[k] != new[k] for k in same)] + [new]
        self.rows.sort(key=lambda r: (r["round"], r["member"]))
        text = io.StringIO()
        table = csv.DictWriter(text, self.columns, lineterminator="\n")
        table.writeheader()
        table.writerows(self.rows)
        write_atomically(self.file, text.getvalue())

    @property
    def columns(self) -> tuple[str, ...]:
        """`copied_from` is the member whose agent it went on with, empty for its own."""
        begun = ("round", "member", "copied_from", "seed", "step", "score")
        return (*begun, *self.keys, "parent", "folder")

    def best(self) -> dict[str, Any] | None:
        """The row of the last round with the highest score."""
        last = max((r["round"] for r in self.rows), default=0)
        scored = [r for r in self.rows if r["round"] == last and math.isfinite(r["score"])]
        return max(scored, key=lambda r: r["score"], default=None)

    def way(self, member: int) -> list[dict[str, Any]]:
        """The rows through which a member's agent came to be, the first piece first."""
        found: list[dict[str, Any]] = []
        rows = {r["folder"]: r for r in self.rows if r["folder"]}
        mine = [r for r in self.rows if r["member"] == member and r["folder"]]
        folder = mine[-1]["folder"] if mine else ""
        while folder in rows:
            found.insert(0, rows[folder])
            folder = rows[folder]["parent"]
        return found


def _shown(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def said_of(row: Mapping[str, Any], keys: tuple[str, ...], rounds: int) -> str:
    """One line about one member's part of a round."""
    values = " ".join(f"{key.rpartition('.')[2]}={_shown(row[key])}" for key in keys)
    score = _shown(row["score"]) if math.isfinite(row["score"]) else "failed"
    origin = "" if row["copied_from"] == "" else f", copied from member {row['copied_from']}"
    return (
        f"round {row['round']}/{rounds} member {row['member']}: step {row['step']:,}, "
        f"score {score}  {values}{origin}"
    )


def require_same(population: Population, ray: str) -> None:
    """Write what the population is, or refuse a folder that holds another one."""
    file = population.folder / RECORD
    space = {key: asdict(allowed) for key, allowed in population.space.items()}
    about = asdict(population.about)
    about.pop("address")
    ours = {
        "version": VERSION,
        **about,
        "seed": population.seed,
        "total_steps": population.total_steps,
        "space": json.loads(json.dumps(space)),
        "common": sorted(population.common),
        "ray": ray,
    }
    if not file.exists():
        write_atomically(file, json.dumps(ours, indent=1) + "\n")
        return
    try:
        theirs = dict(json.loads(guard.read_text(file)))
    except (OSError, ValueError, TypeError) as error:
        raise UserError(f"{file} cannot be read: {error}.") from None
    if (version := theirs.get("version")) != VERSION:
        raise UserError(
            f"{file} is of version {version}, whose pieces are other runs than those of version "
            f"{VERSION}: name another folder with run_dir=."
        )
    differ = [key for key in {**ours, **theirs} if ours.get(key) != theirs.get(key)]
    if differ == ["ray"]:
        raise UserError(
            f"{file}: this population was decided by Ray {theirs.get('ray')}, and {ray} may decide "
            "otherwise: install that version, or name another folder with run_dir=."
        )
    if differ:
        raise UserError(
            f"{file} is of another population than this command (they differ in "
            f"{', '.join(differ)}): name another folder with run_dir=."
        )


def launch(overrides: list[str], config_dirs: list[Path]) -> int:
    """Train a population, or go on with one; the exit code says if all of it is done."""
    population = plan(overrides, config_dirs)
    first = population.piece(0, 1, population.beginning(0), seed=population.seed, parent=None)
    check_launch([first.config])
    try:
        from ray import __version__ as version
        from ray import tune  # noqa: F401
    except ImportError:
        raise UserError(MISSING) from None
    check_writable(population.folder)
    population.folder.mkdir(parents=True, exist_ok=True)
    require_same(population, version)
    from reprl.sweeps.population_tune import run

    return run(population)
