"""Pictures: the heat hides nothing, the sheet and the video hold what they should."""

import dataclasses

import imageio.v2 as imageio
import numpy as np
import pytest
import torch
from toys import ball_model

from reprl.analysis.attention.heat import heat
from reprl.analysis.attention.lettering import font, wrapped
from reprl.analysis.attention.network import network_of
from reprl.analysis.attention.pictures import (
    EDGE,
    PAPER,
    ZOOM,
    contact_sheet,
    moments,
    panel,
    spread,
    write_video,
)
from reprl.analysis.attention.record import collect, scripted
from reprl.analysis.attention.views import make_view

pytestmark = pytest.mark.slow  # plays games


@pytest.fixture(scope="module")
def recording():
    view = make_view(network_of(ball_model()))
    return collect(view, "green_lines", steps=60, n_envs=2, seed=2, player=scripted(0))


def test_an_even_mask_leaves_the_frame_as_it_is():
    frame = np.random.default_rng(0).integers(0, 256, (210, 160, 3)).astype(np.uint8)
    for multiple in (0.0, 0.5, 1.0):
        np.testing.assert_array_equal(heat(frame, np.full((210, 160), multiple)), frame)
    assert (heat(frame, np.full((210, 160), 3.0)) != frame).any(axis=2).mean() > 0.99


def test_heat_is_full_at_three_times_an_even_mask_and_stays_so():
    black = np.zeros((210, 160, 3), np.uint8)
    ramp = np.tile(np.linspace(0, 6, 160), (210, 1))
    warm = heat(black, ramp).astype(int).sum(axis=2)[0]
    assert (np.diff(warm) >= -2).all()  # whole-number rounding
    assert (warm[ramp[0] <= 1] == 0).all()
    assert len(set(warm[ramp[0] >= 3])) == 1
    assert warm[-1] > 400


def test_green_lines_stay_green_under_an_open_mask(recording):
    open_ = dataclasses.replace(
        recording,
        cells=torch.ones_like(recording.cells),
        clean_cells=torch.ones_like(recording.clean_cells),
    )
    (moment,) = moments(open_, np.array([10]))
    by_title = dict(zip(moment.titles, moment.panels, strict=True))
    np.testing.assert_array_equal(by_title["green_lines"], by_title["mask on green_lines"])
    green = (by_title["mask on green_lines"] == (102, 203, 50)).all(axis=2)
    assert green.sum() > 100


def test_the_ball_shows_through_the_hottest_heat(recording):
    index = next(i for i in recording.film if recording.objects[i].ball is not None)
    m = int(np.flatnonzero(recording.film == index)[0])
    frame, objects = recording.frames[m], recording.objects[index]
    picture = panel(heat(frame, np.full((210, 160), 9.0)), frame, objects)
    place = objects.ball.slices((210, 160))
    large = tuple(slice(s.start * ZOOM, s.stop * ZOOM) for s in place)
    expected = frame[place].repeat(ZOOM, axis=0).repeat(ZOOM, axis=1)
    np.testing.assert_array_equal(picture[large], expected)


def test_moments_show_clean_variant_and_masked_input(recording):
    (moment,) = moments(recording, np.array([10]))
    at = recording.objects[recording.film[10]]
    beside = ("the clean game", "mask on it", "green_lines", "mask on green_lines")
    assert moment.titles == (*beside, "what it leaves")
    np.testing.assert_array_equal(moment.panels[2], panel(recording.frames[10], None, at))
    assert all(p.shape == (210 * ZOOM, 160 * ZOOM, 3) for p in moment.panels)
    assert "points" in moment.caption[0]
    assert "distractor" in moment.caption[1]


def test_sheet_spreads_its_moments(recording):
    chosen = spread(recording, 6)
    assert len(chosen) == 6
    assert all(recording.objects[i].ball is not None for i in recording.film[chosen])
    sheet = contact_sheet(recording, "title", 6)
    assert sheet.shape[0] > 6 * 210 * ZOOM
    assert sheet.shape[1] > 5 * 160 * ZOOM


@pytest.mark.parametrize(
    "text",
    [
        "mask on green_lines_matched",
        "mask on my_package.games:Fog@0.5",
        "mask on green_lines_matched+gravity_down@0.25",
        "averyveryverylongnamewithoutanyplacetobreakit",
    ],
)
def test_no_line_is_longer_than_its_place_and_no_letter_is_lost(text):
    lines = wrapped(text, 162, 16)
    assert all(font(16).getlength(line) <= 162 for line in lines)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")
    assert wrapped(text, 2000, 16) == [text]


def test_names_are_broken_at_their_joints():
    assert wrapped("mask on my_package.games:Fog@0.5", 162, 16)[-1] == "games:Fog@0.5"


def test_nothing_is_written_over_the_edge_of_a_small_sheet(recording):
    """A title that is wider than its sheet is wrapped."""
    title = "a_method_of_a_long_name · green_lines_matched · mask · step 10000000 · scripted plays"
    title += f" · {title} · {title}"
    sheet = contact_sheet(recording, title, 2)
    short = contact_sheet(recording, "title", 2)
    assert sheet.shape[1] == short.shape[1] < font(20).getlength(title)
    assert sheet.shape[0] > short.shape[0]
    for picture in (sheet, short):
        assert (picture[:, -EDGE + 4 :] == PAPER).all()  # paper, no letters
        assert (picture[-EDGE + 8 :] == PAPER).all()


def test_video_has_a_frame_a_look(recording, tmp_path):
    write_video(recording, tmp_path / "play.mp4", longest=12)
    with imageio.get_reader(tmp_path / "play.mp4") as video:
        frames = list(video.iter_data())
    assert len(frames) == 12
    assert frames[0].shape[1] > 3 * 160 * ZOOM
