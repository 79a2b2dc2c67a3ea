"""Models that Stable-Baselines3 saved: a .zip on the command line, measured as a checkpoint is.

Such a file holds pickles, so loading it runs whatever code is in it: nothing of it is unpickled
before the user has said trust=true. It does not say which game it was trained on: the user does,
and one whose pictures or actions do not fit is refused. What is measured of it goes to `out=`, or
to a folder beside it.
"""

from __future__ import annotations

import json
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reprl import guard, trust
from reprl.components import described
from reprl.envs.defaults import DEFAULT_GAME, GYMNASIUM
from reprl.envs.games import actions_of, canonical
from reprl.envs.games import game as game_of
from reprl.errors import UserError
from reprl.evaluation.players import labels_of
from reprl.naming import in_game

LARGEST = 64 << 20  # bytes of the settings inside; zoo agents have some kilobytes
# which class saved a file: SB3 writes its settings only
SIGNS = {"PPO": "n_epochs", "DQN": "exploration_fraction", "A2C": "normalize_advantage"}


@dataclass(frozen=True)
class Archive:
    """One .zip of Stable-Baselines3, as evaluation and attention see a checkpoint."""

    file: Path
    place: Path  # where what is measured goes
    algorithm: str
    game: str
    model: Any

    @property
    def name(self) -> str:
        return self.file.stem

    @property
    def method(self) -> str:
        return in_game(f"sb3-{self.algorithm.lower()}", {"game": self.game})

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


def archive(file: Path, out: Path | None, game: str | None = None) -> Archive:
    """A .zip as a target, loaded; refused before that if the user did not say trust=true.

    Without a game it is Breakout's, if its actions are.
    """
    played = canonical(game or DEFAULT_GAME)
    if played.startswith(GYMNASIUM):
        raise UserError(
            f"game={game}: a model of Stable-Baselines3 is played in ALE's games, by their names."
        )
    actions = len(actions_of(game_of(played).cartridge))
    algorithm, model = load(file)
    if getattr(model.action_space, "n", None) != actions:
        raise UserError(
            f"{file} chooses from {model.action_space}, but {played} has {actions} actions: say "
            "with game= (env.game= of a run) what it was trained on."
        )
    return Archive(file, out or file.with_suffix(""), algorithm, played, model)


def load(file: Path) -> tuple[str, Any]:
    """The algorithm and the model of a trusted .zip, refused if it does not see pictures."""
    algorithm = _algorithm(file)
    trust.require_pickles(file)
    import stable_baselines3

    # schedules and buffers are of no use here, and the first are tied to a version of Python
    unused: dict[str, Any] = {"buffer_size": 1, "learning_rate": 0.0}
    unused |= dict.fromkeys(("lr_schedule", "clip_range", "exploration_schedule"), _zero)
    try:
        model = getattr(stable_baselines3, algorithm).load(
            file, device="cpu", custom_objects=unused
        )
    except Exception as error:  # whatever its code raises
        raise UserError(f"{file} cannot be loaded: {described(error)}") from error
    space = model.observation_space
    shape: tuple[int, ...] = getattr(space, "shape", None) or ()
    if len(shape) != 3 or shape[1] != shape[2] or str(space.dtype) != "uint8":
        raise UserError(
            f"{file} sees {space}, but reprl shows uint8 pictures of (stack, size, size)."
        )
    return algorithm, model


def _algorithm(file: Path) -> str:
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
    return algorithm


def _zero(_: float) -> float:
    return 0.0
