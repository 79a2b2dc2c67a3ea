"""PPO whose value has a network of its own: the ground on which PPG and IDAAC stand.

rollout -> **policy epochs** on the policy's encoder -> **value epochs** on the value's. Where both
have the same number of epochs they are one update, PPO's own with an encoder for each.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import Any, ClassVar

import torch
from gymnasium import spaces
from torch import Tensor, nn

from reprl.algorithms.base import Algorithm
from reprl.algorithms.compiled import CompiledPolicy
from reprl.algorithms.compiled_apart import CompiledApart
from reprl.algorithms.on_policy import UpdateMetrics, build_encoder
from reprl.algorithms.ppo import PPO
from reprl.algorithms.rollout_buffer import Minibatch
from reprl.algorithms.update import Forward, MinibatchLoss, Term, Update
from reprl.auxiliary.base import OPTIONAL
from reprl.encoders.initialisation import RELU_GAIN
from reprl.errors import UserError
from reprl.policy import PolicyOutput, actor_forward, critic_forward, policy_forward
from reprl.rng import stream_seed
from reprl.settings import CLASSES
from reprl.validation import checker

# of an encoder's spec, what is for the policy's alone: its mask, and weights from elsewhere
POLICY_ONLY = ("attention", "freeze")


class FunctionObjective:
    """A function of a minibatch as what the update asks for its loss."""

    def __init__(self, terms: Callable[[PolicyOutput, Tensor, Any], MinibatchLoss]) -> None:
        self._terms = terms

    def loss_terms(self, output: PolicyOutput, actions: Tensor, minibatch: Any) -> MinibatchLoss:
        return self._terms(output, actions, minibatch)


class Decoupled(PPO):
    """PPO with a value network apart, trained in `value_epochs` of every `value_every`-th update.

    A mask and a frozen encoder are the policy's: the value's encoder is trained and sees all.
    """

    called: ClassVar[str]  # what it is called in a configuration
    separate: ClassVar[bool] = True
    # of the policy's features there is no value that a loss could compare
    supplies: ClassVar[frozenset[str]] = OPTIONAL - {"values", "value_loss"}
    log_names: ClassVar[dict[str, str]] = {k: v for k, v in PPO.log_names.items() if k != "value"}
    share = Algorithm.share  # refuses: what it keeps and draws belongs to one process
    heads: nn.ModuleDict  # what else reads the policy's features, by name

    def __init__(
        self, policy: Any, env: Any, *, value_epochs: int, value_every: int = 1, **kwargs: Any
    ) -> None:
        check = checker(CLASSES[str(self.settings_name)])
        self.value_epochs = int(check("value_epochs", value_epochs))
        self.value_every = value_every
        super().__init__(policy, env, **kwargs)

    @property
    def joint(self) -> bool:
        """Whether policy and value take their steps together, by one sum of their losses."""
        return self.value_epochs == self.n_epochs and self.value_every == 1

    # -- networks ---------------------------------------------------------------------------------

    def _setup_model(self) -> None:
        self._take_saved_spaces()
        if not isinstance(self.action_space, spaces.Discrete):
            raise UserError(f"algo={self.called} needs discrete actions, got {self.action_space}.")
        super()._setup_model()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(stream_seed(self._stream_seed, self.called, "heads"))
            self.heads = nn.ModuleDict(self._heads()).to(self.device)
        network = self.network
        self.value_update = Update(
            policy=self.policy,
            auxiliary=self.losses,
            forward=network.critic if isinstance(network, CompiledApart) else critic_forward,
            moves_copies=False,
        )
        self.value_update.beside = {}
        if self.curiosity is not None:
            self.value_update.beside["intrinsic"] = list(self.curiosity.value.parameters())

    def _heads(self) -> dict[str, nn.Module]:
        """The heads beside the action head."""
        return {}

    def _complete_policy(self) -> None:
        """Give the value an encoder without the policy's mask, trained though that be frozen."""
        spec = self.specs.encoder
        if spec is None or not any(spec.get(key) for key in POLICY_ONLY):
            return
        own = {key: value for key, value in spec.items() if key not in POLICY_ONLY}
        policy, space = self.policy, self.observation_space
        assert isinstance(space, spaces.Box)
        encoder = build_encoder(space, spec=own)
        if policy.ortho_init:
            encoder.apply(partial(policy.init_weights, gain=RELU_GAIN))
        policy.vf_features_extractor = encoder.to(self.device)
        policy.optimizer = policy.optimizer_class(  # type: ignore[call-arg]
            policy.parameters(), lr=self.lr_schedule(1), **policy.optimizer_kwargs
        )

    def _compiled(self) -> CompiledPolicy:
        return CompiledApart(self.policy, compile=self.compile, precision=self.precision)

    def _forward(self) -> Forward:
        return self._both_sides() if self.joint else self._actor_side()

    def _both_sides(self) -> Forward:
        """The forward pass of policy and value."""
        return self.network.forward if isinstance(self.network, CompiledApart) else policy_forward

    def _actor_side(self) -> Forward:
        """The forward pass of the policy alone."""
        return self.network.actor if isinstance(self.network, CompiledApart) else actor_forward

    def modules(self) -> dict[str, nn.Module]:
        return super().modules() | {"heads": self.heads}

    # -- learning ---------------------------------------------------------------------------------

    def loss_terms(
        self, output: PolicyOutput, actions: Tensor, minibatch: Minibatch
    ) -> MinibatchLoss:
        """PPO's terms; without the value's where that has epochs of its own."""
        if self.joint:
            return super().loss_terms(output, actions, minibatch)
        return self.policy_terms(output, actions, minibatch)

    def _curious_terms(self, output: PolicyOutput, minibatch: Minibatch) -> dict[str, Term]:
        """Without the second value's error where the value has epochs of its own."""
        if self.joint:
            return super()._curious_terms(output, minibatch)
        assert self.curiosity is not None
        return self.curiosity.model_terms(minibatch, self.rollout_buffer, self.policy)

    def _train(self) -> None:
        super()._train()
        if not self.joint and (self._iterations - 1) % self.value_every == 0:
            self._train_value()

    def _train_value(self) -> None:
        """The epochs in which the value network alone is fitted to the rollout's returns."""
        began, memory = perf_counter(), self.rollout_buffer

        def terms(output: PolicyOutput, _: Tensor, minibatch: Minibatch) -> MinibatchLoss:
            found = self.value_terms(output, minibatch)
            if self.curiosity is not None:
                found |= self.curiosity.value_terms(output, minibatch, memory, self.policy)
            return MinibatchLoss(found)

        objective, metrics = FunctionObjective(terms), UpdateMetrics()
        for _ in range(self.value_epochs):
            for minibatch in memory.minibatches(self._minibatch_size()):
                actions = minibatch.actions.long().flatten()
                losses = self.value_update.losses(
                    objective, minibatch, actions, {}, dict, self.num_timesteps
                )
                self.value_update.step(losses, self.num_timesteps, self.max_grad_norm)
                metrics.add(losses)
        means = metrics.means()
        self.logger.record("train/value_loss", means["value"])
        if "intrinsic_value" in means:
            self.logger.record("loss/intrinsic_value", means["intrinsic_value"])
        self.timings.add("update", perf_counter() - began)

    def _record(self, metrics: UpdateMetrics, weights: dict[str, float]) -> None:
        super()._record(metrics, weights)
        if "value" in metrics.numbers:
            self.logger.record("train/value_loss", metrics.means()["value"])

    # -- SB3's own saving -------------------------------------------------------------------------

    def _excluded_save_params(self) -> list[str]:
        return [*super()._excluded_save_params(), "value_update"]

    def _get_torch_save_params(self) -> tuple[list[str], list[str]]:
        names, variables = super()._get_torch_save_params()
        return [*names, "heads"], variables
