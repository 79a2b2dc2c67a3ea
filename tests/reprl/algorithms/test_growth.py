"""Updates leave nothing behind: no tensor, and nothing that Python or numpy allocated."""

import gc
import tracemalloc

import pytest
import torch
from stable_baselines3.common.callbacks import BaseCallback

from reprl.algorithms import A2C
from tests.toys.catch import SMALL_ENCODER, Catch

UPDATES = (25, 65)  # after SB3's own buffer of 100 episodes is full
ALLOWED = 5e5  # bytes; one rollout an update would be four times as much


class Sizes(BaseCallback):
    """How many tensors there are and how much else is allocated, after so many updates."""

    def __init__(self) -> None:
        super().__init__()
        self.rollouts = 0
        self.tensors: list[int] = []
        self.sizes: list[int] = []

    def _on_rollout_start(self) -> None:
        self.rollouts += 1
        if self.rollouts in UPDATES:
            gc.collect()
            self.sizes.append(tracemalloc.get_traced_memory()[0])
            self.tensors.append(sum(issubclass(type(o), torch.Tensor) for o in gc.get_objects()))

    def _on_step(self) -> bool:
        return True


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["plain", "fast"])
def test_updates_leave_nothing_behind(mode):
    model = A2C(
        "CnnPolicy",
        Catch(4, stack=2, cut=False),
        n_steps=5,
        seed=0,
        device="cpu",
        mode=mode,
        compile=False,
        encoder=SMALL_ENCODER,
        attention={"_target_": "reprl.encoders.masks.ConvMask"},
        auxiliary="attention_contrastive",
        augmentation="shift",
    )
    sizes = Sizes()
    tracemalloc.start()
    try:
        model.learn(4 * 5 * (UPDATES[1] + 1), callback=sizes)
    finally:
        tracemalloc.stop()
    assert sizes.tensors[1] <= sizes.tensors[0]  # fewer: of tests before this one
    assert sizes.sizes[1] - sizes.sizes[0] < ALLOWED
