"""A mask's own optimizer settings: a parameter group of its own within SB3's optimizer.

Called once when the optimizer is complete, and after each time that SB3 has set one learning rate
for all groups. Nothing of it is saved: a continued run makes the same group from its settings.
"""

from __future__ import annotations

import torch
from torch import nn

from reprl.errors import UserError

OWN_RATE = "own_rate"  # a learning rate that no schedule of the algorithm touches


def separate_mask(optimizer: torch.optim.Optimizer, extractor: nn.Module) -> None:
    """Move the parameters of a mask with `attention.optimizer` into their own group."""
    look = getattr(extractor, "attention", None)
    settings = dict(getattr(look, "optimizer", None) or {})
    if not isinstance(look, nn.Module) or not settings:
        return
    for key in settings:
        if key not in optimizer.defaults:
            raise UserError(
                f"attention.optimizer.{key} is not a setting of {type(optimizer).__name__}: use "
                "algo.optimizer=adam, or leave it out."
            )
    mine = list(look.parameters())
    ids = {id(parameter) for parameter in mine}
    for group in optimizer.param_groups:
        group["params"] = [p for p in group["params"] if id(p) not in ids]
    if "lr" in settings:
        settings[OWN_RATE] = settings["lr"]
    optimizer.add_param_group({"params": mine, **settings})


def keep_own_rates(optimizer: torch.optim.Optimizer) -> None:
    """Put back the rates of groups that have their own."""
    for group in optimizer.param_groups:
        if OWN_RATE in group:
            group["lr"] = group[OWN_RATE]
