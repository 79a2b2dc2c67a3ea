"""A population under Ray Tune: its scheduler decides, its actors train one piece after another.

`reprl.sweeps.population` -> **tune.Tuner with PopulationBasedTraining** -> `Worker` of a cluster's
jobs -> one run folder a piece. Tune's own folder is thrown away at the end: what it decided can be
decided again, and what was trained lies in the run folders. Imports Ray.
"""

from __future__ import annotations

import json
import os
import random
import secrets
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import ray
from ray import tune
from ray.tune.schedulers import PopulationBasedTraining

from reprl import trust
from reprl.config.compose import search_dirs
from reprl.errors import UserError
from reprl.escaping import shown
from reprl.ray_cluster import join
from reprl.rng import stream_seed
from reprl.runs.folder import RunFolder, step_of
from reprl.runs.progress import duration
from reprl.runs.signals import STOPPING, handled
from reprl.sweeps.cluster.job import POLL, Launch, Worker
from reprl.sweeps.cluster.launch import spec
from reprl.sweeps.ledger import Ledger
from reprl.sweeps.population import TABLE, Lineage, Population, Values, said_of, within
from reprl.sweeps.process import GRACE
from reprl.sweeps.search import Interval, Space
from reprl.sweeps.tune import validated

SCORE, ROUND = "score", "round"
STATE = "member.json"  # of a member, in Tune's checkpoint: which piece it has come to
DIVERGED = "diverged"
QUIET = {
    "RAY_CHDIR_TO_TRIAL_DIR": "0",
    "TUNE_DISABLE_SIGINT_HANDLER": "1",
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "RAY_AIR_NEW_OUTPUT": "0",
}


@dataclass(frozen=True)
class Standing:
    """Where a member's agent stands: the piece it came from, whose it was, and its seed."""

    member: int
    round: int = 0
    folder: str = ""
    seed: int = 0


class Member(tune.Trainable):  # type: ignore[misc]
    """One member; a step of it is one piece, in a process of its own."""

    def setup(self, config: dict[str, Any]) -> None:
        self.population: Population = config["population"]
        self.launch: Launch = config["launch"]
        os.chdir(self.launch.cwd)
        os.environ.update(self.launch.trust)
        trust.begin()
        from reprl.cli.arguments import name_folders

        dirs = self.population.config_dirs
        name_folders(search_dirs(list(self.population.common), list(dirs)))
        self._begin()

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        self.config = new_config
        self._begin()
        return True

    @property
    def member(self) -> int:
        """Its number, from Tune's name of it: who takes over another's agent gets its config."""
        return int(self.trial_name.rpartition("_")[2])

    def _begin(self) -> None:
        self.place = Standing(self.member, seed=self.population.seed + self.member)

    def step(self) -> dict[str, Any]:
        """Train the next piece, or take what it came to before."""
        member, before = self.member, self.place
        values: Values = {key: self.config[key] for key in self.population.space}
        number = before.round + 1
        folder, score = train_piece(
            self.population, self.launch, member=member, number=number, values=values, begin=before
        )
        copied = before.member if before.member != member else ""
        step = step_of(RunFolder(folder).record()) if folder else 0
        name = folder.name if folder else ""
        went_on = np.isfinite(score)  # after a divergence the piece before is tried again
        self.place = Standing(member, number, name if went_on else before.folder, before.seed)
        return {
            **values,
            SCORE: score,
            ROUND: number,
            "member": member,
            "copied_from": copied,
            "seed": before.seed,
            "step": step,
            "parent": before.folder,
            "folder": name,
        }

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        Path(checkpoint_dir, STATE).write_text(json.dumps(vars(self.place)))

    def load_checkpoint(self, checkpoint: Any) -> None:
        self.place = Standing(**json.loads(Path(checkpoint, STATE).read_text()))


def train_piece(
    population: Population,
    launch: Launch,
    *,
    member: int,
    number: int,
    values: Values,
    begin: Standing,
) -> tuple[Path | None, float]:
    """The folder of a piece and its score at the end, minus infinity where it diverged."""
    parent = launch.folder / begin.folder if begin.folder else None
    job = population.piece(member, number, values, seed=begin.seed, parent=parent)
    task = spec(job)
    launch.folder.joinpath(".claims").mkdir(exist_ok=True)
    deadline = time.monotonic() + 2 * GRACE
    while (status := Worker(launch, task).run()) in ("elsewhere", "running"):
        # left behind by a command that was killed: it writes its checkpoint and ends
        if time.monotonic() > deadline:
            raise RuntimeError(f"{job.name} is being trained by another process")
        time.sleep(POLL)
    ledger = Ledger(launch.folder)
    ledger.open([task])
    entry = ledger.entries[task.identity]
    folder = launch.folder / entry.folder
    if status == "finished":
        scores = validated(folder)
        return folder, scores[max(scores)]
    if status == "failed" and str(entry.reason).startswith(DIVERGED):
        return folder, float("-inf")
    raise RuntimeError(f"{entry.folder} is {status}: {entry.reason or 'see its log'}")


def mutations_of(space: Space) -> dict[str, Any]:
    """The space as Tune's scheduler takes it: distributions, and lists for what is chosen."""
    found: dict[str, Any] = {}
    for key, allowed in space.items():
        if not isinstance(allowed, Interval):
            found[key] = list(allowed.values)
        elif allowed.whole:
            draw = tune.lograndint if allowed.log else tune.randint
            found[key] = draw(int(allowed.low), int(allowed.high) + 1)
        else:
            found[key] = (tune.loguniform if allowed.log else tune.uniform)(
                allowed.low, allowed.high
            )
    return found


@dataclass(frozen=True)
class Back:
    """What is moved beyond an interval is put back to its end."""

    space: Space

    def __call__(self, config: dict[str, Any]) -> dict[str, Any]:
        limits = {k: a for k, a in self.space.items() if isinstance(a, Interval)}
        return config | {key: within(a, config[key]) for key, a in limits.items()}


class Decisions(PopulationBasedTraining):  # type: ignore[misc]
    """Tune's scheduler, whose choices after a round depend on seed, round and scores alone."""

    def __init__(self, population: Population, lineage: Lineage) -> None:
        self.population, self.lineage = population, lineage
        self.began = time.monotonic()
        super().__init__(
            time_attr=ROUND,
            metric=SCORE,
            mode="max",
            perturbation_interval=1,
            hyperparam_mutations=mutations_of(population.space),
            quantile_fraction=population.about.quantile,
            resample_probability=population.about.resample,
            custom_explore_fn=Back(population.space),
            log_config=False,
            synch=True,
        )

    def on_trial_add(self, tune_controller: Any, trial: Any) -> None:
        trial.config.update(self.population.beginning(trial.config["member"]))
        super().on_trial_add(tune_controller, trial)

    def on_trial_result(self, tune_controller: Any, trial: Any, result: dict[str, Any]) -> str:
        self._note(result)
        seed = stream_seed(self.population.seed, "pbt", "decide", int(result[ROUND]))
        random.seed(seed)
        np.random.seed(seed % 2**32)
        decision: str = super().on_trial_result(tune_controller, trial, result)
        return decision

    def on_trial_complete(self, tune_controller: Any, trial: Any, result: dict[str, Any]) -> None:
        self._note(result)
        super().on_trial_complete(tune_controller, trial, result)

    def _note(self, result: Mapping[str, Any]) -> None:
        self.lineage.add(result)
        rounds = self.population.rounds
        line = said_of(result, self.lineage.keys, rounds)
        done, whole = len(self.lineage.rows), rounds * self.population.about.members
        elapsed = time.monotonic() - self.began
        left = duration(elapsed * (whole - done) / done)
        print(shown(f"{line}  ({done}/{whole}, {left} left)"), flush=True)


def run(population: Population) -> int:
    """Train the population to its end; 0 if every piece of it is finished."""
    os.environ.update(QUIET)
    identity = f"{time.strftime('%Y-%m-%d_%H-%M-%S')}_{secrets.token_hex(3)}"
    launch = Launch(
        id=identity,
        folder=population.folder,
        cwd=Path.cwd(),
        jobs=(),
        retry=population.settings.retry,
        time_limit=population.settings.time_limit,
        ray=None,
        trust=trust.environment(),
    )
    launch.place.mkdir(parents=True, exist_ok=True)
    lineage = Lineage(population.folder / TABLE, tuple(population.space))
    first = population.piece(0, 1, population.beginning(0), seed=population.seed, parent=None)
    cores = first.config.threads + first.config.env.workers
    slots = population.settings.jobs or max(1, len(os.sched_getaffinity(0)) // cores)
    address = population.about.address
    named = {} if address is None else {"address": address}
    join({"num_cpus": slots * cores, **named}, "sweep.address")
    about, rounds = population.about, population.rounds
    print(
        f"{about.members} members in {population.folder}: {rounds} rounds of {about.interval:,} "
        f"steps, {len(list(population.folder.glob('[0-9]*_*/run.json')))} pieces begun before",
        flush=True,
    )
    stopped: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:
        stopped.append(number)
        launch.stop.touch()

    storage = population.folder / ".tune"
    try:
        with handled(STOPPING, stop):
            errors = _fit(population, launch, lineage, storage, cores)
    finally:
        ray.shutdown()
        shutil.rmtree(storage, ignore_errors=True)
    if stopped:
        print("the same command goes on from here.")
        return 128 + stopped[0]
    if errors:
        raise UserError(f"{errors[0]}; the same command goes on with the others.")
    _finish(lineage, rounds)
    return 0


def _fit(
    population: Population, launch: Launch, lineage: Lineage, storage: Path, cores: int
) -> list[str]:
    """Let Tune run; what went wrong, in a line each."""
    os.environ["TUNE_MAX_PENDING_TRIALS_PG"] = str(population.about.members)
    bare = replace(population, settings=replace(population.settings, jobs=None))
    tuner = tune.Tuner(
        tune.with_resources(Member, {"cpu": cores}),
        param_space={
            "member": tune.grid_search(list(range(population.about.members))),
            "population": bare,
            "launch": launch,
        },
        tune_config=tune.TuneConfig(
            scheduler=Decisions(population, lineage),
            num_samples=1,
            reuse_actors=True,
            trial_name_creator=_name,
        ),
        run_config=tune.RunConfig(
            name=launch.id,
            storage_path=str(storage),
            stop={ROUND: population.rounds},
            failure_config=tune.FailureConfig(fail_fast=True),
            verbose=0,
        ),
    )
    return [_reason(error) for error in tuner.fit().errors]


def _name(trial: Any) -> str:
    return f"member_{trial.config['member']}"


def _reason(error: BaseException) -> str:
    """What a member said last, without Ray's account of where."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    last = lines[-1] if lines else type(error).__name__
    return last.partition("RuntimeError: ")[2] or last


def _finish(lineage: Lineage, rounds: int) -> None:
    best = lineage.best()
    print(f"{len(lineage.rows)} pieces, {rounds} rounds: {lineage.file}")
    if best is None:
        raise UserError("no member came to the end without diverging: try smaller values.")
    way = lineage.way(best["member"])
    for row in way:
        print(shown(f"  {said_of(row, lineage.keys, rounds)}"))
    folder = lineage.file.parent / best["folder"]
    print(shown(f"best {best['score']:.4g}: {folder}"))
    print(shown(f"next: reprl evaluate {folder}"))
