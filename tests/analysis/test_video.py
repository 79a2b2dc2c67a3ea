"""`reprl video`: a film that can be opened, of the game that was asked for, whole or not at all."""

from pathlib import Path

import imageio.v2 as imageio
import numpy as np
import pytest
from PIL import Image
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from reprl.analysis import video
from reprl.cli import main
from tests.helpers import Commands
from tests.runs import SMALL, make_run

pytestmark = pytest.mark.slow  # plays


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("video") / "run", attention="conv")


def frames(path: Path) -> np.ndarray:
    with Image.open(path) as film:
        found = []
        for number in range(film.n_frames):
            film.seek(number)
            found.append(np.asarray(film.convert("RGB")))
        return np.stack(found)


def test_a_gif_shows_the_variant_and_is_the_same_again(run: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        words = ["variant=green_lines", "seconds=0.4", f"output={tmp_path / name}.gif"]
        assert main(["video", str(run), *words]) == 0
    assert (tmp_path / "a.gif").read_bytes() == (tmp_path / "b.gif").read_bytes()
    film = frames(tmp_path / "a.gif")
    assert film.shape[1:] == (2 * 210 + video.HEAD, 2 * 160 + 8, 3)
    # the first line of green_lines: row 32 of 80, columns 4 on (FACTS: y = 34 + 2 r, x = 2 c)
    y, x = video.HEAD + 2 * (34 + 2 * 32) + 1, 4 + 2 * (2 * 10) + 1
    assert np.abs(film[0][y, x].astype(int) - (102, 203, 50)).max() < 12


def test_two_agents_side_by_side_with_attention_as_mp4(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "new" / "both.mp4"
    words = ["attention=auto", "seconds=0.4", f"output={output}"]
    assert main(["video", str(run), str(run), *words]) == 0
    with imageio.get_reader(output) as film:
        first = film.get_data(0)
        assert film.count_frames() == 6
    assert first.shape[1] == 2 * (2 * 160 + 8)
    said = capsys.readouterr().out
    assert f"wrote {output}" in said
    assert said.count("points") == 2


def test_a_film_that_fails_leaves_nothing(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> bytes:
        raise RuntimeError("no film today")

    (tmp_path / "film.gif").write_bytes(b"the old one")
    monkeypatch.setattr(video, "gif", fail)
    assert main(["video", str(run), "seconds=0.2", f"output={tmp_path / 'film.gif'}"]) == 1
    assert [f.name for f in tmp_path.iterdir()] == ["film.gif"]
    assert (tmp_path / "film.gif").read_bytes() == b"the old one"


def test_a_world_of_gymnasium_is_filmed_as_the_agent_sees_it(tmp_path: Path) -> None:
    run = tmp_path / "grid"
    world = ["env=gymnasium", "env.id=MiniGrid-Empty-5x5-v0", "encoder=nature", "total_steps=32"]
    seen = ["eval.every=32", "eval.episodes=1", "media=6"]
    assert main(["train", *SMALL, *world, *seen, "algo.n_epochs=1", f"run_dir={run}"]) == 0
    events = EventAccumulator(str(run / "tensorboard"), size_guidance={"images": 0})
    events.Reload()
    assert {"video/original", "attention/original"} <= set(events.Tags()["images"])
    output = tmp_path / "grid.gif"
    assert main(["video", str(run), "seconds=0.4", "attention=auto", f"output={output}"]) == 0
    film = frames(output)
    assert film.shape[1:] == (2 * 84 + video.HEAD, 2 * 84 + 8, 3)
    assert film[:, video.HEAD :].std(axis=(1, 2)).max() > 10


def test_numbers_cannot_be_filmed(tmp_path: Path, commands: Commands) -> None:
    run = tmp_path / "pole"
    game = ["env=gymnasium", "total_steps=32", "eval.every=32", "eval.episodes=1", "media=6"]
    small = [word for word in SMALL if not word.startswith("encoder.")]
    assert main(["train", *small, *game, "algo.n_epochs=1", f"run_dir={run}"]) == 0
    commands.refuse(["video", str(run), f"output={tmp_path / 'a.gif'}"], "CartPole-v1", "screen")
