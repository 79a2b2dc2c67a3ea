"""Warps, filters, textures and colour against OpenCV, Pillow, numpy and hand-worked values."""

import colorsys

import cv2
import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance, ImageFilter, ImageOps

from reprl.augmentation import (
    ColorJitter,
    Compose,
    Equalize,
    Perspective,
    RandomConvolution,
    Rotate,
    Sharpness,
    Speckle,
    Texture,
)
from reprl.augmentation.colour import jittered
from reprl.augmentation.convolution import filtered_alike, stretched
from reprl.augmentation.textures import EACH, KINDS, bank
from tests.helpers import refuses


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def random_pictures(batch=8, channels=4, size=20):
    shape = (batch, channels, size, size)
    return torch.randint(0, 256, shape, generator=generator(9), dtype=torch.uint8)


def smooth_pictures(batch=8, size=40):
    """Without fine detail: what two interpolations make of it differs by a level at most."""
    pictures = random_pictures(batch, 1, size).numpy()
    blurred = [cv2.GaussianBlur(p[0], (0, 0), 4) for p in pictures]
    return torch.from_numpy(np.stack(blurred))[:, None].expand(-1, 4, -1, -1).contiguous()


def test_a_rotation_is_opencvs_about_the_middle_of_the_pixels():
    pictures = smooth_pictures()
    turned = Rotate(degrees=30)(pictures, generator()).observations.numpy()
    angles = torch.rand(8, generator=generator()).numpy() * 60 - 30
    for picture, result, angle in zip(pictures.numpy(), turned, angles, strict=True):
        matrix = cv2.getRotationMatrix2D((19.5, 19.5), float(angle), 1.0)
        expected = cv2.warpAffine(picture[0], matrix, (40, 40), borderMode=cv2.BORDER_REPLICATE)
        assert np.abs(expected.astype(int) - result[0]).max() <= 2
    assert np.ptp(angles) > 20


def test_no_rotation_and_no_distortion_are_the_identity():
    pictures = random_pictures()
    assert torch.equal(Rotate(degrees=0)(pictures, generator()).observations, pictures)
    assert torch.equal(Perspective(distortion=0)(pictures, generator()).observations, pictures)


@pytest.mark.parametrize("fill", ["edge", "black"])
def test_a_perspective_is_opencvs_for_the_corners_drawn(fill):
    pictures = smooth_pictures()
    part = Perspective(distortion=0.5, fill=fill)
    tilted = part(pictures, generator()).observations.numpy()
    before, after = part.corners(pictures.shape, generator())
    assert (after[:, 0] >= 0).all()  # the upper left corner moves down and right
    assert (after[:, 2] <= 39).all()
    assert (after - before).abs().max() <= 0.25 * 39 + 1e-4
    border = cv2.BORDER_REPLICATE if fill == "edge" else cv2.BORDER_CONSTANT
    for picture, result, a, b in zip(pictures.numpy(), tilted, before, after, strict=True):
        matrix = cv2.getPerspectiveTransform(a.numpy(), b.numpy())
        expected = cv2.warpPerspective(picture[0], matrix, (40, 40), borderMode=border)
        wrong = np.abs(expected.astype(int) - result[0]) > 3
        assert wrong.mean() < (0.01 if fill == "edge" else 0.06)  # along the black edge


def test_sharpness_is_pillows():
    pictures = random_pictures()
    result = Sharpness(factor=[2.0, 2.0])(pictures, generator()).observations.numpy()
    kernel = ImageFilter.Kernel((3, 3), (1, 1, 1, 1, 5, 1, 1, 1, 1), 13)
    for picture, sharp in zip(
        pictures.numpy().reshape(-1, 20, 20), result.reshape(-1, 20, 20), strict=True
    ):
        smooth = np.asarray(Image.fromarray(picture).filter(kernel)).astype(float)
        expected = np.clip(smooth + 2 * (picture - smooth), 0, 255)
        assert np.abs(expected - sharp).max() <= 1.01  # Pillow rounds the smooth one
    same = Sharpness(factor=[1.0, 1.0])(pictures, generator()).observations
    assert torch.equal(same, pictures)


def test_speckle_blackens_and_whitens_the_shares_it_draws_in_every_frame_by_itself():
    gray = torch.full((200, 4, 20, 20), 90, dtype=torch.uint8)
    result = Speckle(black=[0.2, 0.6], white=[0.1, 0.1])(gray, generator()).observations
    assert set(result.unique().tolist()) == {0, 90, 255}
    black = (result == 0).float().mean(dim=(1, 2, 3))
    assert black.min() > 0.15
    assert black.max() < 0.65
    assert black.std() == pytest.approx(0.4 / 12**0.5, rel=0.15)  # a share for each sample
    assert (result == 255).float().mean() == pytest.approx(0.1, rel=0.02)
    assert (result[:, 0] != result[:, 1]).float().mean() > 0.3  # holes do not stand still
    none = Speckle(black=[0, 0], white=[0, 0])(gray, generator()).observations
    assert torch.equal(none, gray)


def test_equalization_is_pillows_on_all_frames_of_a_stack_together():
    pictures = (random_pictures().float() ** 2 / 600).to(torch.uint8)
    result = Equalize(strength=[1, 1])(pictures, generator()).observations.numpy()
    for stack, equal in zip(pictures.numpy(), result, strict=True):
        tall = Image.fromarray(stack.reshape(80, 20))
        assert np.array_equal(np.asarray(ImageOps.equalize(tall)), equal.reshape(80, 20))
    flat = torch.full((2, 4, 20, 20), 7, dtype=torch.uint8)
    assert torch.equal(Equalize(strength=[1, 1])(flat, generator()).observations, flat)
    none = Equalize(strength=[0, 0])(pictures, generator()).observations
    assert torch.equal(none, pictures)


def test_a_random_filter_is_opencvs_for_every_frame():
    pictures = random_pictures(3).float()
    weights = torch.randn(3, 1, 1, 3, 3, generator=generator())
    filtered = filtered_alike(pictures, weights).numpy()
    for stack, kernel, result in zip(pictures.numpy(), weights.numpy(), filtered, strict=True):
        for frame, one in zip(stack, result, strict=True):
            expected = cv2.filter2D(frame, -1, kernel[0, 0], borderType=cv2.BORDER_REPLICATE)
            assert np.allclose(expected, one, atol=1e-2)


def test_a_filter_of_colours_mixes_those_of_one_frame_only():
    pictures = random_pictures(2, 6).float()
    weights = torch.zeros(2, 3, 3, 1, 1)
    weights[:, 0, 2] = 1  # red is what blue was
    filtered = filtered_alike(pictures, weights)
    assert torch.equal(filtered[:, 0], pictures[:, 2])
    assert torch.equal(filtered[:, 3], pictures[:, 5])
    assert not filtered[:, [1, 2, 4, 5]].any()


def test_a_negative_filter_inverts_within_the_range_of_the_stack():
    pictures = random_pictures(2).float()
    low, high = pictures.amin(dim=(1, 2, 3)), pictures.amax(dim=(1, 2, 3))
    inverted = stretched(-pictures, pictures)
    expected = (low + high)[:, None, None, None] - pictures
    assert torch.allclose(inverted, expected, atol=1e-3)
    flat = torch.full((1, 4, 8, 8), 5.0)
    assert torch.equal(stretched(-flat, flat), flat)
    never = RandomConvolution(mix=[0, 0])(random_pictures(), generator()).observations
    assert torch.equal(never, random_pictures())


def test_an_even_filter_has_no_middle():
    with refuses("size=4", "odd"):
        RandomConvolution(size=4)
    with refuses("size=21"):
        RandomConvolution(size=21)(random_pictures(), generator())
    with refuses("channels=3", "4 channels"):
        RandomConvolution(channels=3)(random_pictures(), generator())


def test_the_bank_of_textures_is_a_constant_with_every_kind_in_it():
    patterns = bank("any", 20, 24)
    assert patterns.shape == (EACH * len(KINDS), 20, 24)
    assert patterns.amin(dim=(1, 2)).max() == 0
    assert patterns.amax(dim=(1, 2)).min() > 254.9
    assert len({p.numpy().tobytes() for p in patterns}) > 0.95 * len(patterns)
    again = bank.__wrapped__("any", 20, 24)
    assert torch.equal(patterns, again)
    for number, kind in enumerate(KINDS):
        assert torch.equal(bank(kind, 20, 24), patterns[number * EACH : (number + 1) * EACH])


def test_a_texture_is_one_of_the_bank_shifted_and_mixed_by_its_strength():
    black = torch.zeros(12, 4, 20, 24, dtype=torch.uint8)
    drawn = Texture(strength=[0.5, 0.5])(black, generator()).observations[:, 0]
    halves = {
        np.roll((p * 0.5).round().to(torch.uint8).numpy(), (-y, -x), (0, 1)).tobytes()
        for p in bank("any", 20, 24)
        for y in range(20)
        for x in range(24)
    }
    assert all(pattern.numpy().tobytes() in halves for pattern in drawn)
    nothing = Texture(strength=[0, 0])(random_pictures(), generator()).observations
    assert torch.equal(nothing, random_pictures())


def constant(value, batch=2):
    return torch.full((batch,), float(value))


def test_colours_change_as_pillow_and_colorsys_change_them():
    pictures = random_pictures(2, 3)
    same = [constant(1), constant(1), constant(1), constant(0)]
    assert torch.equal(jittered(pictures, *same), pictures)
    as_image = [Image.fromarray(p.permute(1, 2, 0).numpy()) for p in pictures]
    for place, kind in enumerate(
        (ImageEnhance.Brightness, ImageEnhance.Contrast, ImageEnhance.Color)
    ):
        factors = [constant(0.6) if i == place else f for i, f in enumerate(same)]
        ours = jittered(pictures, *factors).permute(0, 2, 3, 1).numpy().astype(int)
        for image, result in zip(as_image, ours, strict=True):
            expected = np.asarray(kind(image).enhance(0.6)).astype(int)
            assert np.abs(expected - result).max() <= 1
    turned = jittered(pictures, *same[:3], constant(0.25))[0, :, 3, 5] / 255
    h, s, v = colorsys.rgb_to_hsv(*(pictures[0, :, 3, 5] / 255).tolist())
    expected = colorsys.hsv_to_rgb((h + 0.25) % 1, s, v)
    assert np.allclose(turned, expected, atol=1 / 255)


def test_colour_jitter_draws_once_for_a_stack_of_rgb_frames_and_refuses_gray_ones():
    one = random_pictures(1, 3)
    stacks = one.repeat(16, 4, 1, 1)
    changed = ColorJitter()(stacks, generator()).observations.view(16, 4, 3, 20, 20)
    assert (changed == changed[:, :1]).all()
    assert len({sample.numpy().tobytes() for sample in changed}) == 16
    assert torch.equal(ColorJitter()(stacks, generator()).observations.view_as(changed), changed)
    with refuses("ColorJitter", "RGB", "4 channels"):
        ColorJitter()(random_pictures(), generator())


def test_only_warps_move_what_is_in_the_picture():
    assert Rotate.moves
    assert Perspective.moves
    still = (Texture, Sharpness, Speckle, Equalize, RandomConvolution, ColorJitter)
    assert not any(kind.moves for kind in still)
    assert Compose(steps=["texture", "rotate"]).moves
    assert not Compose(steps=["texture", "equalize"]).moves
    # and it is true: a pixel that differs from an even picture is the only one that does
    dot = torch.zeros(4, 4, 21, 21, dtype=torch.uint8)
    dot[:, :, 10, 10] = 200
    for kind in (Equalize, Sharpness):
        changed = kind()(dot, generator()).observations
        assert (changed[:, :, :8] == changed[:, :, :1, :1]).all()
        assert (changed[:, :, 10, 10] != changed[:, :, 0, 0]).all()
