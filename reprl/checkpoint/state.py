"""A model's whole state between two updates: taken out as tensors and plain data, and put back.

Sections by name: networks, optimizers, buffer, random streams, counters, environment. A model
that is rebuilt and restored continues bit for bit as if it had never stopped; `storage` writes
what is taken here to disk.
"""

from __future__ import annotations

import inspect
import sys
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

from reprl import rng, trust
from reprl.checkpoint.construction import call, class_at, class_path, plain_call
from reprl.checkpoint.serialization import decode, decode_space, encode, encode_space
from reprl.envs.defaults import without_later
from reprl.envs.machine import OBSERVED
from reprl.errors import UserError
from reprl.precision import FP32

if TYPE_CHECKING:
    from reprl.algorithms.base import Algorithm

STATELESS = (VecTransposeImage, VecCheckNan)


@dataclass
class Captured:
    """Everything needed to continue; meta holds only what JSON can."""

    parameters: dict[str, Tensor]
    optimizer: dict[str, Tensor]
    state: dict[str, Tensor]
    meta: dict[str, Any]


class Restorable(Protocol):
    """A capture read back from anywhere."""

    parameters: dict[str, Tensor]
    optimizer: dict[str, Tensor]
    state: dict[str, Tensor]
    meta: dict[str, Any]


def capture(model: Algorithm, *, whole: bool = True) -> Captured:
    """Copy the state of a model that is between two updates.

    Without `whole` the rows of a replay buffer are left to `reprl.checkpoint.chunks`.
    """
    if model._phase != "ready":
        raise UserError(
            "a model can be captured only between two updates (before a rollout or after training)."
        )
    _require_saveable(model.env)
    optimizer, scalars = _optimizer_state(model)
    state = {f"random.{k}": v for k, v in rng.global_state(model.device).items()}
    state |= {f"stream.{k}": v for k, v in model.stream_state().items()}
    state |= {f"memory.{k}": _tensor(v) for k, v in model.buffer_state().items()}
    meta: dict[str, Any] = {
        "algorithm": class_path(type(model)),
        "constructor": plain_call(model),
        "arguments": encode("arguments", model.arguments),
        "extras": model.settings(),
        "observation_space": encode_space(model.observation_space),
        "action_space": encode_space(model.action_space),
        "n_envs": model.n_envs,
        "action_meanings": model.action_meanings,
        "observed": observed(model),
        "counters": {name: getattr(model, name) for name in model.counters},
        "optimizer": _kinds(model),
        "optimizer_scalars": scalars,
        "threads": torch.get_num_threads(),
        "compiled": model.compiled,
        "episodes": None if (seen := model.ep_info_buffer) is None else _timeless([*seen]),
        "successes": None if (won := model.ep_success_buffer) is None else encode("won", [*won]),
        "log": model.pending_log(),
        "mask": model.monitor.state(),
        "losses": [*model.specs.auxiliary],  # their order, which a written mapping does not keep
    }
    if (data := model.replay()) is not None:
        meta["replay"] = {"added": data.added, "first": data.oldest, "chunks": []}
        kept = data.rows(data.oldest, data.added) if whole else {}
        state |= {f"replay.{name}": _tensor(rows) for name, rows in kept.items()}
    if model._last_obs is not None and model._last_episode_starts is not None:
        last = np.asarray(model._last_obs)
        # Convolutions round by memory layout, so the order of the axes in memory is kept.
        meta["last_order"] = sorted(range(last.ndim), key=lambda axis: -last.strides[axis])
        state["last_observations"] = _tensor(last)
        state["last_starts"] = _tensor(np.asarray(model._last_episode_starts, bool))
    snapshot = getattr(model.env, "snapshot", None)
    if snapshot is not None and model._last_obs is not None:
        state["env"] = torch.frombuffer(bytearray(snapshot()), dtype=torch.uint8).clone()
    return Captured(_parameters(model), optimizer, state, meta)


def observed(model: Algorithm) -> dict[str, Any] | None:
    """What the model's environment shows (game, stack, ...), where it is one of ours."""
    settings = getattr(model.env, "settings", None)
    if all(hasattr(settings, key) for key in OBSERVED):
        return without_later({key: getattr(settings, key) for key in OBSERVED})
    return model.observed


def restore(model: Algorithm, captured: Restorable) -> None:
    """Put a capture into a model of the same settings.

    Without an environment the model only predicts, and the process keeps its random streams.
    """
    with trust.reading():
        _restore(model, captured)


def _restore(model: Algorithm, captured: Restorable) -> None:
    meta, state = captured.meta, captured.state
    if meta.get("weights_only"):
        _restore_weights(model, captured)
        return
    _require_same(model, meta)
    _load_parameters(model, captured.parameters)
    _load_optimizer(model, captured.optimizer, meta["optimizer_scalars"])
    for name, value in meta["counters"].items():
        if name not in model.counters:
            raise UserError(f"the checkpoint has an unknown counter '{name}'.")
        setattr(model, name, value)
    for name, kept in (("ep_info_buffer", "episodes"), ("ep_success_buffer", "successes")):
        if (entries := meta[kept]) is not None:
            setattr(model, name, deque(entries, maxlen=model._stats_window_size))
    model.resume_log(meta["log"])
    model.monitor.load_state(meta["mask"])
    model._captured_threads = meta["threads"]
    if meta["compiled"] is not None:
        model.require_compiled(meta["compiled"])
    model.load_buffer_state(_part(state, "memory."))
    _restore_replay(model, captured)
    streams = {k: torch.from_numpy(v) for k, v in _part(state, "stream.").items()}
    model.load_stream_state(streams)
    model._last_obs = model._last_episode_starts = None
    if "last_observations" in state:
        order = meta["last_order"]
        last = state["last_observations"].numpy()
        back = np.argsort(order)
        model._last_obs = np.ascontiguousarray(last.transpose(order)).transpose(back)
        model._last_episode_starts = state["last_starts"].numpy().copy()
    if "env" in state and model.env is not None:
        if not hasattr(model.env, "restore"):
            raise UserError("this checkpoint holds an environment's state, which env cannot take.")
        model.env.restore(bytes(state["env"].numpy()))
        if getattr(model.env, "lost", False):
            print(
                "WARNING: the environment does not repeat itself from its seed and actions: games "
                "in progress are lost, new ones begin.",
                file=sys.stderr,
            )
            model._last_obs = None
    elif model.env is not None and "env" not in state:
        model._last_obs = None  # the environment could not be saved: start new episodes
    if model.env is not None:
        rng.load_global_state(_part(state, "random."), model.device)


def _restore_replay(model: Algorithm, captured: Restorable) -> None:
    """The rows of a replay buffer, of the capture itself or from the chunks of its run."""
    data, record = model.replay(), captured.meta.get("replay")
    if data is None or model.env is None:
        return
    if record is None:
        raise UserError("this checkpoint has no replay buffer, and its algorithm goes on from one.")
    _require_same_rows(model, captured.meta["arguments"])
    if rows := _part(captured.state, "replay."):
        data.load_rows(int(record["first"]), rows)
        data.stand_at(int(record["added"]))
        return
    path = getattr(captured, "path", None)
    assert path is not None
    model.written.load(path.parent.parent, record, data)


def _require_same_rows(model: Algorithm, arguments: dict[str, Any]) -> None:
    """Refuse rows of a buffer of another size: they would lie at places that nobody has filled."""
    stock = inspect.signature(model.stock.__init__).parameters
    for name in model.replay_shape:
        theirs = arguments.get(name, stock[name].default)
        ours = model.arguments.get(name, stock[name].default)
        if ours != theirs:
            raise UserError(
                f"algo.{name}={ours} cannot go on from a replay buffer of algo.{name}={theirs}: "
                f"leave it at {theirs}, or take the weights alone."
            )


def _restore_weights(model: Algorithm, captured: Restorable) -> None:
    """What an agent needs to play; how it was trained did not come along."""
    if model.env is not None:
        raise UserError(
            "this agent was published without its training state, so it cannot be resumed: begin "
            "a run from it with parent=."
        )
    _load_parameters(model, captured.parameters)
    model.num_timesteps = int(captured.meta["counters"]["num_timesteps"])


def _require_same(model: Algorithm, meta: dict[str, Any]) -> None:
    """Refuse a model that would not continue what was captured, by the setting that differs."""
    ours = {
        "mode": model.mode,
        "precision": model.precision,
        "optimizer": _kinds(model),
        "n_envs": model.n_envs,
    }
    extras = meta["extras"]
    theirs = {"mode": extras["mode"], "n_envs": meta["n_envs"]}
    theirs["precision"] = extras.get("precision", FP32)  # only where it is another
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
    with rng.isolated() if env is None else nullcontext(), trust.reading():
        cls = class_at(str(meta["algorithm"]))
        given = meta.get("constructor")
        called = decode(meta["arguments"]) | meta["extras"] if given is None else decode(given)
        model = call(cls, _in_order(called, meta.get("losses")), env, meta)
        if meta["compiled"] is not None:
            model.require_compiled(meta["compiled"])
        return model


def _in_order(called: dict[str, Any], losses: Any) -> dict[str, Any]:
    """Arguments with the losses as they were: draws and sums depend on their order."""
    found = called.get("auxiliary")
    if not isinstance(found, dict) or not isinstance(losses, list) or {*losses} != {*found}:
        return called
    return called | {"auxiliary": {name: found[name] for name in losses}}


def take_spaces(model: Algorithm, meta: dict[str, Any]) -> None:
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


# -- networks and optimizers --------------------------------------------------------------------


def _named(model: Algorithm) -> dict[str, nn.Parameter]:
    return {
        f"{name}.{key}": parameter
        for name, module in model.modules().items()
        for key, parameter in module.named_parameters()
    }


def _tensors(model: Algorithm) -> dict[str, Tensor]:
    """Parameters and buffers once each: SB3 lists a shared extractor three times."""
    named: dict[str, Tensor] = dict(_named(model))
    for name, module in model.modules().items():
        named |= {f"{name}.{key}": buffer for key, buffer in module.named_buffers()}
    return named


def _parameters(model: Algorithm) -> dict[str, Tensor]:
    return {name: t.detach().cpu().clone() for name, t in _tensors(model).items()}


@torch.no_grad()
def _load_parameters(model: Algorithm, parameters: dict[str, Tensor]) -> None:
    ours = _tensors(model)
    if missing := set(ours).symmetric_difference(parameters):
        raise UserError(f"the checkpoint and the model do not share {sorted(missing)[0]}.")
    for name, tensor in ours.items():
        tensor.copy_(parameters[name])  # in place: the layout in memory stays the model's


def _kinds(model: Algorithm) -> str:
    """The optimizers' classes; a policy's is called what SB3 was asked for, in its fused form too.

    A model with several has `name:Class` for each.
    """
    optimizers = model.optimizers()
    if [*optimizers] == ["policy"]:
        return model.policy.optimizer_class.__name__
    return ",".join(f"{name}:{type(each).__name__}" for name, each in optimizers.items())


def _optimizer_state(model: Algorithm) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The optimizers' states by the names of their parameters, `parameter|key`.

    Of a parameter that several move, the later ones' are called `parameter|optimizer:key`.
    """
    tensors: dict[str, Tensor] = {}
    scalars: dict[str, Any] = {}
    optimizers, movers = model.optimizers(), _movers(model)
    for name, parameter in _named(model).items():
        for place, mover in enumerate(movers.get(id(parameter), ())):
            for key, value in optimizers[mover].state.get(parameter, {}).items():
                called = f"{name}|{mover}:{key}" if place else f"{name}|{key}"
                if isinstance(value, Tensor):
                    tensors[called] = value.detach().cpu().clone()
                else:
                    scalars[called] = encode(key, value)
    return tensors, scalars


def _movers(model: Algorithm) -> dict[int, list[str]]:
    """The names of the optimizers that move a parameter, by its id."""
    found: dict[int, list[str]] = {}
    for name, optimizer in model.optimizers().items():
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                found.setdefault(id(parameter), []).append(name)
    return found


@torch.no_grad()
def _load_optimizer(model: Algorithm, tensors: dict[str, Tensor], scalars: dict[str, Any]) -> None:
    named, movers, optimizers = _named(model), _movers(model), model.optimizers()
    for optimizer in optimizers.values():
        optimizer.state.clear()
    for place, value in {**tensors, **scalars}.items():
        name, _, key = place.rpartition("|")
        mover, _, key = key.rpartition(":")
        parameter = named[name]
        owner = optimizers[mover or movers[id(parameter)][0]]
        if isinstance(value, Tensor):
            like = parameter if value.shape == parameter.shape else value
            # A fused step counts on the device of what it moves.
            device = parameter.device if owner.defaults.get("fused") else like.device
            value = torch.empty_like(like, dtype=value.dtype, device=device).copy_(value)
        owner.state[parameter][key] = value


def _tensor(array: np.ndarray) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(array)).clone()


def _part(state: dict[str, Tensor], prefix: str) -> dict[str, np.ndarray]:
    return {k[len(prefix) :]: v.numpy() for k, v in state.items() if k.startswith(prefix)}
