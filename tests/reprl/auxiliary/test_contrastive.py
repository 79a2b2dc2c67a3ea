"""The two-view contrastive loss against hand-made numbers, and whether it does its job."""

import math

import pytest
import torch
from torch import nn

from reprl.augmentation import Cutout, Shift
from reprl.auxiliary import Contrastive
from reprl.auxiliary.contrastive import info_nce
from reprl.auxiliary.modules import Momentum
from tests.helpers import refuses


def test_info_nce_is_the_cross_entropy_on_the_diagonal():
    queries = torch.tensor([[2.0, 0.0], [0.0, 1.0]])
    keys = torch.eye(2)
    expected = (math.log(1 + math.exp(-2)) + math.log(1 + math.exp(-1))) / 2
    assert info_nce(queries, keys).item() == pytest.approx(expected, abs=1e-6)
    assert math.isfinite(info_nce(1e4 * queries, 1e4 * keys).item())


def test_info_nce_takes_the_mean_over_places():
    queries = torch.tensor([[[2.0, 0.0], [0.0, 1.0]], [[0.0, 0.0], [0.0, 0.0]]])
    first = (math.log(1 + math.exp(-2)) + math.log(1 + math.exp(-1))) / 2
    keys = torch.eye(2).expand(2, 2, 2)
    assert info_nce(queries, keys).item() == pytest.approx((first + math.log(2)) / 2, abs=1e-6)


@pytest.mark.parametrize("anchor", ["view", "batch"])
def test_the_value_is_q_w_k(unmasked, anchor):
    loss = unmasked.prepare(Contrastive(feature=12, anchor=anchor))
    loss.projection = nn.Identity()
    loss.key_projection = Momentum(nn.Identity(), tau=0.05)
    batch = unmasked.batch(unmasked.images(3))
    q = k = batch.output.features.detach()
    logits = q @ loss.bilinear.weight.detach().T @ k.T
    expected = -sum(logits[i].log_softmax(0)[i] for i in range(3)) / 3
    assert loss(batch, unmasked.encoder)["contrastive"].item() == pytest.approx(
        expected.item(), rel=1e-5
    )


@pytest.mark.parametrize("anchor", ["view", "batch"])
def test_gradient_reaches_the_encoder_and_the_query_side_only(masked, anchor):
    loss = masked.prepare(Contrastive(anchor=anchor))
    reached = masked.reached(loss, masked.batch(masked.images(6)))
    encoder = {f"encoder.{name}" for name, _ in masked.encoder.named_parameters()}
    query = {"loss.projection.0.weight", "loss.projection.1.weight", "loss.bilinear.weight"}
    assert encoder | query <= reached
    assert all(
        name.startswith(("encoder.", "loss.projection.", "loss.bilinear")) for name in reached
    )
    assert {id(p) for p in loss.momentum_parameters()} == {
        id(p) for module in (loss.key_encoder, loss.key_projection) for p in module.parameters()
    }


def test_it_learns_to_find_the_partner_and_shuffled_positives_do_not(unmasked, noise):
    images = unmasked.images(32)

    def final(shuffled: bool) -> float:
        loss = unmasked.prepare(Contrastive(feature=16), noise)
        if shuffled:
            follow = loss.key_encoder.forward
            loss.key_encoder.forward = lambda x: follow(x)[torch.randperm(len(x))]
        values = unmasked.train(loss, lambda: unmasked.batch(images), 60)
        return sum(values[-5:]) / 5

    assert final(shuffled=False) < 0.5
    assert final(shuffled=True) > 0.9 * math.log(32)


@pytest.mark.parametrize("anchor", ["view", "batch"])
def test_what_rad_draws_on_a_picture_does_not_give_it_away(unmasked, anchor):
    """All pictures are the same, so there is nothing to find but the training batch's boxes."""
    boxes = Cutout(boxes=[1, 3], sides=[1, 4], fill="gray")
    loss = unmasked.prepare(Contrastive(feature=16, anchor=anchor), boxes)
    originals = torch.zeros(64, 2, 8, 8, dtype=torch.uint8)

    def under_rad():
        batch = unmasked.batch(boxes(originals, unmasked.generator).observations)
        batch.augmented_from = originals
        return batch

    values = unmasked.train(loss, under_rad, 80)
    assert sum(values[-10:]) / 10 > 0.97 * math.log(64)


@pytest.mark.parametrize("anchor", ["view", "batch"])
def test_under_rad_the_query_is_a_view_of_the_original(unmasked, anchor):
    loss = unmasked.prepare(Contrastive(anchor=anchor))
    images = unmasked.images(5)
    plain, rad = unmasked.batch(images), unmasked.batch(images.flip(-1))
    rad.augmented_from = images
    values = [loss(batch, unmasked.encoder)["contrastive"].item() for batch in (plain, rad)]
    assert values[0] == values[1]


def test_none_leaves_the_views_as_they_are_and_null_does_not(unmasked):
    images = unmasked.images(4)
    nothing = {"_target_": None, "pixels": 4}
    for spec in ("none", nothing):
        loss = Contrastive(augmentation=spec)
        for augmentation in (None, Shift(pixels=2)):
            loss.setup(unmasked.context(augmentation))
            view = loss.views(images, unmasked.generator)
            assert view.observations is images
    loss = Contrastive(augmentation=None)
    loss.setup(unmasked.context(None))
    assert loss.views.augmentation.pixels == 4
    loss.setup(unmasked.context(Shift(pixels=2)))
    assert loss.views.augmentation.pixels == 2


def test_whole_numbers_may_be_written_as_floats():
    loss = Contrastive(begin=1e5, feature=50.0)
    assert (loss.begin, loss.feature) == ({"contrastive": 100_000}, 50)
    assert isinstance(loss.feature, int)


def test_a_detached_encoder_is_noticed(unmasked):
    loss = unmasked.prepare(Contrastive(anchor="batch"))
    batch = unmasked.batch(unmasked.images(6))
    batch.output.features = batch.output.features.detach()
    assert not any(name.startswith("encoder") for name in unmasked.reached(loss, batch))


def test_momentum_moves_by_tau_and_only_in_after_step(unmasked):
    loss = unmasked.prepare(Contrastive(tau=0.25))
    before = loss.key_encoder.copy.linear.weight.clone()
    with torch.no_grad():
        unmasked.encoder.linear.weight.add_(1.0)
    loss(unmasked.batch(unmasked.images(4)), unmasked.encoder)
    assert torch.equal(loss.key_encoder.copy.linear.weight, before)
    loss.after_step()
    torch.testing.assert_close(loss.key_encoder.copy.linear.weight, before + 0.25)


def test_the_momentum_side_ignores_dropout():
    online = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5))
    follower = Momentum(online, tau=0.1).train()
    x = torch.ones(2, 4)
    assert torch.equal(follower(x), follower(x))
    assert online.training


def test_the_same_generator_gives_the_same_value(unmasked, noise):
    loss = unmasked.prepare(Contrastive(), noise)
    batch = unmasked.batch(unmasked.images(4))
    values = []
    for seed in (3, 3, 4):
        batch.generator = torch.Generator().manual_seed(seed)
        values.append(loss(batch, unmasked.encoder)["contrastive"].item())
    assert values[0] == values[1] != values[2]


def test_an_unknown_augmentation_is_refused():
    with refuses("'no_such'", "shift"):
        Contrastive(augmentation="no_such")
