"""Whose representation is looked at: a model in memory, a run folder or agent:NAME, made one thing.

agent + settings -> **subject** (network, environment, identity) -> probes, twin tools, embedding.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reprl.analysis.probe.layers import prober
from reprl.analysis.probe.record import Moments, record
from reprl.envs import Variant
from reprl.envs.defaults import DEFAULT_GAME
from reprl.envs.games import game as game_of
from reprl.envs.games import no_truth
from reprl.errors import UserError
from reprl.evaluation.checkpoints import Measured, targets
from reprl.evaluation.evaluate import env_settings
from reprl.evaluation.players import ModelAgent
from reprl.game_seeds import whose_games
from reprl.policy import NUMBERS, ContinuousPlayer, PolicyPlayer
from reprl.runs.agents import folder_of

ABOUT = ("run", "method", "train_seed", "step")


@dataclass(frozen=True)
class Subject:
    """One agent, ready to be looked at."""

    model: Any
    watcher: PolicyPlayer
    settings: dict[str, Any]  # of the environment
    game: str
    about: dict[str, Any]  # its columns in every table
    whose: int | None  # the training seed whose games it plays

    def moments(self, variants: Sequence[Variant], **how: Any) -> Moments:
        """Its recorded moments, clean and under variants; `how` is that of `record`."""
        return record(
            self.model, self.watcher, variants, whose=self.whose, settings=self.settings, **how
        )

    @property
    def samples(self) -> bool:
        """Whether it has action probabilities to sample from."""
        return hasattr(self.model, "player") or hasattr(self.model.policy, "get_distribution")


def subject(
    agent: Any,
    labels: Mapping[str, Any] | None,
    settings: Mapping[str, Any],
    what: str,
    *,
    numbers: bool = False,
) -> Subject:
    """From a model, a path of one run, or agent:NAME; `what` needs ground truth.

    Without `numbers` it needs the probabilities of discrete actions too.
    """
    given, named = dict(settings), dict(labels or {})
    if isinstance(agent, str | Path):
        found = runs_of(agent)
        if len(found) != 1:
            raise UserError(f"'{agent}' holds {len(found)} runs: name one of them.")
        agent, given, named = _loaded(found[0], given, named)
    elif hasattr(agent, "load") and hasattr(agent, "place"):
        agent, given, named = _loaded(agent, given, named)
    given = env_settings(agent) | given
    name = str(given.get("game", DEFAULT_GAME))
    if not game_of(name).has_truth:
        raise UserError(no_truth(what, name))
    watcher = prober(agent)
    if isinstance(watcher, ContinuousPlayer) and not numbers:
        raise UserError(NUMBERS)
    samples = hasattr(agent, "player") or hasattr(agent.policy, "get_distribution")
    identity = ModelAgent(agent, deterministic=not samples, labels=named, game=name).labels
    about = {column: identity[column] for column in ABOUT}
    return Subject(agent, watcher, given, name, about, whose_games("own", identity["train_seed"]))


def runs_of(agent: str | Path) -> list[Measured]:
    """The runs that a path or agent:NAME stands for."""
    return targets(folder_of(str(agent)) or Path(agent))[0]


def _loaded(
    target: Measured, settings: dict[str, Any], labels: dict[str, Any]
) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    model = target.load()
    step = int(model.num_timesteps)  # not always the newest: a damaged one gives way
    return model, target.settings | settings, target.labels(step) | labels
