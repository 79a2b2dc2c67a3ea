"""Reconstruction, value and reward prediction, regularization: numbers, gradients, learning."""

import math

import pytest
import torch
from torch import nn

from reprl.auxiliary import Reconstruction, Regularization, RewardPrediction, ValuePrediction
from reprl.auxiliary.modules import PixelHead
from tests.helpers import refuses

PREDICTIONS = [Reconstruction, ValuePrediction, RewardPrediction]


def silence(module: nn.Module) -> None:
    for parameter in module.parameters():
        nn.init.zeros_(parameter)


def test_reconstruction_by_hand(unmasked):
    loss = unmasked.prepare(Reconstruction(shrink=2))
    silence(loss.head)
    nn.init.constant_(loss.head.paint.bias, 0.5)  # paints gray
    images = torch.zeros(1, 2, 8, 8, dtype=torch.uint8)
    images[0, 0, 0, 0] = 255  # one lit pixel: its 2x2 cell has mean 1/4
    value = loss(unmasked.batch(images), unmasked.encoder)["reconstruction"].item()
    assert value == pytest.approx((31 * 0.25 + 0.0625) / 32, rel=1e-6)


@pytest.mark.parametrize(
    ("size", "shrink"), [((8, 8), 1), ((84, 84), 2), ((37, 50), 2), ((5, 9), 3)]
)
def test_the_painted_picture_has_the_targets_size(size, shrink):
    head = PixelHead(6, (4, *size), shrink=shrink)
    assert head(torch.zeros(2, 6)).shape == (2, 4, size[0] // shrink, size[1] // shrink)
    head.error(torch.zeros(2, 6), torch.zeros(2, 4, *size))  # the target fits


def test_a_picture_shrunk_to_nothing_is_refused(unmasked):
    unmasked.prepare(Reconstruction(shrink=8))
    with refuses("shrink=9", "8x8"):
        unmasked.prepare(Reconstruction(shrink=9))


def test_value_prediction_by_hand(unmasked):
    loss = unmasked.prepare(ValuePrediction())
    silence(loss.head)
    nn.init.constant_(loss.head[-1].bias, 1.0)
    batch = unmasked.batch(unmasked.images(2), returns=torch.tensor([3.0, 0.0]))
    value = loss(batch, unmasked.encoder)["value_prediction"].item()
    assert value == pytest.approx((4 + 1) / 2, rel=1e-6)


def test_reward_prediction_by_hand_with_balanced_classes(unmasked):
    loss = unmasked.prepare(RewardPrediction())
    silence(loss.head)
    with torch.no_grad():
        loss.head[-1].bias.copy_(torch.tensor([0.0, 0.0, math.log(2)]))  # p = 1/4, 1/4, 1/2
    rewards = torch.tensor([0.0, 0.0, 0.0, 7.0])
    batch = unmasked.batch(unmasked.images(4), rewards=rewards)
    value = loss(batch, unmasked.encoder)["reward_prediction"].item()
    # two classes present, each with half the weight, however rare
    assert value == pytest.approx((math.log(4) + math.log(2)) / 2, rel=1e-6)


def test_reward_prediction_reads_the_action(unmasked):
    loss = unmasked.prepare(RewardPrediction())
    images = unmasked.images(1).expand(60, 2, 8, 8)
    actions = torch.arange(60) % 3
    batch = unmasked.batch(images, actions=actions, rewards=actions.float() - 1)
    values = unmasked.train(
        loss, lambda: unmasked.batch(images, actions=actions, rewards=batch.rewards), 60
    )
    assert values[0] > 0.9
    assert values[-1] < 0.1


def test_regularization_by_hand(unmasked):
    loss = unmasked.prepare(Regularization())
    batch = unmasked.batch(unmasked.images(2))
    batch.output.feature_map = torch.stack([torch.full((3, 4, 4), 2.0), torch.zeros(3, 4, 4)])
    value = loss(batch, unmasked.encoder)["regularization"].item()
    assert value == pytest.approx((48 * 4 + 0) / 2)


def test_regularization_reaches_the_map_and_shrinks_it(masked):
    loss = masked.prepare(Regularization())
    images = masked.images(8)
    reached = masked.reached(loss, masked.batch(images))
    assert reached == {
        "encoder.trunk.weight",
        "encoder.trunk.bias",
        "encoder.mask.weight",
        "encoder.mask.bias",
    }
    values = masked.train(loss, lambda: masked.batch(images), 60, rate=0.03)
    assert values[-1] < 0.2 * values[0]


@pytest.mark.parametrize("kind", PREDICTIONS)
def test_gradient_reaches_encoder_and_own_head_only(masked, kind):
    loss = masked.prepare(kind())
    batch = masked.batch(
        masked.images(6), returns=torch.randn(6), rewards=torch.tensor([0.0, 1, 0, 0, -1, 1])
    )
    reached = masked.reached(loss, batch)
    assert {f"encoder.{name}" for name, _ in masked.encoder.named_parameters()} <= reached
    assert all(name.startswith(("encoder.", "loss.head.")) for name in reached)
    batch.output.features = batch.output.features.detach()  # the detached encoder
    assert not any(name.startswith("encoder.") for name in masked.reached(loss, batch))


@pytest.mark.parametrize("kind", PREDICTIONS)
def test_it_does_its_job_and_shuffled_targets_spoil_it(unmasked, kind):
    images = unmasked.images(24)
    if kind is Reconstruction:  # pictures with two states, as features can hold
        images = (images[:, :, :1, :1] > 127).to(torch.uint8).expand(24, 2, 8, 8) * 255
    level = images[:, 0, 3, 3].float() / 255
    signs = torch.where(level > 2 / 3, 1.0, torch.where(level < 1 / 3, -1.0, 0.0))

    def final(shuffle: bool) -> float:
        loss = unmasked.prepare(kind())

        def batches():
            order = torch.randperm(24) if shuffle else torch.arange(24)
            batch = unmasked.batch(images, returns=4 * level[order], rewards=signs[order])
            batch.observations = images[order]
            return batch

        values = unmasked.train(loss, batches, 120, rate=3e-3)
        return sum(values[-5:]) / 5 / values[0]

    assert final(shuffle=False) < 0.2
    assert final(shuffle=True) > 0.25
