"""A mask of motion alone: dark where nothing changed, lit where the ball moved, and learnable."""

import numpy as np
import pytest
import torch
from gymnasium import spaces

from reprl.components import resolve
from reprl.encoders import Nature
from tests.helpers import refuses
from tests.reprl.encoders.test_inputs import drawn_over, game


def masked(frames=4, **changes):
    torch.manual_seed(0)
    observed = spaces.Box(0, 255, (frames, 84, 84), np.uint8)
    encoder = {k: changes.pop(k) for k in ("input", "contrast") if k in changes}
    return Nature(observed, attention={**resolve("attention", "motion"), **changes}, **encoder)


@pytest.mark.parametrize("where", ["image", "features"])
def test_identical_frames_leave_it_dark_wherever_distractors_stand(where):
    model = masked(where=where)
    with torch.no_grad():  # whatever it has learned
        for parameter in model.attention.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    still = torch.rand(3, 1, 84, 84).expand(3, 4, 84, 84)
    nothing = model.encode(torch.zeros(3, 4, 84, 84)).attention
    assert torch.equal(model.encode(still).attention, nothing)
    assert torch.equal(model.encode(drawn_over(still)).attention, nothing)
    assert nothing.abs().max() == 0


def test_a_drawing_that_stands_still_changes_nothing_of_the_mask():
    model, images = masked(), game()
    before = model.encode(images).attention
    over = model.encode(drawn_over(images)).attention
    assert before.max() > 0.3
    assert torch.equal(before, over)


@pytest.mark.parametrize(("row", "column"), [(5, 7), (0, 0), (20, 20), (18, 3)])
def test_a_ball_that_moved_lights_its_cell_and_no_far_one(row, column):
    model = masked()
    images = torch.rand(1, 1, 84, 84).expand(1, 4, 84, 84).clone() * 0.5
    y, x = 4 * row + 1, 4 * column + 1  # cells are centred at 1.5 + 4 i
    images[0, 3, y : y + 2, x : x + 2] += 0.4
    attention = model.encode(images).attention[0, 0]
    assert attention.argmax().item() == row * 21 + column
    assert attention[row, column] > 0.3
    rows, columns = torch.meshgrid(torch.arange(21), torch.arange(21), indexing="ij")
    far = torch.maximum((rows - row).abs(), (columns - column).abs()) > 3
    assert attention[far].max() < 1e-3
    moved = model.project(attention[None, None], 84)[0, 0]
    assert moved.argmax().item() in {r * 84 + c for r in (y, y + 1) for c in (x, x + 1)}


def test_by_hand():
    """Four pixels around a cell's centre: 0.5 (1 - exp(-2 change)), older change counting less."""
    model = masked(decay=0.5, sensitivity=2)
    torch.nn.init.zeros_(model.attention.mask.weigh.weight)
    images = torch.zeros(1, 4, 84, 84)
    images[0, 3, 41:43, 41:43] = 0.25  # four pixels half a pixel around cell 10's centre
    near = torch.exp(torch.tensor(-0.5 * (0.5**2 + 0.5**2) / 4))  # sigma is half the stride of 4
    peak = torch.exp(torch.tensor(-0.5 * 2 * 0.25 / 4))  # the highest pixel is as far away
    expected = 0.5 * (1 - torch.exp(-2 * 4 * 0.25 * near / peak))
    attention = model.encode(images).attention[0, 0]
    assert attention[10, 10].item() == pytest.approx(expected.item(), rel=1e-5)
    older = torch.zeros(1, 4, 84, 84)
    older[0, 1:, 41:43, 41:43] = 0.25  # appeared two differences ago
    expected = 0.5 * (1 - torch.exp(-2 * 0.25 * near / peak))
    found = model.encode(older).attention[0, 0, 10, 10].item()
    assert found == pytest.approx(expected.item(), rel=1e-5)


def test_the_dead_zone_ignores_noise():
    model, images = masked(threshold=16), game()
    noisy = images + torch.rand_like(images) * 15 / 255
    assert torch.allclose(model.encode(images).attention, model.encode(noisy).attention, atol=0.06)
    assert masked().encode(noisy).attention.mean() > 0.3  # without it noise lights everything


@pytest.mark.parametrize("kind", ["frames", "differences", "both"])
def test_it_sees_change_whatever_the_trunk_is_fed(kind):
    plain, other = masked(), masked(input=kind)
    other.attention.load_state_dict(plain.attention.state_dict())
    assert torch.equal(plain.encode(game()).attention, other.encode(game()).attention)


def test_it_learns_which_motion_matters():
    """Two things move, one up, one down: trained to follow the one, it dims the other."""
    model = masked()
    images = torch.zeros(8, 4, 84, 84)
    for n in range(8):
        for t in range(4):
            images[n, t, 10 + 5 * n + 4 * t : 14 + 5 * n + 4 * t, 10:14] = 0.5
            images[n, t, 60 - 5 * n - 4 * t : 64 - 5 * n - 4 * t, 70:74] = 0.5
    before = model.encode(images).attention
    assert before[..., 14:].mean() > 0.8 * before[..., :7].mean()
    optimizer = torch.optim.Adam(model.attention.parameters(), lr=1e-2)
    for _ in range(60):
        attention = model.encode(images).attention
        loss = attention[..., 14:].mean() - attention[..., :7].mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    attention = model.encode(images).attention
    assert attention[..., :7].amax((1, 2, 3)).min() > 0.9
    assert attention[..., 14:].mean() < 0.1 * attention[..., :7].mean()


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"frames": 1}, "two frames"),
        ({"resolution": "native"}, "side branch"),
        ({"per_frame": True}, "side branch"),
    ],
)
def test_wrong_options_are_refused(changes, named):
    with refuses(named):
        masked(**changes)
