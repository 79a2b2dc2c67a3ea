"""Every loss on the encoders and masks the package ships: it runs, and reaches the mask."""

import gymnasium as gym
import pytest
import torch
from torch import Tensor

from reprl import components
from reprl.auxiliary import Contrastive, Decoder, Sparsity
from reprl.auxiliary.views import Views
from reprl.encoders.base import Encoder

MASKS = [name for name in components.names("attention") if name != "none"]


def build(space: gym.spaces.Box, *, trunk: str, attention: str | None) -> Encoder:
    spec = components.resolve("encoder", trunk)
    extra = {"attention": components.resolve("attention", attention)}
    return components.build("encoder", spec, observation_space=space, **extra)


@pytest.fixture
def make(world_of):
    return lambda attention, trunk="nature": world_of(
        build, 84, 4, trunk=trunk, attention=attention
    )


def mask_names(world) -> set[str]:
    return {
        f"encoder.{name}" for name, _ in world.encoder.named_parameters() if "attention" in name
    }


@pytest.mark.parametrize("attention", MASKS)
def test_sparsity_and_decoder_reach_every_mask(make, attention):
    world = make(attention)
    batch = world.batch(world.images(3), returns=torch.randn(3))
    for loss in (Sparsity(), Decoder(view="map"), Decoder(view="image")):
        reached = world.reached(world.prepare(loss), batch)
        assert reached & mask_names(world), loss
        assert not reached & {"encoder.linear.0.weight", "actor.weight", "critic.weight"}


def test_the_image_decoder_moves_a_side_branch_and_leaves_the_trunk_alone(make):
    world = make("conv_21")
    batch = world.batch(world.images(3), returns=torch.randn(3))
    reached = world.reached(world.prepare(Decoder(view="image")), batch)
    assert not any(name.startswith("encoder.cnn") for name in reached)


def test_views_fall_back_from_own_to_the_runs_to_a_shift(make, noise):
    world = make(None)
    own = Contrastive(augmentation={"_target_": "reprl.augmentation.Flip", "use": "views"})
    assert type(world.prepare(own, noise).views.augmentation).__name__ == "Flip"
    assert world.prepare(Contrastive(), noise).views.augmentation is noise
    alone = Views(None)
    alone.setup(world.context(None))
    images = world.images(2)
    generator = torch.Generator().manual_seed(0)
    shifted: Tensor = alone(images, generator).observations
    matches = [
        torch.equal(shifted[0, :, 8:-8, 8:-8], images[0, :, 8 + y : 76 + y, 8 + x : 76 + x])
        for y in range(-4, 5)
        for x in range(-4, 5)
    ]
    assert sum(matches) == 1


def test_every_configuration_trains_the_wide_encoder_one_step(make):
    world = make("conv", trunk="impala")
    for name in components.names("auxiliary"):
        spec = components.resolve("auxiliary", name)
        if spec is None:
            continue
        loss = world.prepare(components.build("auxiliary", spec))
        images = world.images(4)
        valid = torch.ones(4, dtype=torch.bool)
        batch = world.batch(images, at=lambda k, images=images, valid=valid: (images, valid))
        batch.boxes = torch.ones(4, 1, 4)
        total = sum(loss.weights[k] * term for k, term in loss(batch, world.encoder).items())
        total.backward()
        assert torch.isfinite(total), name
        loss.after_step()
