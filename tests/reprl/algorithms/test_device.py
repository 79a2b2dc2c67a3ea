"""The path to a GPU, as far as a machine without one can hold it: same bits, no stray device."""

from __future__ import annotations

from functools import partialmethod
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import Tensor, nn

from reprl.algorithms import A2C, PPO
from reprl.algorithms.compiled import CompiledPolicy
from reprl.algorithms.frame_buffer import FrameMemory
from reprl.algorithms.frame_pool import DeviceFrames
from reprl.algorithms.rollout_buffer import Minibatch
from reprl.checkpoint.state import _load_optimizer
from reprl.reduction import OneProcess
from reprl.transfer import on_device
from tests.reprl.algorithms.parts import ENCODER, FLIP, spread
from tests.reprl.algorithms.test_fast import stacks
from tests.toys.catch import SMALL_ENCODER, Catch

LOSSES: dict[str, Any] = {"encoder": ENCODER, "auxiliary": spread(coef=0.1), "augmentation": FLIP}


def memory(gap: int, resident: bool) -> FrameMemory:
    space = spaces.Box(0, 255, (4, 6, 6), np.uint8)
    made = FrameMemory(9, space, spaces.Discrete(3), "cpu", n_envs=2, resident=resident)
    made.gap, made.history = gap, 4
    return made


@pytest.mark.parametrize("gap", [1, 2])
def test_a_memory_on_the_device_holds_the_same_bits(gap: int) -> None:
    rng = np.random.default_rng(gap)
    observations, starts = stacks(gap, 46, rng)
    memories = [memory(gap, resident) for resident in (False, True)]
    assert isinstance(memories[1].pool, DeviceFrames)
    for r in range(5):
        rewards, values, log_probs = rng.normal(size=(3, 9, 2)).astype(np.float32)
        actions = rng.integers(0, 3, (9, 2))
        for kept in memories:
            kept.reset()
            for t in range(9):
                seen = observations[r * 9 + t]
                uploaded = torch.from_numpy(seen.copy()) if r % 2 else None
                kept.record(seen, actions[t], rewards[t], starts[r * 9 + t], uploaded)
            kept.values[:], kept.log_probs[:] = values, log_probs
            kept.compute_returns_and_advantage(torch.ones(2), starts[r * 9 + 9])
            kept.finish(observations[r * 9 + 9], starts[r * 9 + 9])
        assert memories[0].free == memories[1].free
        for epoch in range(2):
            batches = []
            for kept in memories:
                np.random.seed(10 * r + epoch)
                batches.append(list(kept.minibatches(7)))
            for ours, theirs in zip(*batches, strict=True):
                for one, other in zip(ours, theirs, strict=True):
                    assert np.asarray(one).dtype == np.asarray(other).dtype
                    assert np.array_equal(np.asarray(one), np.asarray(other))
                for offset in (-4, -1, 0, 1, 3):
                    for one, other in zip(
                        *(kept.at(ours.place, offset) for kept in memories), strict=True
                    ):
                        assert torch.equal(one, other)
        if r == 2:
            saved = [kept.state() for kept in memories]
            assert all(np.array_equal(saved[0][key], saved[1][key]) for key in saved[0])
            memories[1] = memory(gap, True)
            memories[1].load_state({k: v.copy() for k, v in saved[1].items()})
            memories[0].load_state({k: v.copy() for k, v in saved[0].items()})


def trained(cls: Any = PPO, **arguments: Any) -> Any:
    settings: dict[str, Any] = {"n_steps": 8} | LOSSES
    settings |= {"batch_size": 12, "n_epochs": 2} if cls is PPO else {}
    model = cls("CnnPolicy", Catch(), seed=5, device="cpu", mode="fast", **settings, **arguments)
    return model.learn(64)


def parameters(model: Any) -> Tensor:
    return torch.cat([p.detach().reshape(-1) for p in model.policy.parameters()])


@pytest.mark.slow
@pytest.mark.parametrize("cls", [PPO, A2C])
def test_training_from_a_memory_on_the_device_is_the_same(cls: Any) -> None:
    usual = trained(cls, compile=False)
    resident = trained(cls, compile=False, rollout_buffer_kwargs={"resident": True})
    assert isinstance(resident.rollout_buffer.pool, DeviceFrames)
    assert torch.equal(parameters(usual), parameters(resident))


def with_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a GPU; on the CPU torch compiles the same and replays nothing."""
    made = partialmethod(CompiledPolicy.__init__, graphs=True)
    monkeypatch.setattr(CompiledPolicy, "__init__", made)


@pytest.mark.slow
@pytest.mark.parametrize("compile", [False, True])
def test_graphs_train_the_same(compile: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = trained(compile=False)
    with_graphs(monkeypatch)
    graphs = trained(compile=compile)
    assert graphs.network.graphs
    assert graphs.compiled is compile
    torch.testing.assert_close(parameters(usual), parameters(graphs), rtol=0, atol=2e-4)


def test_a_graphs_step_begins_without_old_gradients_and_its_outputs_are_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = PPO("CnnPolicy", Catch(), seed=5, device="cpu", mode="fast", compile=False, n_steps=4)
    network = CompiledPolicy(model.policy, compile=False, graphs=True)
    memory_of_graph = [torch.zeros(4, 3), torch.zeros(4)]  # which the next replay overwrites
    monkeypatch.setattr(network, "_act", lambda _: (None, None, None, *memory_of_graph))
    network.compiled = True
    pictures = torch.zeros(4, 4, 36, 36, dtype=torch.uint8)
    log_probs, values = network.act(pictures)
    memory_of_graph[0].fill_(7.0)
    memory_of_graph[1].fill_(7.0)
    assert not log_probs.any()
    assert not values.any()
    first = next(model.policy.parameters())
    first.grad = torch.ones_like(first)
    network.compiled = False
    network.forward(model.policy, pictures)
    assert first.grad is None


class OfNoNumbers(OneProcess):
    """A device that computes shapes only has no numbers to log."""

    def numbers(self, values: Tensor) -> Tensor:
        return torch.zeros(values.shape)


def move(module: nn.Module, device: str) -> None:
    """Every parameter and buffer to a device, as they lie in memory."""
    for part in module.modules():
        for name, p in part._parameters.items():
            if p is not None:
                empty = torch.empty_strided(p.size(), p.stride(), dtype=p.dtype, device=device)
                part._parameters[name] = nn.Parameter(empty, requires_grad=p.requires_grad)
        for name, b in part._buffers.items():
            if b is not None:
                part._buffers[name] = torch.empty(b.shape, dtype=b.dtype, device=device)


@pytest.mark.parametrize("auxiliary", [None, "contrastive", "decoder", "vae", "sparsity"])
def test_an_update_stays_on_its_device(auxiliary: str | None) -> None:
    """On torch's `meta` device, which refuses to compute with a tensor of the CPU beside it."""
    with pytest.raises(RuntimeError):
        torch.zeros(2, device="meta") + torch.zeros(2)
    model: Any = PPO(
        *("CnnPolicy", Catch()),
        seed=0,
        device="cpu",
        mode="fast",
        compile=False,
        n_steps=4,
        batch_size=16,
        encoder=SMALL_ENCODER,
        attention={"_target_": "reprl.encoders.masks.ConvMask"},
        auxiliary=auxiliary,
    )
    model._clip, model._clip_vf = 0.1, 0.1
    move(model.policy, "meta")
    move(model.auxiliary, "meta")
    model.update.share(OfNoNumbers())

    def rows(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
        return torch.zeros(16, *shape, dtype=dtype, device="meta")

    pictures, actions = rows(4, 36, 36, dtype=torch.uint8), rows(dtype=torch.int64)
    minibatch = Minibatch(pictures, rows(1), rows(), rows(), rows(), rows(), np.arange(16))
    fields = {"rewards": rows(), "returns": rows(), "episode_starts": rows(dtype=torch.bool)}
    weights = dict.fromkeys(model.losses.terms.names, 1.0)
    losses = model.update.losses(model, minibatch, actions, weights, lambda: fields, 0)
    losses.total.backward()
    learned = [*model.policy.parameters(), *model.losses.modules.parameters()]
    assert {p.grad.device.type for p in learned if p.grad is not None} == {"meta"}


def test_arrays_go_to_a_gpu_through_pinned_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []
    monkeypatch.setattr(Tensor, "pin_memory", lambda self: calls.append("pinned") or self)
    monkeypatch.setattr(Tensor, "to", lambda self, *a, **k: calls.append((a, k)) or self)
    array = np.arange(6, dtype=np.uint8)
    on_device(array, torch.device("cuda"))
    assert calls == ["pinned", ((torch.device("cuda"),), {"non_blocking": True})]


def test_on_the_cpu_nothing_is_copied() -> None:
    array = np.arange(6, dtype=np.uint8)
    assert np.shares_memory(on_device(array, torch.device("cpu")).numpy(), array)
    assert on_device(array, torch.device("meta")).device.type == "meta"


def test_a_restored_fused_optimizer_counts_on_its_parameters_device() -> None:
    layer = torch.nn.Linear(2, 1, device="meta")
    optimizer = torch.optim.Adam(layer.parameters())
    optimizer.defaults["fused"] = True
    model: Any = SimpleNamespace(
        modules=lambda: {"policy": layer}, optimizers=lambda: {"policy": optimizer}
    )
    stored = {"policy.weight|step": torch.tensor(3.0), "policy.weight|exp_avg": torch.ones(1, 2)}
    _load_optimizer(model, stored, {})
    assert {k: v.device.type for k, v in optimizer.state[layer.weight].items()} == {
        "step": "meta",
        "exp_avg": "meta",
    }
