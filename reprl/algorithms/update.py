"""One gradient step, shared by A2C and PPO.

minibatch -> (augment) -> encode once -> policy, value, entropy and auxiliary terms -> one weighted
sum -> one backward -> clip -> step.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from stable_baselines3.common.policies import ActorCriticPolicy
from torch import Tensor

from reprl.algorithms.objectives import Evaluation, Objective, ReinforcementLoss, evaluate
from reprl.algorithms.rollout_buffer import Minibatch, RolloutMemory
from reprl.auxiliary.losses import Extras

Evaluate = Callable[[ActorCriticPolicy, Tensor, Tensor], Evaluation]


class Diverged(RuntimeError):
    """A loss term or the gradient is no longer a number; raised before the optimizer steps."""

    def __init__(self, term: str, value: float, step: int) -> None:
        super().__init__(f"'{term}' became {value} at step {step}: the parameters were left alone.")
        self.term = term
        self.value = value
        self.step = step


@dataclass(frozen=True)
class Coefficients:
    """The weights of one update."""

    entropy: float
    value: float
    auxiliary: dict[str, float]  # term -> weight at this step; terms not begun are absent


@dataclass
class Losses:
    """The terms of one minibatch and their weighted sum."""

    total: Tensor  # ()
    weighted: dict[str, Tensor]  # term -> its share of the total, ()
    numbers: dict[str, float]  # every term before its weight, and kl, clip_fraction, total
    observations: Tensor  # (B, ...) as trained on
    attention: Tensor | None  # (B, K, h, w)


class Update:
    """Computes the losses of a minibatch and takes the step."""

    def __init__(
        self,
        *,
        policy: ActorCriticPolicy,
        extras: Extras,
        memory: RolloutMemory,
        evaluate: Evaluate = evaluate,
    ) -> None:
        self.policy = policy
        self.extras = extras
        self.memory = memory
        self.evaluate = evaluate

    def losses(
        self,
        minibatch: Minibatch,
        actions: Tensor,
        objective: Objective,
        coefficients: Coefficients,
        step: int,
    ) -> Losses:
        """Compute every term; raise Diverged if one is not a number."""
        observations, actions = self.extras.augment(minibatch.observations, actions)
        evaluation = self.evaluate(self.policy, observations, actions)
        loss = objective(evaluation, minibatch)
        weighted = {
            "policy": loss.policy,
            "entropy": coefficients.entropy * loss.entropy,
            "value": coefficients.value * loss.value,
        }
        terms: dict[str, Tensor] = {}
        if coefficients.auxiliary:
            terms = self.extras.terms(
                self.memory, minibatch, observations, actions, evaluation, coefficients.auxiliary
            )
            weighted |= {name: coefficients.auxiliary[name] * term for name, term in terms.items()}
        # SB3 adds in this order: with another one the last bit of the sum would differ.
        total = weighted["policy"] + weighted["entropy"] + weighted["value"]
        for name in terms:
            total = total + weighted[name]
        numbers = _numbers(loss, terms, total)
        for name in ("policy", "value", "entropy", *terms, "total"):
            if not math.isfinite(numbers[name]):
                raise Diverged(name, numbers[name], step)
        attention = None if evaluation.output is None else evaluation.output.attention
        return Losses(total, weighted, numbers, observations, attention)

    def step(self, losses: Losses, step: int, max_grad_norm: float) -> float:
        """Backward, clip the policy and the auxiliary heads apart, move; returns the whole norm."""
        optimizer = self.policy.optimizer
        optimizer.zero_grad()
        losses.total.backward()
        norm = torch.nn.utils.clip_grad_norm_(self.policy.parameters(), max_grad_norm)
        norms = {"gradient": norm}
        if self.extras.parameters:
            norms["auxiliary gradient"] = torch.nn.utils.clip_grad_norm_(
                self.extras.parameters, max_grad_norm
            )
        for name, value in norms.items():
            if not math.isfinite(number := float(value)):
                raise Diverged(name, number, step)
        optimizer.step()
        self.extras.after_step()
        return float(norm)


def _numbers(loss: ReinforcementLoss, terms: dict[str, Tensor], total: Tensor) -> dict[str, float]:
    tensors = {"policy": loss.policy, "value": loss.value, "entropy": loss.entropy}
    tensors |= terms
    tensors["total"] = total
    if loss.kl is not None and loss.clip_fraction is not None:
        tensors |= {"kl": loss.kl, "clip_fraction": loss.clip_fraction}
    values = torch.stack([t.detach() for t in tensors.values()]).tolist()
    return dict(zip(tensors, values, strict=True))
