"""Entropy and total variation of a mask: by hand, what they reach, and what they do to it."""

import math

import pytest
import torch

from reprl.auxiliary import MaskEntropy, TotalVariation
from tests.helpers import refuses


def value(world, loss, attention):
    batch = world.batch(world.images(len(attention)))
    batch.output.attention = attention
    (found,) = world.prepare(loss)(batch, world.encoder).values()
    return found.item()


def test_entropy_of_cells_by_hand(masked):
    attention = torch.tensor([0.0, 0.5, 1.0, 0.25]).view(1, 1, 2, 2)
    quarter = -0.25 * math.log(0.25) - 0.75 * math.log(0.75)
    found = value(masked, MaskEntropy(), attention)
    assert found == pytest.approx(math.log(2) + quarter, rel=1e-5)
    both = torch.cat([attention, torch.zeros_like(attention)])  # the mean over the batch
    assert value(masked, MaskEntropy(), both) == pytest.approx(found / 2, rel=1e-5)


def test_entropy_of_the_map_by_hand(masked):
    flat = torch.full((1, 1, 4, 4), 0.3)
    assert value(masked, MaskEntropy(of="map"), flat) == pytest.approx(math.log(16), rel=1e-5)
    single = torch.zeros(1, 1, 4, 4)
    single[..., 2, 1] = 0.7
    assert value(masked, MaskEntropy(of="map"), single) == pytest.approx(0, abs=1e-6)
    assert math.isfinite(value(masked, MaskEntropy(of="map"), torch.zeros(1, 1, 4, 4)))


def test_total_variation_by_hand(masked):
    attention = torch.tensor([[0.0, 1.0, 0.5], [0.2, 0.2, 0.9]]).view(1, 1, 2, 3)
    down, right = 0.2 + 0.8 + 0.4, (1 + 0.5) + (0 + 0.7)
    assert value(masked, TotalVariation(), attention) == pytest.approx(down + right, rel=1e-5)
    assert value(masked, TotalVariation(), torch.full((2, 1, 5, 5), 0.4)) == 0


@pytest.mark.parametrize("loss", [MaskEntropy(), MaskEntropy(of="map"), TotalVariation()])
def test_they_reach_the_mask_only(masked, loss):
    reached = masked.reached(masked.prepare(loss), masked.batch(masked.images(4)))
    assert reached == {"encoder.mask.weight", "encoder.mask.bias"}


@pytest.mark.parametrize("loss", [MaskEntropy(), TotalVariation()])
def test_without_a_mask_they_are_refused(unmasked, loss):
    with refuses("attention mask"):
        unmasked.prepare(loss)


def train(world, loss, noise):
    with torch.no_grad():
        world.encoder.logits.copy_(noise)
    images = world.images(2)
    world.train(world.prepare(loss), lambda: world.batch(images), 150, rate=0.05)
    return torch.sigmoid(world.encoder.logits).detach()


def test_entropy_of_cells_opens_or_shuts_each(free_mask):
    noise = torch.randn(1, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    mask = train(free_mask, MaskEntropy(), noise)
    assert torch.minimum(mask, 1 - mask).mean() < 0.03
    assert torch.equal(mask > 0.5, noise > 0)


def test_entropy_of_the_map_leaves_few_cells(free_mask):
    noise = torch.randn(1, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    mask = train(free_mask, MaskEntropy(of="map"), noise).flatten()
    before = torch.sigmoid(noise).flatten()
    top = mask.topk(8).values.sum() / mask.sum()
    assert top > 1.3 * before.topk(8).values.sum() / before.sum()


def test_total_variation_removes_crumbs(free_mask):
    noise = torch.randn(1, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    mask = train(free_mask, TotalVariation(), noise)
    assert mask.std() < 0.25 * torch.sigmoid(noise).std()
    assert 0.3 < mask.mean() < 0.7  # and neither lights nor darkens it
