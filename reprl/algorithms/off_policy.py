"""What SB3's off-policy algorithms share: a replay buffer that comes back, losses and streams.

rollout of `train_freq` steps -> **replay buffer** -> minibatch -> SB3's gradient step, bit for bit,
to which auxiliary losses and augmentation of the same minibatch are added -> diagnostics. DQN,
QR-DQN, SAC, TD3 and DDPG stand on it; each checkpoint appends what is new in the buffer to the
run's chunks, so that a killed run goes on bit for bit.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from time import perf_counter
from typing import Any, ClassVar, Self

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.preprocessing import is_image_space
from stable_baselines3.common.type_aliases import MaybeCallback, ReplayBufferSamples
from stable_baselines3.common.vec_env import VecEnv, VecEnvWrapper
from torch import Tensor, nn
from torch.profiler import record_function

from reprl.algorithms.base import Algorithm
from reprl.algorithms.diagnostics import diagnose
from reprl.algorithms.health import GreedyChurn
from reprl.algorithms.parameter_groups import keep_own_rates, separate_mask
from reprl.algorithms.replay_buffer import CountedRows, Draw, bytes_needed, make_replay
from reprl.algorithms.stock import Stock
from reprl.algorithms.update import Diverged, Losses
from reprl.augmentation.base import View
from reprl.auxiliary.losses import AuxiliaryLosses, require_reach
from reprl.errors import UserError
from reprl.guard import memory
from reprl.policy import PolicyOutput, q_forward
from reprl.settings import OFF_POLICY
from reprl.validation import checker


class ClockedEnv(VecEnvWrapper):
    """The environment, with a clock on its step."""

    seconds: float = 0.0

    def reset(self) -> Any:
        return self.venv.reset()

    def step(self, actions: np.ndarray) -> Any:
        began = perf_counter()
        result = self.venv.step(actions)
        self.seconds += perf_counter() - began
        return result

    def step_wait(self) -> Any:
        return self.venv.step_wait()


def require_forward(network: Any, stock: type[nn.Module]) -> None:
    """Refuse a network whose forward pass the update, which calls SB3's parts, would not follow."""
    for name in ("forward", "extract_features"):
        if getattr(getattr(network, name, None), "__func__", None) is not getattr(stock, name):
            raise UserError(
                f"{type(network).__name__} has a {name}() of its own, which training would leave "
                f"out: keep that of SB3's {stock.__name__}, and change the layers it goes through "
                "or the features extractor."
            )


class OffPolicy(Stock, OffPolicyAlgorithm):
    """Mixed in before an off-policy algorithm of SB3 or sb3-contrib."""

    extras: ClassVar[tuple[str, ...]] = ("attention", "auxiliary", "augmentation")
    supplies: ClassVar[frozenset[str]] = frozenset({"at", "actions_at", "value_loss"})
    replay_shape: ClassVar[tuple[str, ...]] = ("buffer_size",)
    counters: ClassVar[tuple[str, ...]] = (*Algorithm.counters, "_updates")
    loss_names: ClassVar[tuple[str, ...]] = ("loss",)  # in the log: what must stay a number
    term: ClassVar[str] = "q"  # what the loss that trains the encoder is called beside the others
    network: ClassVar[type[nn.Module]]  # SB3's class of the network that Q is read from
    looks: ClassVar[int] = 250  # updates between two looks of the costlier diagnostics
    _updates: int = 0  # so far; SB3's _n_updates counts gradient steps
    _looking: bool = False  # whether the next minibatch is looked at
    _churn: GreedyChurn | None = None  # of the update that is looked at
    _clocked: ClockedEnv | None = None

    def __init__(
        self, policy: Any, env: Any, *, instrument_every: int | None = None, **kwargs: Any
    ) -> None:
        checker(OFF_POLICY)("instrument_every", instrument_every)
        self.instrument_every = self.looks if instrument_every is None else instrument_every
        super().__init__(policy, env, **kwargs)

    def _heads(self, heads: dict[str, Any]) -> dict[str, Any]:
        layers = heads["net_arch"]  # of policy and value apart: here all networks are alike
        return heads | {"net_arch": layers["pi"] if isinstance(layers, dict) else layers}

    def _setup_model(self) -> None:
        self._take_saved_spaces()
        if self.gradient_steps == 0:
            raise UserError(
                "algo.gradient_steps=0 would never learn: choose 1 or more, or -1 for as many as "
                "steps were played."
            )
        if self.env is None:
            self.buffer_size = self.n_envs  # it only predicts
        self._require_room()
        if self.replay_buffer_class is not None or self.optimize_memory_usage:
            raise UserError("replay_buffer_class cannot be chosen: reprl brings its own memory.")
        self.replay_buffer = make_replay(
            self.buffer_size,
            self.observation_space,
            self.action_space,
            device=self.device,
            n_envs=self.n_envs,
            n_steps=self.n_steps,
            gamma=self.gamma,
            gap=int(getattr(self.env, "gap", 1)),
        )
        super()._setup_model()
        require_forward(self._learned()[0][0], self.network)
        self._arrange()
        self._add_losses()

    def _arrange(self) -> None:
        """Change what SB3 has built, before anything else holds on to it."""

    def _add_losses(self) -> None:
        """Losses and augmentation beside SB3's networks, and a mask's own rates."""
        if self._has_extras and not is_image_space(self.observation_space):
            raise UserError(
                "auxiliary and augmentation work on pictures, and this environment shows "
                f"{self.observation_space}: set both to none."
            )
        for network, optimizer in self._learned():
            separate_mask(optimizer, network.features_extractor)
        network, optimizer = self._learned()[0]
        continuous = isinstance(self.action_space, spaces.Box)
        self.losses = AuxiliaryLosses(
            specs=self.specs,
            policy=network,
            observation_space=self.observation_space,
            action_space=self.action_space,
            action_meanings=self.action_meanings if self._mirrors() and not continuous else None,
            supplies=self.supplies,
            seed=self._stream_seed,
            device=self.device,
            forward=q_forward,
            continuous=continuous,
        )
        if self.env is not None:
            self.losses.require_views()
        if self.losses.parameters:
            optimizer.add_param_group({"params": self.losses.parameters})

    def _learned(self) -> list[tuple[Any, torch.optim.Optimizer]]:
        """Networks with an encoder and their optimizers; the losses train the first one's."""
        raise AssertionError(f"{type(self).__name__} must define _learned()")

    @property
    def _has_extras(self) -> bool:
        return bool(self.specs.auxiliary or self.specs.augmentation)

    def _mirrors(self) -> bool:
        return bool(getattr(getattr(self.env, "game", None), "symmetric", True))

    def _require_room(self) -> None:
        """Refuse a replay buffer that this machine cannot hold."""
        needed = bytes_needed(self.buffer_size, self.observation_space)
        if needed > 0.9 * memory():
            raise UserError(
                f"algo.buffer_size={self.buffer_size:,} needs {needed / 2**30:.0f} GB of memory, "
                f"and this machine has {memory() / 2**30:.0f}: choose a smaller one."
            )

    # -- the seam ---------------------------------------------------------------------------------

    @property
    def steps_per_update(self) -> int:
        frequency = self.train_freq
        return int(getattr(frequency, "frequency", frequency)) * self.n_envs  # type: ignore[arg-type]

    def modules(self) -> dict[str, nn.Module]:
        return {"policy": self.policy, "auxiliary": self.losses.modules}

    def settings(self) -> dict[str, Any]:
        return super().settings() | {"instrument_every": self.instrument_every}

    def stream_state(self) -> dict[str, Tensor]:
        # exploration draws from the action space's own generator
        state = json.dumps(self.action_space.np_random.bit_generator.state)
        actions = torch.tensor(list(state.encode()), dtype=torch.uint8)
        return {"actions": actions} | (self.losses.state() if self._has_extras else {})

    def load_stream_state(self, state: dict[str, Tensor]) -> None:
        kept = json.loads(bytes(state["actions"].tolist()))
        self.action_space.np_random.bit_generator.state = kept
        if self._has_extras:
            self.losses.load_state(state)

    def replay(self) -> CountedRows | None:
        assert isinstance(self.replay_buffer, CountedRows)
        return self.replay_buffer

    # -- learning ---------------------------------------------------------------------------------

    def collect_rollouts(self, env: VecEnv, *arguments: Any, **named: Any) -> Any:
        if self._clocked is None or self._clocked.venv is not env:
            self._clocked = ClockedEnv(env)
        began, before = perf_counter(), self._clocked.seconds
        found = super().collect_rollouts(self._clocked, *arguments, **named)
        spent = self._clocked.seconds - before
        self.timings.add("env", spent)
        self.timings.add("forward", perf_counter() - began - spent)
        return found

    def train(self, gradient_steps: int, batch_size: int = 100) -> None:
        """The algorithm's update; a loss that is no number ends the run."""
        began = perf_counter()
        self._update(gradient_steps, batch_size)
        for name in self.loss_names:
            loss = float(self.logger.name_to_value[f"train/{name}"])
            if not np.isfinite(loss):
                raise Diverged(name, loss, self.num_timesteps)
        self.timings.add("update", perf_counter() - began)

    def _update(self, gradient_steps: int, batch_size: int) -> None:
        """SB3's gradient steps, with what the extras add to them; every k-th time looked at."""
        self.policy.set_training_mode(True)
        self.losses.modules.train(True)
        self._update_learning_rate([*self.optimizers().values()])
        every = self.instrument_every
        self._looking = bool(every) and self._updates % every == 0
        self._updates += 1
        logged: dict[str, list[float]] = {}
        for number in range(gradient_steps):
            self._n_updates += 1
            for name, value in self._gradient_step(batch_size, number).items():
                logged.setdefault(name, []).append(value)
        self.logger.record("train/n_updates", self._n_updates, exclude="tensorboard")
        for name, values in logged.items():
            self.logger.record(name, float(np.mean(values)))
        if self._churn is not None:
            for name, change in self._churn.numbers().items():
                self.logger.record(name, change)
            self._churn = None

    def _update_learning_rate(self, optimizers: Any) -> None:
        super()._update_learning_rate(optimizers)
        for optimizer in optimizers if isinstance(optimizers, list) else [optimizers]:
            keep_own_rates(optimizer)

    def _gradient_step(self, batch_size: int, number: int) -> dict[str, float]:
        """One step on a minibatch, the update's `number`th from 0; what is to be logged of it."""
        raise AssertionError(f"{type(self).__name__} must define _gradient_step()")

    def _sample(self, batch_size: int) -> tuple[Draw | None, ReplayBufferSamples]:
        """A minibatch with SB3's draws, and its places where a loss may look around them."""
        buffer = self.replay()
        assert buffer is not None
        with record_function("update.sample"):
            if not self.specs.auxiliary:
                return None, buffer.sample(batch_size, env=self._vec_normalize_env)
            drawn = buffer.draw(batch_size)
            return drawn, buffer.take(drawn.rows, drawn.envs)

    def _with_losses(
        self,
        loss: Tensor,
        output: PolicyOutput,
        view: View,
        actions: Tensor,
        batch: ReplayBufferSamples,
        drawn: Draw | None,
        q_loss: Callable[[Tensor, View], Tensor],
    ) -> tuple[Tensor, dict[str, float]]:
        """A loss with the auxiliary terms that have begun, and what is to be logged of them.

        `q_loss` is the loss, without them, of features (B, F) of any view of the batch.
        """
        weights = self.losses.weights(self.num_timesteps, self._current_progress_remaining)
        found: dict[str, float] = {}
        own, terms = loss, {}
        if weights:
            unchanged = view.observations is batch.observations
            seen = self.losses.batch(
                output,
                observations=view.observations,
                actions=actions,
                augmented_from=None if unchanged else batch.observations,
                fields=self._neighbours(drawn) | {"q_loss": q_loss},
            )
            for name, term in self.losses.compute(seen, set(weights)).items():
                if not torch.isfinite(term):
                    raise Diverged(name, float(term), self.num_timesteps)
                terms[name] = weights[name] * term
                loss = loss + terms[name]
                found |= {f"loss/{name}": term.item(), f"loss/{name}_weight": weights[name]}
            found |= self._shares(terms | {self.term: own}) | self.losses.noted()
        if self._looking:
            self._looking = False
            found |= self._look(own, terms, output, view, batch)
        return loss, found

    def _actions(self, batch: ReplayBufferSamples, view: View) -> Tensor:
        """The discrete actions (B,) of a batch, as they are called in a view of it."""
        return self.losses.follow(view, batch.actions.long().flatten())

    def _shares(self, terms: dict[str, Tensor]) -> dict[str, float]:
        """Each weighted term's part of the total's magnitude."""
        sizes = {name: abs(term.item()) for name, term in terms.items()}
        total = sum(sizes.values())
        return {f"loss/{name}_share": size / (total or 1.0) for name, size in sizes.items()}

    def _look(
        self,
        own: Tensor,
        terms: dict[str, Tensor],
        output: PolicyOutput,
        view: View,
        batch: ReplayBufferSamples,
    ) -> dict[str, float]:
        """Diagnostics of the update's first minibatch; they draw nothing and move nothing."""
        self._churn = GreedyChurn(self.policy, batch.observations, self._greedy)
        losses = Losses(
            total=own,
            own={self.term: own},
            own_weights={self.term: 1.0},
            auxiliary=terms,
            numbers={},
            observations=view.observations,
            attention=None if output.encoding is None else output.encoding.attention,
        )
        network, _ = self._learned()[0]
        return diagnose(losses, network.features_extractor, self.monitor)

    def _greedy(self, observations: Tensor) -> tuple[Tensor, Tensor | None]:
        """The value (B,) of the best action, and that action (B,) where it is one of a few."""
        raise AssertionError(f"{type(self).__name__} must define _greedy()")

    def _step(self, loss: Tensor, max_grad_norm: float | None) -> None:
        """Move a policy of one optimizer; its gradient and the losses' are clipped apart."""
        self.policy.optimizer.zero_grad()
        with record_function("update.backward"):
            loss.backward()
        with record_function("update.step"):
            if max_grad_norm is not None:
                nn.utils.clip_grad_norm_(self.policy.parameters(), max_grad_norm)
                if self.losses.parameters:
                    nn.utils.clip_grad_norm_(self.losses.parameters, max_grad_norm)
            self.policy.optimizer.step()
            self.losses.after_step()

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

        known = {"at": lambda offset: look(buffer.observations, offset), "actions_at": actions_at}
        return {name: ask for name, ask in known.items() if name in self.supplies}

    def learn(
        self,
        total_timesteps: int,
        callback: MaybeCallback = None,
        log_interval: int | None = 4,
        tb_log_name: str = "run",
        reset_num_timesteps: bool = True,
        progress_bar: bool = False,
    ) -> Self:
        """Train for `total_timesteps` steps, or that many more without reset_num_timesteps."""
        return super().learn(
            total_timesteps,
            callback,
            log_interval,  # type: ignore[arg-type]
            tb_log_name,
            reset_num_timesteps,
            progress_bar,
        )

    # -- SB3's own saving -----------------------------------------------------------------------

    def _excluded_save_params(self) -> list[str]:
        return [*super()._excluded_save_params(), "losses", "_clocked", "_churn"]

    def _get_torch_save_params(self) -> tuple[list[str], list[str]]:
        names, variables = super()._get_torch_save_params()
        return [*names, *(["losses.modules"] if self.specs.auxiliary else [])], variables
