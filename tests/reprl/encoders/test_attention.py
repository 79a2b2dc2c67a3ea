"""Masks on any trunk: ranges, gradients, what they cover, and what they cost."""

import copy
import sys
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from reprl.components import names, resolve
from reprl.encoders import Impala, Nature, NaturePadded
from reprl.encoders.masks import Mask
from tests.helpers import refuses, space

MASKS = [name for name in names("attention") if name != "none"]


def masked(kind, encoder=Nature, **changes):
    torch.manual_seed(0)
    return encoder(space(), attention={**resolve("attention", kind), **changes})


class Painted(Mask):
    """A mask that always shows the picture it was given."""

    def __init__(self, *, channels, size, picture):
        super().__init__()
        self.picture = torch.as_tensor(picture, dtype=torch.float32)

    def forward(self, features):
        return self.picture.expand(len(features), 1, *self.picture.shape)


def painted(picture, encoder=Nature, **placement):
    spec = {"_target_": "painted_masks.Painted", "picture": picture, **placement}
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "painted_masks", SimpleNamespace(Painted=Painted))
        return encoder(space(), attention=spec)


@pytest.mark.parametrize("encoder", [Nature, NaturePadded, Impala])
@pytest.mark.parametrize("kind", MASKS)
def test_range_and_gradients_on_every_trunk(kind, encoder):
    model = masked(kind, encoder)
    output = model.encode(torch.rand(2, 4, 84, 84))
    attention = output.attention
    assert attention.shape == (
        2,
        4 if kind in ("per_frame", "madi") else 1,
        *model.attention.grid.shape,
    )
    assert attention.min() >= 0
    assert attention.max() <= 1
    output.features.square().sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().sum() > 0, name


@pytest.mark.parametrize("kind", MASKS)
def test_attention_alone_is_that_of_the_whole_encoding(kind):
    model, images = masked(kind), torch.rand(3, 4, 84, 84)
    torch.testing.assert_close(model.attend(images), model.encode(images).attention, rtol=0, atol=0)
    assert Nature(space()).attend(images) is None


def test_a_side_branch_attends_without_the_trunk():
    model = masked("image")
    model.cnn = nn.Identity()
    assert model.attend(torch.rand(2, 4, 84, 84)).shape == (2, 1, 21, 21)


@pytest.mark.parametrize("where", ["features", "image"])
@pytest.mark.parametrize("resolution", ["native", 21, 42])
def test_every_place_and_resolution(where, resolution):
    model = masked("conv", where=where, resolution=resolution)
    output = model.encode(torch.rand(2, 4, 84, 84))
    side = 7 if resolution == "native" else resolution
    assert output.attention.shape == (2, 1, side, side)
    assert output.feature_map.shape == (2, 64, 7, 7)


def test_floor_maps_the_mask_to_floor_and_one_on_features():
    picture = torch.zeros(7, 7)
    picture[2, 3] = 1
    model = painted(picture, floor=0.25)
    images = torch.rand(2, 4, 84, 84)
    expected = model.cnn(images) * (0.25 + 0.75 * picture)
    output = model.encode(images)
    assert torch.allclose(output.feature_map, expected)
    assert torch.equal(output.attention[0, 0], picture)  # before the floor


def test_default_floor_leaves_a_fifth_of_a_black_mask():
    images = torch.rand(1, 4, 84, 84)
    model = painted(torch.zeros(7, 7))
    assert torch.allclose(model.encode(images).feature_map, 0.2 * model.cnn(images))


def test_image_mask_hides_the_pixels_of_its_dark_cells():
    picture = torch.zeros(21, 21)
    picture[:, :10] = 1
    model = painted(picture, where="image", resolution=21, floor=0.0)
    images = torch.rand(1, 4, 84, 84)
    hidden = images.clone()
    hidden[..., 42:] = torch.rand_like(hidden[..., 42:])  # cell 10 is centred at 41.5
    seen = images.clone()
    seen[..., 30] = 0
    assert torch.equal(model(images), model(hidden))
    assert not torch.equal(model(images), model(seen))


def test_per_frame_masks_share_weights_and_see_one_frame_each():
    model = masked("per_frame")
    images = torch.rand(1, 4, 84, 84)
    images[:, 3] = images[:, 0]
    attention = model.encode(images).attention
    assert torch.equal(attention[:, 0], attention[:, 3])
    assert not torch.allclose(attention[:, 0], attention[:, 1])
    images[:, 1] = 0
    changed = model.encode(images).attention
    assert torch.equal(attention[:, [0, 2, 3]], changed[:, [0, 2, 3]])


def test_softplus_is_unbounded_but_reported_with_a_maximum_of_one():
    model = masked("softplus")
    nn.init.constant_(model.attention.mask.net[-1].bias, 3.0)
    images = torch.rand(2, 4, 84, 84)
    gate, attention = model.attention(images, model.cnn(images))
    assert gate.min() > 1
    assert torch.allclose(attention.amax(dim=(2, 3)), torch.ones(2, 1))
    assert torch.allclose(attention, gate / gate.amax(dim=(2, 3), keepdim=True))
    assert torch.allclose(model.encode(images).feature_map, model.cnn(images) * gate)


def test_hand_computed_conv_mask():
    model = masked("conv")
    layer = model.attention.mask.net[0]
    nn.init.zeros_(layer.weight)
    layer.weight.data[0, 5] = 2.0
    layer.bias.data[:] = -1.0
    images = torch.rand(2, 4, 84, 84)
    expected = 1 / (1 + torch.exp(-(2 * model.cnn(images)[:, 5] - 1)))
    assert torch.allclose(model.encode(images).attention[:, 0], expected)


def test_self_attention_lets_far_cells_change_a_cell_and_conv_does_not():
    features = torch.rand(1, 64, 7, 7)
    elsewhere = features.clone()
    elsewhere[..., 6, 6] += 5
    for kind, global_view in [("conv", False), ("mlp", True), ("self_attention", True)]:
        mask = masked(kind).attention.mask
        same = torch.equal(mask(features)[..., 0, 0], mask(elsewhere)[..., 0, 0])
        assert same is not global_view, kind


def multiplications(module, images):
    count = [0]

    def add(layer, _, output):
        per_output = layer.weight[0].numel()
        count[0] += output.numel() * per_output

    hooks = [
        layer.register_forward_hook(add)
        for layer in module.modules()
        if isinstance(layer, (nn.Conv2d, nn.Linear))
    ]
    module(images)
    for hook in hooks:
        hook.remove()
    return count[0]


@pytest.mark.parametrize(("kind", "share"), [("conv_21", 0.2), ("image", 0.2), ("per_frame", 0.4)])
def test_the_fine_branch_is_light(kind, share):
    images = torch.rand(1, 4, 84, 84)
    plain = multiplications(Nature(space()), images)
    assert multiplications(masked(kind), images) < (1 + share) * plain


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({"resolution": 20}, ["attention.resolution=20", "21"]),
        ({"per_frame": True}, ["attention.per_frame", "resolution"]),
        ({"flor": 0.1}, ["flor"]),
        ({"_target_": "reprl.encoders.masks.Conv"}, ["reprl.encoders.masks.Conv"]),
    ],
)
def test_wrong_options_are_refused_by_name(changes, names):
    with refuses(*names):
        masked("conv", **changes)


def test_a_mask_by_name_and_a_spec_without_a_target():
    assert Nature(space(), attention="mlp").attention is not None
    assert Nature(space(), attention="none").attention is None
    assert Nature(space(), attention={"_target_": None, "floor": 0.1}).attention is None
    with refuses("'conv'"):
        Nature(space(), attention="cnov")
    with refuses("_target_"):
        Nature(space(), attention={"where": "image"})  # would silently train without a mask


def test_a_floor_under_an_unbounded_mask_is_refused():
    with refuses("floor"):
        masked("softplus", floor=0.2)


@pytest.mark.parametrize("kind", MASKS)
def test_copies_and_channels_last_see_the_same(kind):
    model = masked(kind).eval()  # in training a gumbel mask draws anew
    images = torch.rand(3, 4, 84, 84)
    whole = model(images)
    assert torch.equal(copy.deepcopy(model)(images), whole)  # what momentum encoders do
    model.to(memory_format=torch.channels_last)
    assert torch.allclose(model(images.to(memory_format=torch.channels_last)), whole, atol=1e-5)


def test_visibility_is_the_mask_between_its_cells_centres():
    model = masked("image")
    attention = torch.zeros(1, 1, 21, 21)
    attention[..., 5, :] = 1  # rows centred at 1.5 + 4 * 5 = 21.5
    seen = model.visibility(attention)[0, 0]
    assert seen.shape == (84, 84)
    assert torch.allclose(seen[18:26, 40], torch.tensor([1, 3, 5, 7, 7, 5, 3, 1]) / 8)
    assert seen[:18].sum() == 0 == seen[26:].sum()
    assert torch.allclose(model.visibility(torch.ones(1, 1, 21, 21)), torch.ones(1, 1, 84, 84))
