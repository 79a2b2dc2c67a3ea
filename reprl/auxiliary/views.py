"""Which augmentation makes a loss's views: its own, else the run's, else a shift by 4 pixels."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from reprl import registry
from reprl.augmentation.base import Augmentation, View
from reprl.auxiliary.base import Context
from reprl.errors import UserError

DEFAULT = "shift"


class Views:
    """Augmented views of a batch, each sample changed with the given probability.

    Not a module on purpose: the run's augmentation belongs to the run, not to the loss's state.
    """

    def __init__(self, spec: registry.Spec | None, *, probability: float = 1.0) -> None:
        self.spec: dict[str, Any] | None = registry.resolve("augmentation", spec)
        self.probability = probability
        self.augmentation: Augmentation | None = None
        self.mirror: Tensor | None = None  # (n_actions,) int64

    def setup(self, context: Context) -> None:
        self.mirror = context.mirror
        spec = self.spec
        if spec is None and context.augmentation is None:
            spec = registry.resolve("augmentation", DEFAULT)
        if spec is None:
            self.augmentation = context.augmentation
        else:
            arguments = {key: value for key, value in spec.items() if key != "use"}
            self.augmentation = registry.build("augmentation", arguments)

    def __call__(self, observations: Tensor, generator: torch.Generator) -> View:
        """Augment (B, stack, H, W) uint8."""
        assert self.augmentation is not None, "setup() runs before the first batch"
        view = self.augmentation(observations, generator)
        if self.probability >= 1.0:
            return view
        draw = torch.rand(len(observations), generator=generator, device=generator.device)
        chosen = (draw < self.probability).to(observations.device)  # (B,)
        mixed = torch.where(chosen[:, None, None, None], view.observations, observations)
        mirrored = None if view.mirrored is None else view.mirrored & chosen
        return View(mixed, mirrored)

    def actions(self, view: View, actions: Tensor) -> Tensor:
        """The same actions (B,) as they are called in the view."""
        if view.mirrored is None:
            return actions
        if self.mirror is None:
            raise UserError(
                "this augmentation mirrors the picture, but the environment names no LEFT and "
                "RIGHT actions to exchange (env.action_meanings)."
            )
        return torch.where(view.mirrored, self.mirror.to(actions.device)[actions], actions)
