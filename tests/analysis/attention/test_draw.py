"""Pictures: the heat hides nothing, the sheet and the video hold what they should."""

import imageio.v2 as imageio
import numpy as np
import pytest
from toys import ball_model

from reprl.analysis.attention.lettering import font, wrapped
from reprl.analysis.attention.network import network_of
from reprl.analysis.attention.pictures import (
    EDGE,
    PAPER,
    ZOOM,
    contact_sheet,
    heat,
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


def test_no_attention_leaves_the_frame_as_it_is():
    frame = np.random.default_rng(0).integers(0, 256, (210, 160, 3)).astype(np.uint8)
    nothing = np.zeros((210, 160))
    np.testing.assert_array_equal(heat(frame, nothing, 1.0), frame)
    np.testing.assert_array_equal(heat(frame, nothing, 0.0), frame)


def test_more_attention_is_brighter():
    ramp = np.tile(np.linspace(0, 1, 160), (210, 1))
    warm = heat(np.zeros((210, 160, 3), np.uint8), ramp, 1.0).astype(int).sum(axis=2)
    assert (np.diff(warm[0]) >= -2).all()  # whole-number rounding
    assert warm[0, -1] > 400


def test_the_ball_shows_through_the_hottest_heat(recording):
    index = next(i for i in recording.film if recording.objects[i].ball is not None)
    m = int(np.flatnonzero(recording.film == index)[0])
    frame, objects = recording.frames[m], recording.objects[index]
    picture = panel(heat(frame, np.ones((210, 160)), 1.0), frame, objects)
    place = objects.ball.slices((210, 160))
    large = tuple(slice(s.start * ZOOM, s.stop * ZOOM) for s in place)
    expected = frame[place].repeat(ZOOM, axis=0).repeat(ZOOM, axis=1)
    np.testing.assert_array_equal(picture[large], expected)


def test_moments_show_clean_variant_and_masked_input(recording):
    (moment,) = moments(recording, np.array([10]))
    assert moment.titles == ("mask on the clean game", "mask on green_lines", "what it leaves")
    assert all(p.shape == (210 * ZOOM, 160 * ZOOM, 3) for p in moment.panels)
    assert "points" in moment.caption[0]
    assert "distractor" in moment.caption[1]


def test_sheet_spreads_its_moments(recording):
    chosen = spread(recording, 6)
    assert len(chosen) == 6
    assert all(recording.objects[i].ball is not None for i in recording.film[chosen])
    sheet = contact_sheet(recording, "title", 6)
    assert sheet.shape[1] > 6 * 160 * ZOOM
    assert sheet.shape[0] > 3 * 210 * ZOOM


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
    """Two moments are narrower than title and legend."""
    title = "a_method_of_a_long_name · green_lines_matched · mask · step 10000000 · scripted plays"
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
