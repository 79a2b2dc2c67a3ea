"""What many tests share: a refusal is held to what it names, never to its sentence."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
from gymnasium import spaces

from reprl.cli import main
from reprl.errors import UserError


def assert_named(said: str, names: tuple[str, ...]) -> None:
    """One line that holds key and value, what is allowed, and in quotes the nearest spelling."""
    assert len(names) == 1 or any(len(name) > 1 for name in names), "nothing is asked for"
    assert "\n" not in said, said
    for name in names:
        assert name in said, f"{name!r} is not named: {said}"


@contextmanager
def refuses(*names: str, error: type[Exception] = UserError) -> Iterator[None]:
    """What stands in this block is refused, in one sentence that names all of these."""
    with pytest.raises(error) as caught:
        yield
    assert_named(str(caught.value), names)


def space(size: int = 84, frames: int = 4) -> spaces.Box:
    """What an encoder is made for."""
    return spaces.Box(0, 255, (frames, size, size), np.uint8)


class Commands:
    """Runs commands in this process and holds what they say on stderr to its names."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys = capsys

    def refuse(self, arguments: list[str], *names: str) -> None:
        """Exit code 2 and, behind warnings, one line that names all of these."""
        self.capsys.readouterr()
        assert main([str(argument) for argument in arguments]) == 2
        said = self.capsys.readouterr().err.removesuffix("\n").split("\n")
        assert all(line.startswith("WARNING: ") for line in said[:-1]), said
        assert_named(said[-1], names)
