"""SAC, TD3 and DDPG: SB3's, for continuous actions, with the configuration's encoder and noise.

rollout -> replay buffer -> critics, actor, entropy's temperature. Without `noise` and extras every
bit is SB3's; with noise, SB3's with `action_noise`, which may fade as the scores near a goal.

Auxiliary losses train the critic's encoder and mask, together with the critic's own loss. The actor
has an encoder and a mask of its own, which learn from its loss alone; with `share_encoder` it reads
the critic's and leaves them alone, as in DrQ and CURL.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import stable_baselines3
import torch
from gymnasium import spaces
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.policies import ContinuousCritic
from stable_baselines3.common.type_aliases import ReplayBufferSamples
from stable_baselines3.common.utils import polyak_update
from torch import Tensor, nn
from torch.nn import functional as F
from torch.profiler import record_function

from reprl.algorithms.action_noise import ExplorationNoise, nearness_scale
from reprl.algorithms.off_policy import OffPolicy
from reprl.algorithms.replay_buffer import Draw
from reprl.augmentation.base import View
from reprl.errors import UserError
from reprl.policy import ContinuousPlayer, Player, q_forward
from reprl.schedules import schedule
from reprl.settings import CLASSES, check_noise_goal
from reprl.validation import checker, flag


class Borrowed(nn.Module):
    """Another network's features extractor, read without a gradient; its parameters stay there."""

    def __init__(self, extractor: nn.Module) -> None:
        super().__init__()
        self._lent = (extractor,)  # no submodule: neither saved nor optimized a second time

    @property
    def lent(self) -> nn.Module:
        return self._lent[0]

    @property
    def features_dim(self) -> int:
        return self.lent.features_dim  # type: ignore[return-value]

    def forward(self, observations: Tensor) -> Tensor:
        with torch.no_grad():
            features: Tensor = self.lent(observations)
        return features


class Continuous(OffPolicy):
    """An actor with continuous actions, and noise on what it does in training."""

    # losses know discrete actions only
    supplies: ClassVar[frozenset[str]] = OffPolicy.supplies - {"actions_at"}
    network: ClassVar[type[nn.Module]] = ContinuousCritic
    loss_names: ClassVar[tuple[str, ...]] = ("critic_loss",)
    term: ClassVar[str] = "critic"
    actor: Any  # SB3's networks, as are the critics
    critic: Any
    critic_target: Any
    noise: ExplorationNoise | None = None
    _noise_state: np.ndarray | None = None  # of a checkpoint, until learning goes on

    def __init__(
        self,
        policy: Any,
        env: Any,
        *,
        noise: str = "none",
        noise_sigma: Any = 0.1,
        noise_goal: Any = None,
        noise_least: float = 0.0,
        share_encoder: bool = False,
        **kwargs: Any,
    ) -> None:
        self.share_encoder = flag("share_encoder", share_encoder)
        check = checker(CLASSES[type(self).__name__])
        self.noise_kind = check("noise", noise)
        self.noise_sigma = check("noise_sigma", noise_sigma)
        self.noise_goal = check("noise_goal", noise_goal)
        self.noise_least = check("noise_least", noise_least)
        if env is not None:  # an agent that was trained so still plays
            check_noise_goal(self.noise_goal, self.noise_kind)
        self._sigma = schedule(self.noise_sigma, name="noise_sigma")
        space = getattr(env, "action_space", None)
        if space is not None and not isinstance(space, spaces.Box):
            raise UserError(
                f"{type(self).__name__} acts with continuous numbers, and this environment has "
                f"{space}: choose another algorithm, or an environment with continuous actions."
            )
        super().__init__(policy, env, **kwargs)

    def _setup_model(self) -> None:
        super()._setup_model()
        if self.noise_kind != "none" and self.action_noise is None:
            assert self.action_space.shape is not None
            width = int(np.prod(self.action_space.shape))
            self.noise = ExplorationNoise(self.noise_kind, width, self.n_envs)
            self.action_noise = self.noise

    def _arrange(self) -> None:
        policy: Any = self.policy
        if policy.share_features_extractor and (self.share_encoder or self._has_extras):
            raise UserError(
                "policy_kwargs share_features_extractor lets the actor's loss alone train the "
                "encoder: leave it out, and set algo.share_encoder=true, where the critic's does."
            )
        if not self.share_encoder:
            return
        policy.actor.features_extractor = Borrowed(policy.critic.features_extractor)
        if hasattr(policy, "actor_target"):
            lender = policy.critic_target.features_extractor
            policy.actor_target.features_extractor = Borrowed(lender)
        rate = self.lr_schedule(1)
        policy.actor.optimizer = policy.optimizer_class(
            policy.actor.parameters(), lr=rate, **policy.optimizer_kwargs
        )

    def _learned(self) -> list[tuple[Any, torch.optim.Optimizer]]:
        policy: Any = self.policy
        return [(part, part.optimizer) for part in (policy.critic, policy.actor)]

    # -- the seam ---------------------------------------------------------------------------------

    def optimizers(self) -> dict[str, torch.optim.Optimizer]:
        policy: Any = self.policy
        return {"actor": policy.actor.optimizer, "critic": policy.critic.optimizer}

    def player(self) -> Player:
        return ContinuousPlayer(self.policy)

    def settings(self) -> dict[str, Any]:
        return super().settings() | {
            "noise": self.noise_kind,
            "noise_sigma": self.noise_sigma,
            "noise_goal": self.noise_goal,
            "noise_least": self.noise_least,
            "share_encoder": self.share_encoder,
        }

    def stream_state(self) -> dict[str, Tensor]:
        found = super().stream_state()
        if self.noise is not None:
            found["noise"] = torch.from_numpy(self.noise.state())
        return found

    def load_stream_state(self, state: dict[str, Tensor]) -> None:
        super().load_stream_state(state)
        if self.noise is not None and "noise" in state:  # a branch may begin to have noise
            self._noise_state = state["noise"].numpy().copy()

    # -- learning ---------------------------------------------------------------------------------

    def _setup_learn(self, *arguments: Any, **named: Any) -> tuple[int, BaseCallback]:
        made = super()._setup_learn(*arguments, **named)
        if self._noise_state is not None:  # SB3 begins it anew, and games in progress go on
            assert self.noise is not None
            self.noise.load_state(self._noise_state)
            self._noise_state = None
        return made

    def _sample_action(self, *arguments: Any, **named: Any) -> tuple[np.ndarray, np.ndarray]:
        if self.noise is not None:
            scores = [game["r"] for game in self.ep_info_buffer or []]
            left = nearness_scale(scores, self.noise_goal, self.noise_least)
            size = self._sigma(self._current_progress_remaining) * left
            self.noise.resize(size)
            self.logger.record("rollout/noise", size)
        return super()._sample_action(*arguments, **named)

    def _critic_step(
        self,
        batch: ReplayBufferSamples,
        view: View,
        targets: Tensor,
        drawn: Draw | None,
        factor: float,
    ) -> dict[str, float]:
        """Move the critics, and with the auxiliary losses their encoder; what is to be logged.

        `targets` (B, 1) are the same for all critics, `factor` weighs their squared errors.
        """
        with record_function("update.losses"):
            actions = batch.actions
            # where actor and critic share one, the encoder moves by the actor's loss
            with torch.set_grad_enabled(not self.critic.share_features_extractor):
                output = q_forward(self.critic, view.observations)

            def q_loss(features: Tensor, _: View) -> Tensor:
                values = critic_values(self.critic, features, actions)
                error: Any = factor * sum(F.mse_loss(value, targets) for value in values)
                return error  # type: ignore[no-any-return]

            loss = q_loss(output.features, view)
            found = {"train/critic_loss": loss.item()}
            loss, terms = self._with_losses(loss, output, view, actions, batch, drawn, q_loss)
        descend(loss, self.critic.optimizer)
        self.losses.after_step()
        return found | terms

    def _greedy(self, observations: Tensor) -> tuple[Tensor, Tensor | None]:
        policy: Any = self.policy
        best = policy._predict(observations, deterministic=True)
        return self.critic.q1_forward(observations, best).flatten(), None


def descend(loss: Tensor, optimizer: torch.optim.Optimizer) -> None:
    """One step of an optimizer down a loss."""
    optimizer.zero_grad()
    with record_function("update.backward"):
        loss.backward()
    with record_function("update.step"):
        optimizer.step()


def critic_values(critic: Any, features: Tensor, actions: Tensor) -> tuple[Tensor, ...]:
    """The value (B, 1) of features (B, F) and actions (B, width) by each critic, as SB3 has it."""
    known = torch.cat([features, actions], dim=1)
    return tuple(network(known) for network in critic.q_networks)


class SAC(Continuous, stable_baselines3.SAC):
    """Soft actor-critic: a stochastic actor that is paid for entropy, two critics."""

    stock: ClassVar[type[BaseAlgorithm]] = stable_baselines3.SAC
    loss_names: ClassVar[tuple[str, ...]] = ("critic_loss", "actor_loss", "ent_coef")
    temperature: nn.ParameterDict | None = None  # the learned weight of entropy, as a logarithm

    def _setup_model(self) -> None:
        self._take_saved_spaces()
        if self.env is None and self.target_entropy == "auto":
            assert self.action_space.shape is not None  # SB3 asks the environment for it
            self.target_entropy = float(-np.prod(self.action_space.shape))
        super()._setup_model()
        if self.log_ent_coef is not None:
            learned = nn.Parameter(self.log_ent_coef.detach().clone())
            self.temperature = nn.ParameterDict({"log": learned})
            self.log_ent_coef = learned
            rate = self.lr_schedule(1)
            self.ent_coef_optimizer = torch.optim.Adam([learned], lr=rate)

    def modules(self) -> dict[str, nn.Module]:
        found = super().modules()
        return found if self.temperature is None else found | {"temperature": self.temperature}

    def optimizers(self) -> dict[str, torch.optim.Optimizer]:
        found = super().optimizers()
        if self.ent_coef_optimizer is not None:
            found["temperature"] = self.ent_coef_optimizer
        return found

    def _gradient_step(self, batch_size: int, number: int) -> dict[str, float]:
        """SB3's step on a batch and the states after it, both as the augmentation has them."""
        drawn, batch = self._sample(batch_size)
        with record_function("update.losses"):
            view = self.losses.view(batch.observations)
            following = self.losses.view(batch.next_observations).observations
            discounts = self.gamma if batch.discounts is None else batch.discounts
            if self.use_sde:
                self.actor.reset_noise()
            actions, log_prob = self.actor.action_log_prob(view.observations)
            log_prob = log_prob.reshape(-1, 1)
        found, weight = self._temperature_step(log_prob)
        with record_function("update.losses"), torch.no_grad():
            next_actions, next_log_prob = self.actor.action_log_prob(following)
            expected = torch.cat(self.critic_target(following, next_actions), dim=1)
            expected = expected.min(dim=1, keepdim=True).values - weight * next_log_prob[:, None]
            targets = batch.rewards + (1 - batch.dones) * discounts * expected
        found |= self._critic_step(batch, view, targets, drawn, 0.5)
        with record_function("update.losses"):
            values = torch.cat(self.critic(view.observations, actions), dim=1)
            loss = (weight * log_prob - values.min(dim=1, keepdim=True).values).mean()
        descend(loss, self.actor.optimizer)
        if number % self.target_update_interval == 0:
            with record_function("update.targets"):
                polyak_update(self.critic.parameters(), self.critic_target.parameters(), self.tau)
                polyak_update(self.batch_norm_stats, self.batch_norm_stats_target, 1.0)
        return found | {"train/actor_loss": loss.item()}

    def _temperature_step(self, log_prob: Tensor) -> tuple[dict[str, float], Tensor]:
        """Move the weight of entropy, where it is learned; it, and what is to be logged."""
        if self.ent_coef_optimizer is None or self.log_ent_coef is None:
            weight = self.ent_coef_tensor
            return {"train/ent_coef": weight.item()}, weight
        weight = torch.exp(self.log_ent_coef.detach())
        assert isinstance(self.target_entropy, float)
        loss = -(self.log_ent_coef * (log_prob + self.target_entropy).detach()).mean()
        descend(loss, self.ent_coef_optimizer)
        return {"train/ent_coef": weight.item(), "train/ent_coef_loss": loss.item()}, weight


class Deterministic(Continuous):
    """The gradient step of TD3 and DDPG, which is TD3 with one critic and without its tricks."""

    actor_target: Any
    policy_delay: int
    target_policy_noise: float
    target_noise_clip: float
    actor_batch_norm_stats: Any
    actor_batch_norm_stats_target: Any
    critic_batch_norm_stats: Any
    critic_batch_norm_stats_target: Any

    def _gradient_step(self, batch_size: int, number: int) -> dict[str, float]:
        """SB3's step on a batch and the states after it, both as the augmentation has them."""
        drawn, batch = self._sample(batch_size)
        with record_function("update.losses"), torch.no_grad():
            view = self.losses.view(batch.observations)
            following = self.losses.view(batch.next_observations).observations
            discounts = self.gamma if batch.discounts is None else batch.discounts
            noise = batch.actions.clone().data.normal_(0, self.target_policy_noise)
            noise = noise.clamp(-self.target_noise_clip, self.target_noise_clip)
            next_actions = (self.actor_target(following) + noise).clamp(-1, 1)
            expected = torch.cat(self.critic_target(following, next_actions), dim=1)
            expected = expected.min(dim=1, keepdim=True).values
            targets = batch.rewards + (1 - batch.dones) * discounts * expected
        found = self._critic_step(batch, view, targets, drawn, 1.0)
        if self._n_updates % self.policy_delay != 0:
            return found
        with record_function("update.losses"):
            actions = self.actor(view.observations)
            loss = -self.critic.q1_forward(view.observations, actions).mean()
        descend(loss, self.actor.optimizer)
        self._move_targets()
        return found | {"train/actor_loss": loss.item()}

    def _move_targets(self) -> None:
        pairs = ((self.critic, self.critic_target), (self.actor, self.actor_target))
        with record_function("update.targets"):
            for online, target in pairs:
                polyak_update(online.parameters(), target.parameters(), self.tau)
            polyak_update(self.critic_batch_norm_stats, self.critic_batch_norm_stats_target, 1.0)
            polyak_update(self.actor_batch_norm_stats, self.actor_batch_norm_stats_target, 1.0)


class TD3(Deterministic, stable_baselines3.TD3):
    """Twin delayed DDPG: a deterministic actor, two critics, an actor that moves less often."""

    stock: ClassVar[type[BaseAlgorithm]] = stable_baselines3.TD3


class DDPG(Deterministic, stable_baselines3.DDPG):
    """Deep deterministic policy gradient: TD3 with one critic and without its tricks."""

    stock: ClassVar[type[BaseAlgorithm]] = stable_baselines3.DDPG
