"""A model's whole state between two updates: taken out as tensors and plain data, and put back.

A model that is rebuilt and restored continues bit for bit as if it had never stopped; the
checkpoint module writes what is taken here to disk.
"""

from __future__ import annotations

from collections import deque
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch
from stable_baselines3.common.vec_env import (
    VecCheckNan,
    VecEnvWrapper,
    VecNormalize,
    VecTransposeImage,
)
from torch import Tensor, nn

from reprl.algorithms.construction import call, class_at, class_path, plain_call
from reprl.algorithms.plain import decode, decode_space, encode, encode_space
from reprl.algorithms.randomness import global_random, load_global_random, untouched
from reprl.errors import UserError

if TYPE_CHECKING:
    from reprl.algorithms.agent import Agent

COUNTERS = (
    "num_timesteps",
    "_n_updates",
    "_episode_num",
    "_total_timesteps",
    "_current_progress_remaining",
    "_iterations",
    "_stream_seed",
    "early_stops",
)
STATELESS = (VecTransposeImage, VecCheckNan)


@dataclass
class Captured:
    """Everything needed to continue; meta holds only what JSON can."""

    parameters: dict[str, Tensor]
    optimizer: dict[str, Tensor]
    state: dict[str, Tensor]
    meta: dict[str, Any]


class Stored(Protocol):
    """A capture read back from anywhere."""

    parameters: dict[str, Tensor]
    optimizer: dict[str, Tensor]
    state: dict[str, Tensor]
    meta: dict[str, Any]


def capture(agent: Agent) -> Captured:
    """Copy the state of a model that is between two updates."""
    if agent._phase != "ready":
        raise UserError(
            "a model can be captured only between two updates (before a rollout or after training)."
        )
    _require_saveable(agent.env)
    optimizer, scalars = _optimizer_state(agent)
    state = {f"random.{k}": v for k, v in global_random(agent.device).items()}
    state |= {f"stream.{k}": v for k, v in agent.extras.state().items()}
    state |= {f"memory.{k}": _tensor(v) for k, v in agent.rollout_buffer.state().items()}
    meta: dict[str, Any] = {
        "algorithm": class_path(type(agent)),
        "constructor": plain_call(agent),
        "arguments": encode("arguments", agent.arguments),
        "extras": agent.settings(),
        "observation_space": encode_space(agent.observation_space),
        "action_space": encode_space(agent.action_space),
        "n_envs": agent.n_envs,
        "action_meanings": agent.action_meanings,
        "counters": {name: getattr(agent, name) for name in COUNTERS},
        "optimizer": agent.policy.optimizer_class.__name__,
        "optimizer_scalars": scalars,
        "threads": torch.get_num_threads(),
        "compiled": agent.compiled,
        "episodes": None if (seen := agent.ep_info_buffer) is None else _timeless([*seen]),
        "successes": None if (won := agent.ep_success_buffer) is None else encode("won", [*won]),
        "log": agent.pending_log(),
        "mask": agent.monitor.state(),
    }
    if agent._last_obs is not None and agent._last_episode_starts is not None:
        last = np.asarray(agent._last_obs)
        # Convolutions round by memory layout, so the order of the axes in memory is kept.
        meta["last_order"] = sorted(range(last.ndim), key=lambda axis: -last.strides[axis])
        state["last_observations"] = _tensor(last)
        state["last_starts"] = _tensor(np.asarray(agent._last_episode_starts, bool))
    snapshot = getattr(agent.env, "snapshot", None)
    if snapshot is not None and agent._last_obs is not None:
        state["env"] = torch.frombuffer(bytearray(snapshot()), dtype=torch.uint8).clone()
    return Captured(_parameters(agent), optimizer, state, meta)


def restore(agent: Agent, captured: Stored) -> None:
    """Put a capture into a model of the same settings.

    Without an environment the model only predicts, and the process keeps its random streams.
    """
    meta, state = captured.meta, captured.state
    _require_same(agent, meta)
    _load_parameters(agent, captured.parameters)
    _load_optimizer(agent, captured.optimizer, meta["optimizer_scalars"])
    for name, value in meta["counters"].items():
        setattr(agent, name, value)
    for name, kept in (("ep_info_buffer", "episodes"), ("ep_success_buffer", "successes")):
        if (entries := meta[kept]) is not None:
            setattr(agent, name, deque(entries, maxlen=agent._stats_window_size))
    agent.resume_log(meta["log"])
    agent.monitor.load_state(meta["mask"])
    agent._captured_threads = meta["threads"]
    if meta["compiled"] is not None:
        agent.require_compiled(meta["compiled"])
    agent.rollout_buffer.load_state(_part(state, "memory."))
    agent.extras.load_state({k: torch.from_numpy(v) for k, v in _part(state, "stream.").items()})
    agent._last_obs = agent._last_episode_starts = None
    if "last_observations" in state:
        order = meta["last_order"]
        last = state["last_observations"].numpy()
        back = np.argsort(order)
        agent._last_obs = np.ascontiguousarray(last.transpose(order)).transpose(back)
        agent._last_episode_starts = state["last_starts"].numpy().copy()
    if "env" in state and agent.env is not None:
        if not hasattr(agent.env, "restore"):
            raise UserError("this checkpoint holds an environment's state, which env cannot take.")
        agent.env.restore(bytes(state["env"].numpy()))
    elif agent.env is not None and "env" not in state:
        agent._last_obs = None  # the environment could not be saved: start new episodes
    if agent.env is not None:
        load_global_random(_part(state, "random."), agent.device)


def _require_same(agent: Agent, meta: dict[str, Any]) -> None:
    """Refuse a model that would not continue what was captured, by the setting that differs."""
    ours = {
        "mode": agent.mode,
        "optimizer": agent.policy.optimizer_class.__name__,
        "n_envs": agent.n_envs,
    }
    theirs = {"mode": meta["extras"]["mode"], "n_envs": meta["n_envs"]}
    theirs["optimizer"] = meta.get("optimizer", ours["optimizer"])  # not in older captures
    for name, value in ours.items():
        if theirs[name] != value:
            raise UserError(
                f"this was captured with {name}={theirs[name]}, and a model with {name}={value} "
                "cannot continue it."
            )


def _require_saveable(env: Any) -> None:
    """Refuse wrappers by name whose own state a continued run would lose."""
    saves = hasattr(env, "snapshot")
    while isinstance(env, VecEnvWrapper):
        if hasattr(type(env), "snapshot"):
            return  # it answers for all it wraps
        # Without a snapshot a continued run begins new episodes, and most wrappers with it.
        if isinstance(env, VecNormalize) or (saves and not isinstance(env, STATELESS)):
            raise UserError(
                f"the state of the environment's wrapper {type(env).__name__} cannot be captured: "
                "train without it, or give it snapshot() and restore()."
            )
        env = env.venv


def rebuild(meta: dict[str, Any], env: Any = None) -> Any:
    """Construct the model that a capture's meta describes; without env it can only predict."""
    with untouched() if env is None else nullcontext():
        return _rebuilt(meta, env)


def _rebuilt(meta: dict[str, Any], env: Any) -> Any:
    cls = class_at(str(meta["algorithm"]))
    if (given := meta.get("constructor")) is not None:
        model = call(cls, decode(given), env, meta)
    else:
        model = call(cls, decode(meta["arguments"]) | meta["extras"], env, meta)
    if meta["compiled"] is not None:
        model.require_compiled(meta["compiled"])
    return model


def take_spaces(model: Agent, meta: dict[str, Any]) -> None:
    """Give a model that is being rebuilt the spaces it was saved with; its env must have them."""
    env = model.env
    for space in ("observation_space", "action_space"):
        stored = decode_space(meta[space])
        if env is not None and getattr(model, space) != stored:
            raise UserError(
                f"the checkpoint's {space} is {stored}, but env has {getattr(model, space)}."
            )
        setattr(model, space, stored)
    if env is None:
        model.n_envs = meta["n_envs"]
        model.action_meanings = meta["action_meanings"]


def _timeless(episodes: list[dict[str, Any]]) -> Any:
    """Finished games without their wall clock, which would make equal runs differ."""
    return encode("episode", [{k: v for k, v in e.items() if k != "t"} for e in episodes])


# -- parameters and optimizer -------------------------------------------------------------------


def _named(agent: Agent) -> dict[str, nn.Parameter]:
    named = {f"policy.{k}": p for k, p in agent.policy.named_parameters()}
    return named | {f"auxiliary.{k}": p for k, p in agent.auxiliary.named_parameters()}


def _tensors(agent: Agent) -> dict[str, Tensor]:
    """Parameters and buffers once each: SB3 lists a shared extractor three times."""
    named: dict[str, Tensor] = dict(_named(agent))
    for part, module in (("policy", agent.policy), ("auxiliary", agent.auxiliary)):
        named |= {f"{part}.{k}": b for k, b in module.named_buffers()}
    return named


def _parameters(agent: Agent) -> dict[str, Tensor]:
    return {name: t.detach().cpu().clone() for name, t in _tensors(agent).items()}


@torch.no_grad()
def _load_parameters(agent: Agent, parameters: dict[str, Tensor]) -> None:
    ours = _tensors(agent)
    if missing := set(ours).symmetric_difference(parameters):
        raise UserError(f"the checkpoint and the model do not share {sorted(missing)[0]}.")
    for name, tensor in ours.items():
        tensor.copy_(parameters[name])  # in place: the layout in memory stays the model's


def _optimizer_state(agent: Agent) -> tuple[dict[str, Tensor], dict[str, Any]]:
    tensors: dict[str, Tensor] = {}
    scalars: dict[str, Any] = {}
    for name, parameter in _named(agent).items():
        for key, value in agent.policy.optimizer.state.get(parameter, {}).items():
            if isinstance(value, Tensor):
                tensors[f"{name}|{key}"] = value.detach().cpu().clone()
            else:
                scalars[f"{name}|{key}"] = encode(key, value)
    return tensors, scalars


@torch.no_grad()
def _load_optimizer(agent: Agent, tensors: dict[str, Tensor], scalars: dict[str, Any]) -> None:
    named, state = _named(agent), agent.policy.optimizer.state
    state.clear()
    for place, value in {**tensors, **scalars}.items():
        name, _, key = place.rpartition("|")
        parameter = named[name]
        if isinstance(value, Tensor):
            like = parameter if value.shape == parameter.shape else value
            value = torch.empty_like(like, dtype=value.dtype).copy_(value)
        state[parameter][key] = value


def _tensor(array: np.ndarray) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(array)).clone()


def _part(state: dict[str, Tensor], prefix: str) -> dict[str, np.ndarray]:
    return {k[len(prefix) :]: v.numpy() for k, v in state.items() if k.startswith(prefix)}
