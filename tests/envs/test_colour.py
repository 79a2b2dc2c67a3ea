"""Colour frames: what is on the screen reaches every part, and parts that see change group it."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
import pytest
import torch

from reprl.algorithms import PPO, Imitation
from reprl.algorithms.frame_buffer import FrameMemory
from reprl.checkpoint.serialization import decode_space, encode_space
from reprl.config import schema
from reprl.encoders.inputs import Input, change
from reprl.envs import make_vec_env
from reprl.envs.observation import FrameStack, frame_channels, newest_frame
from reprl.errors import UserError

TAUGHT = {"_target_": "reprl.auxiliary.MotionTarget", "memory": 0}


def test_frames_are_the_screen_in_three_channels() -> None:
    env = make_vec_env("green_lines", 1, training=False, gray=False, stack=2, size=60)
    assert env.observation_space.shape == (6, 60, 60)
    first = env.reset()
    before = cv2.resize(env.frames()[0], (60, 60), interpolation=cv2.INTER_AREA)
    assert (first[0, 3:] == before.transpose(2, 0, 1)).all()
    seen = env.step(np.array([2]))[0]
    assert (seen[0, :3] == first[0, 3:]).all()
    expected = cv2.resize(env.frames()[0], (60, 60), interpolation=cv2.INTER_AREA)
    assert (seen[0, 3:] == expected.transpose(2, 0, 1)).all()
    gray = newest_frame(seen, 3)[0]
    assert np.abs(gray - cv2.cvtColor(expected, cv2.COLOR_RGB2GRAY).astype(float)).max() <= 1


def test_colours_of_equal_gray_differ() -> None:
    """`player_matched` cannot be seen in gray."""
    for gray, alike in ((True, True), (False, False)):
        pair = []
        for variant in ("original", "player_matched"):
            env = make_vec_env(variant, 1, training=False, gray=gray)
            env.queue(0, 4)
            pair.append(env.reset())
        assert (pair[0] == pair[1]).all() == alike


def test_objects_in_colour() -> None:
    env = make_vec_env("noise", 1, training=False, gray=False, observation="objects")
    seen = env.reset()[0, -3:]
    frame, masks = env.frames()[0], env.objects()[0].masks()
    for name, box in env.objects()[0].painted.items():
        masks[name] = box.mask()
    kept = np.logical_or.reduce([masks[name] for name in env.game.classes])
    expected = cv2.resize(frame * kept[..., None], (84, 84), interpolation=cv2.INTER_AREA)
    assert (seen == expected.transpose(2, 0, 1)).all()


def test_an_action_may_last_any_number_of_frames() -> None:
    lengths = {}
    for skip in (1, 2, 4):
        env = make_vec_env(n_envs=1, training=False, skip=skip, noop_max=0)
        env.reset()
        began = env.standing(0)[1]
        for _ in range(8):
            env.step(np.array([0]))
        lengths[skip] = env.standing(0)[1] - began
    assert lengths == {1: 8, 2: 16, 4: 32}
    env = make_vec_env(n_envs=1, training=False, skip=1)
    env.reset()
    (seen,) = env.objects()
    red = (env.frames()[0] == (200, 72, 72)).all(axis=2)
    assert red[190, int(seen.paddle.x) : int(seen.paddle.x + 16)].all()  # of this very frame
    assert red[190, 8:152].sum() == 16


def test_change_is_between_frames_not_between_colours() -> None:
    stack = torch.zeros(1, 6, 1, 1)
    stack[0, :, 0, 0] = torch.tensor([0.1, 0.5, 0.9, 0.1, 0.8, 0.9])
    found = Input(frames=6, kind="differences", each=3)
    assert found.channels == 3
    assert torch.allclose(found(stack).flatten(), torch.tensor([0.0, 0.3, 0.0]), atol=1e-6)
    assert Input(frames=6, kind="both", each=3)(stack).shape[1] == 9
    older = torch.cat([stack, stack[:, 3:]], dim=1)  # the change is one step old
    assert torch.allclose(change(older, decay=0.5, each=3).flatten(), torch.tensor([0.15]))
    with pytest.raises(UserError, match="two frames"):
        Input(frames=3, kind="differences", each=3)


def test_the_space_is_saved_and_compared() -> None:
    space = make_vec_env(n_envs=1, gray=False).observation_space
    assert isinstance(space, FrameStack)
    again = decode_space(encode_space(space))
    assert again == space
    assert frame_channels(again) == 3
    assert "channels" not in encode_space(make_vec_env(n_envs=1).observation_space)


def test_the_frame_memory_keeps_each_channel_once() -> None:
    env = make_vec_env(n_envs=2, gray=False, observation="objects", size=20, stack=3)
    memory = FrameMemory(8, env.observation_space, env.action_space, n_envs=2)
    memory.channels = 3
    seen = [env.reset()]
    for t in range(8):
        memory.record(seen[-1], np.zeros(2), np.zeros(2), np.full(2, t == 0))
        seen.append(env.step(np.array([0, 3]))[0])
    for t in range(8):
        assert (memory._stacks(memory.slots[t]).numpy() == seen[t]).all()
    assert memory.free <= 1 + 2 * 3 * 8


@pytest.mark.parametrize(
    ("settings", "parts"),
    [
        ({"gray": False}, {"encoder": {"name": "nature", "input": "differences"},
                           "auxiliary": "reconstruction", "augmentation": "color_jitter"}),
        ({"observation": "planes"}, {"attention": "motion", "auxiliary": TAUGHT}),
    ],
)  # fmt: skip
def test_an_update_of_everything_that_looks_at_frames(
    settings: dict[str, Any], parts: dict[str, Any]
) -> None:
    env = make_vec_env(n_envs=2, size=36 if "encoder" in parts else 84, **settings)
    model = PPO("CnnPolicy", env, seed=0, n_steps=4, batch_size=8, n_epochs=1, **parts)
    before = [p.clone() for p in model.policy.parameters()]
    model.learn(8)
    after = list(model.policy.parameters())
    assert any(not torch.equal(a, b) for a, b in zip(before, after, strict=True))


@pytest.mark.parametrize("size", [32, 36, 212])
def test_sizes_that_an_encoder_cannot_take_are_one_sentence(size: int) -> None:
    env = make_vec_env(n_envs=1, size=size)
    if size == 32:
        with pytest.raises(UserError, match="32"):
            PPO("CnnPolicy", env, encoder="nature", n_steps=4, batch_size=4)
    else:
        PPO("CnnPolicy", env, encoder="nature", n_steps=4, batch_size=4)


def test_imitation_keeps_colour_frames_once() -> None:
    """Its data checks that every stack can be put together again from single frames."""
    env = make_vec_env(n_envs=2, gray=False, size=36, stack=3, gap=2, max_frames=400)
    encoder = {"name": "nature", "features_dim": 8}
    model = Imitation(
        "CnnPolicy", env, n_steps=12, updates=1, batch_size=8, buffer_size=100, encoder=encoder
    )
    model.learn(24)
    buffer = model.rollout_buffer
    assert buffer.chunks[0]["frames"].shape[2:] == (3, 36, 36)


def test_pong_is_not_its_own_mirror_image() -> None:
    with pytest.raises(UserError, match="augmentation=flip mirrors"):
        schema.load(["env.game=pong", "augmentation=flip"])
    schema.load(["augmentation=flip"])
    env = make_vec_env(n_envs=2, game="pong")
    with pytest.raises(UserError, match="mirror image"):
        PPO("CnnPolicy", env, n_steps=4, batch_size=8, augmentation="flip")


def test_names_say_colour() -> None:
    assert schema.load(["env.gray=false"]).method == "ppo-nature_colour"
    assert schema.load(["env.gray=false"]).plain()["env"]["gray"] is False
    assert schema.load(["env.skip=2"]).env.skip == 2
