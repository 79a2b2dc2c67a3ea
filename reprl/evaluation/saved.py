"""Models that a script saved with `reprl.checkpoint.save`: a folder of checkpoints alone.

On the command line it is measured as a run's checkpoint is; what the agent is called and what it
saw in training are in the checkpoint. What is measured goes into the folder, or to `out=`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from reprl import checkpoint
from reprl.envs.defaults import DEFAULT_GAME
from reprl.evaluation.evaluate import env_settings
from reprl.evaluation.players import model_labels


@dataclass(frozen=True)
class Saved:
    """One checkpoint of a script's model, as evaluation and attention see a run's."""

    folder: Path
    step: int
    exact: bool  # the step was asked for; otherwise a damaged newest one may give way
    out: Path | None = None

    @property
    def name(self) -> str:
        return self.folder.resolve().name

    @property
    def place(self) -> Path:
        return self.out or self.folder

    @property
    def method(self) -> str:
        return str(self._labels["method"])

    @property
    def seed(self) -> int:
        return int(self._labels["train_seed"])

    @property
    def game(self) -> str:
        return str(self.settings["game"])

    @property
    def settings(self) -> dict[str, Any]:
        """What the environment must share with training, as the checkpoint says it."""
        return {"game": DEFAULT_GAME, **env_settings(self.model)}

    @property
    def steps(self) -> list[int]:
        return checkpoint.steps(self.folder)

    @property
    def metrics_file(self) -> Path:
        return self.folder / "metrics.csv"  # there is none: the script kept its own

    def labels(self, step: int) -> dict[str, Any]:
        """The columns that say which agent a game belongs to: the script's, by this folder."""
        return self._labels | {"run": self.name, "step": step}

    @property
    def _labels(self) -> dict[str, Any]:
        return model_labels(self.model)

    def load(self) -> Any:
        return self.model

    @cached_property
    def model(self) -> Any:
        return checkpoint.load(self.folder, step=self.step if self.exact else None)
