"""Playing by hand: the terminal's picture, the keys, and the window without a screen."""

import os
import pty
import re
import select
import sys
import time

import numpy as np
import pytest

from reprl.envs import play


def test_text_fits_and_shows_the_picture() -> None:
    picture = np.zeros((196, 160, 3), np.uint8)
    picture[98:] = (10, 200, 30)
    text = play.rendered(picture, 80, 22, colour=True)
    lines = text.split("\r\n")
    assert len(lines) <= 22
    plain = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in lines]
    assert set("".join(plain)) == {"▀"}
    assert len({len(line) for line in plain}) == 1
    assert len(plain[0]) <= 80
    assert lines[0].startswith("\x1b[38;2;0;0;0;48;2;0;0;0m")
    assert lines[-1].startswith("\x1b[38;2;10;200;30;48;2;10;200;30m")
    letters = play.rendered(picture, 80, 22, colour=False).split("\r\n")
    assert set(letters[0]) == {" "}
    assert len(set(letters[-1])) == 1
    assert letters[-1][0] in "%#@*"


def test_screens_and_colours_are_recognised() -> None:
    assert play.has_screen({"DISPLAY": ":0"}, "linux")
    assert play.has_screen({"WAYLAND_DISPLAY": "w"}, "linux")
    assert not play.has_screen({}, "linux")
    assert play.has_screen({}, "darwin")
    assert play.has_colour({"COLORTERM": "truecolor"})
    assert not play.has_colour({"COLORTERM": "truecolor", "NO_COLOR": "1"})
    assert not play.has_colour({})


def test_a_session_plays_and_shows_both_views() -> None:
    session = play.HumanGame("green_lines", severity=None, seed=0, view="agent")
    for _ in range(3):
        session.step(session.action("right"))
    assert (session.picture()[..., 0] == session.observation[0, -1]).all()
    right = session.env.objects()[0].paddle
    for _ in range(6):
        session.step(session.action("left"))
    left = session.env.objects()[0].paddle
    assert left is not None
    assert right is not None
    assert left.x < right.x - 40
    session.view = "screen"
    assert (session.picture()[98, 8:40] == (102, 203, 50)).all()
    session.close()


def test_the_window_opens_without_a_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pygame")
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    session = play.HumanGame("original", severity=None, seed=0, view="screen")
    before = session.observation.copy()
    play.play_in_window(session, "test", steps=3)
    assert (session.observation != before).any()
    session.close()


@pytest.mark.slow
def test_the_terminal_takes_keys_and_is_given_back() -> None:
    """In a real pseudo-terminal: the paddle follows the key, q ends, the cursor returns."""
    process, terminal = pty.fork()
    if process == 0:
        os.environ.pop("COLORTERM", None)
        os.environ.update(TERM="xterm", OMP_NUM_THREADS="1", COLUMNS="120", LINES="60")
        arguments = ["-m", "reprl", "play", "where=terminal"]
        os.execv(sys.executable, [sys.executable, *arguments])
    out, began, quitting = b"", time.monotonic(), False
    while time.monotonic() - began < 120:
        if select.select([terminal], [], [], 0.2)[0]:
            try:
                out += os.read(terminal, 65536)
            except OSError:
                break
        shown = out.count(b"\x1b[H")
        if shown > 30 and not quitting:
            os.write(terminal, b"q")
            quitting = True
        elif shown > 2 and not quitting:
            os.write(terminal, b"a")
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0
    assert out.rstrip().endswith(b"points")
    assert b"\x1b[?25h\x1b[?1049l" in out
    pictures = out.split(b"\x1b[H")

    def paddle(picture: bytes) -> int:
        """The column of the only long run of letters between the walls near the bottom."""
        lines = picture.decode().replace("\x1b[0J", "").split("\r\n")[-8:-1]
        found = (re.search(r"[^ ]{8,}", line[7:]) for line in lines)
        return next(match.start() for match in found if match)

    assert paddle(pictures[-1]) < 3 < paddle(pictures[2])  # it went to the left wall
