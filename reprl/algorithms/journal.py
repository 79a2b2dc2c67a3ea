"""What an update leaves in the log: SB3's numbers under SB3's names, and ours beside them."""

from __future__ import annotations

from collections import defaultdict
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from stable_baselines3.common.utils import explained_variance
from stable_baselines3.common.vec_env import VecEnv

from reprl.algorithms.update import Coefficients

if TYPE_CHECKING:
    from reprl.algorithms.on_policy import Agent


class Timings(dict[str, float]):
    """Seconds spent in env, forward, update and other since the model was made."""

    def __init__(self) -> None:
        super().__init__(env=0.0, forward=0.0, update=0.0, other=0.0)
        self._noted = dict(self)

    def add(self, part: str, seconds: float) -> None:
        self[part] += seconds

    def total(self) -> float:
        return sum(self.values())

    def shares(self) -> dict[str, float]:
        """Each part's share of the time since the last call."""
        spent = {part: self[part] - self._noted[part] for part in self}
        self._noted = dict(self)
        total = sum(spent.values())
        return {part: seconds / total for part, seconds in spent.items()} if total else {}


class Journal:
    """Collects the numbers of one update's minibatches."""

    def __init__(self, coefficients: Coefficients) -> None:
        self.coefficients = coefficients
        self.numbers: dict[str, list[float]] = defaultdict(list)
        self.kl: list[float] = []

    def epoch(self) -> None:
        """A new epoch begins; SB3 logs the KL of the last one only."""
        self.kl = []

    def add(self, numbers: dict[str, float]) -> None:
        for name, number in numbers.items():
            self.numbers[name].append(number)
        if "kl" in numbers:
            self.kl.append(numbers["kl"])

    def record(self, agent: Agent) -> None:
        """Write means over the minibatches to SB3's logger."""
        means = {name: float(np.mean(numbers)) for name, numbers in self.numbers.items()}
        memory = agent.rollout_buffer
        record = agent.logger.record
        record("train/entropy_loss", means["entropy"])
        record(f"train/{agent.policy_loss_name}", means["policy"])
        record("train/value_loss", means["value"])
        record(
            "train/explained_variance",
            float(explained_variance(memory.values.flatten(), memory.returns.flatten())),
        )
        if self.kl:
            record("train/approx_kl", float(np.mean(np.array(self.kl, np.float32))))
            record("train/clip_fraction", means["clip_fraction"])
            record("train/early_stops", agent.early_stops)
        if "gradient" in means:
            record("train/gradient_norm", means["gradient"])
        record("train/loss", self.numbers["total"][-1])
        if (log_std := getattr(agent.policy, "log_std", None)) is not None:
            record("train/std", torch.exp(log_std).mean().item())
        record("train/n_updates", agent._n_updates, exclude="tensorboard")
        record("train/ent_coef", self.coefficients.entropy)
        if callable(agent.arguments["vf_coef"]):
            record("train/vf_coef", self.coefficients.value)
        self._record_terms(agent, means)

    def _record_terms(self, agent: Agent, means: dict[str, float]) -> None:
        """Each auxiliary term, its weight, and its share of the total's magnitude."""
        weights = self.coefficients.auxiliary
        if not weights:
            return
        weighted = {name: abs(weight * means[name]) for name, weight in weights.items()}
        weighted |= {
            "policy": abs(means["policy"]),
            "value": abs(self.coefficients.value * means["value"]),
            "entropy": abs(self.coefficients.entropy * means["entropy"]),
        }
        total = sum(weighted.values())
        for name, magnitude in weighted.items():
            agent.logger.record(f"loss/{name}_share", magnitude / total if total else 0.0)
        for name, weight in weights.items():
            agent.logger.record(f"loss/{name}", means[name])
            agent.logger.record(f"loss/{name}_weight", weight)


class TimedEnv:
    """The environment, with a clock on its step and a copy of its rewards."""

    def __init__(self, env: VecEnv, agent: Agent) -> None:
        self._env = env
        self._agent = agent
        self.seconds = 0.0
        self.rewards: list[np.ndarray] = []  # (n_envs,) each; SB3 changes its own in place

    def step(self, actions: np.ndarray) -> Any:
        # Not sooner: at on_rollout_start a callback may still capture the model.
        self._agent._phase = "collecting"
        began = perf_counter()
        result = self._env.step(actions)
        self.seconds += perf_counter() - began
        self.rewards.append(np.array(result[1], np.float32))
        return result

    def __getattr__(self, name: str) -> Any:
        return getattr(self._env, name)
