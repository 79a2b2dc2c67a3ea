"""A report and a study's pictures are old or new, never half, whatever happens while writing."""

import errno
import json
import os
import threading
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from reprl.analysis.attention import pictures, study
from reprl.analysis.report import write_report
from reprl.errors import UserError


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that is full when a file's last bytes are to be kept."""

    def refuse(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", refuse)


def listing(place: Path) -> dict[str, bytes]:
    return {str(p.relative_to(place)): p.read_bytes() for p in place.rglob("*") if p.is_file()}


def test_a_report_is_replaced_whole(
    sweep: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    write_report([sweep], tmp_path / "page", figures=False)
    before = listing(tmp_path / "page")
    request.getfixturevalue("full")
    with pytest.raises(UserError, match="out="):
        write_report([sweep / "ppo-nature-1"], tmp_path / "page", figures=False)
    assert listing(tmp_path / "page") == before


def test_a_picture_is_replaced_whole(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    file = tmp_path / "original.png"
    pictures.write_picture(np.zeros((8, 8, 3), np.uint8), file)
    before = listing(tmp_path)
    request.getfixturevalue("full")
    with pytest.raises(OSError, match="space"):
        pictures.write_picture(np.ones((64, 64, 3), np.uint8), file)
    assert listing(tmp_path) == before


def test_two_studies_at_once_lose_no_label(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each reads, adds and writes: without a lock the later one writes what it read before."""
    file = tmp_path / "labels.json"
    real, both = study.guard.read_text, threading.Barrier(2)

    def slow(path: Path) -> str:
        try:
            return real(path)
        finally:
            # both have read before either writes, unless one is kept out
            with suppress(threading.BrokenBarrierError):
                both.wait(timeout=1.0)

    monkeypatch.setattr(study.guard, "read_text", slow)

    def add(name: str) -> None:
        recording = SimpleNamespace(view=SimpleNamespace(name="mask"), player="agent")
        found = SimpleNamespace(labels=["stuck"], numbers={}, variant=name, recording=recording)
        study._label(file, name, found, 1)  # type: ignore[arg-type]

    threads = [threading.Thread(target=add, args=(name,)) for name in ("original", "diagonals")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(json.loads(file.read_text())["labels"]) == {"original", "diagonals"}
