"""IDAAC (Raileanu & Fergus 2021): the policy's features know advantages, and not how far a game is.

rollout -> policy epochs with **an advantage head** and **a classifier of order to be fooled** ->
value epochs on the value's own network. Without the classifier (`order_coef=0`) it is DAAC.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F

from reprl.algorithms.decoupled import Decoupled
from reprl.algorithms.on_policy import UpdateMetrics, weight_at
from reprl.algorithms.rollout_buffer import Minibatch
from reprl.algorithms.update import MinibatchLoss, Term
from reprl.policy import PolicyOutput, actor_width
from reprl.rng import torch_stream
from reprl.settings import CLASSES
from reprl.validation import checker

LOGGED = {
    "advantage": "loss/advantage",
    "order": "loss/order",
    "order_classifier": "loss/order_classifier",
    "order_accuracy": "train/order_accuracy",
}


def companions(
    starts: np.ndarray, env: np.ndarray, time: np.ndarray, uniforms: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Times (B,) of other steps of the same game and rollout, and where there is one.

    `starts` (T, n) are True at a game's first step; each other step is as likely as the next, by
    uniforms (B,) from 0 to 1. Where a step is its game's only one, the time is its own.
    """
    steps = np.arange(len(starts))[:, None]
    begun = starts.astype(bool)
    first = np.maximum.accumulate(np.where(begun, steps, 0), axis=0)  # (T, n)
    ends = np.append(begun[1:], np.ones_like(begun[:1]), axis=0)  # whether a step is the last
    last = np.minimum.accumulate(np.where(ends, steps, len(starts))[::-1], axis=0)[::-1]
    low, others = first[time, env], (last - first)[time, env]
    drawn = low + np.minimum((uniforms * others).astype(np.int64), others - 1)
    drawn = drawn + (drawn >= time)  # past the step itself
    valid = others > 0
    return np.where(valid, drawn, time), valid


def order_losses(
    classifier: nn.Module, first: Tensor, second: Tensor, earlier: Tensor, valid: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Losses of encoder and classifier, and how often the classifier is right.

    Features (B, P) of two steps of a game; `earlier` (B,) is 1 where the first came first. The
    classifier learns to say so from features as they are; the encoder, by a classifier that stays
    as it is, that it can only guess. Pairs that are not `valid` do not count.
    """
    pairs = torch.cat([first, second], dim=1)
    fixed = {name: p.detach() for name, p in classifier.named_parameters()}
    fooled = functional_call(classifier, fixed, (pairs,)).flatten()  # logits (B,)
    judged = classifier(pairs.detach()).flatten()
    count = valid.sum().clamp(min=1)
    half = torch.full_like(fooled, 0.5)
    order = F.binary_cross_entropy_with_logits(fooled, half, reduction="none")
    told = F.binary_cross_entropy_with_logits(judged, earlier, reduction="none")
    right = ((judged > 0) == (earlier > 0.5)).to(judged)
    order, told, right = ((each * valid).sum() / count for each in (order, told, right))
    return order, told, right.detach()


class IDAAC(Decoupled):
    """PPO's policy with an advantage head and fooled order, beside a value network of its own."""

    called: ClassVar[str] = "idaac"
    settings_name: ClassVar[str | None] = "IDAAC"

    def __init__(
        self,
        policy: Any,
        env: Any,
        *,
        n_epochs: int = 1,
        value_epochs: int = 9,
        value_every: int = 1,
        advantage_coef: Any = 0.25,
        order_coef: Any = 0.001,
        order_hidden: int = 0,
        **kwargs: Any,
    ) -> None:
        check = checker(CLASSES["IDAAC"])
        check("value_every", value_every)
        self.advantage_coef = check("advantage_coef", advantage_coef)
        self.order_coef = check("order_coef", order_coef)
        self.order_hidden = int(check("order_hidden", order_hidden))
        super().__init__(
            policy,
            env,
            n_epochs=n_epochs,
            value_epochs=value_epochs,
            value_every=int(value_every),
            **kwargs,
        )

    @property
    def fools(self) -> bool:
        """Whether there is a classifier of order at all."""
        return isinstance(self.order_coef, dict) or self.order_coef > 0

    def _heads(self) -> dict[str, nn.Module]:
        assert isinstance(self.action_space, spaces.Discrete)
        width = actor_width(self.policy)
        heads: dict[str, nn.Module] = {
            "advantage": nn.Linear(width + int(self.action_space.n), 1),
        }
        if self.fools and self.order_hidden:
            hidden = nn.Linear(2 * width, self.order_hidden)
            heads["order"] = nn.Sequential(hidden, nn.ReLU(), nn.Linear(self.order_hidden, 1))
        elif self.fools:
            heads["order"] = nn.Linear(2 * width, 1)
        return heads

    def _setup_model(self) -> None:
        super()._setup_model()
        learned = list(self.heads.parameters())
        self.policy.optimizer.add_param_group({"params": learned})
        self.update.beside["heads"] = learned
        self.pairs = torch_stream(self._stream_seed, "idaac", "pairs")

    # -- the seam ---------------------------------------------------------------------------------

    def stream_state(self) -> dict[str, Tensor]:
        return super().stream_state() | {"pairs": self.pairs.get_state()}

    def load_stream_state(self, state: dict[str, Tensor]) -> None:
        super().load_stream_state(state)
        self.pairs.set_state(state["pairs"])

    # -- learning ---------------------------------------------------------------------------------

    def _begin_update(self) -> None:
        super()._begin_update()
        progress = self._current_progress_remaining
        self._advantage = weight_at(self.advantage_coef, progress, "advantage_coef")
        self._order = weight_at(self.order_coef, progress, "order_coef")

    def loss_terms(
        self, output: PolicyOutput, actions: Tensor, minibatch: Minibatch
    ) -> MinibatchLoss:
        """PPO's terms, the advantage head's error, and the two sides of the game about order."""
        loss = super().loss_terms(output, actions, minibatch)
        wrong = F.mse_loss(self.predicted(output, actions), self.advantages(minibatch))
        terms = loss.terms | {"advantage": Term(wrong, self._advantage)}
        if not self.fools:
            return MinibatchLoss(terms, loss.metrics)
        order, told, right = self._order_losses(output, minibatch)
        terms |= {"order": Term(order, self._order), "order_classifier": Term(told)}
        return MinibatchLoss(terms, loss.metrics | {"order_accuracy": right})

    def predicted(self, output: PolicyOutput, actions: Tensor) -> Tensor:
        """Advantages (B,) that the head expects of actions (B,)."""
        assert isinstance(self.action_space, spaces.Discrete)
        assert output.actor is not None
        taken = F.one_hot(actions, int(self.action_space.n)).to(output.actor)
        found: Tensor = self.heads["advantage"](torch.cat([output.actor, taken], dim=1)).flatten()
        return found

    def _order_losses(
        self, output: PolicyOutput, minibatch: Minibatch
    ) -> tuple[Tensor, Tensor, Tensor]:
        memory, place = self.rollout_buffer, minibatch.place
        env, time = place // memory.buffer_size, place % memory.buffer_size
        uniforms = torch.rand(len(place), generator=self.pairs, dtype=torch.float64).numpy()
        other, valid = companions(memory.episode_starts, env, time, uniforms)
        seen = memory.to_torch(memory.observed(env * memory.buffer_size + other))
        # Draws of its own, or none, would tell the two pictures apart beside the time.
        second = self._actor_side()(self.policy, self.losses.alike(seen)).actor
        assert output.actor is not None
        assert second is not None
        earlier = memory.to_torch((time < other).astype(np.float32))
        counted = memory.to_torch(valid.astype(np.float32))
        return order_losses(self.heads["order"], output.actor, second, earlier, counted)

    def _record(self, metrics: UpdateMetrics, weights: dict[str, float]) -> None:
        super()._record(metrics, weights)
        means = metrics.means()
        for term, name in LOGGED.items():
            if term in means:
                self.logger.record(name, means[term])

    def _excluded_save_params(self) -> list[str]:
        return [*super()._excluded_save_params(), "pairs"]
