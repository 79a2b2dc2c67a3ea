"""`reprl train -m sweep=tune`: trials that a study proposes, pruned by validation, run as jobs.

plan -> search -> ledger -> **processes** -> run folders, like any sweep's. A trial that does worse
on the validation variants than most did at its step is stopped. The same command goes on with a
study that was killed, and several launchers may share one by its folder.
"""

from __future__ import annotations

import csv
import hashlib
import io
import os
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from reprl.config.compose import options, search_dirs
from reprl.config.schema import load
from reprl.disk import write_atomically
from reprl.errors import UserError
from reprl.escaping import shown
from reprl.runs.folder import RunFolder, score_of
from reprl.runs.metrics import progress_of
from reprl.runs.places import check_launch, check_writable, expanded
from reprl.runs.signals import STOPPING, handled
from reprl.schema import VALIDATION_SCORE
from reprl.sweeps.ledger import RESUMABLE, Ledger
from reprl.sweeps.plan import ALONE, Job, SweepSettings, one_place, settings_of
from reprl.sweeps.process import RETRIES, Running, command
from reprl.sweeps.search import Search, Space, space_of
from reprl.tables import read_rows

if TYPE_CHECKING:
    from optuna.trial import Trial

POLL = 0.2
LOOK = 2.0  # seconds between two looks at what the trials have scored
SAY = 60.0  # seconds between two words on trials of other launchers
TABLE = "trials.csv"


@dataclass(frozen=True)
class Tuning:
    """A search that was checked and has not begun."""

    space: Space
    common: tuple[str, ...]  # overrides that all trials share
    settings: SweepSettings
    folder: Path
    seed: int
    config_dirs: tuple[Path, ...]

    def job(self, number: int, words: list[str]) -> Job:
        """One trial as a job, its configuration checked."""
        overrides = [*self.common, *words]
        config = load(overrides, list(self.config_dirs))
        return Job(number, tuple(overrides), config, self.config_dirs)


def plan(overrides: list[str], config_dirs: list[Path]) -> Tuning:
    """Check a search before its first trial; the first thing wrong raises a UserError."""
    rest, settings, file = settings_of(overrides, config_dirs)
    if settings.max_seeds is not None:
        raise UserError("sweep.trials and seeds=until_decided exclude each other: choose one.")
    rest = [o for o in rest if o not in ("hydra/sweeper=basic", "hydra/launcher=reprl")]
    if theirs := [o for o in rest if o.lstrip("+~").startswith(("hydra/", "hydra."))]:
        raise UserError(f"'{theirs[0]}': sweep=tune runs on this machine, with its own launcher.")
    given = {o.lstrip("+~").partition("=")[0] for o in rest}
    rest += [f"{key}={value}" for key, value in {**file, **ALONE}.items() if key not in given]
    place, rest = one_place(rest)
    dirs = search_dirs(overrides, config_dirs)
    space, common = space_of(rest, lambda group: options(group, dirs))
    mark = hashlib.sha256(repr((sorted(space.items()), sorted(common))).encode()).hexdigest()[:8]
    folder = expanded(place) if place is not None else _folder(mark)
    tuning = Tuning(space, tuple(common), settings, folder, 0, tuple(config_dirs))
    config = tuning.job(0, _first(space)).config
    for key, values in space.items():  # each value by itself, the other keys at their first
        for edge in values.edges[1:]:
            tuning.job(0, [*_first({k: v for k, v in space.items() if k != key}), f"{key}={edge}"])
    if not config.eval.every or config.eval.every > config.total_steps:
        raise UserError(
            f"eval.every={config.eval.every}: a search is judged by validation: set it to at "
            f"most total_steps={config.total_steps}."
        )
    return Tuning(space, tuple(common), settings, folder, config.seed, tuple(config_dirs))


def _first(space: Space) -> list[str]:
    return [f"{key}={values.edges[0]}" for key, values in space.items()]


def _folder(mark: str) -> Path:
    """The folder this very search had before, or a new one that sorts by time."""
    before = sorted(Path("runs").glob(f"*_tune_{mark}"))
    new = Path("runs") / f"{time.strftime('%Y-%m-%d_%H-%M-%S')}_tune_{mark}"
    return before[-1] if before else new


def described(tuning: Tuning) -> str:
    """What a search would do, for --cfg."""
    lines = [f"{tuning.settings.trials} trials in {tuning.folder}, each with"]
    lines += [f"  {' '.join(tuning.common)}", "searching"]
    lines += [f"  {key}: {values}" for key, values in tuning.space.items()]
    return "\n".join(lines)


@dataclass
class Attempt:
    """A trial at work."""

    trial: Trial
    job: Job
    running: Running
    looked: float = 0.0


class Tune:
    """Runs the trials of a study in processes of this machine."""

    def __init__(self, tuning: Tuning) -> None:
        self.tuning = tuning
        assert tuning.settings.trials is not None
        check_writable(tuning.folder)
        self.search = Search(
            tuning.folder, tuning.space, trials=tuning.settings.trials, seed=tuning.seed
        )
        self.ledger = Ledger(tuning.folder)
        self.jobs: dict[int, Job] = {}  # by trial
        self.slots = tuning.settings.jobs or len(os.sched_getaffinity(0))
        self.attempts: list[Attempt] = []
        self.tries: Counter[int] = Counter()
        self.elsewhere: dict[int, float] = {}  # trials others have, and when to ask for them again
        self.said: tuple[list[int], float] = ([], 0.0)  # of those, which and when
        self.stop_signal: int | None = None

    def run(self) -> int:
        """Work until there are as many trials as wanted; 0 if none of them failed."""
        wanted, there = self.search.trials, len(self.search.all())
        print(f"{wanted} trials in {self.tuning.folder}: {there} proposed before", flush=True)
        try:
            with handled(STOPPING, self._stop):
                while True:
                    self._watch()
                    begun = self._fill()
                    if not self.attempts and not begun and not self._awaits():
                        break
                    time.sleep(POLL)
        finally:
            for attempt in self.attempts:  # only on an error of our own
                attempt.running.process.kill()
        self._finish()
        if self.stop_signal is not None:
            return 128 + self.stop_signal
        left = [t for t in self.search.all() if t.state.name not in ("COMPLETE", "PRUNED")]
        return int(bool(left) or self.search.best() is None)

    def _awaits(self) -> bool:
        """Whether there is nothing to do but to wait for other launchers, which is said."""
        if self.stop_signal is not None:
            return False
        unfinished = (trial.number for trial, _ in self.search.unfinished())
        awaited = [number for number in unfinished if self.tries[number] <= RETRIES]
        known = sorted({*awaited} & {*self.elsewhere})
        numbers, when = self.said
        now = time.monotonic()
        if known and (known != numbers or now - when > SAY):
            self.said = known, now
            steps = ", ".join(f"{number} (step {self._step(number):,})" for number in known)
            print(f"waiting for what other launchers train: trial {steps}", flush=True)
        return bool(awaited)

    def _step(self, number: int) -> int:
        return progress_of(self._folder(self.jobs[number]))[0]

    # -- beginning -------------------------------------------------------------------------------

    def _fill(self) -> bool:
        """Begin trials while there is room: first what was left behind, then new ones."""
        begun = False
        while self.stop_signal is None and len(self.attempts) < self.slots:
            mine = {attempt.trial.number for attempt in self.attempts}
            waiting = [
                (trial, words)
                for trial, words in self.search.unfinished()
                if trial.number not in mine
                and self.tries[trial.number] <= RETRIES
                and time.monotonic() >= self.elsewhere.get(trial.number, 0.0)
            ]
            if any(self._begin(trial, words) for trial, words in waiting):
                begun = True
                continue
            asked = self.search.ask()
            if asked is None:
                break
            begun = True
            self._begin(*asked)
        return begun

    def _begin(self, trial: Trial, words: list[str]) -> bool:
        """Start or resume a trial's run, or take the score it has; False if another has it."""
        number = trial.number
        try:
            job = self.jobs.get(number) or self.tuning.job(number, words)
        except UserError as error:
            print(shown(f"trial {number} is refused: {error}"), flush=True)
            self.search.fail(number)
            return True
        self.jobs[number] = job
        self.ledger.open(list(self.jobs.values()))
        self.elsewhere[number] = time.monotonic() + LOOK
        claim = self.ledger.claim(job)
        if claim is None:
            return False
        entry = self.ledger.entries[job.identity]
        if self._state(number) != "RUNNING":  # whoever had it has just told how it ended
            claim.close()
            return True
        todo = command(job, self.ledger, self.tuning.settings.retry)
        if todo is None:
            self._conclude(trial, job, entry.status)
            claim.close()
            return entry.status != "running"
        self.elsewhere.pop(number)
        limit = self.tuning.settings.time_limit
        running = Running(job, todo, folder=self.ledger.folder, claim=claim, limit=limit)
        self.tries[number] += 1
        entry.attempts += 1
        word = "resumed" if entry.status in RESUMABLE else "started"
        entry.status, entry.reason = "running", None
        self.ledger.write()
        print(shown(f"trial {number} {word}  {' '.join(words)}"), flush=True)
        self.attempts.append(Attempt(trial, job, running))
        return True

    # -- watching --------------------------------------------------------------------------------

    def _watch(self) -> None:
        for attempt in list(self.attempts):
            running, number = attempt.running, attempt.trial.number
            if self.stop_signal is not None and running.stopped is None:
                running.tell()
            ended = running.poll() is not None
            if ended or time.monotonic() - attempt.looked > LOOK:
                attempt.looked = time.monotonic()
                self._look(attempt, ended=ended)
            if not ended:
                continue
            self.attempts.remove(attempt)
            entry = running.settle(self.ledger)
            if self._is_pruned(number):
                entry.reason = "pruned"
            self.ledger.write()
            self._conclude(attempt.trial, attempt.job, entry.status)
            running.claim.close()

    def _look(self, attempt: Attempt, *, ended: bool) -> None:
        """Report new validation scores; stop a trial that most others were ahead of."""
        number, running = attempt.trial.number, attempt.running
        if self._is_pruned(number):
            return
        scores = validated(self._folder(attempt.job))
        worse = self.search.report(attempt.trial, scores)
        if worse and self.tuning.settings.prune is not False and running.stopped is None:
            finished = ended and self.ledger.look(attempt.job).status == "finished"
            if finished:
                return
            step = max(scores)
            self.search.prune(number)
            print(f"trial {number} pruned at step {step:,}: {scores[step]:.4g}", flush=True)
            if not ended:
                running.tell()

    def _conclude(self, trial: Trial, job: Job, status: str) -> None:
        """Tell the study how a trial's run ended; what can go on stays open."""
        number = trial.number
        if self._is_pruned(number):
            return
        if status == "finished":
            folder = RunFolder(self._folder(job))
            self.search.report(trial, validated(folder.path))
            score = score_of(folder)
            if score is None:
                self.search.fail(number)
                return
            self.search.complete(number, score)
            print(f"trial {number} finished, score {score:.4g}", flush=True)
        elif status == "failed":
            reason = self.ledger.entries[job.identity].reason or "failed"
            print(shown(f"trial {number} failed: {reason}"), flush=True)
            self.search.fail(number)

    def _is_pruned(self, number: int) -> bool:
        return self._state(number) == "PRUNED"

    def _state(self, number: int) -> str:
        return str(self.search.all()[number].state.name)

    def _folder(self, job: Job) -> Path:
        return self.ledger.folder / self.ledger.entries[job.identity].folder

    def _stop(self, number: int, frame: FrameType | None) -> Any:
        again = self.stop_signal is not None
        self.stop_signal = number
        for attempt in self.attempts:
            if again:
                attempt.running.process.kill()
            else:
                attempt.running.tell()

    # -- the end ---------------------------------------------------------------------------------

    def _finish(self) -> None:
        trials = self.search.all()
        for frozen in trials:  # also those of other launchers
            if frozen.number not in self.jobs and set(frozen.params) == set(self.tuning.space):
                self.jobs[frozen.number] = self.tuning.job(frozen.number, self.search.words(frozen))
        self.ledger.open(list(self.jobs.values()))
        text = io.StringIO()
        rows = csv.writer(text, lineterminator="\n")
        rows.writerow(["trial", "state", "score", *self.tuning.space, "folder"])
        for frozen in trials:
            job = self.jobs.get(frozen.number)
            folder = self._folder(job).name if job is not None else ""
            score = "" if frozen.value is None else repr(frozen.value)
            drawn = [frozen.params.get(key, "") for key in self.tuning.space]
            rows.writerow([frozen.number, frozen.state.name.lower(), score, *drawn, folder])
        write_atomically(self.tuning.folder / TABLE, text.getvalue())
        counts = Counter(frozen.state.name.lower() for frozen in trials)
        print(", ".join(f"{n} {state}" for state, n in sorted(counts.items())))
        best = self.search.best()
        if best is not None:
            words = " ".join(self.search.words(best))
            where = self._folder(self.jobs[best.number])
            print(shown(f"best {best.value:.4g} with {words}: {where}"))
        running = {frozen.number for frozen in trials if frozen.state.name == "RUNNING"}
        if running - {*self.elsewhere}:
            print("the same command goes on with what was interrupted or killed.")
        if others := running & {*self.elsewhere}:
            print(f"other launchers go on with trial {', '.join(map(str, sorted(others)))}.")


def validated(folder: Path) -> dict[int, float]:
    """The validation scores of a run by step."""
    found = {}
    for row in read_rows(folder / "metrics.csv"):
        score = row.get(VALIDATION_SCORE)
        if score not in (None, ""):
            found[int(float(row["step"]))] = float(score)
    return found


def launch(overrides: list[str], config_dirs: list[Path]) -> int:
    """Search, or go on with a search; the exit code says if all trials ended well."""
    tuning = plan(overrides, config_dirs)
    check_launch([tuning.job(0, _first(tuning.space)).config])
    return Tune(tuning).run()
