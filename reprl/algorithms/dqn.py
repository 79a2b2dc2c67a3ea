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
from stable_baselines3.common.preprocessing import is_image_space
from stable_baselines3.common.type_aliases import ReplayBufferSamples
from torch import Tensor, nn
from torch.nn import functional as F

from reprl.algorithms.base import Algorithm
from reprl.algorithms.dueling import DuelingCnnPolicy, DuelingMlpPolicy
from reprl.algorithms.off_policy import OffPolicy
from reprl.algorithms.priorities import Priorities
from reprl.algorithms.replay_buffer import Draw
from reprl.algorithms.update import Diverged
from reprl.auxiliary.losses import AuxiliaryLosses, require_reach
from reprl.errors import UserError
from reprl.policy import GreedyPlayer, Player, PolicyOutput, q_forward
from reprl.settings import CLASSES
from reprl.validation import checker, flag

DUELING = {"MlpPolicy": "DuelingMlpPolicy", "CnnPolicy": "DuelingCnnPolicy"}


class DQN(OffPolicy, stable_baselines3.DQN):
    """Deep Q-learning from a replay buffer.

    `double` lets the online network choose (van Hasselt et al. 2016), `dueling` parts value from
    advantages (Wang et al. 2016), `prioritized` draws by error (Schaul et al. 2016).
    """

    stock: ClassVar[type[BaseAlgorithm]] = stable_baselines3.DQN
    extras: ClassVar[tuple[str, ...]] = ("attention", "auxiliary", "augmentation")
    supplies: ClassVar[frozenset[str]] = frozenset({"at", "actions_at"})
    counters: ClassVar[tuple[str, ...]] = (*Algorithm.counters, "exploration_rate", "_n_calls")
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
        extras = self.specs.auxiliary or self.specs.augmentation
        if extras and not is_image_space(self.observation_space):
            raise UserError(
                "auxiliary and augmentation work on pictures, and this environment shows "
                f"{self.observation_space}: set both to none."
            )
        self.losses = AuxiliaryLosses(
            specs=self.specs,
            policy=self.policy.q_net,  # type: ignore[arg-type]
            observation_space=self.observation_space,
            action_space=self.action_space,
            action_meanings=self.action_meanings if self._mirrors() else None,
            supplies=self.supplies,
            seed=self._stream_seed,
            device=self.device,
            forward=q_forward,
        )
        if self.env is not None:
            self.losses.require_views()
        if self.losses.parameters:
            self.policy.optimizer.add_param_group({"params": self.losses.parameters})
        if self.prioritized:
            buffer = self.replay()
            assert buffer is not None
            self.priorities = Priorities(buffer, alpha=self.priority_alpha, seed=self._stream_seed)

    def _mirrors(self) -> bool:
        return bool(getattr(getattr(self.env, "game", None), "symmetric", True))

    # -- the seam ---------------------------------------------------------------------------------

    def modules(self) -> dict[str, nn.Module]:
        return {"policy": self.policy, "auxiliary": self.losses.modules}

    def player(self) -> Player:
        return GreedyPlayer(self.policy, epsilon=float(self.exploration_final_eps))

    def settings(self) -> dict[str, Any]:
        own = ("double", "dueling", "prioritized", "priority_alpha", "priority_beta")
        return super().settings() | {name: getattr(self, name) for name in own}

    def buffer_state(self) -> dict[str, np.ndarray]:
        return {} if self.priorities is None else self.priorities.state()

    def load_buffer_state(self, state: dict[str, np.ndarray]) -> None:
        if self.priorities is not None and self.env is not None:
            self.priorities.load_state(state)

    def stream_state(self) -> dict[str, Tensor]:
        return super().stream_state() | self.losses.state()

    def load_stream_state(self, state: dict[str, Tensor]) -> None:
        super().load_stream_state(state)
        self.losses.load_state(state)

    # -- learning ---------------------------------------------------------------------------------

    def _update(self, gradient_steps: int, batch_size: int) -> None:
        """SB3's update; with extras one of our own, which adds them to the same arithmetic."""
        if self.double or self.prioritized or self.specs.auxiliary or self.specs.augmentation:
            self._train_with_extras(gradient_steps, batch_size)
        else:
            super()._update(gradient_steps, batch_size)

    def _train_with_extras(self, gradient_steps: int, batch_size: int) -> None:
        self.policy.set_training_mode(True)
        self._update_learning_rate(self.policy.optimizer)
        logged: dict[str, list[float]] = {"train/loss": []}
        for _ in range(gradient_steps):
            for name, value in self._gradient_step(batch_size).items():
                logged.setdefault(name, []).append(value)
        self._n_updates += gradient_steps
        self.logger.record("train/n_updates", self._n_updates, exclude="tensorboard")
        for name, values in logged.items():
            self.logger.record(name, float(np.mean(values)))

    def _gradient_step(self, batch_size: int) -> dict[str, float]:
        drawn, batch = self._sample(batch_size)
        view = self.losses.view(batch.observations)
        actions = self.losses.follow(view, batch.actions.long().flatten())  # (B,)
        targets = self._targets(batch)  # (B, 1)
        output, q = self._forward(view.observations)
        values = q.gather(1, actions[:, None])  # (B, 1)
        found = {}
        if drawn is None or self.priorities is None:
            loss = F.smooth_l1_loss(values, targets)
        else:
            weights = torch.as_tensor(drawn.weights, device=self.device)[:, None]
            loss = (weights * F.smooth_l1_loss(values, targets, reduction="none")).mean()
            self.priorities.update(drawn, (values - targets).detach().cpu().numpy().ravel())
            found["train/largest_priority"] = self.priorities.largest
        found["train/loss"] = loss.item()
        terms = self.losses.weights(self.num_timesteps, self._current_progress_remaining)
        if terms:
            unchanged = view.observations is batch.observations
            seen = self.losses.batch(
                output,
                observations=view.observations,
                actions=actions,
                augmented_from=None if unchanged else batch.observations,
                fields=self._neighbours(drawn),
            )
            for name, term in self.losses.compute(seen, set(terms)).items():
                if not torch.isfinite(term):
                    raise Diverged(name, float(term), self.num_timesteps)
                loss = loss + terms[name] * term
                found |= {f"loss/{name}": term.item(), f"loss/{name}_weight": terms[name]}
        self.policy.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.policy.parameters(), self.max_grad_norm)
        if self.losses.parameters:
            nn.utils.clip_grad_norm_(self.losses.parameters, self.max_grad_norm)
        self.policy.optimizer.step()
        self.losses.after_step()
        return found

    def _sample(self, batch_size: int) -> tuple[Draw | None, ReplayBufferSamples]:
        buffer = self.replay()
        assert buffer is not None
        if self.priorities is not None:
            done = 1 - self._current_progress_remaining
            beta = self.priority_beta + (1 - self.priority_beta) * min(max(done, 0.0), 1.0)
            drawn = self.priorities.draw(batch_size, beta)
        elif self.specs.auxiliary:
            drawn = buffer.draw(batch_size)
        else:
            return None, buffer.sample(batch_size, env=self._vec_normalize_env)
        return drawn, buffer.take(drawn.rows, drawn.envs)

    def _neighbours(self, drawn: Draw | None) -> dict[str, Any]:
        """What the buffer knows around the samples, for losses that look in time."""
        buffer = self.replay()
        assert buffer is not None
        assert drawn is not None

        def look(array: Any, offset: int) -> tuple[Tensor, Tensor]:
            require_reach(offset, self.losses.reach)
            rows, valid = buffer.neighbours(drawn.rows, drawn.envs, offset)
            return buffer.to_torch(array[rows, drawn.envs]), buffer.to_torch(valid)

        def actions_at(offset: int) -> tuple[Tensor, Tensor]:
            actions, valid = look(buffer.actions, offset)
            return actions.long().flatten(), valid

        return {"at": lambda offset: look(buffer.observations, offset), "actions_at": actions_at}

    def _forward(self, observations: Tensor) -> tuple[PolicyOutput, Tensor]:
        output = q_forward(self.q_net, observations)
        q: Tensor = self.q_net.q_net(output.features)  # (B, A)
        return output, q

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
