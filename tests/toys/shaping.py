"""Reward shaping as a user's own module has it: numbers instead of truth, and a memory."""

from __future__ import annotations

from typing import ClassVar

from reprl.envs.shaping import GameState, Potential, RewardShaping, Transition


class Upright(Potential):
    """CartPole: better where the pole stands straighter."""

    def potential(self, state: GameState) -> float:
        return -abs(float(state.observation[2]))


class Counted(RewardShaping):
    """Pays the number of steps of this episode so far, and of actions that were not 0."""

    kept: ClassVar[tuple[str, ...]] = ("steps", "moves")

    def begin(self, state: GameState) -> None:
        self.steps = self.moves = 0

    def reward(self, step: Transition) -> float:
        self.steps += 1
        self.moves += int(step.action != 0)
        return 100.0 * self.steps + self.moves


class Broken(RewardShaping):
    """Gives no number."""

    def reward(self, step: Transition) -> float:
        return float("nan")
