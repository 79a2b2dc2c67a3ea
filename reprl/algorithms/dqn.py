"""DQN: SB3's, with the configuration's encoder and mask, double, dueling and prioritised learning.

rollout of `train_freq` steps -> replay buffer -> Q-learning, auxiliary losses and augmentation on
the same minibatch. Without `double`, `dueling`, `prioritized` and extras every bit is SB3's.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import stable_baselines3
import torch
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.type_aliases import ReplayBufferSamples
from stable_baselines3.dqn.policies import QNetwork
from torch import Tensor, nn
from torch.nn import functional as F
from torch.profiler import record_function

from reprl.algorithms.dueling import DuelingCnnPolicy, DuelingMlpPolicy
from reprl.algorithms.off_policy import OffPolicy
from reprl.algorithms.priorities import Priorities
from reprl.algorithms.replay_buffer import Draw
from reprl.augmentation.base import View
from reprl.policy import GreedyPlayer, Player, q_forward
from reprl.settings import CLASSES
from reprl.validation import checker, flag

DUELING = {"MlpPolicy": "DuelingMlpPolicy", "CnnPolicy": "DuelingCnnPolicy"}


class DQN(OffPolicy, stable_baselines3.DQN):
    """Deep Q-learning from a replay buffer.

    `double` lets the online network choose (van Hasselt et al. 2016), `dueling` parts value from
    advantages (Wang et al. 2016), `prioritized` draws by error (Schaul et al. 2016).
    """

    stock: ClassVar[type[BaseAlgorithm]] = stable_baselines3.DQN
    network: ClassVar[type[nn.Module]] = QNetwork
    counters: ClassVar[tuple[str, ...]] = (*OffPolicy.counters, "exploration_rate", "_n_calls")
    policy_aliases: ClassVar[dict[str, type[BasePolicy]]] = {
        **stable_baselines3.DQN.policy_aliases,
        "DuelingMlpPolicy": DuelingMlpPolicy,
        "DuelingCnnPolicy": DuelingCnnPolicy,
    }
    priorities: Priorities | None = None

    def __init__(
        self,
        policy: Any,
        env: Any,
        *,
        double: bool = False,
        dueling: bool = False,
        prioritized: bool = False,
        priority_alpha: float = 0.6,
        priority_beta: float = 0.4,
        **kwargs: Any,
    ) -> None:
        self.double = flag("double", double)
        self.dueling = flag("dueling", dueling)
        self.prioritized = flag("prioritized", prioritized)
        check = checker(CLASSES["DQN"])
        self.priority_alpha = check("priority_alpha", priority_alpha)
        self.priority_beta = check("priority_beta", priority_beta)
        super().__init__(DUELING.get(policy, policy) if dueling else policy, env, **kwargs)

    def _setup_model(self) -> None:
        super()._setup_model()
        if self.prioritized:
            buffer = self.replay()
            assert buffer is not None
            self.priorities = Priorities(buffer, alpha=self.priority_alpha, seed=self._stream_seed)

    def _learned(self) -> list[tuple[Any, torch.optim.Optimizer]]:
        return [(self.policy.q_net, self.policy.optimizer)]

    # -- the seam ---------------------------------------------------------------------------------

    def player(self) -> Player:
        return GreedyPlayer(self.policy, epsilon=float(self.exploration_final_eps))

    def settings(self) -> dict[str, Any]:
        own = ("double", "dueling", "prioritized", "priority_alpha", "priority_beta")
        return super().settings() | {name: getattr(self, name) for name in own}

    def buffer_state(self) -> dict[str, np.ndarray]:
        return {} if self.priorities is None else self.priorities.state()

    def load_buffer_state(self, state: dict[str, np.ndarray]) -> None:
        if self.priorities is None or self.env is None:
            return
        if "priorities" in state:  # a branch may begin to have them: all it kept is new to it
            self.priorities.load_state(state)

    # -- learning ---------------------------------------------------------------------------------

    def _gradient_step(self, batch_size: int, number: int) -> dict[str, float]:
        drawn, batch = self._sample(batch_size)
        with record_function("update.losses"):
            view = self.losses.view(batch.observations)
            actions = self._actions(batch, view)
            targets = self._targets(batch)  # (B, 1)
            output = q_forward(self.q_net, view.observations)
            values = self._values(output.features, actions)
            loss = self._loss(values, targets, drawn)
            found = {}
            if drawn is not None and self.priorities is not None:
                self.priorities.update(drawn, (values - targets).detach().cpu().numpy().ravel())
                found["train/largest_priority"] = self.priorities.largest
            found["train/loss"] = loss.item()

            def q_loss(features: Tensor, seen: View) -> Tensor:
                again = self._values(features, self._actions(batch, seen))
                return self._loss(again, targets, drawn)

            loss, terms = self._with_losses(loss, output, view, actions, batch, drawn, q_loss)
        self._step(loss, self.max_grad_norm)
        return found | terms

    def _greedy(self, observations: Tensor) -> tuple[Tensor, Tensor | None]:
        values, actions = self.q_net(observations).max(1)
        return values, actions

    def _sample(self, batch_size: int) -> tuple[Draw | None, ReplayBufferSamples]:
        if self.priorities is None:
            return super()._sample(batch_size)
        buffer = self.replay()
        assert buffer is not None
        done = 1 - self._current_progress_remaining
        beta = self.priority_beta + (1 - self.priority_beta) * min(max(done, 0.0), 1.0)
        with record_function("update.sample"):
            drawn = self.priorities.draw(batch_size, beta)
            return drawn, buffer.take(drawn.rows, drawn.envs)

    def _values(self, features: Tensor, actions: Tensor) -> Tensor:
        """Q (B, 1) of features (B, F) and the actions (B,) played there."""
        q: Tensor = self.q_net.q_net(features)  # (B, A)
        return q.gather(1, actions[:, None])

    def _loss(self, values: Tensor, targets: Tensor, drawn: Draw | None) -> Tensor:
        """The mean error of values (B, 1), weighted where they were drawn by priority."""
        if drawn is None or self.priorities is None:
            return F.smooth_l1_loss(values, targets)
        weights = torch.as_tensor(drawn.weights, device=self.device)[:, None]
        return (weights * F.smooth_l1_loss(values, targets, reduction="none")).mean()

    @torch.no_grad()
    def _targets(self, batch: ReplayBufferSamples) -> Tensor:
        """Rewards and what the target network expects beyond them, (B, 1)."""
        discounts = self.gamma if batch.discounts is None else batch.discounts
        following = self.losses.view(batch.next_observations).observations
        others = self.q_net_target(following)  # (B, A)
        chooser = self.q_net(following) if self.double else others
        best = chooser.argmax(1, keepdim=True)  # (B, 1)
        found: Tensor = batch.rewards + (1 - batch.dones) * discounts * others.gather(1, best)
        return found
