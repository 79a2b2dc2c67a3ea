"""One gradient step, shared by all algorithms.

minibatch -> (augment) -> encode once -> the algorithm's own terms and the auxiliary ones -> one
weighted sum -> one backward -> clip -> step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import torch
from stable_baselines3.common.policies import ActorCriticPolicy
from torch import Tensor
from torch.profiler import record_function

from reprl.auxiliary.losses import AuxiliaryLosses
from reprl.policy import PolicyOutput, policy_forward, recurrent_forward
from reprl.precision import FP32, computing_in
from reprl.reduction import OneProcess, Reduction

Forward = Callable[[ActorCriticPolicy, Tensor], PolicyOutput]
# fields of a minibatch with a number for each action, exchanged where the picture is mirrored
BY_ACTION = ("expert", "cloned")


class Diverged(RuntimeError):
    """A loss term or the gradient is no longer a number; raised before the optimizer steps."""

    def __init__(self, term: str, value: float, step: int) -> None:
        super().__init__(f"'{term}' became {value} at step {step}: the parameters were left alone.")
        self.term = term
        self.value = value
        self.step = step


class Term(NamedTuple):
    """One term of a loss and its weight."""

    value: Tensor  # ()
    weight: float = 1.0

    @property
    def weighted(self) -> Tensor:
        return self.value if self.weight == 1.0 else self.weight * self.value


@dataclass(frozen=True)
class MinibatchLoss:
    """An algorithm's own terms for a minibatch, in the order in which they are added up."""

    terms: dict[str, Term]
    metrics: dict[str, Tensor] = field(default_factory=dict)  # (), logged and not trained on


def normalized(advantages: Tensor, reduction: Reduction) -> Tensor:
    """Advantages (B,) of mean 0 and deviation 1 over the whole minibatch, as SB3 has them."""
    if reduction.size * len(advantages) <= 1:
        return advantages
    mean, std = reduction.moments(advantages)
    return (advantages - mean) / (std + 1e-8)


def negative_entropy(output: PolicyOutput, log_prob: Tensor) -> Tensor:
    """The entropy term; where the distribution has no closed form, from the actions' own."""
    entropy = output.entropy()
    return -torch.mean(-log_prob) if entropy is None else -torch.mean(entropy)


class Objective(Protocol):
    """The part of an algorithm that the update asks for its loss."""

    def loss_terms(self, output: PolicyOutput, actions: Tensor, minibatch: Any) -> MinibatchLoss:
        """The algorithm's own terms of a minibatch."""


@dataclass
class Losses:
    """The terms of one minibatch and their weighted sum."""

    total: Tensor  # ()
    own: dict[str, Tensor]  # the algorithm's terms, each its share of the total, ()
    own_weights: dict[str, float]
    auxiliary: dict[str, Tensor]  # the same of the auxiliary losses
    numbers: dict[str, float]  # every term before its weight, the metrics and the total
    observations: Tensor  # (B, ...) as trained on
    attention: Tensor | None  # (B, K, h, w)


class Update:
    """Computes the losses of a minibatch and takes the step."""

    def __init__(
        self,
        *,
        policy: ActorCriticPolicy,
        auxiliary: AuxiliaryLosses,
        forward: Forward = policy_forward,
        reduction: Reduction | None = None,
        precision: str = FP32,
        optimizer: torch.optim.Optimizer | None = None,
        moves_copies: bool = True,
    ) -> None:
        self.policy = policy
        self.auxiliary = auxiliary
        self.forward = forward
        self.reduction: Reduction = reduction or OneProcess()
        self.precision = precision
        self._optimizer = optimizer  # None for the policy's
        self._moves_copies = moves_copies  # whether momentum copies follow after its steps
        # what else is learned beside the policy, each clipped by itself
        self.beside: dict[str, list[torch.nn.Parameter]] = {"auxiliary": auxiliary.parameters}

    def share(self, reduction: Reduction) -> None:
        """From now on minibatches are shares of larger ones."""
        self.reduction = self.auxiliary.reduction = reduction

    def losses(
        self,
        objective: Objective,
        minibatch: Any,
        actions: Tensor,
        weights: Mapping[str, float],
        fields: Callable[[], Mapping[str, Any]],
        step: int,
    ) -> Losses:
        """Compute every term; raise Diverged if one is not a number.

        `weights` are those of the auxiliary terms that have begun; `fields` gives what the buffer
        knows of the minibatch besides the samples, asked for only where a loss is computed.
        """
        sequences = getattr(minibatch, "sequences", None)  # of a policy with a memory
        view = self.auxiliary.view(minibatch.observations, sequences)
        observations, actions = view.observations, self.auxiliary.follow(view, actions)
        for name in BY_ACTION:
            if (per_action := getattr(minibatch, name, None)) is not None:
                followed = self.auxiliary.follow(view, per_action)
                minibatch = minibatch._replace(**{name: followed})
        if sequences is None:
            output = self.forward(self.policy, observations)
        else:
            output = recurrent_forward(self.policy, observations, sequences)
        loss = objective.loss_terms(output, actions, minibatch)
        own = {name: term.weighted for name, term in loss.terms.items()}
        terms: dict[str, Tensor] = {}
        if weights:
            unchanged = observations is minibatch.observations
            batch = self.auxiliary.batch(
                output,
                observations=observations,
                actions=actions,
                augmented_from=None if unchanged else minibatch.observations,
                fields=fields(),
                sequences=sequences,
            )
            with computing_in(self.precision, self.policy.device.type):
                terms = self.auxiliary.compute(batch, set(weights))
            terms = {name: term.float() for name, term in terms.items()}
        auxiliary = {name: weights[name] * term for name, term in terms.items()}
        # SB3 adds in this order: with another one the last bit of the sum would differ.
        first, *others = [*own.values(), *auxiliary.values()]
        total = first
        for part in others:
            total = total + part
        numbers = self._numbers(loss, terms, total)
        for name in (*loss.terms, *terms, "total"):
            if not math.isfinite(numbers[name]):
                raise Diverged(name, numbers[name], step)
        attention = None if output.encoding is None else output.encoding.attention
        own_weights = {name: term.weight for name, term in loss.terms.items()}
        return Losses(total, own, own_weights, auxiliary, numbers, observations, attention)

    def step(self, losses: Losses, step: int, max_grad_norm: float) -> float:
        """Backward, clip the policy and the auxiliary heads apart, move; returns the whole norm."""
        optimizer = self.policy.optimizer if self._optimizer is None else self._optimizer
        optimizer.zero_grad()
        with record_function("update.backward"):
            losses.total.backward()
        with record_function("update.step"):
            return self._move(optimizer, step, max_grad_norm)

    def _move(self, optimizer: torch.optim.Optimizer, step: int, max_grad_norm: float) -> float:
        others = [p for parameters in self.beside.values() for p in parameters]
        self.reduction.gradients([*self.policy.parameters(), *others])
        norm = torch.nn.utils.clip_grad_norm_(self.policy.parameters(), max_grad_norm)
        norms = {"gradient": norm}
        for name, parameters in self.beside.items():
            if parameters:
                clipped = torch.nn.utils.clip_grad_norm_(parameters, max_grad_norm)
                norms[f"{name} gradient"] = clipped
        for name, value in norms.items():
            if not math.isfinite(number := float(value)):
                raise Diverged(name, number, step)
        optimizer.step()
        if self._moves_copies:
            self.auxiliary.after_step()
        return float(norm)

    def _numbers(
        self, loss: MinibatchLoss, terms: dict[str, Tensor], total: Tensor
    ) -> dict[str, float]:
        tensors = {name: term.value for name, term in loss.terms.items()} | terms
        tensors |= {"total": total} | loss.metrics
        stacked = torch.stack([t.detach() for t in tensors.values()])
        return dict(zip(tensors, self.reduction.numbers(stacked).tolist(), strict=True))
