"""Taking weights out of a checkpoint: as a plain torch module, or into a stock SB3 model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from reprl.checkpoint import load, read
from reprl.errors import UserError

if TYPE_CHECKING:
    from stable_baselines3.common.base_class import BaseAlgorithm
    from stable_baselines3.common.policies import ActorCriticPolicy

PREFIX = "policy."


class PolicyModule(nn.Module):
    """An agent as a function of observations: (B, stack, H, W) uint8 -> logits and values."""

    def __init__(self, policy: ActorCriticPolicy) -> None:
        super().__init__()
        self.policy = policy

    def forward(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        distribution = self.policy.get_distribution(observations)
        categorical = distribution.distribution
        assert isinstance(categorical, torch.distributions.Categorical)
        logits = categorical.logits  # (B, n_actions), log-probabilities
        return logits, self.policy.predict_values(observations).squeeze(-1)  # (B,)


def load_module(folder: str | Path, *, step: int | None = None) -> PolicyModule:
    """The policy of a checkpoint as a torch module in evaluation mode, without an environment."""
    model = load(folder, step=step)
    return PolicyModule(model.policy).eval()


def copy_to_sb3(folder: str | Path, model: BaseAlgorithm, *, step: int | None = None) -> None:
    """Copy a checkpoint's policy into a stock SB3 model of the same architecture."""
    stored = read(folder, step)
    ours = {
        name.removeprefix(PREFIX): tensor
        for name, tensor in stored.parameters.items()
        if name.startswith(PREFIX)
    }
    # each once: SB3's state_dict lists a shared features extractor three times
    theirs: dict[str, Tensor] = {
        **dict(model.policy.named_parameters()),
        **dict(model.policy.named_buffers()),
    }
    for name in sorted(set(ours) ^ set(theirs)):
        owner = "the checkpoint" if name in ours else "the SB3 model"
        raise UserError(f"the architectures differ: only {owner} has the parameter {name}.")
    for name, tensor in ours.items():
        if tensor.shape != theirs[name].shape:
            raise UserError(
                f"the architectures differ: {name} is {tuple(tensor.shape)} in the checkpoint and "
                f"{tuple(theirs[name].shape)} in the SB3 model."
            )
    with torch.no_grad():
        for name, tensor in theirs.items():
            tensor.copy_(ours[name])
