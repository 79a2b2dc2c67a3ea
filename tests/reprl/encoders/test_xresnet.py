"""xresnet: shapes, cells, each of its pieces by hand, and first weights that SB3 leaves alone."""

from typing import Any

import pytest
import torch

from reprl.encoders import XResNet
from reprl.encoders.xresnet import (
    PlaceAttention,
    Squeeze,
    XResBlock,
    convolution,
    normalisation,
)
from tests.helpers import refuses, space
from tests.reprl.encoders.test_trunks import policy


@pytest.mark.parametrize("keys", [{}, {"separable": True, "self_attention": True, "blocks": 2}])
def test_shapes_and_cells(keys: dict[str, Any]) -> None:
    model = XResNet(space(), **keys)
    output = model.encode(torch.rand(2, 4, 84, 84))
    assert output.features.shape == (2, 256)
    assert output.feature_map.shape == (2, 32, 11, 11)
    assert model.grid.rows.centres().tolist() == [8.0 * cell for cell in range(11)]
    assert XResNet(space(36), attention="conv", **keys).dry_output().attention is not None


def test_a_block_begins_as_the_identity_under_sb3s_initialisation() -> None:
    extractor = policy(XResNet).features_extractor
    blocks = [m for m in extractor.modules() if isinstance(m, XResBlock)]
    assert len(blocks) == 3
    x = torch.randn(2, 16, 5, 5)
    torch.testing.assert_close(blocks[0](x), torch.nn.functional.silu(x))
    with torch.no_grad():
        blocks[0].net[4].weight.fill_(1.0)
    assert not torch.allclose(blocks[0](x), torch.nn.functional.silu(x))


def test_squeezing_weighs_channels_by_hand() -> None:
    squeeze = Squeeze(2, reduction=2)
    first, _, last, _ = squeeze.net
    with torch.no_grad():
        first.weight.copy_(torch.tensor([[1.0, 0.0]]))
        last.weight.copy_(torch.tensor([[1.0], [-1.0]]))
        first.bias.zero_()
        last.bias.zero_()
    x = torch.stack([torch.tensor([[1.0, 3.0]]), torch.tensor([[4.0, 4.0]])])[None]  # mean 2 and 4
    weights = torch.sigmoid(torch.tensor([2.0, -2.0]))
    torch.testing.assert_close(squeeze(x), x * weights[:, None, None])


def test_places_attend_to_each_other_by_hand() -> None:
    look = PlaceAttention(1)
    with torch.no_grad():
        for layer in (look.ask, look.answer, look.say):
            layer.weight.fill_(1.0)
    x = torch.tensor([[[[1.0, 2.0]]]])
    assert torch.equal(look(x), x)  # the scale is 0
    with torch.no_grad():
        look.scale.fill_(1.0)
    # place p attends to places 1 and 2 with softmax(p * 1, p * 2)
    shares = [torch.softmax(torch.tensor([p * 1.0, p * 2.0]), 0) for p in (1.0, 2.0)]
    wanted = [
        p + (s * torch.tensor([1.0, 2.0])).sum() for p, s in zip((1.0, 2.0), shares, strict=True)
    ]
    torch.testing.assert_close(look(x).flatten(), torch.stack(wanted))


def test_a_separable_convolution_is_its_two_halves() -> None:
    separable, whole = (convolution(8, 16, separable=s) for s in (True, False))
    count = [sum(p.numel() for p in module.parameters()) for module in (separable, whole)]
    assert count == [8 * 9 + 8 * 16, 8 * 16 * 9]
    depth, point = separable  # type: ignore[misc]
    kernel = torch.einsum("oi,ihw->oihw", point.weight[:, :, 0, 0], depth.weight[:, 0])
    x = torch.randn(1, 8, 6, 6)
    expected = torch.nn.functional.conv2d(x, kernel, padding=1)
    torch.testing.assert_close(separable(x), expected, rtol=1e-4, atol=1e-5)


def test_wrong_keys_are_refused() -> None:
    with refuses("stages"):
        XResNet(space(), stages=[0])
    with refuses("squeeze=2", "true or false"):
        XResNet(space(), squeeze=2)  # type: ignore[arg-type]


def test_every_key_adds_its_piece_and_no_other() -> None:
    def count(kind: type, **keys: Any) -> int:
        model = XResNet(space(36), **keys)
        return sum(isinstance(m, kind) for m in model.modules())

    assert count(Squeeze) == 3
    assert count(Squeeze, squeeze=False) == 0
    assert count(Squeeze, blocks=2) == 6
    assert [count(PlaceAttention, self_attention=s) for s in (False, True)] == [0, 1]
    # of 3 stems all but the first, and two in each of 3 blocks, are in two halves
    assert [count(torch.nn.Conv2d, separable=s) for s in (False, True)] == [9, 17]
    assert count(torch.nn.GroupNorm) == 9
    assert count(torch.nn.SiLU) == 9
    assert count(torch.nn.BatchNorm2d) == 0


def test_channels_are_normalised_in_groups_of_one_picture() -> None:
    assert [normalisation(c).num_groups for c in (16, 12, 7)] == [8, 4, 1]
    x = torch.randn(3, 16, 5, 5)
    whole = normalisation(16)(x)
    torch.testing.assert_close(whole[1:2], normalisation(16)(x[1:2]))  # whatever else is in a batch
    pair = whole[0, :2].detach()
    assert abs(float(pair.mean())) < 1e-5
    assert float(pair.var(unbiased=False)) == pytest.approx(1.0, rel=1e-3)
