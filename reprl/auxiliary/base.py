"""The auxiliary loss's interface: a batch and the encoder in, named terms out.

The update calls `setup` once before the optimizer is built, `forward` for each minibatch and
`after_step` after each optimizer step. It multiplies each term by `weights[term]`, a number or
a plain spec for reprl.schedules, and by 0 before environment step `begin.get(term, 0)`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Self

import torch
from gymnasium import spaces
from stable_baselines3.common.policies import ActorCriticPolicy
from torch import Tensor, nn
from torch.nn import functional

from reprl.augmentation.base import Augmentation, View
from reprl.encoders.base import Encoder, EncoderOutput, as_images
from reprl.instances import RemembersArguments
from reprl.policy import heads, sequence_heads
from reprl.reduction import OneProcess, Reduction
from reprl.schedules import Coefficient, scaled
from reprl.sequences import Sequences
from reprl.settings import LOSS
from reprl.validation import checker

Neighbours = Callable[[int], tuple[Tensor, Tensor]]  # offset in steps -> what is there, valid


# what an algorithm may or may not have for a minibatch: it says so in `supplies`
OPTIONAL = frozenset(
    {
        *("rewards", "returns", "advantages", "episode_starts", "env_index", "time_index"),
        *("log_probs", "values", "value_loss", "at", "actions_at", "boxes"),
    }
)
# also in `needs`: what one picture alone decides, which a policy with a memory cannot say
ALONE = "alone"


@dataclass
class Batch:
    """One minibatch as an auxiliary loss sees it; B samples.

    The fields of OPTIONAL are None where the algorithm does not supply them; a loss that reads
    one says so in `needs` and is refused by name before training.
    """

    observations: Tensor  # (B, stack, H, W) uint8, as the policy was trained on (augmented for RAD)
    actions: Tensor  # (B,) int64; (B, width) float32 where they are continuous
    output: EncoderOutput  # this minibatch, encoded once, with gradient
    policy: ActorCriticPolicy
    generator: torch.Generator  # the auxiliary losses' own random stream
    # (B,) float32 as the environment gave them, no value of a cut episode added
    rewards: Tensor = None  # type: ignore[assignment]
    returns: Tensor = None  # type: ignore[assignment]  # (B,)
    advantages: Tensor = None  # type: ignore[assignment]  # (B,)
    # (B,) bool: this observation is the first of its episode
    episode_starts: Tensor = None  # type: ignore[assignment]
    env_index: Tensor = None  # type: ignore[assignment]  # (B,) int64
    time_index: Tensor = None  # type: ignore[assignment]  # (B,) int64, position in the rollout
    # (B, n_actions) of the current policy, with gradient
    log_probs: Tensor = None  # type: ignore[assignment]
    values: Tensor = None  # type: ignore[assignment]  # (B,) of the value head, with gradient
    at: Neighbours = field(default=None, repr=False)  # type: ignore[assignment]
    # at(k) -> observations k steps later (B, stack, H, W) and valid (B,) bool: False where the
    # neighbour lies outside the buffer or across an episode end; such rows are the sample itself.
    # Neighbours are never augmented.
    # actions_at(k) -> the actions (B,) int64 played k steps later, and valid (B,) bool as of at();
    # as they were played, whatever RAD mirrors.
    actions_at: Neighbours = field(default=None, repr=False)  # type: ignore[assignment]
    # (B, K, 4) float32: left, top, right, bottom of each object in the newest frame, in pixels of
    # the observation; NaN while it is not on the screen. Only where a loss needs it: it is truth.
    boxes: Tensor = None  # type: ignore[assignment]
    augmented_from: Tensor | None = None  # observations before RAD changed them, if it did
    sequences: Sequences | None = None  # of a policy with a memory: which samples are neighbours
    # of an algorithm that learns Q: its own loss () for features (B, F) of a view of these samples
    q_loss: Callable[[Tensor, View], Tensor] | None = field(default=None, repr=False)
    wanted: frozenset[str] | None = None  # this loss's terms that have begun; None for all
    layout: torch.memory_format = torch.contiguous_format  # of images(); fast mode has its own
    shares: Reduction = field(default_factory=OneProcess, repr=False)  # the other ranks' samples

    @property
    def originals(self) -> Tensor:
        """The observations as the environment gave them, comparable with their neighbours."""
        return self.observations if self.augmented_from is None else self.augmented_from

    def wanting(self, terms: frozenset[str] | None) -> Self:
        """The same batch for a loss of which only these terms count."""
        same = copy.copy(self)
        same.wanted = terms
        return same

    def wants(self, term: str) -> bool:
        """Whether a term counts already; a loss of several terms need not compute the others."""
        return self.wanted is None or term in self.wanted

    def heads(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Log-probabilities (B, n_actions) and values (B,) of features (B, F) of these samples.

        A memory begins each sequence with the state it had there in the rollout.
        """
        if self.sequences is None:
            return heads(self.policy, features)
        return sequence_heads(self.policy, features, self.sequences)

    def value_loss(self, features: Tensor, view: View) -> Tensor:
        """The error () of the value, or of Q, that features (B, F) of a view of these samples give.

        Its targets are the update's: the returns, or what the algorithm trains Q towards. Of a Q
        the actions are those that were played, as they are called in the view.
        """
        if self.q_loss is not None:
            return self.q_loss(features, view)
        assert self.values is not None
        _, values = self.heads(features)
        return functional.mse_loss(values, self.returns)

    def view(self, augmentation: Augmentation, observations: Tensor) -> View:
        """Observations (B, stack, H, W) augmented for heads(): one draw for each sequence."""
        if self.sequences is None:
            view: View = augmentation(observations, self.generator)
            return view
        return self.sequences.view(augmentation, observations, self.generator)

    def images(self, observations: Tensor | None = None) -> Tensor:
        """Observations as the encoder takes them: float32 in [0, 1]."""
        chosen = self.observations if observations is None else observations
        return as_images(chosen, self.layout)


@dataclass
class Context:
    """What a loss may size its heads by, and copy for a momentum encoder."""

    encoder: Encoder
    policy: ActorCriticPolicy
    observation_space: spaces.Box
    action_space: spaces.Discrete
    augmentation: Augmentation | None
    history: int = 0  # how far at() can look ahead or back; set from AuxiliaryLoss.reach
    mirror: Tensor | None = None  # (n_actions,) int64: each action with LEFT and RIGHT exchanged
    q_learning: bool = False  # whether Batch.value_loss is that of actions, not of states alone


class AuxiliaryLoss(RemembersArguments, nn.Module):
    """A named dict of loss terms with one weight each."""

    reach: int = 0  # the largest |offset| this loss asks of Batch.at
    needs: frozenset[str] = frozenset()  # the fields of OPTIONAL that this loss reads
    scored: bool = False  # whether begin_update() is to be told what the rollout paid

    def __init__(self) -> None:
        super().__init__()
        self.weights: dict[str, Coefficient] = {}  # multiplied through their nesting
        self.begin: dict[str, int] = {}  # environment step from which the term counts

    def declare(self, term: str, *, coef: Coefficient, begin: int = 0) -> None:
        """Announce a term of `forward` with its coefficient (or its schedule) and start step."""
        check = checker(LOSS, self)
        self.weights[term] = scaled(check("coef", coef))
        self.begin[term] = check("begin", begin)

    def setup(self, context: Context) -> None:
        """Build heads and momentum copies; runs under the auxiliary losses' own random stream."""

    def begin_update(self, score: float) -> None:
        """A rollout is over, whose mean return is `score`; called before its update if `scored`."""

    def noted(self) -> dict[str, float]:
        """Numbers for the log after an update, besides the terms."""
        return {}

    def forward(self, batch: Batch, encoder: Encoder) -> dict[str, Tensor]:
        """Return one scalar per term of `weights`; those the batch does not want may be absent."""
        raise AssertionError(f"{type(self).__name__} must define forward()")

    def after_step(self) -> None:
        """Move momentum copies; called once after each optimizer step."""

    def momentum_parameters(self) -> list[nn.Parameter]:
        """Parameters that follow by averaging and never take a gradient."""
        return [p for p in self.parameters() if not p.requires_grad]
