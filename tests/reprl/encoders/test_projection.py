"""Projection: cells lie where they respond, keep their mass, and point at a real ball."""

import cv2
import numpy as np
import pytest
import torch
from ale_py import ALEInterface, LoggerMode, roms
from torch import nn

from reprl.components import resolve
from reprl.encoders import ConvEncoder, Impala, Nature, NaturePadded
from tests.helpers import refuses, space

CONV = resolve("attention", "conv")


def centroid(maps):
    """(row, column) of the centre of mass of (H, W)."""
    rows = torch.arange(maps.shape[0], dtype=maps.dtype)
    columns = torch.arange(maps.shape[1], dtype=maps.dtype)
    return (maps.sum(1) @ rows / maps.sum()).item(), (maps.sum(0) @ columns / maps.sum()).item()


def lit_cell(model, row, column, size):
    one = torch.zeros(1, 1, *(model.attention.grid if model.attention else model.grid).shape)
    one[0, 0, row, column] = 1
    return model.project(one, size)[0, 0]


@pytest.mark.parametrize(
    ("encoder", "options", "size"),
    [
        (Nature, {}, 84),
        (NaturePadded, {}, 84),
        (Nature, {"attention": {**CONV, "resolution": 21}}, 84),
        (Impala, {"width": 1 / 16, "global_pool": True}, 300),  # its field is 141 px wide
    ],
)
def test_projected_cells_are_centred_where_lit_pixels_make_them_respond(encoder, options, size):
    model = encoder(space(size, frames=1), **options)
    network = model.cnn if model.attention is None else model.attention.branch
    for layer in network.modules():  # every pixel of a field then counts, the same on both sides
        if isinstance(layer, nn.Conv2d):
            nn.init.constant_(layer.weight, 0.1)
            nn.init.zeros_(layer.bias)
    cells = (model.attention.grid if model.attention else model.grid).rows
    cell = cells.cells // 2 - 1
    reach = range(round(cells.first + cell * cells.stride) - 75, 400)
    lit = [p for p in reach if 0 <= p < size][:151]
    with torch.no_grad():
        responses = []
        for pixel in lit:
            image = torch.zeros(1, 1, size, size)
            image[0, 0, pixel, pixel] = 1
            responses.append(network(image)[0, 0, cell, cell])
    responses = torch.stack(responses).double()
    seen = [pixel for pixel, r in zip(lit, responses, strict=True) if r > 0]
    assert (seen[0] + seen[-1]) / 2 == pytest.approx(cells.first + cell * cells.stride)
    assert seen[-1] - seen[0] + 1 == cells.field
    where = (responses @ torch.tensor(lit, dtype=torch.float64) / responses.sum()).item()
    projected = centroid(lit_cell(model, cell, cell, size).double())
    assert projected == pytest.approx((where, where), abs=0.01)


def test_nature_cells_lie_at_the_known_places():
    model = Nature(space())
    assert model.grid.rows.centres().tolist() == [17.5 + 8 * i for i in range(7)]
    assert model.grid.rows.field == 36
    for i in range(1, 6):
        assert centroid(lit_cell(model, i, 6 - i, 84)) == pytest.approx(
            (17.5 + 8 * i, 65.5 - 8 * i), abs=0.01
        )


def test_spread_is_half_a_stride_and_follows_the_raw_screen():
    model = Nature(space())
    spread = lit_cell(model, 3, 3, (210, 160)).double()
    # 41.5 on 84 px is the middle of the image: 104.5 of 210 rows, 79.5 of 160 columns
    assert centroid(spread) == pytest.approx((104.5, 79.5), abs=1e-3)
    rows, columns = torch.arange(210) - 104.5, torch.arange(160) - 79.5
    assert (spread.sum(1) @ rows.double() ** 2).sqrt().item() == pytest.approx(10, rel=0.01)
    assert (spread.sum(0) @ columns.double() ** 2).sqrt().item() == pytest.approx(
        4 * 160 / 84, rel=0.01
    )
    first = centroid(lit_cell(model, 0, 3, (210, 160)).double())
    assert first[0] == pytest.approx((17.5 + 0.5) * 2.5 - 0.5, abs=0.01)


@pytest.mark.parametrize("size", [84, 42, (210, 160)])
@pytest.mark.parametrize("encoder", [Nature, NaturePadded, Impala])
def test_mass_is_preserved_also_at_the_border(encoder, size):
    model = encoder(space())
    maps = torch.rand(2, 3, *model.grid.shape)
    projected = model.project(maps, size)
    assert projected.shape == (2, 3, *((size, size) if isinstance(size, int) else size))
    assert torch.allclose(projected.sum((2, 3)), maps.sum((2, 3)), rtol=1e-4)
    assert lit_cell(model, 0, 0, size).sum().item() == pytest.approx(1, rel=1e-4)


def test_attention_and_trunk_maps_are_told_apart_by_their_method():
    model = Nature(space(), attention={**CONV, "resolution": 21})
    fine, coarse = torch.zeros(1, 1, 21, 21), torch.zeros(1, 1, 7, 7)
    fine[..., 10, 10] = coarse[..., 6, 6] = 1
    assert centroid(model.project(fine, 84)[0, 0]) == pytest.approx((41.5, 41.5), abs=0.01)
    last = model.project_features(coarse, 84)[0, 0].argmax()
    assert last in (65 * 84 + 65, 66 * 84 + 66, 65 * 84 + 66)
    with refuses("21x21", "project_features"):
        model.project(coarse, 84)
    with refuses("7x7", "project"):
        model.project_features(torch.zeros(1, 1, 8, 8), 84)


def test_grids_of_the_same_shape_are_not_confused():
    """A 7x7 mask of its own branch lies elsewhere than the trunk's 7x7 cells."""
    model = Nature(space(), attention={**CONV, "resolution": 7})
    assert model.attention.grid.shape == model.grid.shape == (7, 7)
    corner = torch.zeros(1, 1, 7, 7)
    corner[..., 0, 0] = 1
    mask, trunk = (f(corner, 84)[0, 0] for f in (model.project, model.project_features))
    assert divmod(int(mask.argmax()), 84) in ((5, 5), (6, 6))  # the first of 7 cells of 12 px
    # NatureCNN's first cell sees pixels 0 to 35
    assert divmod(int(trunk.argmax()), 84) in ((17, 17), (18, 18))


class BallDetector(ConvEncoder):
    """A small bright spot that is alone and was not there three frames ago, on 21x21 cells."""

    def __init__(self):
        detector = nn.Conv2d(4, 1, 7, padding=3)
        nn.init.zeros_(detector.weight)
        spot = torch.full((7, 7), -1.0)  # company disqualifies: bricks, walls, and
        spot[2:5] = -3.0  # above all the paddle, which is wide
        spot[1:6, 2:5] = 0.5
        spot[2:5, 3] = 1.0
        before = torch.zeros(7, 7)
        before[2:5, 2:5] = -1
        detector.weight.data[0, 3], detector.weight.data[0, 0] = spot, before
        nn.init.zeros_(detector.bias)
        super().__init__(
            space(), nn.Sequential(detector, nn.ReLU(), nn.MaxPool2d(4)), attention=CONV
        )
        judge = self.attention.mask.net[0]
        nn.init.constant_(judge.weight, 8.0)
        nn.init.constant_(judge.bias, -4.0)


def real_frames(count):
    """Stacks (N, 4, 84, 84) in [0, 1] of a random game, and the ball's raw box from RAM."""
    ALEInterface.setLoggerMode(LoggerMode.Error)
    ale = ALEInterface()
    ale.setInt("random_seed", 3)
    ale.setFloat("repeat_action_probability", 0.0)
    ale.loadROM(roms.get_rom_path("breakout"))
    rng = np.random.default_rng(0)
    stack, stacks, boxes = np.zeros((4, 84, 84), np.float32), [], []
    while len(stacks) < count:
        if ale.game_over():
            ale.reset_game()
        for action in [int(rng.choice([1, 3, 4]))] * 4:
            ale.act(action)
        frame = cv2.resize(ale.getScreenGrayscale(), (84, 84), interpolation=cv2.INTER_AREA)
        stack = np.concatenate([stack[1:], frame[None].astype(np.float32) / 255])
        ram = ale.getRAM().astype(int)
        x, y = ram[99] - 49, ram[101] + 9
        if ram[101] and 93 < y <= 185 and ale.getFrameNumber() > 60:  # in free flight
            stacks.append(stack)
            boxes.append((x, y))
    return torch.from_numpy(np.stack(stacks)), np.array(boxes)


def hits(maps, boxes, slack):
    """Pointing game: is the brightest pixel of (N, 210, 160) in the ball's widened box?"""
    best = maps.flatten(1).argmax(1).numpy()
    row, column = best // 160, best % 160
    x, y = boxes.T
    inside_x = (column >= x - slack[1]) & (column < x + 2 + slack[1])
    return inside_x & (row >= y - slack[0]) & (row < y + 4 + slack[0])


def test_a_ball_detector_points_at_the_ball_of_real_frames_and_its_shuffled_twin_does_not():
    images, boxes = real_frames(400)
    model = BallDetector()
    with torch.no_grad():
        attention = model.encode(images).attention  # (N, 1, 21, 21)
    half_cell = (2 * 210 / 84, 2 * 160 / 84)  # the finest a cell of stride 4 can say
    maps = model.project(attention, (210, 160))[:, 0]
    assert hits(maps, boxes, half_cell).mean() >= 0.9
    order = torch.randperm(441, generator=torch.Generator().manual_seed(0))
    shuffled = attention.flatten(2)[..., order].unflatten(2, (21, 21))
    twin = model.project(shuffled, (210, 160))[:, 0]
    chance = (4 + 2 * half_cell[0]) * (2 + 2 * half_cell[1]) / (210 * 160)
    assert hits(twin, boxes, half_cell).mean() < chance + 0.03
