"""A run of a thousand updates holds no more memory at its end than after its start."""

import gc
import resource
from pathlib import Path

import pytest
import torch
from stable_baselines3.common.callbacks import BaseCallback

from reprl.algorithms import A2C
from tests.toy import catch_env

ALLOWED = 8e6  # bytes; one leaked graph or rollout an update would be hundreds of times more


def resident() -> int:
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


class Sizes(BaseCallback):
    """Memory after the first and after the last updates."""

    def __init__(self) -> None:
        super().__init__()
        self.rollouts = 0
        self.sizes: list[int] = []

    def _on_rollout_start(self) -> None:
        self.rollouts += 1
        if self.rollouts in (200, 1200):
            self.sizes.append(resident())

    def _on_step(self) -> bool:
        return True


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["plain", "fast"])
def test_a_thousand_updates_do_not_grow(mode):
    torch.set_num_threads(1)
    env = catch_env(4)
    model = A2C(
        "CnnPolicy",
        env,
        n_steps=5,
        seed=0,
        device="cpu",
        mode=mode,
        compile=False,
        encoder={"_target_": "tests.toy.SmallEncoder"},
        attention={"_target_": "reprl.encoders.masks.ConvMask"},
        auxiliary="attention_contrastive",
        augmentation="shift",
    )
    sizes = Sizes()
    model.learn(4 * 5 * 1201, callback=sizes)
    before, after = sizes.sizes
    assert after - before < ALLOWED
