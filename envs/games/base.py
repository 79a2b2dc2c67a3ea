"""What is known of a game besides its cartridge: truth, actions, a scripted agent, its scores.

cartridge + **game** -> emulator, scripted baseline, twin evaluation, attention scores. A `Game`
that says nothing is any ALE game without ground truth: played, drawn and reported, not scored.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from reprl.envs.objects import BACKGROUND, DISTRACTOR, Objects
from reprl.errors import UserError, unknown
from reprl.rng import numpy_stream
from reprl.settings import SCORE_SCALE, SKILL
from reprl.validation import choice


@dataclass(frozen=True)
class Roles:
    """The positions in a game's action set that mean something everywhere; None: not there."""

    noop: int | None
    fire: int | None
    left: int | None
    right: int | None
    mirror: tuple[int, ...] | None  # each action with LEFT and RIGHT exchanged

    @classmethod
    def of(cls, meanings: Sequence[str]) -> Roles:
        """From ALE's names of the actions, in order."""
        place = {name: k for k, name in enumerate(meanings)}
        noop, fire, left, right = (place.get(n) for n in ("NOOP", "FIRE", "LEFT", "RIGHT"))
        return cls(noop, fire, left, right, mirrored(meanings))


def mirrored(meanings: Sequence[str] | None) -> tuple[int, ...] | None:
    """For each action the one with LEFT and RIGHT exchanged, or None where there are none."""
    if meanings is None or not any("LEFT" in m or "RIGHT" in m for m in meanings):
        return None
    swapped = [
        m.replace("LEFT", "<").replace("RIGHT", "LEFT").replace("<", "RIGHT") for m in meanings
    ]
    if any(m not in meanings for m in swapped):
        return None
    return tuple(list(meanings).index(m) for m in swapped)


class Memory:
    """What a scripted agent remembers of one game; a game's own agent adds to it."""

    kept: ClassVar[tuple[str, ...]] = ("score", "lives")  # what it holds, as plain data

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.score = self.lives = 0

    def state(self) -> dict[str, Any]:
        """All of it, as JSON can hold it."""
        return {k: getattr(self, k) for k in self.kept} | {"rng": self.rng.bit_generator.state}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Go on as the memory whose state it is."""
        self.rng.bit_generator.state = state["rng"]
        for name in self.kept:
            setattr(self, name, state[name])


class Scripted:
    """Plays from ground truth, as well as `skill` says and as far as it can see.

    skill: the share of actions that are meant; the others are random. 0 is random play.
    blind_to: names out of `blindness`; what they mean is the game's business.
    steady: what is meant follows from what can be seen alone, not from an aim that was drawn at
    random: somebody who watches could have meant the same.
    A game's own agent says what it remembers, sees and wants: `memory`, `look`, and `meant` or,
    where it can say more than the best action, `action_costs`.
    """

    blindness: ClassVar[tuple[str, ...]] = ()
    n_actions: ClassVar[int]
    memory: ClassVar[type[Memory]] = Memory

    def __init__(
        self,
        skill: float = 1.0,
        blind_to: Collection[str] = (),
        *,
        seed: int = 0,
        steady: bool = False,
    ) -> None:
        names = (blind_to,) if isinstance(blind_to, str) else tuple(blind_to)
        for name in names:
            choice("blind_to", name, self.blindness)
        self.skill = float(SKILL.checked("skill", skill))
        self.blind_to = frozenset(names)
        self.seed = seed
        self.steady = steady
        self._memories: dict[int, Any] = {}
        self._games: dict[int, int] = {}

    def look(self, memory: Any, seen: Objects) -> None:
        """Take in the objects of this step."""

    def meant(self, memory: Any, seen: Objects) -> int:
        """The action an agent that wants to win would take, a position in the action set."""
        return int(self.action_costs(memory, seen).argmin())

    def action_costs(self, memory: Any, seen: Objects) -> np.ndarray:
        """What each action would cost such an agent, (n_actions,): infinite what it never takes."""
        if type(self).meant is Scripted.meant:
            raise AssertionError(f"{type(self).__name__} must define meant() or action_costs()")
        costs = np.full(self.n_actions, np.inf)
        costs[self.meant(memory, seen)] = 0.0
        return costs

    def moved(self, memory: Any, action: int) -> None:
        """Be told the action that was taken, meant or not."""

    def predict(self, objects: Sequence[Objects], games: Sequence[int] | None = None) -> np.ndarray:
        """One action for each environment, int (n,), from the objects of this step.

        `games` names each environment's game by a number: its random stream depends on that number
        alone, and a new number begins a new game. Without it, games are counted as they begin.
        """
        actions = np.zeros(len(objects), dtype=np.int64)
        for i, seen in enumerate(o.console for o in objects):
            memory = self._memory(i, seen, None if games is None else int(games[i]))
            self.look(memory, seen)
            drawn = memory.rng.random(), int(memory.rng.integers(self.n_actions))
            actions[i] = self.meant(memory, seen) if drawn[0] < self.skill else drawn[1]
            self.moved(memory, int(actions[i]))
        return actions

    def costs(self, objects: Sequence[Objects], before: Sequence[int] | np.ndarray) -> np.ndarray:
        """What each action would cost, float (n, A), in states to which anybody may have played.

        The least one is what `predict` means. `before` (n,) are the actions that led here. Call
        one of the two once a step.
        """
        costs = np.empty((len(objects), self.n_actions))
        for i, seen in enumerate(o.console for o in objects):
            memory = self._memory(i, seen, None)
            self.moved(memory, int(before[i]))
            self.look(memory, seen)
            costs[i] = self.action_costs(memory, seen)
        return costs

    def state(self) -> dict[str, Any]:
        """What is remembered of every game, as JSON can hold it."""
        return {
            str(i): memory.state() | {"game": self._games[i]}
            for i, memory in sorted(self._memories.items())
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Go on as the agent whose state it is."""
        self._memories = {}
        for i, kept in state.items():
            self._memories[int(i)] = self.memory(np.random.default_rng(0))
            self._memories[int(i)].load_state(kept)
        self._games = {int(i): kept["game"] for i, kept in state.items()}

    def _memory(self, i: int, seen: Objects, game: int | None) -> Any:
        """The memory of environment i, fresh where a new game has begun."""
        memory = self._memories.get(i)
        name: tuple[str | int, int]
        if game is not None:
            new, name = self._games.get(i) != game, ("game", game)
        else:
            new = memory is None or seen.score < memory.score or seen.lives > memory.lives
            game = self._games.get(i, -1) + new
            name = (i, game)
        if memory is None or new:
            memory = self._memories[i] = self.memory(numpy_stream(self.seed, "scripted", *name))
            self._games[i] = game
        memory.score, memory.lives = seen.score, seen.lives
        return memory


@dataclass(frozen=True)
class Intervention:
    """One change of one object through RAM, the rest of the game left alone.

    `make` gives a fresh object whose `before_frame(machine)` is called before each emulator frame,
    as that of a variant's effect.
    """

    object: str  # one of the game's classes
    change: str  # a short name: left, right, row 3
    make: Callable[[], Any]
    cells: tuple[slice, slice] | None = None  # of a grid: what is touched; None: all of it


@dataclass(frozen=True, kw_only=True)
class Game:
    """A cartridge and what is known of it; every field but the cartridge may be left out."""

    cartridge: str  # as ALE calls it
    objects: Callable[[np.ndarray], Objects] | None = None  # RAM, uint8 (128,) -> truth
    classes: tuple[str, ...] = ()  # the names of its objects, boxes first
    tracked: str | None = None  # the object that attention should follow: a box
    scripted: type[Scripted] | None = None
    score_scale: float = 1.0  # points between random and clean play below which retention is noise
    symmetric: bool = True  # its mirror image is the same game with LEFT and RIGHT exchanged
    facts: Callable[[Objects], Hashable] = Objects.facts  # equal for twins at the same moment
    interventions: tuple[
        Intervention, ...
    ] = ()  # what can be changed through RAM, to see who cares

    def __post_init__(self) -> None:
        for name in self.classes:
            if not name.isidentifier() or name in (DISTRACTOR, BACKGROUND):
                raise UserError(
                    f"game '{self.cartridge}': an object cannot be called '{name}': use a plain "
                    f"word other than {DISTRACTOR} and {BACKGROUND}."
                )
        if self.tracked is not None and self.tracked not in self.classes:
            raise unknown(f"tracked object of game '{self.cartridge}'", self.tracked, self.classes)
        for one in self.interventions:
            if one.object not in self.classes:
                what = f"object of an intervention in game '{self.cartridge}'"
                raise unknown(what, one.object, self.classes)
        SCORE_SCALE.checked(f"game '{self.cartridge}': score_scale", self.score_scale)
        if self.objects is None and (self.classes or self.scripted):
            raise UserError(
                f"game '{self.cartridge}': classes and scripted need objects, the function that "
                "reads them from RAM."
            )

    @property
    def has_truth(self) -> bool:
        """Whether its objects are known."""
        return self.objects is not None
