"""A mask taught by the truth: the target by hand, on real frames, in both kinds of training."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from reprl.algorithms import A2C, PPO, Imitation
from reprl.auxiliary import ObjectTarget
from reprl.envs import make_vec_env
from reprl.envs.objects import edges
from reprl.errors import UserError
from tests.reprl.auxiliary.test_motion_target import cross_entropy

NAN = float("nan")
TAUGHT: dict[str, Any] = {"attention": "conv_21", "auxiliary": "object_target"}


def test_the_cells_of_the_boxes_by_hand(masked: Any) -> None:
    """One cell a pixel: a box that touches 2 x 3 pixels, one that is not on the screen."""
    loss = masked.prepare(ObjectTarget(augmentation="none"))
    batch = masked.batch(torch.full((1, 2, 8, 8), 50, dtype=torch.uint8))
    boxes = torch.tensor([[[1.5, 2.0, 3.0, 4.2], [NAN, NAN, NAN, NAN]]])
    batch = replace(batch, boxes=boxes)
    target = np.zeros((1, 1, 8, 8))
    target[0, 0, 2:5, 1:3] = 1
    np.testing.assert_array_equal(loss.target(boxes).numpy(), target)
    mask = batch.output.attention.detach().numpy()
    found = loss(batch, masked.encoder)["object_target"].item()
    assert found == pytest.approx(cross_entropy(mask, target), rel=1e-5)


def test_a_view_that_moves_things_is_refused(masked: Any) -> None:
    with pytest.raises(UserError, match="object_target.*moves"):
        masked.prepare(ObjectTarget(augmentation="shift"))


@pytest.mark.parametrize("kind", [PPO, A2C, Imitation])
@pytest.mark.parametrize("mode", ["plain", "fast"])
def test_boxes_are_those_of_the_sample(kind: Any, mode: str, monkeypatch: Any) -> None:
    """What a loss is given is what the environment knew when the observation was made."""
    env = make_vec_env(n_envs=2, seed=3)
    truth: dict[bytes, np.ndarray] = {}
    step = env.step

    def watched(actions: np.ndarray) -> Any:
        here = edges(env.objects(), 84)
        for observation, boxes in zip(env.observations(), here, strict=True):
            truth[observation.tobytes()] = boxes
        return step(actions)

    monkeypatch.setattr(env, "step", watched)
    seen = []
    forward = ObjectTarget.forward

    def checked(self: Any, batch: Any, encoder: Any) -> Any:
        for observation, boxes in zip(batch.originals, batch.boxes, strict=True):
            if (known := truth.get(observation.numpy().tobytes())) is not None:
                np.testing.assert_array_equal(boxes.numpy(), known)
                seen.append(1)
        return forward(self, batch, encoder)

    monkeypatch.setattr(ObjectTarget, "forward", checked)
    settings = {"n_steps": 8, "seed": 0, "mode": mode, "compile": False, **TAUGHT}
    if kind is PPO:
        settings |= {"batch_size": 16, "n_epochs": 1}
    if kind is Imitation:
        settings |= {"batch_size": 16, "updates": 2, "buffer_size": 64}
    kind("CnnPolicy", env, **settings).learn(32)
    assert len(seen) >= 24


def test_a_game_without_truth_is_refused() -> None:
    with pytest.raises(UserError, match="boxes.*boxing"):
        PPO("CnnPolicy", make_vec_env(n_envs=1, game="boxing"), n_steps=8, batch_size=8, **TAUGHT)
