"""The fast mode: the policy as one compiled function, its rollout, a fused RMSprop.

Nothing here changes the algorithm; the last bits differ from plain mode, and a test holds the two
together by tolerance.
"""

from __future__ import annotations

import ctypes
import math
import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Any, TypeVar

import numpy as np
import torch
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.sb2_compat.rmsprop_tf_like import RMSpropTFLike
from stable_baselines3.common.vec_env import VecEnv
from torch import Tensor, nn

from reprl.algorithms.demonstrations import Demonstrations
from reprl.algorithms.frame_buffer import FrameMemory
from reprl.encoders.base import EncoderOutput, as_images
from reprl.errors import UserError
from reprl.policy import PolicyOutput, last_layers, latents
from reprl.precision import FP32, computing_in
from reprl.transfer import on_device

# malloc.h: M_MMAP_THRESHOLD, M_TRIM_THRESHOLD, M_TOP_PAD, in bytes
MALLOC = {-3: 1 << 30, -1: (1 << 31) - 1, -2: 64 << 20}
Outputs = tuple[Tensor | None, ...]
Function = Callable[[Tensor], Outputs]
Result = TypeVar("Result")


def patient_compiler() -> Any:
    """All models of a process share one function's few compiled variants: allow more of them.

    Beyond the limit torch runs eager code without an error, and the run would not repeat itself.
    """
    return torch._dynamo.config.patch(recompile_limit=256, accumulated_recompile_limit=1024)


def keep_memory() -> bool:
    """Let this process keep the memory it frees, instead of asking the system for it again.

    An update takes and frees some hundred MB; filling fresh pages was an eighth of its time. Only
    the GNU C library knows these settings; elsewhere nothing happens. Whether it took them all.
    """
    set_option = getattr(ctypes.CDLL(None), "mallopt", None) if os.name == "posix" else None
    if set_option is None:
        return False
    taken = [set_option(option, value) for option, value in MALLOC.items()]
    return all(taken)


@contextmanager
def threads_for(rows: int) -> Iterator[None]:
    """One torch thread for every 8 rows begun, at most those the process has.

    On fewer rows, waking a thread costs more than it saves.
    """
    available = torch.get_num_threads()
    torch.set_num_threads(min(available, math.ceil(rows / 8)))
    try:
        yield
    finally:
        torch.set_num_threads(available)


def in_full(features: Tensor, encoding: EncoderOutput | None) -> Outputs:
    """Features, feature map and attention as float32, whatever they were computed in."""
    if encoding is None:
        return features.float(), None, None
    attention = None if encoding.attention is None else encoding.attention.float()
    return features.float(), encoding.feature_map.float(), attention


def encoding_of(
    features: Tensor, feature_map: Tensor | None, attention: Tensor | None
) -> EncoderOutput | None:
    """The encoder's output again, of the tensors that a compiled function gave."""
    return None if feature_map is None else EncoderOutput(features, feature_map, attention)


class CompiledPolicy:
    """The policy's forward pass: compiled for the update and for the rollout, or eager.

    Whether compiling works is known when the first update is over; until then a failure of any
    part, the optimizer's included, makes all of them eager. `graphs` are CUDA's, replayed where
    shapes are static, as all are here; None: on a GPU.
    """

    def __init__(
        self,
        policy: ActorCriticPolicy,
        *,
        compile: bool,
        precision: str = FP32,
        graphs: bool | None = None,
    ) -> None:
        self.policy = policy
        self.precision = precision
        self.graphs = policy.device.type == "cuda" if graphs is None else graphs
        self.must = False  # a continued run that was compiled must not fall back
        self.compiled: bool | None = None if compile else False  # None: no update has shown it
        self._walked: list[Function] = []  # the compiled ones that an update went back through
        self._eager: Function = self._from_bytes if self.graphs else self._forward
        self._update = self._made(self._eager)
        self._act = self._made(self._eager)

    def _made(self, function: Function) -> Function:
        """A function as it is called: compiled, where the run may be."""
        if self.compiled is False:
            return function
        mode = "reduce-overhead" if self.graphs else None
        # Static shapes: minibatches and environments come in two or three sizes only.
        compiled: Function = torch.compile(function, dynamic=False, mode=mode)
        return compiled

    def require(self, compiled: bool) -> None:
        """Hold a continued run to what it was."""
        self.must = compiled
        if not compiled:
            self.compiled = False

    def settle(self) -> None:
        """An update is over: the run stays what it was in it."""
        if self.compiled is None:
            self.compiled = True

    def attempt(
        self, compiled: Callable[..., Result], eager: Callable[..., Result], *arguments: Any
    ) -> Result:
        """Call compiled code, or eager code where the run is eager or may still become it."""
        if self.compiled is False:
            return eager(*arguments)
        try:
            with patient_compiler():
                return compiled(*arguments)
        except Exception as error:
            if self.compiled or self.must:
                raise UserError(
                    f"this run was compiled, and torch.compile fails here: {error}"
                ) from error
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
            warnings.warn(f"torch.compile is unavailable, running eager: {reason}", stacklevel=3)
            self.compiled = False
        return eager(*arguments)

    def _forward(self, images: Tensor) -> Outputs:
        """(B, stack, H, W) -> features, feature map, attention, log-probabilities, values."""
        with computing_in(self.precision, images.device.type):
            features, actor, critic, encoding = latents(self.policy, images)
        # .float() leaves float32 as it is; a value of 20 in bfloat16 would be off by a tenth.
        log_probs, values = last_layers(self.policy, actor.float(), critic.float())
        return *in_full(features, encoding), log_probs, values

    def _from_bytes(self, observations: Tensor) -> Outputs:
        """The same from uint8: a graph's input is copied, so it had better be small."""
        return self._forward(as_images(observations, torch.channels_last))

    def _run(
        self, compiled: Function, observations: Tensor, eager: Function | None = None
    ) -> Outputs:
        def run(images: Tensor) -> Outputs:
            # The gradient instruments walk an update's graph more than once.
            with torch._functorch.config.patch(donated_buffer=False):  # type: ignore[attr-defined]
                outputs = compiled(images)
                if torch.is_grad_enabled() and compiled not in self._walked:
                    self._walk_back(outputs)
                    self._walked.append(compiled)
            return outputs

        eager = eager or self._eager

        if self.graphs:
            # What the last replay has left in the graphs' memory is overwritten from here on.
            if torch.is_grad_enabled():
                self.policy.optimizer.zero_grad()
            torch.compiler.cudagraph_mark_step_begin()
            return self.attempt(run, eager, observations)
        return self.attempt(run, eager, as_images(observations, torch.channels_last))

    def _walk_back(self, outputs: Outputs) -> None:
        """Go back through the update's graph once: where that half fails, it fails only then."""
        ends = [end.sum() for end in outputs if end is not None and end.requires_grad]
        learned = [p for p in self.policy.parameters() if p.requires_grad]
        if ends and learned:
            torch.autograd.grad(ends, learned, retain_graph=True, allow_unused=True)

    def forward(self, policy: ActorCriticPolicy, observations: Tensor) -> PolicyOutput:
        """Policy outputs of a minibatch, for the update."""
        features, feature_map, attention, log_probs, values = self._run(self._update, observations)
        assert features is not None
        assert values is not None
        encoding = encoding_of(features, feature_map, attention)
        return PolicyOutput(values, features, encoding, log_probs)

    @torch.no_grad()
    def act(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        """Log-probabilities (n_envs, n_actions) and values (n_envs,) of the rollout."""
        with threads_for(len(observations)):
            *_, log_probs, values = self._run(self._act, observations)
        assert log_probs is not None
        assert values is not None
        # A rollout keeps them beyond the next replay of the graph.
        return (log_probs.clone(), values.clone()) if self.graphs else (log_probs, values)


class FusedRMSprop(torch.optim.Optimizer):
    """RMSprop whose step is one pass over each parameter once compiled.

    `tensorflow` puts epsilon inside the root and starts the average at one, as SB3's RMSpropTFLike.
    """

    def __init__(
        self,
        params: Iterable[nn.Parameter],
        lr: float = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        tensorflow: bool = False,
    ) -> None:
        defaults = {"lr": lr, "alpha": alpha, "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, defaults)
        self.tensorflow = tensorflow
        self._network: CompiledPolicy | None = None
        self._kernel: Callable[..., None] = _rmsprop

    def compile(self, network: CompiledPolicy) -> None:
        """From now on step in compiled code, as long as the network is compiled."""
        if self._network is None and network.compiled is not False:
            self._network = network
            self._kernel = torch.compile(_rmsprop, dynamic=False)

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            parameters = [p for p in group["params"] if p.grad is not None]
            for p in parameters:
                if "square_avg" not in self.state[p]:
                    start = torch.ones_like if self.tensorflow else torch.zeros_like
                    self.state[p]["square_avg"] = start(p)
            arguments = (
                parameters,
                [p.grad for p in parameters],
                [self.state[p]["square_avg"] for p in parameters],
                # A tensor: as a number, every change of the rate would compile anew.
                torch.full((), group["lr"], dtype=torch.float32, device=group["params"][0].device),
                group["alpha"],
                group["eps"],
                group["weight_decay"],
                self.tensorflow,
            )
            if self._network is None:
                _rmsprop(*arguments)  # type: ignore[arg-type]
            else:
                self._network.attempt(self._kernel, _rmsprop, *arguments)


def _rmsprop(
    parameters: list[Tensor],
    gradients: list[Tensor],
    averages: list[Tensor],
    lr: Tensor,
    alpha: float,
    eps: float,
    weight_decay: float,
    tensorflow: bool,
) -> None:
    for parameter, gradient, average in zip(parameters, gradients, averages, strict=True):
        if weight_decay:
            gradient = gradient + weight_decay * parameter
        average.mul_(alpha).addcmul_(gradient, gradient, value=1 - alpha)
        root = (average + eps).sqrt() if tensorflow else average.sqrt() + eps
        parameter.sub_(lr * (gradient / root))


def fuse(optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
    """The same optimizer, not yet used, in its fastest form; others are left as they are."""
    (group,) = optimizer.param_groups
    options = {k: v for k, v in group.items() if k in ("lr", "eps", "weight_decay")}
    if any(group.get(name) for name in ("amsgrad", "maximize", "decoupled_weight_decay")):
        return optimizer
    if type(optimizer) is torch.optim.Adam:
        return torch.optim.Adam(group["params"], betas=group["betas"], fused=True, **options)
    tensorflow = isinstance(optimizer, RMSpropTFLike)
    if not (tensorflow or type(optimizer) is torch.optim.RMSprop):
        return optimizer
    if group["momentum"] or group["centered"]:
        return optimizer
    return FusedRMSprop(group["params"], alpha=group["alpha"], tensorflow=tensorflow, **options)


def collect(
    algorithm: OnPolicyAlgorithm,
    network: CompiledPolicy,
    env: VecEnv,
    callback: BaseCallback,
    memory: FrameMemory | Demonstrations,
    execute: Callable[[np.ndarray], np.ndarray] | None = None,
) -> tuple[bool, float]:
    """Fill the memory; returns whether the callback let it finish, and the seconds in env.step.

    `execute` says which actions (n_envs,) are played where the policy has drawn these.
    """
    assert isinstance(algorithm._last_obs, np.ndarray)
    algorithm.policy.set_training_mode(False)
    memory.reset()
    callback.on_rollout_start()
    all_values, all_log_probs, all_rewards, seconds = [], [], [], 0.0
    # What callbacks find under SB3's names, beside the local variables that share them.
    shared: dict[str, Any] = {
        "self": algorithm,
        "env": env,
        "callback": callback,
        "rollout_buffer": memory,
        "n_rollout_steps": memory.buffer_size,
    }
    for n_steps in range(memory.buffer_size):
        observations: Any = algorithm._last_obs
        obs_tensor = on_device(observations, algorithm.device)
        choices, values = network.act(obs_tensor)  # (n_envs, n_actions), (n_envs,)
        chosen = torch.multinomial(choices.exp(), 1)  # (n_envs, 1)
        log_probs = choices.gather(1, chosen).squeeze(1)  # (n_envs,)
        all_values.append(values)
        all_log_probs.append(log_probs)
        actions = chosen.squeeze(1).cpu().numpy()
        actions = actions if execute is None else execute(actions)
        algorithm._phase = "collecting"  # type: ignore[attr-defined]
        memory.look(env)
        began = perf_counter()
        new_obs, rewards, dones, infos = env.step(actions)
        seconds += perf_counter() - began
        all_rewards.append(np.array(rewards, np.float32))  # before anyone adds to them
        algorithm.num_timesteps += env.num_envs
        step = {"n_steps": n_steps, "obs_tensor": obs_tensor, "actions": actions}
        step |= {"clipped_actions": actions, "values": values[:, None], "log_probs": log_probs}
        step |= {"new_obs": new_obs, "rewards": rewards, "dones": dones, "infos": infos}
        shared |= step
        callback.update_locals(shared)
        if not callback.on_step():
            return False, seconds
        algorithm._update_info_buffer(infos, dones)
        for i in np.flatnonzero(dones):
            if infos[i].get("TimeLimit.truncated") and "terminal_observation" in infos[i]:
                # A time limit is not the game's end: what would have come counts.
                last = on_device(infos[i]["terminal_observation"][None], algorithm.device)
                with torch.no_grad():
                    rewards[i] += algorithm.gamma * algorithm.policy.predict_values(last).item()
        starts: Any = algorithm._last_episode_starts
        memory.record(observations, actions, rewards, starts, obs_tensor)
        algorithm._last_obs, algorithm._last_episode_starts = new_obs, dones  # type: ignore[assignment]
    memory.values[:] = torch.stack(all_values).cpu().numpy()
    memory.log_probs[:] = torch.stack(all_log_probs).cpu().numpy()
    after: Any = algorithm._last_obs
    _, last_values = network.act(on_device(after, algorithm.device))
    memory.compute_returns_and_advantage(last_values, algorithm._last_episode_starts)  # type: ignore[arg-type]
    memory.finish(algorithm._last_obs, algorithm._last_episode_starts, np.stack(all_rewards))  # type: ignore[arg-type]
    callback.update_locals(shared | {"values": last_values[:, None]})
    callback.on_rollout_end()
    return True, seconds
