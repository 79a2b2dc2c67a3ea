"""Training from Python: `reprl.train` is `reprl train`, with the run's results as its value.

experiment and overrides -> the configuration that the command would compose -> the same run folder,
name and bits -> **Trained**: the folder, the model and the tables, in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from reprl.runs.folder import RunFolder, score_of
from reprl.tables import read_mixed, read_numbers

if TYPE_CHECKING:
    from stable_baselines3.common.callbacks import BaseCallback

    from reprl.algorithms.base import Algorithm


@dataclass(frozen=True)
class Trained:
    """A run that has ended: where it is, how it ended, its model and what was measured."""

    folder: RunFolder
    model: Algorithm

    @property
    def path(self) -> Path:
        return self.folder.path

    @property
    def status(self) -> str:
        """finished, interrupted, failed, ... as `reprl runs` says it."""
        return self.folder.status()

    @property
    def score(self) -> float | None:
        """The best validation score, else the last of training: what a search maximizes."""
        return score_of(self.folder)

    @property
    def metrics(self) -> pd.DataFrame:
        """The rows of metrics.csv, empty before the first."""
        return _table(self.folder.metrics_file, read_numbers)

    @property
    def validation(self) -> pd.DataFrame:
        """The games that were played at every eval.every, empty without them."""
        return _table(self.folder.validation_file, read_mixed)


def train(
    experiment: str | None = None,
    overrides: Iterable[str] = (),
    *,
    callbacks: Sequence[BaseCallback] = (),
    config_dirs: Iterable[Path | str] = (),
) -> Trained:
    """Train one run as `reprl train experiment=... OVERRIDES` does; `callbacks` are SB3's.

    A failure or an interrupt ends the run as on the command line: `status` says which.
    """
    from reprl.cli.train import understand, user_code
    from reprl.config.schema import load
    from reprl.runs.places import check_launch, check_new
    from reprl.runs.resources import say_start
    from reprl.runs.train import run

    words = [f"experiment={experiment}"] if experiment is not None else []
    words += [*overrides, *(f"--config-dir={folder}" for folder in config_dirs)]
    request = understand(words)
    python_path = user_code(request)
    config = load(request.overrides, request.config_dirs)
    check_new(config.run_dir)
    check_launch([config])
    say_start(config)
    command = ["reprl", "train", *words]
    _, folder, model = run(
        config, command=command, python_path=python_path, callbacks=callbacks, sweep=None
    )
    return Trained(folder, model)


def from_experiment(
    cls: type[Algorithm], experiment: str, env: Any = None, overrides: Iterable[str] = ()
) -> Any:
    """The untrained agent of an experiment, in `env` or in the environments it asks for."""
    from reprl.components import class_of
    from reprl.config.schema import load
    from reprl.errors import UserError
    from reprl.runs.train import make_env, make_model

    config = load([f"experiment={experiment}", *overrides])
    if class_of("algo", str(config.algo["_target_"])) is not cls:
        raise UserError(
            f"experiment={experiment} trains {config.algo['_target_']}, not {cls.__name__}: choose "
            "another with overrides=['algo=...'], or call from_experiment of that class."
        )
    env = make_env(config) if env is None else env
    model = make_model(config, env)
    model._custom_logger = False  # learn() sets up the logger of a script
    return model


def _table(file: Path, read: Callable[[Path], pd.DataFrame]) -> pd.DataFrame:
    return read(file) if file.exists() else pd.DataFrame()
