"""What a trunk is fed: differences by hand, drawings that stand still, the channels of a trunk."""

import pytest
import torch
from torch import nn

from reprl.components import names, resolve
from reprl.encoders import ConvEncoder, Impala, Nature, NaturePadded, XResNet
from reprl.encoders.inputs import FAINTEST, Input, change, differences
from tests.helpers import refuses, space

TRUNKS = [Nature, NaturePadded, Impala, XResNet]
CHANNELS = {"frames": 4, "differences": 3, "both": 7}


def drawn_over(images):
    """The same pictures with a line and a box that stand still."""
    changed = images.clone()
    changed[:, :, 50, 5:80] = 0.6
    changed[:, :, 10:20, 10:20] = 0.3
    return changed


def game(batch=3):
    """A background that never changes, and a ball that moves right and down."""
    images = torch.zeros(batch, 4, 84, 84)
    images[:, :, 60:70] = 0.5
    for t in range(4):
        images[:, t, 30 + 3 * t : 32 + 3 * t, 50 + 4 * t : 52 + 4 * t] = 0.43
    return images


def test_differences_are_newer_minus_older_and_keep_their_sign():
    stack = torch.tensor([0.1, 0.4, 0.4, 0.0]).view(1, 4, 1, 1).expand(2, 4, 5, 5)
    expected = torch.tensor([0.3, 0.0, -0.4]).view(1, 3, 1, 1).expand(2, 3, 5, 5)
    assert torch.allclose(differences(stack), expected)
    assert torch.allclose(Input(frames=4, kind="differences")(stack), expected)
    both = Input(frames=4, kind="both")(stack)
    assert torch.equal(both[:, :4], stack)
    assert torch.allclose(both[:, 4:], expected)
    assert torch.allclose(change(stack), torch.tensor(0.4))
    assert torch.allclose(change(stack, decay=0.5), torch.tensor(0.4))  # the newest counts whole
    older = torch.tensor([0.0, 0.4, 0.4, 0.4]).view(1, 4, 1, 1).expand(2, 4, 5, 5)
    assert torch.allclose(change(older, decay=0.5), torch.tensor(0.4 * 0.25))  # two steps ago


def test_the_dead_zone_drops_small_differences_and_keeps_large_ones_whole():
    stack = torch.zeros(1, 2, 1, 3)
    stack[0, 1, 0] = torch.tensor([8.0, 8.5, 100.0]) / 255
    found = Input(frames=2, kind="differences", threshold=8)(stack)[0, 0, 0] * 255
    assert found.tolist() == pytest.approx([0, 8.5, 100])
    backwards = Input(frames=2, kind="differences", threshold=8)(stack.flip(1))[0, 0, 0] * 255
    assert backwards.tolist() == pytest.approx([0, -8.5, -100])


@pytest.mark.parametrize("level", [0.2, 0.43, 1.0])
def test_contrast_makes_a_lone_change_one_whatever_its_level(level):
    stack = torch.zeros(1, 2, 30, 30)
    stack[0, 1, 15, 15] = level
    found = Input(frames=2, kind="differences", contrast=9)(stack)
    assert found[0, 0, 15, 15].item() == pytest.approx(1.0)
    assert found.count_nonzero() == 1  # nothing around it appears
    corner = torch.zeros(1, 2, 30, 30)
    corner[0, 0, 0, 0] = level
    found = Input(frames=2, kind="differences", contrast=9)(corner)
    assert found[0, 0, 0, 0].item() == pytest.approx(-1.0)


def test_contrast_by_hand_and_its_floor():
    stack = torch.zeros(1, 2, 30, 30)
    stack[0, 1, 15, 15], stack[0, 1, 15, 18] = 0.3, 0.4  # 3-4-5, within one window of 9
    found = Input(frames=2, kind="differences", contrast=9)(stack)[0, 0, 15]
    assert found[[15, 18]].tolist() == pytest.approx([0.6, 0.8])
    faint = torch.zeros(1, 2, 30, 30)
    faint[0, 1, 15, 15] = FAINTEST / 4
    found = Input(frames=2, kind="differences", contrast=9)(faint)
    assert found.max().item() == pytest.approx(0.25)


def test_contrast_of_frames_does_not_see_brightness():
    images = torch.rand(2, 4, 40, 40) * 0.5
    normalised = Input(frames=4, contrast=9)
    assert torch.allclose(normalised(images), normalised(images + 0.3), atol=1e-5)
    flat = torch.full((1, 4, 40, 40), 0.7)
    assert normalised(flat).abs().max() < 1e-4
    assert normalised(images).abs().max() <= 1


def test_contrast_has_a_finite_slope_where_nothing_is():
    images = torch.zeros(1, 4, 20, 20, requires_grad=True)
    Input(frames=4, kind="both", contrast=9)(images).sum().backward()
    assert images.grad.isfinite().all()


@pytest.mark.parametrize("encoder", TRUNKS)
@pytest.mark.parametrize("kind", CHANNELS)
def test_every_trunk_takes_every_input(encoder, kind):
    model = encoder(space(), input=kind)
    first = next(layer for layer in model.cnn.modules() if isinstance(layer, nn.Conv2d))
    assert first.in_channels == CHANNELS[kind]
    plain = encoder(space())
    assert list(model.state_dict()) == list(plain.state_dict())
    assert model.grid == plain.grid
    output = model.encode(torch.rand(2, 4, 84, 84))
    assert output.features.shape == (2, model.features_dim)
    assert output.feature_map.shape == plain.encode(torch.rand(2, 4, 84, 84)).feature_map.shape


def test_frames_are_passed_through_untouched():
    images = torch.rand(2, 4, 84, 84)
    assert Input(frames=4)(images) is images


@pytest.mark.parametrize("encoder", TRUNKS)
@pytest.mark.parametrize("options", [{}, {"contrast": 9}, {"threshold": 8}])
def test_what_stands_still_is_not_there(encoder, options):
    torch.manual_seed(0)
    model, images = encoder(space(), input="differences", **options).eval(), game()
    assert torch.equal(model(images), model(drawn_over(images)))
    moved = images.clone()
    moved[:, 3] = moved[:, 3].roll(5, dims=-1)
    assert not torch.equal(model(images), model(moved))
    torch.manual_seed(0)
    plain = encoder(space()).eval()
    assert not torch.equal(plain(images), plain(drawn_over(images)))  # frames do see it


@pytest.mark.parametrize("kind", ["differences", "both"])
@pytest.mark.parametrize("mask", [n for n in names("attention") if n != "none"])
def test_every_mask_works_on_every_input(kind, mask):
    model = Nature(space(), input=kind, attention=resolve("attention", mask))
    output = model.encode(torch.rand(2, 4, 84, 84))
    per_frame = mask in ("per_frame", "madi")
    assert output.attention.shape[1] == (CHANNELS[kind] if per_frame else 1)
    assert model.project(output.attention, (210, 160)).shape[2:] == (210, 160)
    output.features.sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name


class OwnTrunk(ConvEncoder):
    """A user's trunk that asks how many channels it is fed."""

    def __init__(self, observation_space, **options):
        super().__init__(observation_space, self.layers, features_dim=16, **options)

    @staticmethod
    def layers(channels):
        return nn.Sequential(nn.Conv2d(channels, 8, 8, stride=4, padding=2), nn.ReLU())


class FixedTrunk(ConvEncoder):
    """A user's trunk made for four frames."""

    def __init__(self, observation_space, **options):
        trunk = nn.Sequential(nn.Conv2d(4, 8, 8, stride=4, padding=2), nn.ReLU())
        super().__init__(observation_space, trunk, features_dim=16, **options)


def test_a_users_trunk_gets_its_channels_or_is_told():
    for kind, channels in CHANNELS.items():
        model = OwnTrunk(space(), input=kind)
        assert model.cnn[0].in_channels == channels
        assert model(torch.rand(2, 4, 84, 84)).shape == (2, 16)
    assert FixedTrunk(space())(torch.rand(2, 4, 84, 84)).shape == (2, 16)
    with refuses("differences", "3", "FixedTrunk", "4"):
        FixedTrunk(space(), input="differences")


@pytest.mark.parametrize(
    ("options", "frames", "names"),
    [
        ({"input": "difference"}, 4, ["'differences'"]),
        ({"input": "differences"}, 1, ["encoder.input=differences", "two frames"]),
        ({"input": "both"}, 1, ["encoder.input=both", "two frames"]),
        *[({"contrast": wrong}, 4, [f"encoder.contrast={wrong}"]) for wrong in (8, 1, 2.5)],
        ({"threshold": -1, "input": "both"}, 4, ["encoder.threshold=-1"]),
        ({"threshold": 255, "input": "both"}, 4, ["encoder.threshold=255"]),
        ({"threshold": 8}, 4, ["encoder.threshold=8", "differences"]),
    ],
)
def test_wrong_inputs_are_refused(options, frames, names):
    with refuses(*names):
        Nature(space(frames=frames), **options)
