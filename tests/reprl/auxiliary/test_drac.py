"""DrAC: the formula by hand, mirrored actions, and invariance after training."""

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from reprl.augmentation.base import Augmentation, View
from reprl.auxiliary import DrAC
from reprl.auxiliary.base import Context
from tests.helpers import refuses


class Invert(Augmentation):
    """White becomes black; `mirrored` marks every second sample if asked to."""

    def __init__(self, *, mirrored: bool = False) -> None:
        super().__init__()
        self.mirrored = mirrored

    def forward(self, observations: Tensor, generator: torch.Generator) -> View:
        marks = torch.arange(len(observations)) % 2 == 0 if self.mirrored else None
        return View(255 - observations, marks)


def opinionated(world) -> None:
    """A policy that is all but certain of action 1, so that the drawn action is known."""
    with torch.no_grad():
        world.policy.action_net.weight.mul_(30.0)
        world.policy.action_net.bias.copy_(torch.tensor([0.0, 60.0, 0.0]))


def test_the_formula_by_hand(unmasked):
    opinionated(unmasked)
    loss = unmasked.prepare(DrAC(), Invert())
    images = unmasked.images(5)
    batch = unmasked.batch(images)
    assert batch.log_probs.argmax(1).tolist() == [1] * 5
    other = unmasked.batch(255 - images)
    expected = (-other.log_probs[:, 1] + 0.5 * (batch.values - other.values) ** 2).mean().item()
    assert loss(batch, unmasked.encoder)["drac"].item() == pytest.approx(expected, rel=1e-5)
    assert loss.weights == {"drac": 0.1}


def test_actions_are_drawn_from_the_policy(unmasked):
    loss = unmasked.prepare(DrAC())
    with torch.no_grad():
        unmasked.policy.action_net.weight.zero_()
        unmasked.policy.action_net.bias.copy_(torch.tensor([0.7, 0.2, 0.1]).log())
    value = loss(unmasked.batch(unmasked.images(4000)), unmasked.encoder)["drac"].item()
    # With nothing changed the expected surprise is the entropy of the policy.
    assert value == pytest.approx(-sum(p * math.log(p) for p in (0.7, 0.2, 0.1)), abs=0.03)


def test_mirrored_samples_expect_the_mirrored_action(unmasked):
    opinionated(unmasked)
    loss = DrAC()
    mirror = torch.tensor([0, 2, 1])
    space, actions = unmasked.space, unmasked.actions
    augmentation = Invert(mirrored=True)
    loss.setup(
        Context(unmasked.encoder, unmasked.policy, space, actions, augmentation, mirror=mirror)
    )
    images = unmasked.images(4)
    batch, other = unmasked.batch(images), unmasked.batch(255 - images)
    wanted = torch.tensor([2, 1, 2, 1])
    surprise = -other.log_probs[torch.arange(4), wanted]
    expected = (surprise + 0.5 * (batch.values - other.values) ** 2).mean().item()
    assert loss(batch, unmasked.encoder)["drac"].item() == pytest.approx(expected, rel=1e-5)


def test_a_mirror_without_left_and_right_is_refused(unmasked):
    loss = unmasked.prepare(DrAC(), Invert(mirrored=True))
    with refuses("LEFT", "RIGHT"):
        loss(unmasked.batch(unmasked.images(2)), unmasked.encoder)


def test_gradient_comes_through_the_augmented_side_only(masked):
    loss = masked.prepare(DrAC(), Invert())
    batch = masked.batch(masked.images(6))
    everything = {f"encoder.{name}" for name, _ in masked.encoder.named_parameters()}
    heads = {f"{head}.{part}" for head in ("actor", "critic") for part in ("weight", "bias")}
    assert masked.reached(loss, batch) == everything | heads
    for clean in (batch.output.features, batch.log_probs, batch.values):
        clean.retain_grad()
    loss(batch, masked.encoder)["drac"].backward()
    assert batch.output.features.grad is None
    assert batch.log_probs.grad is None
    assert batch.values.grad is None


def test_training_makes_policy_and_value_agree_and_a_detached_encoder_does_not(unmasked):
    with torch.no_grad():
        unmasked.policy.action_net.weight.mul_(100.0)
        unmasked.policy.value_net.weight.mul_(3.0)
    images = unmasked.images(16)
    targets = unmasked.batch(images)
    log_probs, values = targets.log_probs.detach(), targets.values.detach()
    start = {name: tensor.clone() for name, tensor in unmasked.policy.state_dict().items()}

    def gap(detach: bool) -> float:
        unmasked.policy.load_state_dict(start)
        loss = unmasked.prepare(DrAC(), Invert())
        before = unmasked.encoder.encode
        if detach:
            unmasked.encoder.encode = lambda images: replace(
                before(images), features=before(images).features.detach()
            )
        optimizer = torch.optim.Adam(unmasked.encoder.parameters(), lr=1e-2)
        for _ in range(60):
            batch = unmasked.batch(images)
            batch.log_probs, batch.values = log_probs, values
            optimizer.zero_grad()
            loss(batch, unmasked.encoder)["drac"].backward()
            optimizer.step()
        unmasked.encoder.encode = before
        other = unmasked.batch(255 - images)
        kl = (log_probs.exp() * (log_probs - other.log_probs)).sum(1).mean().item()
        return kl + 0.5 * (values - other.values).square().mean().item()

    assert gap(detach=False) < 0.2 * gap(detach=True)
