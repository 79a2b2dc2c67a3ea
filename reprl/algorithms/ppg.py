"""PPG (Cobbe et al. 2021): phases of PPO, and auxiliary phases that teach its encoder the value.

`n_policy_phases` x (rollout -> policy and value epochs) -> **auxiliary phase** over all of their
observations: a value head on the policy's encoder and the value network are fitted to the returns,
while the policy is held to what it was.
"""

from __future__ import annotations

from time import perf_counter
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from stable_baselines3.common.preprocessing import is_image_space
from torch import Tensor, nn

from reprl.algorithms.decoupled import Decoupled, FunctionObjective
from reprl.algorithms.on_policy import UpdateMetrics, weight_at
from reprl.algorithms.parameter_groups import keep_own_rates, separate_mask, set_momentum
from reprl.algorithms.phase_memory import PhaseMemory
from reprl.algorithms.update import MinibatchLoss, Term, Update
from reprl.envs.observation import frame_channels
from reprl.errors import UserError
from reprl.policy import PolicyOutput, actor_forward, actor_width, critic_forward, value_input
from reprl.settings import CLASSES
from reprl.transfer import on_device
from reprl.validation import checker


class Remembered(NamedTuple):
    """A minibatch of an auxiliary phase."""

    observations: Tensor  # (B, ...) as the environment gave them
    returns: Tensor  # (B,)
    cloned: Tensor  # (B, n_actions) log-probabilities of the policy before the phase
    held: Tensor | None = None  # (B,) intrinsic values before the phase, where there are any


def clone_divergence(old: Tensor, new: Tensor) -> Tensor:
    """Mean KL(old, new) in nats of log-probabilities (B, n_actions)."""
    return (old.exp() * (old - new)).sum(dim=1).mean()


def half_squared(values: Tensor, returns: Tensor) -> Tensor:
    """Half the mean squared error of values (B,), as the authors have it."""
    return 0.5 * (values - returns).square().mean()


class PPG(Decoupled):
    """PPO with a value network of its own and, on a schedule, an auxiliary phase."""

    called: ClassVar[str] = "ppg"
    settings_name: ClassVar[str | None] = "PPG"
    keeps_data: ClassVar[bool] = True

    def __init__(
        self,
        policy: Any,
        env: Any,
        *,
        n_epochs: int = 1,
        value_epochs: int = 1,
        n_policy_phases: int = 32,
        auxiliary_epochs: int = 6,
        auxiliary_batch_size: int = 256,
        beta_clone: Any = 1.0,
        **kwargs: Any,
    ) -> None:
        check = checker(CLASSES["PPG"])
        self.n_policy_phases = int(check("n_policy_phases", n_policy_phases))
        self.auxiliary_epochs = int(check("auxiliary_epochs", auxiliary_epochs))
        self.auxiliary_batch_size = int(check("auxiliary_batch_size", auxiliary_batch_size))
        self.beta_clone = check("beta_clone", beta_clone)
        super().__init__(policy, env, n_epochs=n_epochs, value_epochs=value_epochs, **kwargs)

    def _heads(self) -> dict[str, nn.Module]:
        return {"value": nn.Linear(actor_width(self.policy), 1)}

    def _setup_model(self) -> None:
        super()._setup_model()
        self._require_enough()
        policy, learned = self.policy, list(self.heads.parameters())
        self.phase_optimizer = policy.optimizer_class(  # type: ignore[call-arg]
            policy.parameters(), lr=self.lr_schedule(1), **policy.optimizer_kwargs
        )
        separate_mask(self.phase_optimizer, policy.features_extractor)
        if self.weight_decay:
            for group in self.phase_optimizer.param_groups:
                group["weight_decay"] = self.weight_decay
        self.phase_optimizer.add_param_group({"params": learned})
        self.phase_update = Update(
            policy=policy,
            auxiliary=self.losses,
            forward=self._both_sides(),
            optimizer=self.phase_optimizer,
            moves_copies=False,
        )
        self.phase_update.beside = {"heads": learned}
        if self.curiosity is not None:
            second = list(self.curiosity.value.parameters())
            self.phase_optimizer.add_param_group({"params": second})
            self.phase_update.beside["intrinsic"] = second
        pictures = is_image_space(self.observation_space)
        self.memory = PhaseMemory(
            seed=self._stream_seed,
            channels=frame_channels(self.observation_space) if pictures else None,
            gap=int(getattr(self.env, "gap", 1)),
        )

    def _require_enough(self) -> None:
        """Refuse minibatches of an auxiliary phase that are larger than all it has."""
        kept = self.n_policy_phases * self.n_steps * self.n_envs
        if self.auxiliary_epochs and self.env is not None and self.auxiliary_batch_size > kept:
            raise UserError(
                f"auxiliary_batch_size={self.auxiliary_batch_size} is larger than what an "
                f"auxiliary phase learns from: n_policy_phases={self.n_policy_phases} x n_steps="
                f"{self.n_steps} x {self.n_envs} environments = {kept}."
            )

    # -- the seam ---------------------------------------------------------------------------------

    def optimizers(self) -> dict[str, torch.optim.Optimizer]:
        return super().optimizers() | {"phase": self.phase_optimizer}

    def buffer_state(self) -> dict[str, np.ndarray]:
        return super().buffer_state() | self.memory.state()

    def load_buffer_state(self, state: dict[str, np.ndarray]) -> None:
        super().load_buffer_state(state)
        self.memory.load_state(state)

    # -- learning ---------------------------------------------------------------------------------

    def _train(self) -> None:
        if self.auxiliary_epochs:
            self.memory.add(self.rollout_buffer.all_observations(), self.rollout_buffer.returns)
        super()._train()
        if len(self.memory) >= self.n_policy_phases:
            began = perf_counter()
            self._auxiliary_phase()
            self.memory.clear()
            self.timings.add("update", perf_counter() - began)

    def _auxiliary_phase(self) -> None:
        """Fit both values to the returns of the whole cycle, the policy to what it was."""
        progress = self._current_progress_remaining
        self._clone = weight_at(self.beta_clone, progress, "beta_clone")
        self._update_learning_rate(self.phase_optimizer)
        keep_own_rates(self.phase_optimizer)
        if self.momentum is not None:
            set_momentum(self.phase_optimizer, weight_at(self.momentum, progress, "momentum"))
        (old, held), metrics = self._before(), UpdateMetrics()
        objective = FunctionObjective(self.phase_terms)
        for _ in range(self.auxiliary_epochs):
            for index in self.memory.shuffled(self.auxiliary_batch_size):
                rows = torch.from_numpy(index)
                minibatch = Remembered(
                    observations=self._seen(index),
                    returns=on_device(self.memory.returns(index), self.device),
                    cloned=old[rows].to(self.device),
                    held=None if held is None else held[rows].to(self.device),
                )
                nothing = torch.zeros(len(index), dtype=torch.int64, device=self.device)
                losses = self.phase_update.losses(
                    objective, minibatch, nothing, {}, dict, self.num_timesteps
                )
                self.phase_update.step(losses, self.num_timesteps, self.max_grad_norm)
                metrics.add(losses)
        for name, number in metrics.means().items():
            if name != "total":
                self.logger.record(f"phase/{name}", number)

    def phase_terms(self, output: PolicyOutput, _: Tensor, minibatch: Remembered) -> MinibatchLoss:
        """The auxiliary value head's error, the clone's divergence, the value network's error.

        Intrinsic values are held to what they were, as the policy is: the novelty of the cycle's
        first rollouts is gone, and without a term their head would read features that moved away.
        """
        assert output.log_probs is not None
        assert output.actor is not None
        head = self.heads["value"](output.actor).flatten()
        terms = {
            "auxiliary_value": Term(half_squared(head, minibatch.returns)),
            "clone": Term(clone_divergence(minibatch.cloned, output.log_probs), self._clone),
            "value": Term(half_squared(output.values, minibatch.returns)),
        }
        if self.curiosity is not None:
            assert minibatch.held is not None
            second = self.curiosity.values(value_input(self.policy, output))
            weight = self.curiosity.reward.value_coef
            terms["intrinsic_value"] = Term(half_squared(second, minibatch.held), weight)
        return MinibatchLoss(terms)

    @torch.no_grad()
    def _before(self) -> tuple[Tensor, Tensor | None]:
        """Log-probabilities (N, n_actions) and intrinsic values (N,) of all samples."""
        self.policy.set_training_mode(False)
        size, every = self.auxiliary_batch_size, np.arange(self.memory.samples)
        found, held = [], []
        for start in range(0, len(every), size):
            seen = self._seen(every[start : start + size])
            output = actor_forward(self.policy, seen)
            assert output.log_probs is not None
            found.append(output.log_probs.cpu())
            if self.curiosity is not None:
                latent = value_input(self.policy, critic_forward(self.policy, seen))
                held.append(self.curiosity.values(latent).cpu())
        self.policy.set_training_mode(True)
        return torch.cat(found), torch.cat(held) if held else None

    def _seen(self, index: np.ndarray) -> Tensor:
        return on_device(self.memory.observations(index), self.device)

    # -- SB3's own saving -------------------------------------------------------------------------

    def _excluded_save_params(self) -> list[str]:
        return [*super()._excluded_save_params(), "phase_update", "memory"]

    def _get_torch_save_params(self) -> tuple[list[str], list[str]]:
        names, variables = super()._get_torch_save_params()
        return [*names, "phase_optimizer"], variables
