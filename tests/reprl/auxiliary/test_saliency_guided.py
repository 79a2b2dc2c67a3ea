"""SGQN: which pixels are kept, a policy that stops needing the rest, and their predictor."""

import math

import pytest
import torch
from torch import nn

from reprl import components
from reprl.augmentation.base import Augmentation, View
from reprl.auxiliary import SaliencyGuided
from reprl.policy import heads
from tests.helpers import refuses

ATTRIBUTION = frozenset({"attribution"})
PREDICTS = {"attribution_coef": 1.0, "augmentation": "none", "shrink": 2}


def linear_value(world, weights):
    """Make the value a known linear function of the pixels, weights (stack, H, W) >= 0."""
    encoder, policy = world.encoder, world.policy
    for layer in (encoder.trunk, encoder.linear, policy.value_net):
        nn.init.zeros_(layer.weight)
        nn.init.zeros_(layer.bias)
    with torch.no_grad():
        encoder.trunk.weight[0, 0] = 1.0  # the first map is the first frame
        encoder.linear.weight[0, : weights.numel()] = weights.flatten()
        policy.value_net.weight[0, 0] = 1.0


def test_the_steepest_pixels_are_kept(unmasked):
    weights = torch.zeros(8, 8)
    weights[2, 3], weights[5, 5], weights[7, 0] = 3.0, -2.0, 1.0
    linear_value(unmasked, weights)
    loss = unmasked.prepare(SaliencyGuided(rho=1 - 2 / 128))
    images = unmasked.images(3).clamp(min=1)
    batch = unmasked.batch(images)
    kept = loss.salient(batch, unmasked.encoder, batch.images())
    assert kept.flatten(1).sum(1).tolist() == [2, 2, 2]
    assert kept[:, 0, 2, 3].all()
    assert kept[:, 0, 5, 5].all()  # the slope's size counts, not its sign


def test_its_value_by_hand(unmasked):
    """Of three pixels that count, one is dropped: the value loses its share, the policy nothing."""
    weights = torch.zeros(8, 8)
    weights[2, 3], weights[5, 5], weights[7, 0] = 3.0, 2.0, 1.0
    linear_value(unmasked, weights)
    nn.init.zeros_(unmasked.policy.action_net.weight)
    images = unmasked.images(4).clamp(min=1)
    loss = unmasked.prepare(SaliencyGuided(rho=1 - 2 / 128))
    found = loss(unmasked.batch(images), unmasked.encoder)["saliency_guided"].item()
    lost = images[:, 0, 7, 0].float() / 255
    assert found == pytest.approx((0.5 * lost.square()).mean().item(), rel=1e-4)


@pytest.mark.parametrize("of", ["value", "action"])
def test_all_pixels_kept_cost_nothing(masked, of):
    loss = masked.prepare(SaliencyGuided(rho=0.0, of=of))
    found = loss(masked.batch(masked.images(4)), masked.encoder)["saliency_guided"].item()
    assert found == pytest.approx(0, abs=1e-6)


def test_the_action_taken_is_explained_with_its_own_slope(masked):
    images, actions = masked.images(3), torch.tensor([0, 2, 1])
    batch = masked.batch(images, actions=actions)
    loss = masked.prepare(SaliencyGuided(rho=0.9, of="action"))
    kept = loss.salient(batch, masked.encoder, batch.images())
    for n in range(3):
        pixels = (images[n : n + 1].float() / 255).requires_grad_()
        log_probs, _ = heads(masked.policy, masked.encoder.encode(pixels).features)
        (slope,) = torch.autograd.grad(log_probs[0, actions[n]], pixels)
        least = slope.abs().flatten().topk(13).values[-1]  # a tenth of 2 x 8 x 8
        assert torch.equal(kept[n], (slope.abs() >= least).float()[0])


def test_gradient_reaches_encoder_and_both_heads_and_leaves_no_trace(masked):
    loss = masked.prepare(SaliencyGuided())
    batch = masked.batch(masked.images(4))
    masked.policy.zero_grad()
    loss.salient(batch, masked.encoder, batch.images())
    assert all(p.grad is None for p in masked.policy.parameters())
    reached = masked.reached(loss, batch)
    assert {"encoder.trunk.weight", "encoder.linear.weight"} <= reached
    assert {"actor.weight", "critic.weight"} <= reached
    whole_side = batch.log_probs.grad_fn
    assert whole_side is not None  # there is a gradient to stop, and it is stopped:
    batch.log_probs.retain_grad()
    loss(batch, masked.encoder)["saliency_guided"].backward()
    assert batch.log_probs.grad is None


@pytest.mark.parametrize("coef", [0.0, 1.0])
def test_it_makes_the_salient_pixels_enough(unmasked, coef):
    """Beside a loss that holds policy and value on whole pictures, as the algorithm's own does."""
    images = unmasked.images(16)
    with torch.no_grad():
        unmasked.policy.action_net.weight.mul_(100)
    first = unmasked.batch(images)
    values, log_probs = first.values.detach(), first.log_probs.detach()
    loss = unmasked.prepare(SaliencyGuided(rho=0.8))
    optimizer = torch.optim.Adam(unmasked.policy.parameters(), lr=3e-3)
    found = []
    for _ in range(60):
        batch = unmasked.batch(images)
        (term,) = loss(batch, unmasked.encoder).values()
        held = (batch.values - values).square().mean()
        held = held + (log_probs.exp() * (log_probs - batch.log_probs)).sum(1).mean()
        optimizer.zero_grad()
        (coef * term + held).backward()
        optimizer.step()
        found.append(term.item())
    assert held < 0.05
    assert (sum(found[-5:]) / 5 < 0.5 * found[0]) == (coef == 1.0)


# -- the attribution predictor ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("other", "marked"), [((5, 5), 2), ((3, 3), 1)], ids=["two cells", "one cell holds both"]
)
def test_the_attribution_by_hand(unmasked, other, marked):
    """A head that says b everywhere pays softplus(-b) for marked cells, softplus(b) for others."""
    weights = torch.zeros(8, 8)
    weights[2, 3], weights[other] = 3.0, 2.0
    linear_value(unmasked, weights)
    loss = unmasked.prepare(SaliencyGuided(rho=1 - 2 / 128, **PREDICTS))
    nn.init.zeros_(loss.head.paint.weight)
    nn.init.constant_(loss.head.paint.bias, -1.0)
    batch = unmasked.batch(unmasked.images(3).clamp(min=1)).wanting(ATTRIBUTION)
    found = loss(batch, unmasked.encoder)
    share = marked / (2 * 4 * 4)  # of two frames, 8x8 pixels in cells of 2x2
    expected = share * math.log(1 + math.e) + (1 - share) * math.log(1 + 1 / math.e)
    assert {name: term.item() for name, term in found.items()} == {
        "attribution": pytest.approx(expected, rel=1e-5)
    }


@pytest.mark.parametrize("of", ["value", "action"])
def test_its_gradient_reaches_encoder_and_head_alone(masked, of):
    loss = masked.prepare(SaliencyGuided(of=of, **PREDICTS))
    batch = masked.batch(masked.images(4), actions=torch.tensor([0, 1, 2, 1]))
    assert set(loss(batch, masked.encoder)) == {"saliency_guided", "attribution"} == {*loss.weights}
    reached = masked.reached(loss, batch.wanting(ATTRIBUTION))
    assert {"encoder.trunk.weight", "encoder.linear.weight", "loss.head.spread.weight"} <= reached
    assert not {name for name in reached if name.startswith(("actor", "critic"))}
    inputs = loss.head.spread.in_features
    assert inputs == 12 + (3 if of == "action" else 0)  # the action counts where it is explained


class Spots(Augmentation):
    """Draws a gray pixel somewhere in every frame, dimmer than what counts."""

    moves = False

    def forward(self, observations, generator):
        drawn = observations.clone()
        count = len(drawn)
        rows, columns = torch.randint(0, 8, (2, count), generator=generator)
        drawn[torch.arange(count), :, rows, columns] = 100
        return View(torch.maximum(drawn, observations))


def lone_pixels(count, generator):
    """Black pictures with one white pixel in the first frame, and its cell of 2x2 of them all."""
    rows, columns = torch.randint(0, 8, (2, count), generator=generator)
    images = torch.zeros(count, 2, 8, 8, dtype=torch.uint8)
    images[torch.arange(count), 0, rows, columns] = 255
    return images, (rows // 2) * 4 + columns // 2


@pytest.mark.parametrize("coef", [0.0, 1.0])
def test_the_predictor_finds_what_decides_among_drawings(unmasked, coef):
    """The value grows with what is brighter than half: the white pixel, wherever it is."""
    linear_value(unmasked, torch.ones(8, 8))
    with torch.no_grad():
        unmasked.encoder.trunk.bias[0] = -0.5
        unmasked.encoder.trunk.weight[1:, 0] = 0.5
        unmasked.encoder.linear.weight[1:].normal_(0, 0.3, generator=unmasked.generator)
    loss = unmasked.prepare(
        SaliencyGuided(rho=1 - 1 / 128, attribution_coef=1.0, augmentation=None), Spots()
    )
    learned = [*unmasked.encoder.parameters(), *loss.parameters()]
    optimizer = torch.optim.Adam(learned, lr=1e-2)
    for _ in range(250):
        images, _ = lone_pixels(64, unmasked.generator)
        term = loss(unmasked.batch(images).wanting(ATTRIBUTION), unmasked.encoder)["attribution"]
        optimizer.zero_grad()
        (coef * term).backward()
        optimizer.step()
    images, cells = lone_pixels(200, unmasked.generator)
    drawn = Spots()(images, unmasked.generator).observations
    said = loss.head(unmasked.encoder.encode(drawn.float() / 255).features)  # (B, 2, 4, 4)
    right = (said[:, 0].flatten(1).argmax(1) == cells).float().mean()
    assert right > 0.9 if coef else right < 0.3


def test_the_predictor_is_there_when_asked_for(masked):
    assert not list(masked.prepare(SaliencyGuided()).parameters())
    named = components.build("auxiliary", components.resolve("auxiliary", "saliency_guided"))
    assert list(masked.prepare(named).parameters())
    with refuses("saliency_guided", "moves", "boxes_lines"):
        masked.prepare(SaliencyGuided(attribution_coef=1.0, augmentation="shift"))
    with refuses("attribution_coef=-1", "at least 0"):
        SaliencyGuided(attribution_coef=-1)
