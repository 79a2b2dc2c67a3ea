"""Health of a representation during training: its rank and norm, dormant units, churn.

`reprl.algorithms.diagnostics` asks for these every `instrument_every` updates; they read, and
change nothing. The rules of `reprl.runs.progress:alarms` say when one of them is a warning.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from reprl.encoders.base import Encoder
from reprl.policy import PolicyOutput, policy_forward, recurrent_forward
from reprl.sequences import Sequences

DORMANT_TAU = 0.025  # Sokar et al. 2023: of a layer's mean activity
CHURN_STATES = 256  # at most, of the minibatch that is looked at


def effective_rank(features: Tensor) -> float:
    """exp of the entropy of the singular values' shares (Roy & Vetterli 2007), 0 if all are 0.

    Of features (B, F) less their mean over the batch: along how many directions they vary.
    """
    spread = features.detach().double()
    values = torch.linalg.svdvals(spread - spread.mean(0))
    total = values.sum()
    if not total > 1e-9:
        return 0.0
    share = values / total
    return torch.exp(-torch.xlogy(share, share).sum()).item()


def feature_norm(features: Tensor) -> float:
    """Mean Euclidean length of features (B, F)."""
    return features.detach().norm(dim=1).mean().item()


def dormant_share(activity: Tensor, tau: float = DORMANT_TAU) -> float:
    """Share of a layer's units whose mean |activation| (units,) is at most tau times the layer's.

    A layer in which nothing fires is dormant as a whole.
    """
    return (activity <= tau * activity.mean()).float().mean().item()


@torch.no_grad()
def dormant_units(
    encoder: Encoder, images: Tensor, tau: float = DORMANT_TAU
) -> tuple[dict[str, float], Tensor]:
    """Dormant share of each ReLU by its name in the encoder, and the features (B, F) of images."""
    activity: dict[str, list[Tensor]] = {}

    def watch(name: str) -> Callable[[nn.Module, Any, Tensor], None]:
        def hook(module: nn.Module, inputs: Any, output: Tensor) -> None:
            mean = output.abs().transpose(0, 1).flatten(1).mean(1)  # (units,)
            activity.setdefault(name, []).append(mean)  # a layer may run twice

        return hook

    layers = {n: m for n, m in encoder.named_modules() if isinstance(m, nn.ReLU)}
    handles = [layer.register_forward_hook(watch(name)) for name, layer in layers.items()]
    training = encoder.training
    try:
        encoder.eval()  # dropout would scale and silence units
        features = encoder(images)
    finally:
        encoder.train(training)
        for handle in handles:
            handle.remove()
    shares = {
        name: dormant_share(torch.stack(means).mean(0), tau) for name, means in activity.items()
    }
    return shares, features


@contextmanager
def _as_played(policy: Any) -> Iterator[None]:
    """Without gradient and in evaluation mode: neither dropout nor a drawn mask is churn."""
    training = policy.training
    policy.set_training_mode(False)
    try:
        with torch.no_grad():
            yield
    finally:
        policy.set_training_mode(training)


class Churn:
    """How far one update moves policy and value on states of its own rollout.

    Made before the update's first step, asked after its last: all epochs count as one update.
    """

    def __init__(
        self, policy: Any, observations: Tensor, sequences: Sequences | None = None
    ) -> None:
        self.policy = policy
        self.sequences = sequences  # what a policy with a memory needs as a whole
        self.observations = observations[: CHURN_STATES if sequences is None else None].clone()
        self.before = self._outputs()

    def numbers(self) -> dict[str, float]:
        """Share of greedy actions that changed, KL(before || after) in nats, mean |change of V|."""
        after = self._outputs()
        found = {"churn/value": (after.values - self.before.values).abs().mean().item()}
        if self.before.log_probs is None or after.log_probs is None:
            return found
        old, new = self.before.log_probs, after.log_probs  # (B, n_actions)
        kl = (old.exp() * (old - new)).sum(1).mean().item()
        return found | {
            "churn/policy": (old.argmax(1) != new.argmax(1)).float().mean().item(),
            "churn/policy_kl": kl,
        }

    def _outputs(self) -> PolicyOutput:
        with _as_played(self.policy):
            if self.sequences is not None:
                return recurrent_forward(self.policy, self.observations, self.sequences)
            return policy_forward(self.policy, self.observations)


class GreedyChurn:
    """How far one update moves what a policy of values likes best, on states of its minibatch.

    `greedy` gives the value (B,) of the best action in each state, and that action (B,), None where
    actions are continuous. Made before the update's first step, asked after its last.
    """

    def __init__(
        self,
        policy: Any,
        observations: Tensor,
        greedy: Callable[[Tensor], tuple[Tensor, Tensor | None]],
    ) -> None:
        self.policy = policy
        self.greedy = greedy
        self.observations = observations[:CHURN_STATES].clone()
        self.before = self._outputs()

    def numbers(self) -> dict[str, float]:
        """Mean |change of the best action's value|, and the share of best actions that changed."""
        (old_values, old), (values, actions) = self.before, self._outputs()
        found = {"churn/value": (values - old_values).abs().mean().item()}
        if old is None or actions is None:
            return found
        return found | {"churn/policy": (actions != old).float().mean().item()}

    def _outputs(self) -> tuple[Tensor, Tensor | None]:
        with _as_played(self.policy):
            return self.greedy(self.observations)
