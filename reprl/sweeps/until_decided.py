"""`reprl train -m seeds=until_decided`: seeds are added only where a declared claim is undecided.

plan -> **look** -> ledger -> launcher -> run folders -> evaluation -> look -> ... The first look is
at the sweep's own seeds, every next one at one seed more of the methods of claims that are still
undecided, up to `max_seeds`. What was decided is a function of the run folders and their games, so
that a launcher that was killed goes on by the same command; looks.json keeps the design, which
must not change once somebody has looked, and what each look said.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from reprl import guard, trust
from reprl.claims import FILE, Claims, read_claims
from reprl.config.compose import search_dirs
from reprl.envs.defaults import CLEAN
from reprl.errors import UserError, nearest
from reprl.escaping import shown
from reprl.runs.folder import runs_in
from reprl.runs.signals import STOPPING, handled
from reprl.sweeps.ledger import Ledger
from reprl.sweeps.plan import UNTIL, Job, Plan, with_seed

if TYPE_CHECKING:
    from reprl.analysis.claims import Judged
    from reprl.analysis.looks import Design, Record

POLL = 0.2
USUAL = "suite:published"  # what is played where a claim names no variants


@dataclass(frozen=True)
class Arm:
    """One way to train: the jobs of a sweep that differ in nothing but the seed."""

    jobs: tuple[Job, ...]

    @property
    def names(self) -> set[str]:
        """By which a claim may call it."""
        config = self.jobs[0].config
        return {config.method, str(config.choices.get("experiment") or config.method)}

    @property
    def seeds(self) -> list[int]:
        return [job.config.seed for job in self.jobs]


class UntilDecided:
    """Trains, evaluates and looks, until every claim is decided or has all its seeds."""

    def __init__(self, plan: Plan, ledger: Ledger, start: Callable[[Plan, Ledger], int]) -> None:
        self.plan, self.ledger, self.start = plan, ledger, start
        self.arms = arms(plan)
        self.claims = _claims(plan)
        self.pairs = [
            (_arm(self.arms, self.claims, c.method), _arm(self.arms, self.claims, c.baseline))
            for c in self.claims.claims
        ]
        self.variants = _variants(self.claims, plan)
        self.record = _record(plan, self.claims, self._design())
        self.stop_signal: int | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def run(self) -> int:
        """The exit code: 0 once there is nothing left to add, whatever was decided."""
        design = self.record.design
        self.record.write(self.ledger.folder)
        wanted = list(self.plan.jobs)
        opened = list(self.pairs)
        for count in design.looks:
            code = self._trained(wanted)
            if code:
                print(
                    f"No look at {count} seeds before all of their runs are finished: leaving out "
                    "those that are not would prefer whatever finishes."
                )
                return code
            if count not in self.record.said and (code := self._evaluated(opened, count)):
                return code
            judged = self._judged(count)
            said = self._say(count, judged)
            if self.record.said.get(count) != said:
                self.record.said[count] = said
                self.record.write(self.ledger.folder)
            opened = [
                pair
                for pair, (_, _, verdict) in zip(self.pairs, judged, strict=True)
                if verdict == "undecided"
            ]
            if not opened or count == design.most:
                break
            wanted = self._added(opened, design.seeds[count])
        return 0

    def _design(self) -> Design:
        from reprl.analysis.looks import Design

        first = self.arms[0].seeds
        most = self.plan.settings.max_seeds or len(first)
        if len(first) < 2:
            raise UserError(
                f"seeds={UNTIL} begins with the sweep's seeds, and one (seed={first[0]}) has no "
                "spread to judge by: name two or more in the sweep file."
            )
        there = max([len(first), *(len(seeds) for seeds in self._there().values())])
        if most < there:
            raise UserError(
                f"max_seeds={most} is less than what is there: "
                f"{there} seeds a method in {self.plan.folder} and the sweep file."
            )
        more = range(max(first) + 1, max(first) + 1 + most - len(first))
        return Design((*first, *more), len(first))

    def _there(self) -> dict[str, set[int]]:
        """The seeds that the folder's runs have, by method."""
        found: dict[str, set[int]] = {}
        known = {job.config.method for arm in self.arms for job in arm.jobs}
        for run in runs_in(self.plan.folder) if self.plan.folder.is_dir() else ():
            method = str(run.record().get("method"))
            if method in known:
                seed = guard.load_yaml(guard.read_text(run.config_file)).get("seed", 0)
                found.setdefault(method, set()).add(int(seed))
        return found

    def _jobs(self, arm: Arm, count: int) -> list[Job]:
        """An arm's jobs at the first `count` seeds, numbered behind those of the sweep."""
        design, place = self.record.design, self.arms.index(arm)
        more = [
            with_seed(
                arm.jobs[0], seed, len(self.plan.jobs) + (n - design.first) * len(self.arms) + place
            )
            for n, seed in enumerate(design.seeds[design.first : count], design.first)
        ]
        return [*arm.jobs, *more]

    def _added(self, opened: list[tuple[Arm, Arm]], seed: int) -> list[Job]:
        """The runs of one more seed for the methods of these claims."""
        count = self.record.design.seeds.index(seed) + 1
        return [self._jobs(arm, count)[-1] for arm in self._of(opened)]

    def _of(self, pairs: list[tuple[Arm, Arm]]) -> list[Arm]:
        return [arm for arm in self.arms if any(arm in pair for pair in pairs)]

    def _trained(self, jobs: Sequence[Job]) -> int:
        plan = replace(self.plan, jobs=tuple(jobs))
        self.ledger.open(plan.jobs)
        if all(self.ledger.entries[job.identity].status == "finished" for job in jobs):
            return 0
        return self.start(plan, self.ledger)

    def _evaluated(self, opened: list[tuple[Arm, Arm]], count: int) -> int:
        """Play the claims' variants with every run of the claims; nothing is played twice."""
        jobs = [job for arm in self._of(opened) for job in self._jobs(arm, count)]
        self.ledger.open(jobs)
        if count - 1 in self.record.said:  # the others were complete at the look before
            jobs = [job for job in jobs if job.config.seed == self.record.design.seeds[count - 1]]
        with handled(STOPPING, self._stop):
            for number, job in enumerate(jobs, 1):
                print(f"evaluating run {number} of {len(jobs)} for the look at {count} seeds")
                sys.stdout.flush()
                code = self._process_of(evaluation(self._folder(job), self, job))
                if self.stop_signal is not None:
                    return 128 + self.stop_signal
                if code:
                    log = self.ledger.folder / "logs" / "evaluation.log"
                    print(shown(f"the evaluation of {self._folder(job)} failed: see {log}"))
                    return 1
        return 0

    def _process_of(self, command: list[str]) -> int:
        if self.stop_signal is not None:
            return 1
        place = self.ledger.folder / "logs"
        place.mkdir(exist_ok=True)
        with open(place / "evaluation.log", "ab") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **trust.environment()},
                start_new_session=True,  # Ctrl-C reaches only the launcher, which tells it
            )
        while (code := self._process.poll()) is None:
            time.sleep(POLL)
        return code

    def _stop(self, number: int, frame: FrameType | None) -> Any:
        self.stop_signal = number
        if self._process is not None:
            self._process.terminate()

    def _folder(self, job: Job) -> Path:
        return self.ledger.folder / self.ledger.entries[job.identity].folder

    def _judged(self, count: int) -> list[tuple[Judged, float, str]]:
        """Every claim by the games of its methods' runs, of this sweep and up to this look."""
        from reprl.analysis.claims import judge
        from reprl.analysis.load import collect

        jobs = [job for arm in self._of(self.pairs) for job in self._jobs(arm, count)]
        self.ledger.read(jobs)
        done = [job for job in jobs if self.ledger.entries[job.identity].status == "finished"]
        results = collect([self._folder(job) for job in done], random_play=False)
        judged = judge(results, [self.claims])
        if len(judged) < len(self.pairs):
            why = next((w for w in results.warnings if str(self.claims.path) in w), "")
            raise UserError(why or f"{self.claims.path}: not all claims can be judged.")
        called = [
            (replace(o, method=o.claim.method, baseline=o.claim.baseline)) for o, _, _ in judged
        ]
        return [(one, p, v) for one, (_, p, v) in zip(called, judged, strict=True)]

    def _say(self, count: int, judged: list[tuple[Judged, float, str]]) -> list[str]:
        from reprl.analysis.claims import sentence

        level = self.record.design.level(count)
        said = [sentence(one, p, verdict, len(judged)) for one, p, verdict in judged]
        left = [one for one, _, verdict in judged if verdict == "undecided"]
        if not left:
            said.append("Every claim is decided: no seed is added.")
        elif count < self.record.design.most:
            names = dict.fromkeys(name for one in left for name in (one.method, one.baseline))
            seed = self.record.design.seeds[count]
            said.append(f"Seed {seed} is added to {', '.join(names)}.")
        print(f"Look at {count} seeds (it may be wrong with probability {level:.4f}):")
        for line in said:
            print(f"  {shown(line)}")
        sys.stdout.flush()
        return said


def described(plan: Plan) -> str:
    """What follows the jobs of a sweep that adds seeds."""
    claims = _claims(plan)
    found = arms(plan)
    names = dict.fromkeys(n for c in claims.claims for n in (c.method, c.baseline))
    for name in names:
        _arm(found, claims, name)
    return (
        f"then one seed at a time, up to {plan.settings.max_seeds} of each, for those of "
        f"{', '.join(names)} whose claims are undecided"
    )


def arms(plan: Plan) -> list[Arm]:
    """The jobs of a sweep by what they train, in the sweep's order."""
    found: dict[tuple[str, ...], list[Job]] = {}
    for job in plan.jobs:
        rest = tuple(o for o in job.overrides if not o.startswith("seed="))
        found.setdefault(rest, []).append(job)
    return [Arm(tuple(jobs)) for jobs in found.values()]


def evaluation(folder: Path, of: UntilDecided, job: Job) -> list[str]:
    """The command that plays what is missing of a run's games."""
    dirs = search_dirs(list(job.overrides), job.config_dirs)
    return [
        *(sys.executable, "-P", "-m", "reprl", "evaluate", str(folder)),
        f"variants={','.join(of.variants)}",
        f"episodes={of.claims.episodes}",
        *("agents=none", "progress=off"),
        *(f"--config-dir={d}" for d in dirs),
    ]


def _claims(plan: Plan) -> Claims:
    path = plan.folder / FILE
    if not path.is_file():
        raise UserError(
            f"seeds={UNTIL} decides the claims of {path}, which is not there: declare them there "
            "(docs/statistics.md) and name the folder with run_dir=."
        )
    return read_claims(path)


def _arm(found: list[Arm], claims: Claims, name: str) -> Arm:
    """The one way to train that a claim calls by this name."""
    called = [arm for arm in found if name in arm.names]
    if len(called) == 1:
        return called[0]
    known = sorted({n for arm in found for n in arm.names})
    if called:
        raise UserError(
            f"{claims.path}: '{name}' is {len(called)} different methods of this sweep: claims "
            "need one name each."
        )
    raise UserError(
        f"{claims.path}: this sweep has no method '{name}': choose from {', '.join(known)}."
        f"{nearest(name, known)}"
    )


def _variants(claims: Claims, plan: Plan) -> list[str]:
    """What the claims are about, and the clean game, all known before anything starts."""
    from reprl.evaluation.variants import expand

    names = [v for claim in claims.claims for v in claim.variants or (USUAL,)]
    expand(names, [], plan.jobs[0].config.env.game)
    return list(dict.fromkeys([CLEAN, *names]))


def _record(plan: Plan, claims: Claims, design: Design) -> Record:
    """What was written at earlier looks; a design or claims that changed since are refused."""
    from reprl.analysis.looks import FILE as LOOKS
    from reprl.analysis.looks import Record, read

    before = read(plan.folder)
    if before is None:
        return Record(design, claims.digest, {})
    path = plan.folder / LOOKS
    if before.design != design:
        raise UserError(
            f"max_seeds={design.most} with first seeds {_list(design.seeds[: design.first])} is "
            f"not what {path} began with ({before.design.most} and "
            f"{_list(before.design.seeds[: before.design.first])}): a design that changes after a "
            "look no longer holds its 5 %."
        )
    if before.claims != claims.digest:
        raise UserError(
            f"{claims.path} was edited after the first look: restore it, or begin in another "
            "folder."
        )
    return before


def _list(seeds: Sequence[int]) -> str:
    return ",".join(map(str, seeds))
