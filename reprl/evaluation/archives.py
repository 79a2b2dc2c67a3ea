"""Models that Stable-Baselines3 saved: a .zip on the command line, measured as a checkpoint is.

Such a file holds pickles, so loading it runs whatever code is in it: nothing of it is unpickled
before the user has said trust=true. What it measures goes to `out=`, or to a folder beside it.
"""

from __future__ import annotations

import json
import zipfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from reprl import guard, trust
from reprl.envs.defaults import DEFAULT_GAME
from reprl.errors import UserError
from reprl.evaluation.players import labels_of
from reprl.user_code import described

LARGEST = 64 << 20  # bytes of the settings inside; zoo agents have some kilobytes
# which class saved a file: SB3 writes its settings only
SIGNS = {"PPO": "n_epochs", "DQN": "exploration_fraction", "A2C": "normalize_advantage"}


@dataclass(frozen=True)
class Archive:
    """One .zip of Stable-Baselines3, as evaluation and attention see a checkpoint."""

    file: Path
    place: Path  # where what is measured goes
    algorithm: str
    game: str = DEFAULT_GAME

    @property
    def name(self) -> str:
        return self.file.stem

    @property
    def method(self) -> str:
        return f"sb3-{self.algorithm.lower()}"

    @property
    def step(self) -> int:
        return int(self.model.num_timesteps)

    @property
    def seed(self) -> int:
        """The training seed, -1 where nobody gave one."""
        return -1 if self.model.seed is None else int(self.model.seed)

    @property
    def settings(self) -> dict[str, Any]:
        """What the environment must share with training, as far as the observations say."""
        shape = self.model.observation_space.shape
        return {"game": self.game, "stack": int(shape[0]), "size": int(shape[-1])}

    @property
    def steps(self) -> list[int]:
        return [self.step]

    @property
    def metrics_file(self) -> Path:
        return self.place / "metrics.csv"  # there is none: nobody knows how long its games were

    def labels(self, step: int) -> dict[str, Any]:
        """The columns that say which agent a game belongs to."""
        algo = self.algorithm.lower()
        return labels_of(self.method, run=self.name, algo=algo, train_seed=self.seed, step=step)

    def load(self) -> Any:
        return self.model

    @cached_property
    def model(self) -> Any:
        trust.require_pickles(self.file)
        import stable_baselines3

        # schedules and buffers are of no use here, and the first are tied to a version of Python
        unused: dict[str, Any] = {"buffer_size": 1, "learning_rate": 0.0}
        unused |= dict.fromkeys(("lr_schedule", "clip_range", "exploration_schedule"), _zero)
        try:
            model = getattr(stable_baselines3, self.algorithm).load(
                self.file, device="cpu", custom_objects=unused
            )
        except Exception as error:  # whatever its code raises
            raise UserError(f"{self.file} cannot be loaded: {described(error)}") from error
        _require_pictures(self.file, model, self.game)
        return model


def archive(file: Path, out: Path | None) -> Archive:
    """A .zip as a target; refused before it is loaded if the user did not say trust=true."""
    try:
        with zipfile.ZipFile(file) as content:
            guard.require_size(file, content.getinfo("data").file_size, LARGEST)
            known = json.loads(content.read("data"))
    except (OSError, KeyError, ValueError, zipfile.BadZipFile, RuntimeError, RecursionError):
        known = None
    if not isinstance(known, dict):
        raise UserError(f"{file} is not a model that Stable-Baselines3 saved.")
    algorithm = next((name for name, sign in SIGNS.items() if sign in known), None)
    if algorithm is None:
        raise UserError(f"{file} is a model of another algorithm than {', '.join(SIGNS)}.")
    trust.require_pickles(file)
    return Archive(file, out or file.with_suffix(""), algorithm)


def _zero(_: float) -> float:
    return 0.0


def _require_pictures(file: Path, model: Any, game: str) -> None:
    """Refuse an agent that does not see, or cannot steer, what our environments show."""
    from reprl.envs import make_vec_env

    env = make_vec_env(n_envs=1, game=game)
    actions = int(env.action_space.n)  # type: ignore[attr-defined]
    env.close()
    shape: tuple[int, ...] = getattr(model.observation_space, "shape", None) or ()
    if len(shape) != 3 or shape[1] != shape[2] or str(model.observation_space.dtype) != "uint8":
        raise UserError(
            f"{file} sees {model.observation_space}, but reprl shows uint8 pictures of "
            "(stack, size, size)."
        )
    if getattr(model.action_space, "n", None) != actions:
        raise UserError(
            f"{file} chooses from {model.action_space}, but {game} has {actions} actions."
        )
