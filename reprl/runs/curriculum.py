"""Which variant the training games are of as training goes on: `env.curriculum` and `env.stage`.

configuration -> **curriculum** -> the environments' variants, after each update. The variants of
`env.variant` are stages, played by all environments; a game that has begun is played to its end.
What a checkpoint must know besides the environments' own snapshot is where the stage began.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Any

import numpy as np

from reprl.rng import numpy_stream

if TYPE_CHECKING:
    from reprl.algorithms.base import Algorithm
    from reprl.config.schema import Config


class Curriculum:
    """The stages of one run: `stage` counts them, `place` is the variant's in `env.variant`."""

    def __init__(self, config: Config, step: int, state: dict[str, Any] | None = None) -> None:
        self.kind: str = config.env.curriculum or ""
        self.rule: Any = config.env.stage
        self.variants = config.env.variants
        self.severity, self.game, self.seed = config.env.severity, config.env.game, config.seed
        state = state or {}
        self.origin = int(state.get("origin", step))  # of a run that began at a parent's step
        self.stage = int(state.get("stage", 0))

    @classmethod
    def of(cls, config: Config, step: int, state: dict[str, Any] | None) -> Curriculum | None:
        """The curriculum of a run, None where its environments keep their variants."""
        return cls(config, step, state) if config.env.curriculum is not None else None

    @property
    def place(self) -> int:
        """Which of the variants is played now."""
        if self.kind != "random":
            return min(self.stage, len(self.variants) - 1)
        return int(numpy_stream(self.seed, "curriculum", self.stage).integers(len(self.variants)))

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        return {"origin": self.origin, "stage": self.stage}

    def apply(self, model: Algorithm) -> None:
        """Let new games be of this stage's variant."""
        from reprl.envs.variation import find

        found = find(self.variants[self.place], self.severity, self.game)
        env: Any = model.env
        env.set_attr("own", found)
        env.variants[:] = [found] * len(env.variants)

    def advance(self, model: Algorithm) -> bool:
        """Go on to the stage that is due after an update; True if it is another."""
        due = self._due(model)
        if due == self.stage:
            return False
        self.stage = due
        if model.ep_info_buffer is not None:
            model.ep_info_buffer.clear()  # scores of another variant say nothing about this one
        self.apply(model)
        return True

    def _due(self, model: Algorithm) -> int:
        passed = model.num_timesteps - self.origin
        if self.kind == "schedule":
            return bisect_right(self.rule, passed)
        if self.kind != "success":
            due = passed // int(self.rule)
            return due if self.kind == "random" else min(due, len(self.variants) - 1)
        games = model.ep_info_buffer
        if games is None or len(games) < (games.maxlen or 1):
            return self.stage
        reached = float(np.mean([g["r"] for g in games])) >= float(self.rule)
        return min(self.stage + reached, len(self.variants) - 1)
