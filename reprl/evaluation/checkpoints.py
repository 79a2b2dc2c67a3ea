"""What a path of the command line is: a run, a sweep, one checkpoint, a script's or SB3's model."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from reprl import checkpoint, guard
from reprl.checkpoint.files import LONGEST_STEP, candidates
from reprl.config.schema import Config
from reprl.envs.defaults import GYMNASIUM, PROCGEN
from reprl.envs.games import canonical
from reprl.envs.gymnasium_ids import sees_pictures
from reprl.envs.machine import OBSERVED
from reprl.errors import UserError
from reprl.escaping import shown
from reprl.evaluation.archives import Archive, archive
from reprl.evaluation.players import labels_of
from reprl.evaluation.saved import Saved
from reprl.naming import parts_of
from reprl.runs import code
from reprl.runs.agents import work_folder
from reprl.runs.folder import RunFolder, open_run, runs_in, step_of
from reprl.runs.places import check_writable, game_at, write_game

CHOICES = ("newest", "best")


@dataclass(frozen=True)
class Target:
    """One checkpoint of one run."""

    folder: RunFolder
    config: Config
    step: int
    exact: bool  # the step was asked for; otherwise a damaged newest one may give way
    out: Path | None = None  # where what is measured goes, if not into the run folder

    @property
    def name(self) -> str:
        return self.folder.path.resolve().name

    @property
    def place(self) -> Path:
        """The folder in which evaluation/ and attention/ are written."""
        return self.out or self.folder.path

    @property
    def seed(self) -> int:
        return self.config.seed

    @property
    def game(self) -> str:
        return self.config.env.game

    @property
    def steps(self) -> list[int]:
        """Of all checkpoints that are kept."""
        return checkpoint.steps(self.folder.path)

    @property
    def metrics_file(self) -> Path:
        return self.folder.metrics_file

    @property
    def settings(self) -> dict[str, Any]:
        """What the environment must share with training for the agent to see the same."""
        env = self.config.env
        return {key: getattr(env, key) for key in OBSERVED}

    @property
    def method(self) -> str:
        return str(self.folder.record().get("method") or self.config.method)

    def labels(self, step: int) -> dict[str, Any]:
        """The columns that say which agent a game belongs to."""
        parts = parts_of(self.config.plain())
        return labels_of(self.method, run=self.name, train_seed=self.seed, step=step, **parts)

    def load(self) -> Any:
        """The model of the checkpoint; code that was edited since is named, for it plays now."""
        for warning in code.warnings_of(self.folder.record(), self.name):
            print(shown(f"WARNING: {warning}"), file=sys.stderr)
        return checkpoint.load(self.folder.path, step=self.step if self.exact else None)


Measured = Target | Archive | Saved


def targets(
    place: Path,
    which: str = "newest",
    *,
    out: Path | None = None,
    into: str | None = "evaluation",
    game: str | None = None,
) -> tuple[list[Measured], list[str]]:
    """The checkpoints to evaluate, and a sentence for each run of a sweep that has none.

    Where nothing can be written is said here, before anything is played; a caller that writes
    nothing gives `into=None`. `game` is that of a .zip, which does not say it.
    """
    if place.is_file():
        found, problems = found_in(place, which, out, game)
    else:
        runs, problems = _of_folder(place, which, game)
        out = work_folder(place, out)
        if out is not None:
            several = len(runs) > 1
            runs = [replace(t, out=out / t.name if several else out) for t in runs]
        found = [*runs]
    if into is None:
        return found, problems
    for target in found:
        key, then = ("out", "") if out else ("", "; give out=DIR for a folder of your own")
        check_writable(target.place / into, key, then)
        _require_one_game(target)
    return found, problems


def keep_game(target: Measured) -> None:
    """Write down which game is played, where no configuration says it: the report must know."""
    if isinstance(target, Target):
        return
    write_game(target.place, target.game)


def _require_one_game(target: Measured) -> None:
    """Refuse to put games of one kind beside another's: scores would be taken for each other."""
    if isinstance(target, Target):
        return
    there = game_at(target.place)
    if there not in (None, target.game):
        raise UserError(
            f"{target.place} holds what was measured in {there}: give out=DIR for a folder of what "
            f"is measured in {target.game}."
        )


def require_ale(
    found: Sequence[Measured], what: str, *, procgen: bool = False, pictures: bool = False
) -> None:
    """Refuse runs without ALE's screen; Procgen's, or any `pictures` seen, may be enough."""
    for target in found:
        if target.game.startswith(PROCGEN) and not procgen:
            raise UserError(
                f"{what} is for ALE's games, and {target.name} plays {target.game}: such a run can "
                "be trained, resumed, evaluated, filmed, asked where it looks and reported."
            )
        if target.game.startswith(GYMNASIUM) and not (pictures and sees_pictures(target.game)):
            raise UserError(
                f"{what} looks at the screen of ALE's games, and {target.name} plays "
                f"{target.game}: such a run can be trained, resumed, evaluated and reported."
            )


def found_in(
    place: Path, which: str = "newest", out: Path | None = None, game: str | None = None
) -> tuple[list[Measured], list[str]]:
    """The checkpoints at a place, and a sentence for each run without one; nothing is written."""
    if place.is_file():
        if which != "newest":
            raise UserError(f"{place} is one model, so checkpoint={which} chooses nothing.")
        stock = archive(place, out, game)
        if game is None:
            said = f"{place} does not say its game: it plays {stock.game} (game=NAME for another)."
            print(shown(said), file=sys.stderr)
        return [stock], []
    runs, problems = _of_folder(place, which, game)
    return [*runs], problems


def _of_folder(
    place: Path, which: str, game: str | None = None
) -> tuple[list[Target | Saved], list[str]]:
    found, problems = _checkpoints(place, which)
    for target in found if game is not None else ():
        if target.game != canonical(str(game)):
            raise UserError(
                f"game={game}: {target.name} plays {target.game}, as its own settings say; game= "
                "is for a .zip of Stable-Baselines3."
            )
    return found, problems


def _checkpoints(place: Path, which: str) -> tuple[list[Target | Saved], list[str]]:
    if which not in CHOICES and not (which.isdecimal() and len(which) <= LONGEST_STEP):
        raise UserError(f"checkpoint={which[:40]} must be newest, best or a step.")
    if (place / "manifest.json").is_file():
        run = place.resolve().parent.parent
        if which != "newest":
            raise UserError(f"{place} is one checkpoint, so checkpoint={which} chooses nothing.")
        if not place.resolve().name.isdecimal():
            raise UserError(f"{place} is a copy of a checkpoint: name the run it belongs to.")
        if not _is_run(run):
            return [_saved(run, place.resolve().name)], []
        return [_target(open_run(run), place.resolve().name)], []
    if _is_run(place):
        return [_target(open_run(place), which)], []
    if checkpoint.steps(place):
        return [_saved(place, which)], []
    runs = runs_in(place)
    if not runs:
        raise UserError(
            f"there are no runs in '{place}': a run folder has a config.yaml and a run.json, "
            "as reprl train writes them."
        )
    found: list[Target] = []
    problems: list[str] = []
    for run_folder in runs:
        try:
            found.append(_target(run_folder, which))
        except UserError as error:
            problems.append(f"skipped: {error}")
    if not found:
        raise UserError(f"no run in '{place}' can be evaluated; {problems[0]}")
    games = sorted({t.config.env.game for t in found})
    if len(games) > 1:
        raise UserError(
            f"the runs in '{place}' play different games ({', '.join(games)}): evaluate the "
            "folders of each game apart."
        )
    return [*found], problems


def _is_run(place: Path) -> bool:
    return (place / "run.json").is_file() or (place / "config.yaml").is_file()


def _saved(place: Path, which: str) -> Saved:
    """What a script saved: no configuration, no validation, only checkpoints."""
    if which == "best":
        raise UserError(f"{place} has no best checkpoint: a script saved it, without eval.every.")
    guard.inspect(place)
    step = checkpoint.steps(place)[-1] if which == "newest" else int(which)
    candidates(place, step)  # refuses a step that is not there
    return Saved(place, step, exact=which != "newest")


def each(found: Sequence[Measured], measure: Callable[[Any], None]) -> int:
    """Measure every run, and count those that fail: in a sweep they do not stop the others."""
    failed = 0
    for target in found:
        try:
            measure(target)
        except Exception as error:
            if len(found) == 1:
                raise
            failed += 1
            kind = "" if isinstance(error, UserError) else f"{type(error).__name__}: "
            words = " ".join(f"{kind}{error}".split())
            print(shown(f"WARNING: {target.name} is left out: {words}"), file=sys.stderr)
    return failed


def _target(folder: RunFolder, which: str) -> Target:
    guard.inspect(folder.path)
    config = folder.config()
    there = checkpoint.steps(folder.path)
    if not there:
        raise UserError(f"{folder.path} has no checkpoint yet: nothing to evaluate.")
    if which == "newest" and folder.record().get("began_at") == there[-1]:
        raise UserError(f"{folder.path} has not trained yet: it only holds its parent's weights.")
    if which == "newest":
        return Target(folder, config, there[-1], exact=False)
    if which == "best":
        best = folder.record().get("best")
        step = step_of(best) if isinstance(best, dict) else 0
        if not step:
            raise UserError(
                f"{folder.path} has no best checkpoint: it was trained without eval.every."
            )
    else:
        step = int(which)
    candidates(folder.path, step)  # refuses a step that is not there
    return Target(folder, config, step, exact=True)
