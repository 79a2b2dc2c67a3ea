"""The fast mode: plain mode's training within rounding, in a quarter of the memory, repeatably."""

import platform
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from stable_baselines3.common.buffers import RolloutBuffer

from reprl.algorithms import A2C, PPO, Captured, rebuild
from reprl.algorithms.compiled import CompiledPolicy, FusedRMSprop, fuse, threads_for
from reprl.algorithms.frame_buffer import FrameMemory
from reprl.algorithms.rollout_buffer import RolloutMemory
from tests.helpers import refuses
from tests.reprl.algorithms.parts import ENCODER, FLIP, spread
from tests.reprl.algorithms.test_capture import CaptureAt
from tests.toys.catch import Catch

pytestmark = pytest.mark.slow  # trains

SETTINGS: dict[str, tuple[Any, dict[str, Any]]] = {
    "ppo": (PPO, {"n_steps": 8, "batch_size": 12, "n_epochs": 2}),
    "a2c": (A2C, {"n_steps": 4, "optimizer": "rmsprop_tf"}),
    # with SB3's 1e-5 a first step is the gradient's sign, also where that is rounding alone
    "a2c torch": (A2C, {"n_steps": 4, "rms_prop_eps": 1e-2}),
}
EXTRAS: dict[str, Any] = {"encoder": ENCODER, "auxiliary": spread(coef=0.1), "augmentation": FLIP}


def trained(kind: str, **arguments: Any) -> Any:
    cls, settings = SETTINGS[kind]
    callback = arguments.pop("callback", None)
    model = cls("CnnPolicy", Catch(), seed=5, device="cpu", **settings | arguments)
    return model.learn(64, callback=callback)


def parameters(model: Any) -> torch.Tensor:
    return torch.cat([p.detach().reshape(-1) for p in model.policy.parameters()])


def check_against_plain(kind: str, compile: bool, extras: dict[str, Any]) -> Any:
    plain = trained(kind, **extras)
    fast = trained(kind, mode="fast", compile=compile, **extras)
    again = trained(kind, mode="fast", compile=compile, **extras)
    cls, settings = SETTINGS[kind]
    untrained = cls("CnnPolicy", Catch(), seed=5, device="cpu", **settings | extras)
    assert np.array_equal(plain._last_obs, fast._last_obs)  # the same game was played
    moved = (parameters(plain) - parameters(untrained)).norm()
    apart = (parameters(plain) - parameters(fast)).norm()
    assert apart < 0.02 * moved
    assert torch.equal(parameters(fast), parameters(again))
    assert fast.compiled is compile
    return fast


@pytest.mark.parametrize("extras", [{}, EXTRAS], ids=["plain", "extras"])
@pytest.mark.parametrize("kind", SETTINGS)
def test_eager_fast_follows_plain(kind: str, extras: dict[str, Any]) -> None:
    check_against_plain(kind, False, extras)


def test_eager_fast_follows_plain_with_a_mask_and_every_option_of_ppo() -> None:
    options: dict[str, Any] = {
        "encoder": {"_target_": "tests.toys.catch.SmallEncoder"},
        "attention": {"_target_": "reprl.encoders.masks.ConvMask"},
        "auxiliary": "attention_contrastive",
        "clip_range_vf": 0.05,
        "target_kl": 1e-5,
        "learning_rate": 1e-3,
        "n_epochs": 4,
    }
    fast = check_against_plain("ppo", False, options)
    assert fast.early_stops > 0, "target_kl never stopped an update"


@pytest.mark.parametrize("kind", ["ppo", "a2c"])
def test_compiled_fast_follows_plain(kind: str) -> None:
    check_against_plain(kind, True, EXTRAS | {"instrument_every": 2})


@pytest.mark.parametrize("kind", ["ppo", "a2c"])
def test_fast_continues_exactly(kind: str) -> None:
    at = CaptureAt(32)
    straight = trained(kind, mode="fast", compile=False, callback=at, **EXTRAS)
    captured = at.captured
    assert isinstance(captured, Captured)
    # As a file would: everything comes back C-contiguous.
    parts = [
        {k: v.contiguous().clone() for k, v in part.items()}
        for part in (captured.parameters, captured.optimizer, captured.state)
    ]
    other = rebuild(captured.meta, Catch())
    other.restore(Captured(*parts, meta=captured.meta))
    other.learn(32, reset_num_timesteps=False)
    assert torch.equal(parameters(straight), parameters(other))
    first = next(iter(straight.policy.parameters()))
    assert first.stride() == next(iter(other.policy.parameters())).stride()


def test_threads_follow_the_rows() -> None:
    torch.set_num_threads(2)
    seen = {}
    for rows in (1, 8, 9, 256):
        with threads_for(rows):
            seen[rows] = torch.get_num_threads()
        assert torch.get_num_threads() == 2
    assert seen == {1: 1, 8: 1, 9: 2, 256: 2}


def test_the_rollout_has_one_thread_and_the_update_as_many_as_its_rows_ask_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    torch.set_num_threads(2)
    threads: dict[bool, set[int]] = {False: set(), True: set()}

    def forward(self: CompiledPolicy, images: torch.Tensor) -> Any:
        threads[torch.is_grad_enabled()].add(torch.get_num_threads())
        return original(self, images)

    original = CompiledPolicy._forward
    monkeypatch.setattr(CompiledPolicy, "_forward", forward)
    trained("ppo", mode="fast", compile=False, n_steps=32, batch_size=24)
    assert threads == {False: {1}, True: {2}}


def test_freed_memory_is_kept() -> None:
    """The C library takes every setting; what pages it then keeps depends on the machine's layout.

    In a process of its own, because the setting is the process's.
    """
    code = "from reprl.algorithms.compiled import keep_memory; print(keep_memory())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(platform.libc_ver()[0] == "glibc")


def test_an_unusual_optimizer_is_left_as_it_is() -> None:
    parameter = torch.nn.Parameter(torch.zeros(3))
    unusual: list[torch.optim.Optimizer] = [
        torch.optim.Adam([parameter], amsgrad=True),
        torch.optim.Adam([parameter], maximize=True),
        torch.optim.RMSprop([parameter], momentum=0.9),
        torch.optim.AdamW([parameter]),
    ]
    assert all(fuse(optimizer) is optimizer for optimizer in unusual)
    assert fuse(torch.optim.Adam([parameter])).param_groups[0]["fused"]


@pytest.mark.parametrize("tensorflow", [False, True])
def test_fused_rmsprop_is_rmsprop(tensorflow: bool) -> None:
    from stable_baselines3.common.sb2_compat.rmsprop_tf_like import RMSpropTFLike

    start = torch.linspace(-1, 1, 12)
    results = []
    for make in (RMSpropTFLike if tensorflow else torch.optim.RMSprop, FusedRMSprop):
        parameter = torch.nn.Parameter(start.clone())
        extra = {"tensorflow": tensorflow} if make is FusedRMSprop else {}
        options: dict[str, Any] = {"lr": 0.1, "alpha": 0.9, "eps": 1e-3, "weight_decay": 0.01}
        optimizer = make([parameter], **options, **extra)
        for step in range(4):
            parameter.grad = torch.sin(parameter.detach() * (step + 1))
            optimizer.step()
        results.append(parameter.detach())
    torch.testing.assert_close(results[0], results[1])


def stacks(
    gap: int, steps: int, rng: np.random.Generator, side: int = 6
) -> tuple[np.ndarray, np.ndarray]:
    """Observations (steps, 2, 4, side, side) of two environments with random episode starts."""
    frames = rng.integers(0, 256, (steps, 2, side, side), dtype=np.uint8)
    starts = rng.random((steps, 2)) < 0.1
    starts[0] = True
    out = np.zeros((steps, 2, 4, side, side), np.uint8)
    for env in range(2):
        begun = 0
        for t in range(steps):
            begun = t if starts[t, env] else begun
            for c in range(4):
                if (source := t - gap * (3 - c)) >= begun:
                    out[t, env, c] = frames[source, env]
    return out, starts


@pytest.mark.parametrize("gap", [1, 2])
def test_frames_give_back_every_stack_and_neighbour(gap: int) -> None:
    space = spaces.Box(0, 255, (4, 6, 6), np.uint8)
    observations, starts = stacks(gap, 46, np.random.default_rng(gap))
    memories = [
        kind(9, space, spaces.Discrete(3), "cpu", n_envs=2) for kind in (RolloutMemory, FrameMemory)
    ]
    memories[1].gap = gap
    for memory in memories:
        memory.history = 4
    for r in range(5):
        for memory in memories:
            memory.reset()
            for t in range(r * 9, r * 9 + 9):
                zeros = np.zeros(2, np.float32)
                nothing = torch.zeros(2)
                memory.add(observations[t], np.zeros((2, 1)), zeros, starts[t], nothing, nothing)
            memory.finish(observations[r * 9 + 9], starts[r * 9 + 9])
        batches = []
        for memory in memories:
            np.random.seed(r)
            batches.append(list(memory.minibatches(7)))
        for ours, theirs in zip(*batches, strict=True):
            assert torch.equal(ours.observations, theirs.observations)
            for offset in (-4, -1, 0, 1, 3):
                for left, right in zip(
                    memories[0].at(ours.place, offset),
                    memories[1].at(ours.place, offset),
                    strict=True,
                ):
                    assert torch.equal(left, right)
        if r == 2:  # a copy that continues from the saved state gives the same
            saved = memories[1].state()
            memories[1] = FrameMemory(9, space, spaces.Discrete(3), "cpu", n_envs=2)
            memories[1].gap, memories[1].history = gap, 4
            memories[1].load_state({k: v.copy() for k, v in saved.items()})


@pytest.mark.parametrize(
    ("steps", "history", "gap", "most"),
    [(128, 0, 1, 0.27), (128, 16, 1, 0.35), (128, 3, 4, 0.35), (5, 0, 1, 0.7), (5, 3, 1, 0.8)],
    ids=["ppo", "history", "gap", "a2c", "a2c history"],
)
def test_bytes_are_a_quarter_also_after_three_rollouts(
    steps: int, history: int, gap: int, most: float
) -> None:
    space = spaces.Box(0, 255, (4, 84, 84), np.uint8)
    stock = RolloutBuffer(steps, space, spaces.Discrete(4), "cpu", n_envs=2)
    ours = FrameMemory(steps, space, spaces.Discrete(4), "cpu", n_envs=2)
    ours.history, ours.gap = history, gap
    observations, starts = stacks(gap, 3 * steps + 1, np.random.default_rng(0), side=84)
    zeros, sizes = np.zeros(2, np.float32), []
    for r in range(3):
        ours.reset()
        for t in range(r * steps, r * steps + steps):
            ours.record(observations[t], np.zeros(2, np.int64), zeros, starts[t])
        ours.finish(observations[r * steps + steps], starts[r * steps + steps])
        sizes.append(len(ours.frames))
    assert len(set(sizes)) == 1, "the pool is as large as it must be from the start"
    theirs = sum(v.nbytes for v in vars(stock).values() if isinstance(v, np.ndarray))
    # SB3's buffer keeps no observation after the rollout and no rewards beside those trained on
    assert ours.nbytes <= most * theirs


def test_fast_refuses_what_it_cannot_do() -> None:
    with refuses("mode=fast", "uint8"):
        PPO("MlpPolicy", "CartPole-v1", mode="fast")
