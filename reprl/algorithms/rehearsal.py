"""Extras tried out before training: what a wrong one does is seen now and not in an hour."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from gymnasium import spaces
from torch import Tensor, nn

from reprl.algorithms.objectives import evaluate
from reprl.algorithms.rollout_buffer import require_reach
from reprl.auxiliary.base import Batch, Context
from reprl.errors import UserError

if TYPE_CHECKING:
    from reprl.auxiliary.losses import Extras


class LentContext(Context):
    """A context that notes whether a loss has asked for the run's augmentation."""

    lent: bool = False

    def __getattribute__(self, name: str) -> Any:
        if name == "augmentation":
            self.lent = True
        return super().__getattribute__(name)


def require_own_parameters(losses: nn.ModuleDict, policy: nn.Module) -> None:
    """Refuse a loss that holds parameters of the policy, which the policy trains already."""
    taken = {id(parameter) for parameter in policy.parameters()}
    for name, loss in losses.items():
        for path, parameter in loss.named_parameters():
            if id(parameter) in taken:
                raise UserError(
                    f"auxiliary '{name}' keeps a parameter of the policy as its own ('{path}'): "
                    "use the encoder that forward() is given, or keep a copy."
                )


def rehearse(extras: Extras, observation_space: spaces.Box) -> None:
    """Run everything once on noise, and leave no trace."""
    policy, size = extras.policy, 4
    training = policy.training
    noise = torch.Generator().manual_seed(0)
    shape = (size, *observation_space.shape)
    observations = torch.randint(256, shape, dtype=torch.uint8, generator=noise)
    observations = observations.to(policy.device)
    before = extras.state(), {k: v.clone() for k, v in extras.losses.state_dict().items()}
    policy.set_training_mode(False)
    with torch.random.fork_rng(devices=[]):
        actions = torch.zeros(size, dtype=torch.int64, device=policy.device)
        augmented, actions = extras.augment(observations, actions)
        if augmented.shape != observations.shape or augmented.dtype != torch.uint8:
            raise UserError(
                f"augmentation '{type(extras.augmentation).__name__}' makes {augmented.dtype} of "
                f"shape {tuple(augmented.shape)} out of uint8 {tuple(observations.shape)}."
            )
        if extras.losses:
            batch = _batch(extras, augmented, actions)
            batch.augmented_from = None if augmented is observations else observations
            extras.compute(batch, extras.names)
    policy.set_training_mode(training)
    extras.losses.load_state_dict(before[1])
    extras.load_state(before[0])


def _batch(extras: Extras, observations: Tensor, actions: Tensor) -> Batch:
    """A batch in which nothing happens."""
    evaluation = evaluate(extras.policy, observations, actions)
    zeros = torch.zeros(len(actions), device=actions.device)
    place = zeros.long()

    def at(offset: int) -> tuple[Tensor, Tensor]:
        require_reach(offset, extras.reach)
        return observations, torch.ones_like(place, dtype=torch.bool)

    return Batch(
        observations=observations,
        actions=actions,
        rewards=zeros,
        returns=zeros,
        advantages=zeros,
        episode_starts=zeros.bool(),
        env_index=place,
        time_index=place,
        output=evaluation.output,  # type: ignore[arg-type]
        policy=extras.policy,
        log_probs=evaluation.log_probs,  # type: ignore[arg-type]
        values=evaluation.values,
        generator=extras.generators["auxiliary"],
        at=at,
    )
