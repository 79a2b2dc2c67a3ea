"""Each augmentation against values computed by hand or by numpy."""

import numpy as np
import pytest
import torch

from reprl.augmentation import (
    Blur,
    Choice,
    Compose,
    CropResize,
    Cutout,
    Flip,
    Intensity,
    Lines,
    Noise,
    Shift,
)
from tests.helpers import refuses


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def random_pictures(batch=64, size=20):
    return torch.randint(1, 256, (batch, 4, size, size), generator=generator(9), dtype=torch.uint8)


@pytest.mark.parametrize(("fill", "mode"), [("edge", "edge"), ("black", "constant")])
def test_shift_is_numpys_pad_and_slice_at_every_offset(fill, mode):
    observations = random_pictures(300)
    shifted = Shift(pixels=2, fill=fill)(observations, generator()).observations.numpy()
    padded = np.pad(observations.numpy(), ((0, 0), (0, 0), (2, 2), (2, 2)), mode=mode)
    seen = set()
    for sample, source in zip(shifted, padded, strict=True):
        found = [
            (y, x)
            for y in range(5)
            for x in range(5)
            if np.array_equal(sample, source[:, y : y + 20, x : x + 20])
        ]
        assert len(found) == 1
        seen.add(found[0])
    assert len(seen) == 25


def test_flip_mirrors_and_says_so():
    observations = random_pictures()
    view = Flip(probability=0.5)(observations, generator())
    assert 10 < view.mirrored.sum() < 54
    expected = observations.numpy().copy()
    expected[view.mirrored.numpy()] = expected[view.mirrored.numpy()][..., ::-1]
    assert np.array_equal(view.observations.numpy(), expected)


def test_crop_of_everything_is_the_identity():
    observations = random_pictures()
    assert torch.equal(
        CropResize(scale=[1, 1])(observations, generator()).observations, observations
    )


def test_crop_of_half_stretches_a_ramp_to_half_its_slope():
    ramp = (2 * torch.arange(101)).to(torch.uint8).expand(32, 4, 101, 101)
    cropped = CropResize(scale=[0.5, 0.5])(ramp, generator()).observations[:, 0].int()
    assert torch.equal(cropped, cropped[:, :1].expand_as(cropped))  # rows stay alike
    rise = cropped[:, 0, -1] - cropped[:, 0, 0]
    assert ((rise - 100).abs() <= 1).all()  # 50 of the 100 px, 2 levels each
    starts = cropped[:, 0, 0]
    assert starts.min() < 20
    assert starts.max() > 80  # and the box wanders over all of the picture
    assert starts.min() >= 0
    assert cropped.max() <= 200


@pytest.mark.parametrize(
    ("direction", "slopes"), [("straight", {(0, 1), (1, 0)}), ("diagonal", {(1, 1), (1, -1)})]
)
def test_lines_keep_their_number_direction_length_and_gray(direction, slopes):
    black = torch.zeros(400, 4, 40, 40, dtype=torch.uint8)
    drawn = Lines(lines=[1, 1], lengths=[7, 7], widths=[1, 1], direction=direction)
    frames = drawn(black, generator()).observations
    seen, levels, whole_ones = set(), set(), 0
    for picture in frames[:, 0].numpy():
        rows, columns = np.nonzero(picture)
        if len(rows) < 7:  # cut off at the border, or as black as the picture
            continue
        whole_ones += 1
        assert len(rows) == 7
        assert len(set(picture[rows, columns])) == 1
        levels.add(int(picture[rows[0], columns[0]]))
        steps = {(int(a), int(b)) for a, b in zip(np.diff(rows), np.diff(columns), strict=True)}
        assert len(steps) == 1
        seen |= steps
    assert seen == slopes
    assert whole_ones > 250
    assert len(levels) > 100


def test_lines_have_their_width_and_later_ones_lie_above():
    black = torch.zeros(60, 1, 40, 40, dtype=torch.uint8)
    wide = Lines(lines=[1, 1], lengths=[80, 80], widths=[3, 3], direction="straight")
    for picture in wide(black, generator()).observations[:, 0].numpy():
        rows, columns = np.nonzero(picture)
        if len(rows):
            assert min(len(set(rows)), len(set(columns))) <= 3
            assert max(len(set(rows)), len(set(columns))) == 40  # across the whole picture
    some = Lines(lines=[0, 3])(black, generator(1)).observations
    untouched = (some == 0).all(dim=(1, 2, 3)).float().mean()
    assert 0.1 < untouched < 0.45  # a quarter has no line
    none = torch.full((2, 1, 40, 40), 7, dtype=torch.uint8)
    assert torch.equal(Lines(lines=[0, 0])(none, generator()).observations, none)


def test_lines_wider_than_the_picture_are_refused():
    with refuses("widths=50"):
        Lines(widths=[1, 50])(random_pictures(), generator())


def test_cutout_boxes_keep_their_number_sides_and_gray():
    observations = torch.zeros(500, 4, 30, 30, dtype=torch.uint8)
    view = Cutout(boxes=[1, 1], sides=[2, 5], fill="gray")(observations, generator())
    seen, levels = set(), set()
    for picture in view.observations[:, 0].numpy():
        rows, columns = np.nonzero(picture)
        if not len(rows):
            continue  # a gray of 0
        height, width = np.ptp(rows) + 1, np.ptp(columns) + 1
        assert len(rows) == height * width  # a full rectangle
        assert len(set(picture[rows, columns])) == 1
        seen.add((int(height), int(width)))
        levels.add(int(picture[rows[0], columns[0]]))
    assert seen == {(h, w) for h in range(2, 6) for w in range(2, 6)}
    assert len(levels) > 150
    painted = view.observations[:, 0].bool().any(0)
    assert all(edge.any() for edge in (painted[0], painted[-1], painted[:, 0], painted[:, -1]))


def test_moving_boxes_go_a_straight_way_through_the_stack():
    observations = torch.zeros(300, 4, 40, 40, dtype=torch.uint8)
    view = Cutout(boxes=[1, 1], sides=[3, 3], fill="gray", speed=3.0)(observations, generator())
    steps = []
    for stack in view.observations.numpy():
        inside = [np.argwhere(frame) for frame in stack]
        assert len(inside[-1]) in (0, 9)  # the newest is wholly inside, whatever its gray
        if any(len(pixels) != 9 for pixels in inside):
            continue  # partly outside, or a gray of 0
        assert len(set(stack[stack > 0])) == 1
        places = np.array([pixels.min(axis=0) for pixels in inside])  # (frames, 2)
        way = places[-1] - places
        assert np.abs(way - np.rint(way[0] / 3 * np.array([[3], [2], [1], [0]]))).max() <= 1
        steps.append(way[0] / 3)
    assert len(steps) > 150
    assert np.abs(steps).max() <= 3
    assert np.max(steps) > 2  # both directions, to nearly the full speed
    assert np.min(steps) < -2


def test_moving_boxes_keep_the_channels_of_a_frame_together():
    observations = torch.zeros(50, 6, 30, 30, dtype=torch.uint8)
    moving = Cutout(boxes=[1, 1], sides=[4, 4], fill="gray", speed=5.0, channels=3)
    frames = moving(observations, generator()).observations.view(50, 2, 3, 30, 30)
    assert torch.equal(frames[:, :, 0], frames[:, :, 2])
    assert not torch.equal(frames[:, 0], frames[:, 1])
    with refuses("channels=3"):
        moving(observations[:, :4], generator())


def test_boxes_that_stand_still_draw_what_they_always_did():
    observations = random_pictures()
    seen = Cutout(boxes=[2, 2], sides=[3, 9], fill="gray")(observations, generator()).observations
    draws, (n, _, height, width) = generator(), observations.shape
    torch.randint(2, 3, (n,), generator=draws)  # how many boxes
    side = torch.randint(3, 10, (n, 2, 2), generator=draws)
    room = torch.tensor([height, width]) - side
    first = (torch.rand((n, 2, 2), generator=draws) * (room + 1)).long().minimum(room)
    level = torch.randint(0, 256, (n, 2), generator=draws)
    for picture, corners, sides, grays in zip(observations, first, side, level, strict=True):
        for (top, left), (h, w), gray in zip(corners, sides, grays, strict=True):
            picture[:, top : top + h, left : left + w] = gray
    assert torch.equal(seen, observations)


def test_cutout_draws_between_no_box_and_the_most():
    white = torch.full((400, 1, 40, 40), 255, dtype=torch.uint8)
    black = Cutout(boxes=[0, 3], sides=[1, 1])(white, generator()).observations
    counts = (black == 0).flatten(1).sum(1)
    share = torch.bincount(counts, minlength=4) / 400
    assert len(share) == 4
    assert torch.allclose(share, torch.full((4,), 0.25), atol=0.08)


def test_intensity_scales_all_levels_by_one_factor():
    observations = torch.tensor([50, 100, 200], dtype=torch.uint8).expand(200, 4, 2, 3)
    scaled = Intensity(strength=0.1)(observations, generator()).observations[:, 0, 0].float()
    factor = scaled[:, 1] / 100
    assert torch.allclose(scaled[:, 0], 50 * factor, atol=1)
    assert torch.allclose(scaled[:, 2], 200 * factor, atol=2)
    assert 0.8 <= factor.min() < 0.9
    assert 1.1 < factor.max() <= 1.2
    # saturates instead of wrapping around
    assert (
        Intensity(strength=0.5)(torch.full_like(observations, 250), generator()).observations.max()
        == 255
    )


def test_noise_has_the_stated_deviation():
    gray = torch.full((4, 4, 84, 84), 128, dtype=torch.uint8)
    noise = Noise(deviation=8)(gray, generator()).observations[:, 0].float() - 128
    assert noise.std().item() == pytest.approx(8, rel=0.03)
    assert noise.mean().item() == pytest.approx(0, abs=0.2)


def test_blur_spreads_a_point_by_its_sigma_and_leaves_gray_alone():
    gray = torch.full((2, 4, 40, 40), 77, dtype=torch.uint8)
    assert torch.equal(Blur(sigma=[1, 2])(gray, generator()).observations, gray)
    column = torch.zeros(1, 1, 41, 41, dtype=torch.uint8)
    column[..., 20] = 250
    blurred = Blur(sigma=2)(column, generator()).observations[0, 0, 20].double()
    place = torch.arange(41, dtype=torch.float64) - 20
    assert (blurred @ place**2 / blurred.sum()).sqrt().item() == pytest.approx(2, rel=0.05)
    weak = Blur(sigma=[0.5, 3])(column.expand(50, 1, 41, 41), generator()).observations[
        :, 0, 20, 20
    ]
    assert weak.unique().numel() > 20  # each sample has its own width


def test_two_mirrorings_cancel():
    observations = random_pictures()
    twice = Compose(steps=[Flip(probability=1), Flip(probability=1)])(observations, generator())
    assert torch.equal(twice.observations, observations)
    assert not twice.mirrored.any()
    kept = Compose(steps=[Flip(probability=1), Noise(deviation=0)])(observations, generator())
    assert kept.mirrored.all()
    assert torch.equal(kept.observations, observations.flip(-1))


def test_compose_applies_in_order():
    white = torch.full((4, 1, 20, 20), 255, dtype=torch.uint8)
    box = {"_target_": "reprl.augmentation.Cutout", "sides": [20, 20], "use": "views"}
    assert (Compose(steps=[box, "shift"])(white, generator()).observations == 0).all()


def test_choice_gives_each_sample_one_of_the_options():
    observations = random_pictures(200)
    view = Choice(options=[Flip(probability=1), Cutout(sides=[20, 20])])(observations, generator())
    for sample, source, mirrored in zip(
        view.observations, observations, view.mirrored.tolist(), strict=True
    ):
        assert torch.equal(sample, source.flip(-1) if mirrored else torch.zeros_like(source))
    assert 70 < view.mirrored.sum() < 130
