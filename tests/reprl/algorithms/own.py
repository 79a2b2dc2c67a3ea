"""Algorithms of a user: derived from ours, with arguments of their own, one under our name."""

from __future__ import annotations

from typing import Any

from reprl import algorithms


class PPO(algorithms.PPO):
    """Called as ours is, but not ours."""


class Doubled(algorithms.PPO):
    """Hands on other arguments than it takes, and looks at its policy once it is made."""

    def __init__(
        self, policy: Any, env: Any, bonus: float, *args: Any, n_steps: int = 4, **kwargs: Any
    ) -> None:
        super().__init__(policy, env, *args, n_steps=2 * n_steps, **kwargs)
        self.bonus = bonus
        self.outputs = self.policy.action_net.out_features


class Further(Doubled):
    """Derived once more, with keywords only."""

    def __init__(self, *, limit: int | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.limit = limit


called: list[str] = []


def no_algorithm(*_: Any, **__: Any) -> None:
    """Must never be called."""
    called.append("no_algorithm")
