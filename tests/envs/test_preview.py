"""Contact sheet and video: the pictures in them are the game's."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from reprl.cli import main
from reprl.envs import make_vec_env, preview
from tests.helpers import Commands, refuses


def test_families_share_rows_but_never_overlap() -> None:
    places = preview._places({"a": 1, "b": 7, "c": 2, "d": 3})
    assert len(set(places.values())) == len(places) == 13
    assert places["a", 0] == (0, 0)
    assert places["c", 1] == (2, 0)
    assert places["d", 0] == (0, 1)  # three more do not fit into the first row of five
    assert places["b", 6] == (1, 3)


def test_shots_are_twins_of_one_game() -> None:
    plain, lines = preview.shots("original", seed=5), preview.shots("green_lines", seed=5)
    for _ in range(25):
        one, other = next(plain), next(lines)
        assert one.tracked == other.tracked
    painted = (one.raw != other.raw).any(-1)
    assert (other.raw[painted] == (102, 203, 50)).all()
    assert painted.sum() > 500
    assert one.view.shape == (84, 84)


def test_sheet_shows_the_games_pixels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preview, "MOMENT", 6)
    path = tmp_path / "new" / "sheet.png"
    assert main(["preview", "variant=original,green_lines@1,drift_left", f"output={path}"]) == 0
    sheet = np.asarray(Image.open(path).convert("RGB")).astype(int)
    game = preview.shots("original")
    shot = [next(game) for _ in range(7)][-1]
    top = preview._HEADING + preview._LABEL
    first = sheet[top : top + 210, preview._GAP : preview._GAP + 160]
    assert np.abs(first - shot.raw).max() <= 8  # 256 colours for the whole sheet
    line = np.abs(sheet - (102, 203, 50)).max(-1) <= 8
    assert line.sum() > 600 * 2  # severity 1 is thicker than the published 600 pixels


def test_video_has_the_right_length_and_size(tmp_path: Path) -> None:
    import imageio.v2 as imageio

    path = tmp_path / "game.mp4"
    assert main(["preview", "variant=green_lines", f"video={path}", "seconds=1"]) == 0
    with imageio.get_reader(path) as reader:
        frames = [frame for frame in reader]  # noqa: C416 (its length is infinite)
    assert len(frames) == 15
    assert frames[0].shape == (464, 744, 3)
    picture = frames[-1][44:, :320]
    assert np.abs(picture[2 * 98 + 2, 40].astype(int) - (102, 203, 50)).max() < 60


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["preview", "variant=green_line"], "'green_lines'"),
        (["preview", "output=sheet.jpg"], ".png"),
        (["preview", "variant=original,blur", "video=a.mp4"], "one variant"),
        (["preview", "video=a.gif"], ".mp4"),
        (["preview", "severity=2"], "severity"),
        (["play", "variant=drift_lft"], "'drift_left'"),
        (["play", "view=agnt"], "'agent'"),
    ],
)
def test_wrong_input_is_exit_2(arguments: list[str], named: str, commands: Commands) -> None:
    commands.refuse(arguments, named)


def test_a_wrong_variant_leaves_no_file(tmp_path: Path) -> None:
    assert main(["preview", "variant=original", "severity=0.5", f"video={tmp_path}/x.mp4"]) == 2
    with refuses("green_line"):
        preview.contact_sheet(tmp_path / "x.png", ["green_line"])
    assert not list(tmp_path.iterdir())


def test_a_folder_is_not_a_file(tmp_path: Path) -> None:
    (tmp_path / "x.png").mkdir()
    with refuses("x.png"):
        preview.contact_sheet(tmp_path / "x.png", ["original"])


def test_the_env_of_a_shot_is_the_evaluation_game() -> None:
    env = make_vec_env(n_envs=1, seed=9, training=False)
    env.queue(0, 9)
    env.reset()
    assert (env.frames()[0] == next(preview.shots("original", seed=9)).raw).all()
