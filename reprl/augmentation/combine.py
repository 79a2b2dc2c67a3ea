"""Several augmentations as one: all in turn, or one of them for each sample."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from reprl.augmentation.base import Augmentation, View, integers, stateless
from reprl.components import Spec, build, resolve
from reprl.errors import UserError


def _parts(kind: str, specs: Sequence[Spec | Augmentation]) -> nn.ModuleList:
    if isinstance(specs, str) or not specs:
        raise UserError(f"augmentation {kind} needs a list of augmentations, got {specs!r}.")
    parts = nn.ModuleList()
    for spec in specs:
        if isinstance(spec, Augmentation):
            parts.append(spec)
            continue
        plain = resolve("augmentation", spec)
        if plain is None:
            raise UserError(f"augmentation {kind}: {spec!r} is not an augmentation.")
        plain.pop("use", None)  # the whole decides where it is used, not its parts
        parts.append(stateless(build("augmentation", plain)))
    return parts


class Compose(Augmentation):
    """Apply all, one after the other; two mirrorings cancel."""

    def __init__(self, *, steps: Sequence[Spec | Augmentation]) -> None:
        super().__init__()
        self.steps = _parts("Compose", steps)
        self.mirrors = any(step.mirrors for step in self.steps)
        self.moves = any(step.moves for step in self.steps)

    def forward(self, observations: Tensor, generator: torch.Generator) -> View:
        view = View(observations)
        for step in self.steps:
            before, view = view.mirrored, step(view.observations, generator)
            if before is not None:
                view.mirrored = before if view.mirrored is None else before ^ view.mirrored
        return view


class Choice(Augmentation):
    """Apply one of several, drawn anew for each sample."""

    def __init__(self, *, options: Sequence[Spec | Augmentation]) -> None:
        super().__init__()
        self.options = _parts("Choice", options)
        self.mirrors = any(option.mirrors for option in self.options)
        self.moves = any(option.moves for option in self.options)

    def forward(self, observations: Tensor, generator: torch.Generator) -> View:
        batch = len(observations)
        chosen = integers(generator, (batch,), 0, len(self.options) - 1)
        changed = torch.empty_like(observations)
        mirrored = torch.zeros(batch, dtype=torch.bool, device=observations.device)
        any_mirrors = False
        for number, option in enumerate(self.options):
            index = (chosen == number).nonzero()[:, 0].to(observations.device)
            if not len(index):
                continue
            view = option(observations[index], generator)
            changed[index] = view.observations
            if view.mirrored is not None:
                any_mirrors = True
                mirrored[index] = view.mirrored
        return View(changed, mirrored if any_mirrors else None)
