"""An honest run, made once, and a copy of it to be changed."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from reprl import trust
from reprl.cli import main
from tests.attacks.folders import SMALL, change


@pytest.fixture(scope="session")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small run with two checkpoints that says it was interrupted."""
    place = tmp_path_factory.mktemp("honest") / "run"
    assert main(["train", "encoder=nature", *SMALL, f"run_dir={place}"]) == 0
    shutil.rmtree(place / "checkpoints" / "000000000064")
    change(place / "run.json", lambda record: record.update(status="interrupted", step=32))
    return place


@pytest.fixture
def run(honest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of it in the folder where the command is given."""
    (tmp_path / "runs").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    before = set(sys.modules)
    yield Path(shutil.copytree(honest, tmp_path / "runs" / "x"))
    for name in set(sys.modules) - before:
        if name.startswith(("evil", "runs", "mine_of")):
            del sys.modules[name]
    trust.begin()


@pytest.fixture
def marker(tmp_path: Path) -> Path:
    return tmp_path / "marker"
