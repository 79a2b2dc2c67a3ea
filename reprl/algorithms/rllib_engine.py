"""RLlib at work for an algorithm on `OnRay`: joins the cluster, trains, brings the weights back.

our policy and environment -> **RLlib's Algorithm** with our modules and games registered -> steps,
games, losses and weights after each of its iterations. Imports Ray.
"""

from __future__ import annotations

import os
import secrets
import signal
import sys
import threading
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
import ray
import torch
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.tune.registry import register_env
from stable_baselines3.common.vec_env import VecEnv
from torch import Tensor

from reprl import trust
from reprl.algorithms.rllib_modules import WHO
from reprl.envs.vector import games_of
from reprl.ray_cluster import join
from reprl.rng import stream_seed
from reprl.runs.signals import STOPPING

NAME = "reprl"
MODULE = "default_policy"
MEMORY = 300_000_000  # bytes of Ray's object store on this machine, for pictures under way


@dataclass(frozen=True)
class Done:
    """What one iteration came to."""

    steps: int
    games: list[dict[str, float]]  # r and l of each that ended
    losses: dict[str, float]
    actors: int  # that are alive


class OneGame(gymnasium.Env):  # type: ignore[misc]
    """One of our vector environments' games as RLlib's actors step it."""

    def __init__(self, games: VecEnv, board: str) -> None:
        assert games.num_envs == 1
        self.games, self.board = games, ray.get_actor(board)
        self.observation_space, self.action_space = games.observation_space, games.action_space
        self.next: np.ndarray | None = None  # of a game that has begun by itself

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begin a game; which one is our own streams' affair, not the caller's seed."""
        super().reset(seed=seed)
        first = np.asarray(self.games.reset())[0] if self.next is None else self.next
        self.next = None
        return first, {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        observations, rewards, dones, infos = self.games.step(np.array([int(action)]))
        seen, done, info = np.asarray(observations)[0], bool(dones[0]), infos[0]
        if done:
            self.next, seen = seen, info["terminal_observation"]
        if (game := info.get("episode")) is not None:
            self.board.add.remote(float(game["r"]), float(game["l"]))
        truncated = done and bool(info.get("TimeLimit.truncated"))
        return seen, float(rewards[0]), done and not truncated, truncated, {}

    def close(self) -> None:
        self.games.close()


@ray.remote(num_cpus=0)
class Board:
    """Where the actors write the games that have ended, with their raw scores."""

    def __init__(self) -> None:
        self.games: list[dict[str, float]] = []

    def add(self, score: float, length: float) -> None:
        self.games.append({"r": score, "l": length, "t": 0.0})

    def take(self) -> list[dict[str, float]]:
        games, self.games = self.games, []
        return games


class Maker:
    """Makes the games of an actor: the run's environments, dealt out to the actors in turn."""

    def __init__(self) -> None:
        self.made = 0  # games of this process

    def __call__(self, context: Any) -> OneGame:
        share = int(context["share"])
        WHO.actor = max(1, int(context.worker_index)) - 1
        row = WHO.actor * share + self.made % share
        self.made += 1
        variant = context["variants"][row % len(context["variants"])]
        games = games_of(context["settings"], [variant], int(context["seed"]), row)
        return OneGame(games, context["board"])


class Engine:
    """RLlib's algorithm for the time of one learn()."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def __enter__(self) -> Engine:
        model = self.model
        paths = os.pathsep.join(path for path in sys.path if path)
        variables = {**trust.environment(), "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
        named = {} if model.address is None else {"address": model.address}
        handlers = _handlers()
        self.joined = not ray.is_initialized()
        if self.joined:
            # none of them is this process: the learner and RLlib's own loop
            join(
                {
                    "num_cpus": model.runners,
                    "object_store_memory": MEMORY,
                    "runtime_env": {"env_vars": variables},
                    **named,
                },
                "algo.address",
            )
        try:
            self._build()
        except BaseException:
            self._leave()
            raise
        for number, handler in handlers.items():  # Ray sets its own, which would end the process
            signal.signal(number, handler)
        return self

    def _build(self) -> None:
        model = self.model
        register_env(NAME, Maker())
        name = f"{NAME}-{secrets.token_hex(8)}"
        board: Any = Board  # ray.remote has made an actor of it
        self.board = board.options(name=name).remote()
        seed = stream_seed(model._stream_seed, "rllib", model.num_timesteps) % 2**31
        context = {
            "settings": model.env.settings,
            "variants": list(model.env.variants),
            "seed": seed,
            "share": model.n_envs // model.runners,
            "board": name,
        }
        module = RLModuleSpec(
            module_class=model.engine_module(),
            observation_space=model.observation_space,
            action_space=model.action_space,
            model_config={
                "policy_class": model.policy_class,
                "policy_kwargs": model.policy_kwargs,
                "lr_schedule": constant,
                **model.module_settings(),
            },
        )
        config = (
            model.engine_config()
            .api_stack(enable_rl_module_and_learner=True, enable_env_runner_and_connector_v2=True)
            .framework("torch")
            .environment(
                NAME,
                env_config=context,
                observation_space=model.observation_space,
                action_space=model.action_space,
            )
            .env_runners(
                num_env_runners=model.runners,
                num_envs_per_env_runner=model.n_envs // model.runners,
            )
            .learners(num_learners=0)
            .rl_module(rl_module_spec=module)
            .reporting(
                min_time_s_per_iteration=None,
                min_sample_timesteps_per_iteration=model._nominal,
            )
            .fault_tolerance(restart_failed_env_runners=True)
            .debugging(seed=seed % 10**6, log_level="ERROR")
        )
        self.algorithm = config.build_algo()
        self.sampled = 0
        self._give()

    def __exit__(self, *_: Any) -> None:
        try:
            self.algorithm.stop()
        finally:
            self._leave()

    def _leave(self) -> None:
        if self.joined:
            ray.shutdown()

    def train(self) -> Done:
        """One iteration, after which the model's policy is what the learner has."""
        result = self.algorithm.train()
        played = result["env_runners"]
        sampled = int(played.get("num_env_steps_sampled_lifetime", 0))
        steps, self.sampled = sampled - self.sampled, sampled
        learned = result.get("learners", {}).get(MODULE, {})
        losses = {
            str(key): float(value)
            for key, value in learned.items()
            if isinstance(value, int | float | np.number)
        }
        self._take()
        games = ray.get(self.board.take.remote())
        alive = self.algorithm.env_runner_group.num_healthy_remote_workers()
        return Done(max(0, steps), games, losses, int(alive))

    # -- weights ----------------------------------------------------------------------------------

    def _learner(self) -> tuple[Any, torch.optim.Optimizer]:
        """The policy inside RLlib's learner, and its optimizer."""
        learner = self.algorithm.learner_group._learner
        return learner.module[MODULE].policy, learner.get_optimizer(MODULE)

    @torch.no_grad()
    def _take(self) -> None:
        """Bring parameters, buffers and Adam's moments from the learner into our policy."""
        policy, optimizer = self._learner()
        self.model.policy.load_state_dict(policy.state_dict())
        moments = moments_of(policy, optimizer)
        put_moments(self.model.policy, self.model.policy.optimizer, moments)

    @torch.no_grad()
    def _give(self) -> None:
        """Let the learner and the actors begin with our policy."""
        policy, optimizer = self._learner()
        policy.load_state_dict(self.model.policy.state_dict())
        put_moments(policy, optimizer, moments_of(self.model.policy, self.model.policy.optimizer))
        self.algorithm.env_runner_group.sync_weights(
            from_worker_or_learner_group=self.algorithm.learner_group, inference_only=True
        )


def _handlers() -> dict[signal.Signals, Any]:
    """What this process does at the signals that end a run, where it may say so."""
    if threading.current_thread() is not threading.main_thread():
        return {}
    return {signal.Signals(number): signal.getsignal(number) for number in STOPPING}


def constant(progress: float) -> float:
    """A learning rate for the policy's own optimizer, which never steps in RLlib's module."""
    return 1.0


def moments_of(policy: Any, optimizer: torch.optim.Optimizer) -> dict[str, dict[str, Tensor]]:
    """An optimizer's state by the names of the policy's parameters."""
    return {
        name: {key: torch.as_tensor(value).clone() for key, value in kept.items()}
        for name, parameter in policy.named_parameters()
        if (kept := optimizer.state.get(parameter))
    }


def put_moments(
    policy: Any, optimizer: torch.optim.Optimizer, moments: dict[str, dict[str, Tensor]]
) -> None:
    """Give an optimizer the state that `moments_of` took from another of the same kind."""
    named = dict(policy.named_parameters())
    optimizer.state.clear()
    for name, kept in moments.items():
        optimizer.state[named[name]] = {key: value.clone() for key, value in kept.items()}
