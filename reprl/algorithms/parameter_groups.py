"""What parameter groups have of their own within SB3's optimizer: a mask's settings, the momentum.

Called once when the optimizer is complete, and after each time that SB3 has set one learning rate
for all groups. Nothing of it is saved: a continued run makes the same group from its settings.
"""

from __future__ import annotations

import torch
from torch import nn

from reprl.errors import UserError

OWN_RATE = "own_rate"  # a learning rate that no schedule of the algorithm touches
OWN_BETAS = "own_betas"  # whether the betas are such


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
    if "betas" in settings:
        settings[OWN_BETAS] = True
    optimizer.add_param_group({"params": mine, **settings})


def keep_own_rates(optimizer: torch.optim.Optimizer) -> None:
    """Put back the rates of groups that have their own."""
    for group in optimizer.param_groups:
        if OWN_RATE in group:
            group["lr"] = group[OWN_RATE]


def require_betas(optimizer: torch.optim.Optimizer) -> None:
    """Refuse a momentum for an optimizer that has none."""
    if "betas" not in optimizer.defaults:
        raise UserError(
            f"algo.momentum is Adam's first beta, and {type(optimizer).__name__} has none: set "
            "algo.optimizer=adam, or algo.momentum=null."
        )


def set_momentum(optimizer: torch.optim.Optimizer, momentum: float) -> None:
    """Give every group this first beta, but those that have their own."""
    for group in optimizer.param_groups:
        if OWN_BETAS not in group:
            group["betas"] = (momentum, group["betas"][1])
