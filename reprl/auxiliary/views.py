"""Which augmentation makes a loss's views: its own, else the run's, else a shift by 4 pixels.

A loss's own may be `none`: then its views are the pictures as they are.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from reprl import components
from reprl.augmentation.base import Augmentation, View, stateless
from reprl.auxiliary.base import Batch, Context
from reprl.errors import UserError

DEFAULT = "shift"
NAMELESS = (
    "this augmentation mirrors the picture, but the environment names no LEFT and RIGHT actions "
    "to exchange (env.action_meanings), or its game is not its own mirror image."
)


class Unchanged(Augmentation):
    """The picture as it is."""

    moves = False

    def forward(self, observations: Tensor, generator: torch.Generator) -> View:
        return View(observations)


class Views:
    """Augmented views of a batch.

    Not a module on purpose: the run's augmentation belongs to the run, not to the loss's state.
    """

    def __init__(self, spec: components.Spec | None) -> None:
        self.spec: dict[str, Any] | None = components.resolve("augmentation", spec)
        self.unchanged = spec is not None and self.spec is None  # "none", not merely not given
        self.augmentation: Augmentation | None = None
        self.mirror: Tensor | None = None  # (n_actions,) int64

    def setup(self, context: Context) -> None:
        self.mirror = context.mirror
        self.augmentation = self._chosen(context)

    def _chosen(self, context: Context) -> Augmentation:
        if self.unchanged:
            return Unchanged()
        if self.spec is None and context.augmentation is not None:
            return context.augmentation
        spec = self.spec or components.resolve("augmentation", DEFAULT) or {}
        arguments = {key: value for key, value in spec.items() if key != "use"}
        return stateless(components.build("augmentation", arguments))

    def require_actions(self) -> None:
        """Refuse views that mirror where it is not known which actions to exchange."""
        if self.mirror is None and self.augmentation is not None and self.augmentation.mirrors:
            raise UserError(NAMELESS)

    def __call__(self, observations: Tensor, generator: torch.Generator) -> View:
        """Augment (B, stack, H, W) uint8."""
        assert self.augmentation is not None, "setup() runs before the first batch"
        return self.augmentation(observations, generator)

    def for_heads(self, batch: Batch, observations: Tensor) -> View:
        """Augment what the policy's heads are to see: one draw for what is one sequence."""
        assert self.augmentation is not None, "setup() runs before the first batch"
        return batch.view(self.augmentation, observations)

    def actions(self, view: View, actions: Tensor) -> Tensor:
        """The same actions (B,) as they are called in the view."""
        if view.mirrored is None:
            return actions
        if self.mirror is None:
            raise UserError(NAMELESS)
        return torch.where(view.mirrored, self.mirror.to(actions.device)[actions], actions)
