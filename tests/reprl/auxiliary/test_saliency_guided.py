"""SGQN's consistency: which pixels are kept, by hand, and a policy that stops needing the rest."""

import pytest
import torch
from torch import nn

from reprl.auxiliary import SaliencyGuided
from reprl.auxiliary.drac import heads


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
