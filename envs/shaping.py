"""Reward shaping: from what a step of a game paid to the reward that is trained on.

emulator -> **shaping** -> rollout. Each environment has a shaping of its own, which sees the truth
of its game where there is any; what it remembers is in snapshots. Scores, and with them every
evaluation, are the game's own points. Nothing here imports torch.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from reprl import components
from reprl.envs.games import Game, no_truth
from reprl.envs.objects import Objects
from reprl.errors import UserError
from reprl.settings import CLASSES
from reprl.validation import checker, choice

# edges of the screen that an object may be near to: the axis, and where on it they are
EDGES = {"left": ("x", 0.0), "right": ("x", 1.0), "top": ("y", 0.0), "bottom": ("y", 1.0)}


@dataclass(frozen=True)
class GameState:
    """Where a game stands: what the agent is shown, and the truth, which is read if asked for."""

    observation: np.ndarray  # (stack x channels, size, size) uint8, or an environment's own numbers
    read: Callable[[], Objects | None]

    @property
    def objects(self) -> Objects | None:
        """What is where in the game, in raw pixels; None where that is not known."""
        return self.read()


@dataclass(frozen=True)
class Transition:
    """One step of a game; at an end `state` is the last one, not the first of the next game."""

    state: GameState  # that the action led to
    action: Any  # a whole number, or an array where an environment's actions are continuous
    reward: float  # as env.reward makes it: clipped, raw or scaled
    raw_reward: float  # the game's own points
    terminated: bool  # the episode is over: of a game of ALE, a lost life too
    truncated: bool  # it was cut off by a limit of time


class RewardShaping:
    """Says what a step is worth in training; a user's own class defines `reward`.

    What it remembers from step to step is named in `kept` and must be plain data: numbers, text,
    lists and mappings. It draws no random numbers.
    """

    kept: ClassVar[tuple[str, ...]] = ()
    needs_truth: ClassVar[bool] = False  # whether it asks for objects

    def check(self, game: Game) -> None:
        """Refuse a game that it cannot work in."""
        if self.needs_truth and not game.has_truth:
            raise UserError(no_truth(f"shaping {type(self).__name__}", game.cartridge))

    def begin(self, state: GameState) -> None:
        """An episode begins here."""

    def reward(self, step: Transition) -> float:
        """The reward of a step that is trained on, in place of `step.reward`."""
        raise AssertionError(f"{type(self).__name__} must define reward()")

    def state(self) -> dict[str, Any]:
        """What it remembers, as JSON can hold it."""
        return {name: getattr(self, name) for name in self.kept}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Go on as the shaping whose state it is."""
        for name in self.kept:
            setattr(self, name, state[name])


class Potential(RewardShaping):
    """Potential-based shaping (Ng, Harada and Russell 1999): r + gamma * phi(s') - phi(s).

    phi is `coef` times `potential(state)`, and 0 after an end. What an episode is worth changes
    by -phi(first state), whatever is done in it, so that the best policy stays the best; that holds
    with the discount of the algorithm, which a run puts in the place of `gamma=None`.
    """

    kept: ClassVar[tuple[str, ...]] = ("phi",)

    def __init__(self, *, coef: float = 1.0, gamma: float | None = None) -> None:
        check = checker(CLASSES["Nearness"], self)
        self.coef, self.gamma = check("coef", coef), check("gamma", gamma)
        self.phi = 0.0  # of the state that the next action leaves

    def check(self, game: Game) -> None:
        super().check(game)
        if self.gamma is None:
            raise UserError(
                "shaping.gamma=null: a potential needs the discount of the algorithm that learns "
                "from it: give a number from 0 to 1, such as 0.99."
            )

    def potential(self, state: GameState) -> float:
        """How good a state is."""
        raise AssertionError(f"{type(self).__name__} must define potential()")

    def begin(self, state: GameState) -> None:
        self.phi = self.coef * float(self.potential(state))

    def reward(self, step: Transition) -> float:
        assert self.gamma is not None
        before = self.phi
        # where time ran out the game would have gone on, and its value is counted there
        self.phi = 0.0 if step.terminated else self.coef * float(self.potential(step.state))
        return step.reward + self.gamma * self.phi - before


class Nearness(Potential):
    """How near an object is to another, or to an edge of the screen: from 0 to 1 along an axis.

    0 is a whole screen apart, or that one of them is not there.
    """

    needs_truth: ClassVar[bool] = True

    def __init__(
        self,
        *,
        of: str = "paddle",
        to: str = "ball",
        axis: str = "x",
        coef: float = 0.1,
        gamma: float | None = None,
    ) -> None:
        super().__init__(coef=coef, gamma=gamma)
        self.of, self.to = of, to
        self.axis = checker(CLASSES["Nearness"], self)("axis", axis)

    def check(self, game: Game) -> None:
        super().check(game)
        for key, name in (("of", self.of), ("to", self.to)):
            choice(f"shaping.{key}", name, [*game.classes, *(EDGES if key == "to" else ())])
        if self.to in EDGES and self.to not in game.classes and EDGES[self.to][0] != self.axis:
            raise UserError(
                f"shaping.axis={self.axis}: shaping.to={self.to} is an edge along "
                f"{EDGES[self.to][0]}; set shaping.axis={EDGES[self.to][0]}."
            )

    def potential(self, state: GameState) -> float:
        objects = state.objects
        assert objects is not None
        along = "xy".index(self.axis)
        span = float(objects.raw[1 - along])  # raw is (height, width)
        box = objects.boxes.get(self.of)
        if self.to in objects.boxes:
            other = objects.boxes[self.to]
            place = None if other is None else other.center[along]
        else:
            place = EDGES[self.to][1] * span
        if box is None or place is None:
            return 0.0
        return 1.0 - abs(box.center[along] - place) / span


class Survival(RewardShaping):
    """A reward for each step in which nothing ends, and another, usually a loss, for an end.

    It is no potential: an agent that lives for long without points may be the best one here.
    """

    def __init__(self, *, alive: float = 0.01, lost: float = -1.0) -> None:
        check = checker(CLASSES["Survival"], self)
        self.alive, self.lost = check("alive", alive), check("lost", lost)

    def reward(self, step: Transition) -> float:
        return step.reward + (self.lost if step.terminated else self.alive)


def checked_shaping(given: Any, game: Game, *, training: bool) -> dict[str, Any] | None:
    """The spec of a shaping that can be built for a game, None without one."""
    spec = components.resolve("shaping", given)
    if spec is None:
        return None
    if not training:
        raise UserError(
            "shaping is of training's rewards: with training=False a game is played for its own "
            "score; leave shaping out."
        )
    components.require_known_keys("shaping", spec)
    try:
        plain: dict[str, Any] = json.loads(json.dumps(spec, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise UserError(
            f"shaping could not be saved with a checkpoint: {error}; give numbers, text, lists and "
            "mappings only."
        ) from None
    built_shaping(plain, game)
    return plain


def built_shaping(spec: Mapping[str, Any], game: Game) -> RewardShaping:
    """The shaping of one environment."""
    made: RewardShaping = components.build("shaping", spec)
    made.check(game)
    return made


def with_discount(spec: Mapping[str, Any], gamma: Any) -> dict[str, Any]:
    """A run's spec with the discount of its algorithm, where a potential says none."""
    made = components.class_of("shaping", str(spec["_target_"]))
    if issubclass(made, Potential) and spec.get("gamma") is None and gamma is not None:
        return {**spec, "gamma": gamma}
    return dict(spec)


def paid(shaping: RewardShaping, step: Transition) -> float:
    """What a shaping makes of a step, refused where that is no number."""
    found = shaping.reward(step)
    try:
        number = float(found)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise UserError(
            f"shaping {type(shaping).__name__} gave {found!r} as a reward: it must be a finite "
            "number."
        )
    return number
