"""A mask taught by motion: the target by hand, what it may reach, and a ball that is found."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from reprl import components
from reprl.augmentation import Cutout
from reprl.auxiliary import MotionTarget
from reprl.auxiliary.motion_target import mask_error, nearest_cells
from reprl.encoders import Impala, Nature, NaturePadded
from tests.helpers import refuses
from tests.reprl.auxiliary.test_real_encoders import build

PLAIN = {"augmentation": "none", "memory": 0, "threshold": 0.0}


def cross_entropy(mask, target, positive=10.0):
    """Mean over cells in plain numpy."""
    bits = target * np.log(mask) + (1 - target) * np.log(1 - mask)
    return float(np.mean(-bits * (1 + (positive - 1) * target)))


def taught(world, observations, **settings):
    """The loss, and the mask it was computed on."""
    loss = world.prepare(MotionTarget(**PLAIN | settings))
    at = settings.pop("at", None)
    batch = world.batch(observations, at=at)
    mask = batch.output.attention.detach().numpy()
    return loss(batch, world.encoder)["motion_target"].item(), mask


def test_the_cells_that_changed_by_hand(masked):
    """One cell a pixel, two frames: two pixels differ, one of them by less than the threshold."""
    observations = torch.full((1, 2, 8, 8), 50, dtype=torch.uint8)
    observations[0, 1, 2, 3] = 60
    observations[0, 1, 5, 5] = 45
    target = np.zeros((1, 1, 8, 8))
    target[0, 0, 2, 3] = 1
    found, mask = taught(masked, observations, threshold=8.0)
    assert found == pytest.approx(cross_entropy(mask, target), rel=1e-5)
    target[0, 0, 5, 5] = 1
    found, mask = taught(masked, observations, threshold=0.0, positive=3.0)
    assert found == pytest.approx(cross_entropy(mask, target, 3.0), rel=1e-5)


def test_half_open_and_nothing_moved_is_log_2(free_mask):
    world = type(free_mask)(type(free_mask.encoder), 8, 2)  # a free mask that begins at 0.5
    found, _ = taught(world, torch.full((3, 2, 8, 8), 9, dtype=torch.uint8))
    assert found == pytest.approx(math.log(2), rel=1e-5)
    everything = torch.full((3, 2, 8, 8), 9, dtype=torch.uint8)
    everything[:, 1] += 100
    found, _ = taught(world, everything)
    assert found == pytest.approx(10 * math.log(2), rel=1e-5)


def test_only_where_something_is_now(masked):
    """A pixel goes from place to place: all three are on its trail, it is only at the last."""
    world = type(masked)(type(masked.encoder), 8, 3)
    observations = torch.full((1, 3, 8, 8), 50, dtype=torch.uint8)
    for frame, column in enumerate((2, 4, 6)):
        observations[0, frame, 3, column] = 200
    target = np.zeros((1, 1, 8, 8))
    target[0, 0, 3, 6] = 1
    found, mask = taught(world, observations, newest=True)
    assert found == pytest.approx(cross_entropy(mask, target), rel=1e-5)
    target[0, 0, 3, [2, 4]] = 1
    found, mask = taught(world, observations)
    assert found == pytest.approx(cross_entropy(mask, target), rel=1e-5)
    with refuses("motion_target", "newest=true", "env.stack=2"):
        masked.prepare(MotionTarget(newest=True))


def test_a_memory_of_what_is_now_has_the_newest_frame_of_each_stack(masked):
    """Of the stacks that are looked back at, what left their newest frame marks nothing either."""
    world = type(masked)(type(masked.encoder), 8, 3)

    def flight(*columns):
        stack = torch.full((1, 3, 8, 8), 50, dtype=torch.uint8)
        for frame, column in enumerate(columns):
            stack[0, frame, 3, column] = 200
        return stack

    now, before = flight(4, 5, 6), flight(2, 3, 4)  # a stack of three: two steps ago
    loss = world.prepare(MotionTarget(**PLAIN | {"memory": 2, "decay": 0.5, "newest": True}))
    batch = world.batch(now, at=lambda k: (before, torch.tensor([True])))
    mask = batch.output.attention.detach().numpy()
    target = np.zeros((1, 1, 8, 8))
    target[0, 0, 3, 6], target[0, 0, 3, 4] = 1, 0.25
    found = loss(batch, world.encoder)["motion_target"].item()
    assert found == pytest.approx(cross_entropy(mask, target), rel=1e-5)


def test_a_mask_that_is_divided_by_its_maximum_does_not_learn_from_rounding():
    weights = torch.randn(3, 1, 21, 21, generator=torch.Generator().manual_seed(0))
    found = []
    for kind in (torch.float32, torch.float64):
        raw = weights.to(kind).detach().requires_grad_()
        mask = torch.nn.functional.softplus(raw)
        mask = mask / mask.amax(dim=(2, 3), keepdim=True)
        mask_error(mask, torch.zeros_like(mask), 10.0).backward()
        found.append(raw.grad.double())
    torch.testing.assert_close(found[0], found[1], rtol=1e-3, atol=1e-6)


def test_frames_that_are_not_there_yet_have_not_moved(masked):
    observations = torch.full((1, 2, 8, 8), 50, dtype=torch.uint8)
    observations[0, 0] = 0  # the stack of a game that has just begun
    found, mask = taught(masked, observations)
    assert found == pytest.approx(cross_entropy(mask, np.zeros((1, 1, 8, 8))), rel=1e-5)


def test_what_moved_is_remembered_and_fades(masked):
    still = torch.full((2, 2, 8, 8), 50, dtype=torch.uint8)
    steps = {-1: still.clone(), -2: still.clone()}
    steps[-1][:, 1, 1, 1] = 0
    steps[-2][:, 1, 6, 6] = 0
    valid = torch.tensor([True, False])  # the second sample's past is another game
    target = np.zeros((2, 1, 8, 8))
    target[0, 0, 1, 1], target[0, 0, 6, 6] = 0.5, 0.25
    loss = masked.prepare(MotionTarget(**PLAIN | {"memory": 2, "decay": 0.5}))
    assert loss.reach == 2
    batch = masked.batch(still, at=lambda k: (steps[k], valid))
    mask = batch.output.attention.detach().numpy()
    found = loss(batch, masked.encoder)["motion_target"].item()
    assert found == pytest.approx(cross_entropy(mask, target), rel=1e-5)


def test_a_memory_looks_once_at_every_step(world_of):
    world = world_of(build, 84, 4, trunk="nature", attention="conv_21")
    asked = []
    images = world.images(2)

    def at(offset):
        asked.append(offset)
        return images, torch.ones(2, dtype=torch.bool)

    for memory, offsets in ((0, []), (2, [-2]), (3, [-3]), (6, [-3, -6]), (8, [-3, -6, -8])):
        asked.clear()
        loss = world.prepare(MotionTarget(memory=memory))
        loss(world.batch(images, at=at), world.encoder)
        assert asked == offsets


@pytest.mark.parametrize("encoder", [Nature, NaturePadded, Impala])
def test_a_pixel_belongs_to_the_nearest_cell(encoder, masked):
    world = masked.__class__(encoder, 84, 4, attention="conv")
    grid = world.encoder.attention.grid
    owners = nearest_cells(world.encoder, grid.shape, (84, 84)).view(84, 84)
    rows, columns = grid.rows.centres(), grid.columns.centres()
    for y, x in [(0, 0), (10, 33), (41, 41), (76, 60), (83, 83), (20, 7)]:
        row, column = divmod(owners[y, x].item(), grid.shape[1])
        assert (rows[row] - y).abs() == (rows - y).abs().min()
        assert (columns[column] - x).abs() == (columns - x).abs().min()


def test_a_mask_for_each_frame_is_taught_what_touched_that_frame(world_of):
    world = world_of(build, 84, 4, trunk="nature", attention="per_frame")
    observations = torch.full((1, 4, 84, 84), 50, dtype=torch.uint8)
    observations[0, 3, 41:43, 41:43] = 200  # changed between the last two frames
    batch = world.batch(observations)
    mask = batch.output.attention.detach().numpy()
    target = np.zeros((1, 4, 21, 21))
    target[0, 2:, 10, 10] = 1
    loss = world.prepare(MotionTarget(**PLAIN))
    found = loss(batch, world.encoder)["motion_target"].item()
    assert found == pytest.approx(cross_entropy(mask, target), rel=1e-4)


def test_it_reaches_the_mask_only(masked):
    loss = masked.prepare(MotionTarget(**PLAIN))
    reached = masked.reached(loss, masked.batch(masked.images(4)))
    assert reached == {"encoder.mask.weight", "encoder.mask.bias"}


def test_distractors_are_in_the_view_and_not_in_the_target(masked):
    loss = masked.prepare(MotionTarget(**PLAIN))
    loss.views.augmentation = Cutout(boxes=[1, 1], sides=[4, 4], fill="gray")
    seen = []
    encode = masked.encoder.encode
    masked.encoder.encode = lambda images: (seen.append(images), encode(images))[1]
    still = torch.full((6, 2, 8, 8), 50, dtype=torch.uint8)
    batch = masked.batch(still)
    seen.clear()
    found = loss(batch, masked.encoder)["motion_target"].item()
    view = seen[0]
    assert (view != 50 / 255).any()
    assert torch.equal(view[:, 0], view[:, 1])  # drawn alike into every frame
    mask = encode(view).attention.detach().numpy()
    assert found == pytest.approx(cross_entropy(mask, np.zeros_like(mask)), rel=1e-5)


def test_under_rad_it_starts_from_the_pictures_as_they_were(masked):
    still = torch.full((2, 2, 8, 8), 50, dtype=torch.uint8)
    loss = masked.prepare(MotionTarget(**PLAIN))
    batch = replace(masked.batch(masked.images(2)), augmented_from=still)
    plain = masked.batch(still)
    found, expected = (loss(b, masked.encoder)["motion_target"] for b in (batch, plain))
    assert torch.equal(found, expected)


def moving_ball(count, generator):
    """A ball that moves: uint8 (count, 4, 36, 36), and its places (4, count, 2)."""
    images = torch.zeros(count, 4, 36, 36, dtype=torch.uint8)
    first = torch.randint(0, 24, (count, 2), generator=generator)
    pace = torch.randint(1, 4, (count, 2), generator=generator)
    places = torch.stack([first + pace * t for t in range(4)])
    for t, frame in enumerate(places):
        for n, (y, x) in enumerate(frame.tolist()):
            images[n, t, y : y + 3, x : x + 3] = 110
    return images, places


@pytest.mark.parametrize("attention", ["image", "top_k", "gumbel"])
def test_a_mask_learns_to_find_the_ball_among_still_boxes(world_of, attention):
    """Trained on drawn distractors, it points at the ball where others are drawn."""
    spec = {**components.resolve("attention", attention), "resolution": 9}
    world = world_of(Nature, 36, 4, attention=spec)
    generator = torch.Generator().manual_seed(0)
    images, places = moving_ball(64, generator)
    shown = Cutout(boxes=[3, 3], sides=[2, 8], fill="gray")(images, generator).observations

    def hits():
        """How often the brightest cell is within a cell of where the ball is or was."""
        with torch.no_grad():
            mask = world.encoder.encode(shown.float() / 255).attention[:, 0]
        peak = mask.flatten(1).argmax(1)
        centre = torch.stack([peak // 9, peak % 9], dim=1) * 4 + 1.5
        return ((centre - places - 1).abs().amax(-1).amin(0) <= 4).float().mean().item()

    loss = world.prepare(MotionTarget(memory=0))
    optimizer = torch.optim.Adam(world.encoder.attention.parameters(), lr=1e-2)
    before = hits()
    for _ in range(150):
        batch = world.batch(images[torch.randint(64, (16,), generator=generator)])
        (term,) = loss(batch, world.encoder).values()
        optimizer.zero_grad()
        term.backward()
        optimizer.step()
    assert before < 0.5
    assert hits() > 0.8


def test_a_misspelt_augmentation_is_refused():
    with refuses("'boxes_line'", "'boxes_lines'"):
        MotionTarget(augmentation="boxes_line")


def test_without_a_mask_with_one_frame_and_a_mask_of_motion_it_is_refused(
    unmasked, free_mask, world_of
):
    with refuses("'motion_target'", "attention mask"):
        unmasked.prepare(MotionTarget())
    with refuses("'motion_target'", "two frames"):
        free_mask.prepare(MotionTarget())
    moving = world_of(build, 84, 4, trunk="nature", attention="motion")
    with refuses("memory=6"):
        moving.prepare(MotionTarget())
    loss = moving.prepare(MotionTarget(memory=0))
    assert loss(moving.batch(moving.images(2)), moving.encoder)["motion_target"].isfinite()
