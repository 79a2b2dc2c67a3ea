"""Sparsity and decoder: each by hand, and the pair that keeps what matters and drops the rest."""

import pytest
import torch
from torch import nn

from reprl.auxiliary import Decoder, Sparsity
from tests.helpers import refuses


def silence(module: nn.Module) -> None:
    """Make a head answer 0."""
    for parameter in module.parameters():
        nn.init.zeros_(parameter)


def test_sparsity_is_the_sum_over_cells(masked):
    loss = masked.prepare(Sparsity())
    batch = masked.batch(masked.images(2))
    batch.output.attention = torch.stack([torch.full((1, 7, 7), 0.5), torch.full((1, 7, 7), 0.1)])
    expected = (49 * 0.5 + 49 * 0.1) / 2
    assert loss(batch, masked.encoder)["sparsity"].item() == pytest.approx(expected, rel=1e-6)


def test_sparsity_reaches_the_mask_only(masked):
    loss = masked.prepare(Sparsity())
    reached = masked.reached(loss, masked.batch(masked.images(4)))
    assert reached == {"encoder.mask.weight", "encoder.mask.bias"}


def test_a_mean_instead_of_the_sum_is_found(masked):
    """Named mutation: averaged over its cells, a mask twice as fine would weigh the same."""
    loss = masked.prepare(Sparsity())
    batch = masked.batch(masked.images(2))
    found = []
    for side in (7, 14):
        batch.output.attention = torch.full((2, 1, side, side), 0.5)
        found.append(loss(batch, masked.encoder)["sparsity"].item())
    assert found[1] == pytest.approx(4 * found[0])


def test_sparsity_darkens_the_mask(masked):
    loss = masked.prepare(Sparsity())
    images = masked.images(8)
    values = masked.train(loss, lambda: masked.batch(images), 50, rate=0.1)
    assert values[-1] < 0.2 * values[0]


@pytest.mark.parametrize("loss", [Sparsity(), Decoder()])
def test_without_a_mask_they_are_refused_by_name(unmasked, loss):
    with refuses("attention mask", "CellEncoder"):
        unmasked.prepare(loss)


@pytest.mark.parametrize("view", ["map", "image"])
def test_decoder_values_by_hand(masked, view):
    images = masked.images(4)
    with torch.no_grad():
        masked.policy.action_net.weight.mul_(100.0)  # a policy with opinions
    returns = torch.tensor([1.0, -2.0, 0.0, 3.0])
    batch = masked.batch(images, returns=returns)
    pixels = images.float() / 255
    pooled = pixels.unfold(2, 2, 2).unfold(3, 2, 2).mean(dim=(4, 5))
    probabilities = batch.log_probs.detach().exp()
    expected = {
        "value": (1 + 4 + 9) / 4,
        "policy": (probabilities * (probabilities * 3).log()).sum(1).mean().item(),
        "pixels": pooled.square().mean().item(),
        "features": batch.output.features.detach().square().mean().item(),
    }
    for target, value in expected.items():
        if (target, view) == ("features", "map"):
            continue
        loss = masked.prepare(Decoder(target=target, view=view))
        silence(loss.head)  # answers 0, or the uniform policy
        found = loss(batch, masked.encoder)["decoder"].item()
        assert found == pytest.approx(value, rel=1e-5), target


@pytest.mark.parametrize("target", ["value", "policy", "pixels"])
def test_through_the_map_the_gradient_reaches_mask_and_trunk(masked, target):
    loss = masked.prepare(Decoder(target=target, view="map"))
    batch = masked.batch(masked.images(6), returns=torch.randn(6))
    reached = masked.reached(loss, batch)
    # not the linear layer behind the map, and not the policy whose opinion is the target
    mine = {"encoder.mask.weight", "encoder.mask.bias"}
    trunk = {"encoder.trunk.weight", "encoder.trunk.bias"}
    assert {name for name in reached if not name.startswith("loss.")} == mine | trunk
    assert any(name.startswith("loss.head") for name in reached)


@pytest.mark.parametrize("target", ["value", "policy", "pixels", "features"])
def test_through_the_image_the_gradient_reaches_the_mask_only(masked, target):
    loss = masked.prepare(Decoder(target=target, view="image"))
    batch = masked.batch(masked.images(6), returns=torch.randn(6))
    reached = masked.reached(loss, batch)
    assert {name for name in reached if not name.startswith("loss.")} == {
        "encoder.mask.weight",
        "encoder.mask.bias",
    }


def test_the_image_behind_a_black_mask_says_nothing(free_mask):
    loss = free_mask.prepare(Decoder(view="image"))
    with torch.no_grad():
        free_mask.encoder.logits.fill_(-100.0)
    seen: list[torch.Tensor] = []
    loss.trunk.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    loss(free_mask.batch(free_mask.images(3)), free_mask.encoder)
    assert seen[0].abs().max() < 1e-6


@pytest.mark.parametrize("target", ["value", "policy"])
def test_decoder_learns_its_target(masked, target):
    images = masked.images(16)
    returns = images[:, 0, 3, 3].float() / 255
    loss = masked.prepare(Decoder(target=target))
    with torch.no_grad():
        masked.policy.action_net.weight.mul_(100.0)  # a policy with opinions
    batch = masked.batch(images, returns=returns)
    log_probs = batch.log_probs.detach()

    def batches():
        fresh = masked.batch(images, returns=returns)
        fresh.log_probs = log_probs
        return fresh

    values = masked.train(loss, batches, 150, rate=3e-3)
    assert values[-1] < 0.1 * values[0]


@pytest.mark.parametrize("mutation", ["none", "shuffled targets", "detached encoder"])
def test_the_decoders_named_mutations_spoil_it(masked, mutation):
    """Shuffled targets are not learned; behind a detached encoder a shut mask never opens."""
    images = masked.images(16)
    returns = 4 * images[:, 0, 3, 3].float() / 255
    with torch.no_grad():
        masked.encoder.mask.bias.fill_(-3.0)  # nearly shut
    before = masked.encoder.mask.bias.item()
    loss = masked.prepare(Decoder(target="value"))

    def batches():
        order = torch.randperm(16) if mutation == "shuffled targets" else torch.arange(16)
        batch = masked.batch(images, returns=returns[order])
        if mutation == "detached encoder":
            batch.output.feature_map = batch.output.feature_map.detach()
        return batch

    values = masked.train(loss, batches, 150, rate=3e-3)
    assert (sum(values[-5:]) / 5 < 0.1 * values[0]) == (mutation == "none")
    opened = masked.encoder.mask.bias.item() - before
    if mutation == "none":
        assert opened > 0.05
    if mutation == "detached encoder":
        assert opened == 0


SIZE = 8
RELEVANT, DISTRACTOR = (2, 5), (6, 1)


def look(world, *, view: str, decoder: bool, sparsity: bool) -> tuple[float, float]:
    """Train a free mask on images where one pixel is the return and another only flickers."""
    torch.manual_seed(0)
    losses = nn.ModuleList([world.prepare(Decoder(view=view)), world.prepare(Sparsity())])
    mask = world.encoder.logits
    rest = [p for p in [*world.encoder.parameters(), *losses.parameters()] if p is not mask]
    # The mask moves faster than the decoder, which could otherwise undo a dim mask by shouting.
    optimizer = torch.optim.Adam([{"params": [mask], "lr": 0.025}, {"params": rest, "lr": 5e-3}])
    for _ in range(250):
        images = torch.zeros(32, 1, SIZE, SIZE, dtype=torch.uint8)
        for y, x in (RELEVANT, DISTRACTOR):
            images[:, 0, y, x] = torch.randint(0, 256, (32,)).byte()
        returns = images[:, 0, RELEVANT[0], RELEVANT[1]].float() / 255 * 4 - 2
        batch = world.batch(images, returns=returns)
        total = decoder * losses[0](batch, world.encoder)["decoder"]
        total = total + sparsity * 0.01 * losses[1](batch, world.encoder)["sparsity"]
        optimizer.zero_grad()
        total.backward()
        optimizer.step()
    seen = torch.sigmoid(mask[0, 0]).detach()
    return seen[RELEVANT].item(), seen[DISTRACTOR].item()


@pytest.mark.parametrize("view", ["map", "image"])
def test_the_pair_keeps_the_relevant_pixel_and_drops_the_distractor(free_mask, view):
    relevant, distractor = look(free_mask, view=view, decoder=True, sparsity=True)
    assert relevant > 0.4
    assert distractor < 0.2


def test_sparsity_alone_drops_the_relevant_pixel_too(free_mask):
    relevant, distractor = look(free_mask, view="map", decoder=False, sparsity=True)
    assert relevant < 0.2
    assert distractor < 0.2


def test_decoder_alone_keeps_the_distractor(free_mask):
    relevant, distractor = look(free_mask, view="map", decoder=True, sparsity=False)
    assert relevant > 0.4
    assert distractor > 0.4


def test_features_are_predicted_from_the_image_only():
    with refuses("target=features", "view=image"):
        Decoder(target="features", view="map")
