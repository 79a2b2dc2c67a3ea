"""The memory of a search: what Optuna proposed, what came of it, in a database of the sweep.

`sweep=tune` -> **search** -> tune -> one run folder a trial. Nothing here trains: whoever runs a
trial reports its validation scores and tells how it ended. Several launchers may ask one study, and
a trial whose launcher was killed stays open until somebody takes it up.
"""

from __future__ import annotations

import fcntl
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hydra.core.override_parser.types import IntervalSweep

from reprl import guard
from reprl.config.overrides import parse, values_of
from reprl.errors import UserError
from reprl.rng import stream_seed

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial, Trial

FILE = "study.db"
NAME = "tune"
RANDOM_FIRST = 5  # trials before the sampler and the pruner have anything to go by
MISSING = "sweep=tune needs Optuna, which is not installed: pip install 'reprl[tune]'."


@dataclass(frozen=True)
class Interval:
    """Numbers between two limits."""

    low: float
    high: float
    log: bool = False  # drawn by their logarithm
    whole: bool = False

    @property
    def edges(self) -> tuple[str, ...]:
        """The values to be checked before anything is tried."""
        return (_text(self, self.low), _text(self, self.high))

    def __str__(self) -> str:
        by = ", by its logarithm" if self.log else ""
        return f"{self.low:g} to {self.high:g}{', whole' if self.whole else ''}{by}"

    def suggested(self, trial: Trial, key: str) -> str:
        if self.whole:
            return str(trial.suggest_int(key, int(self.low), int(self.high), log=self.log))
        return repr(trial.suggest_float(key, self.low, self.high, log=self.log))


@dataclass(frozen=True)
class Words:
    """Values as the command line says them, of which one is chosen."""

    values: tuple[str, ...]

    @property
    def edges(self) -> tuple[str, ...]:
        """The values to be checked before anything is tried."""
        return self.values

    def __str__(self) -> str:
        return ", ".join(self.values)

    def suggested(self, trial: Trial, key: str) -> str:
        return str(trial.suggest_categorical(key, list(self.values)))


Space = dict[str, Interval | Words]


def space_of(
    overrides: list[str],
    offered: Callable[[str], Iterable[str]] = lambda group: (),
    *,
    kind: str = "sweep=tune",
    example: str = "attention=none,conv or ",
) -> tuple[Space, list[str]]:
    """What is to be searched, by key, and the overrides that all trials share.

    `interval(1e-5,1e-3)` is a range, `tag(log,interval(...))` one by its logarithm, and everything
    that gives a grid's values, such as `a,b`, is a choice.
    """
    space: Space = {}
    rest = []
    for text, override in zip(overrides, parse(overrides), strict=True):
        if not override.is_sweep_override():
            rest.append(text)
            continue
        key, value = override.get_key_element(), override.value()
        if key == "seed":
            raise UserError(
                f"'{text}': a search is over settings, and all of its trials have one seed."
            )
        if not isinstance(value, IntervalSweep):
            found = tuple(dict.fromkeys(values_of(override, offered)))
            space[key] = Words(found)
            if len(found) < 2:
                raise UserError(f"'{text}' gives nothing to search: name two or more values.")
            continue
        space[key] = _interval(text, value)
    if not space:
        raise UserError(
            f"{kind} has nothing to search: give a key several values, as in {example}"
            "'algo.learning_rate=tag(log,interval(1e-5,1e-3))'."
        )
    return space, rest


def _interval(text: str, value: IntervalSweep) -> Interval:
    low, high = value.start, value.end
    if low is None or high is None or not low < high:
        raise UserError(f"'{text}' must be an interval from a lower to a higher number.")
    log = "log" in value.tags
    if log and low <= 0:
        raise UserError(f"'{text}': there is no logarithm of {low:g}: begin above 0.")
    if wrong := value.tags - {"log"}:
        raise UserError(f"'{text}': the tag {min(wrong)} is unknown: there is log.")
    whole = isinstance(low, int) and isinstance(high, int)
    return Interval(low, high, log, whole)


class Search:
    """One study in the sweep's folder."""

    def __init__(self, folder: Path, space: Space, *, trials: int, seed: int = 0) -> None:
        try:
            import optuna
        except ImportError:
            raise UserError(MISSING) from None
        from sqlalchemy.engine import URL

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._optuna = optuna
        self.folder, self.space, self.trials, self.seed = folder, space, trials, seed
        folder.mkdir(parents=True, exist_ok=True)
        url = URL.create("sqlite", database=str(folder / FILE)).render_as_string()
        with self._locked():  # two that begin at once would make its tables twice
            try:
                storage = optuna.storages.RDBStorage(
                    url, engine_kwargs={"connect_args": {"timeout": 60}}
                )
                self.study = optuna.create_study(
                    study_name=NAME,
                    storage=storage,
                    load_if_exists=True,
                    direction="maximize",
                    pruner=optuna.pruners.MedianPruner(n_startup_trials=RANDOM_FIRST),
                )
                self._require_same_space()
            except UserError:
                raise
            except Exception as error:
                said = (str(error).strip() or type(error).__name__).splitlines()[0]
                raise UserError(f"{folder / FILE} cannot be used: {said}.") from error

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with guard.lock_file(self.folder / ".study.lock") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _require_same_space(self) -> None:
        ours = json.loads(json.dumps({key: asdict(values) for key, values in self.space.items()}))
        theirs = self.study.user_attrs.get("space")
        if theirs is None:
            self.study.set_user_attr("space", ours)
        elif theirs != ours:
            differ = [k for k in {**ours, **theirs} if ours.get(k) != theirs.get(k)]
            raise UserError(
                f"{self.folder / FILE} searches something else than this command (they differ in "
                f"{', '.join(differ)}): name another folder with run_dir=."
            )

    # -- trials -----------------------------------------------------------------------------------

    def ask(self) -> tuple[Trial, list[str]] | None:
        """A new trial and its overrides, or None when there are as many as wanted.

        What is proposed depends on the trials so far and their number, not on who asks.
        """
        with self._locked():
            taken = len(self.study.get_trials(deepcopy=False))
            if taken >= self.trials:
                return None
            drawn = stream_seed(self.seed, NAME, taken) % 2**32
            self.study.sampler = self._optuna.samplers.TPESampler(
                seed=drawn, n_startup_trials=RANDOM_FIRST
            )
            trial = self.study.ask()
            return trial, [f"{k}={v.suggested(trial, k)}" for k, v in self.space.items()]

    def unfinished(self) -> list[tuple[Trial, list[str]]]:
        """Trials that began and were never told about: at work elsewhere, or left by a kill."""
        state = self._optuna.trial.TrialState.RUNNING
        found = []
        with self._locked():  # nobody is proposing: what lacks a value was left by a kill
            for frozen in self.study.get_trials(deepcopy=False, states=(state,)):
                if set(frozen.params) != set(self.space):
                    self.fail(frozen.number)
                    continue
                trial = self._optuna.trial.Trial(self.study, frozen._trial_id)
                found.append((trial, self.words(frozen)))
        return found

    def words(self, frozen: FrozenTrial) -> list[str]:
        """A trial's overrides, from the values that were drawn for it."""
        return [f"{key}={_text(self.space[key], frozen.params[key])}" for key in self.space]

    def report(self, trial: Trial, scores: Mapping[int, float]) -> bool:
        """Note validation scores by step; whether the trial is worse than most were by then."""
        known = self._frozen(trial.number).intermediate_values
        worse = False
        for step in sorted(scores):
            if step not in known:
                trial.report(scores[step], step)
                worse = worse or trial.should_prune()
        return worse

    def complete(self, number: int, score: float) -> None:
        """A trial came to its end with this score."""
        self.study.tell(number, score, skip_if_finished=True)

    def prune(self, number: int) -> None:
        """A trial was stopped because others were better."""
        pruned = self._optuna.trial.TrialState.PRUNED
        self.study.tell(number, state=pruned, skip_if_finished=True)

    def fail(self, number: int) -> None:
        """A trial has no score to learn from."""
        failed = self._optuna.trial.TrialState.FAIL
        self.study.tell(number, state=failed, skip_if_finished=True)

    def _frozen(self, number: int) -> FrozenTrial:
        found: FrozenTrial = self.study.get_trials(deepcopy=False)[number]
        return found

    def all(self) -> list[FrozenTrial]:
        """Every trial so far, in the order they were proposed."""
        found: list[FrozenTrial] = self.study.get_trials(deepcopy=False)
        return found

    def best(self) -> FrozenTrial | None:
        """The finished trial with the highest score."""
        done = [t for t in self.all() if t.state.name == "COMPLETE"]
        return max(done, key=lambda t: t.value or 0.0, default=None)


def _text(values: Interval | Words, value: Any) -> str:
    if isinstance(values, Interval):
        number = min(max(value, values.low), values.high)
        return str(int(number)) if values.whole else repr(float(number))
    if value not in values.values:
        raise UserError(f"{FILE}: {value!r} is none of {', '.join(values.values)}.")
    return str(value)
