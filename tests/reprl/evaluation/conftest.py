"""Small models and run folders, made once."""

import shutil
import sys
from pathlib import Path

import pytest

from reprl.checkpoint import load
from tests.runs import make_run

sys.path.insert(0, str(Path(__file__).parent))  # players.py, under pytest's importlib mode


@pytest.fixture(scope="session")
def sweep(tmp_path_factory):
    """Two runs of one method and a run that has no checkpoint yet."""
    place = tmp_path_factory.mktemp("sweep")
    make_run(place / "first", seed=1)
    make_run(place / "second", seed=2, attention="conv", encoder="nature_padded")
    shutil.rmtree(make_run(place / "unfinished", seed=3) / "checkpoints")
    return place


@pytest.fixture
def runs(sweep, tmp_path):
    """A copy of the sweep to write into."""
    return Path(shutil.copytree(sweep, tmp_path / "sweep"))


@pytest.fixture(scope="session")
def model(sweep):
    return load(sweep / "first")


@pytest.fixture(scope="session")
def masked(sweep):
    return load(sweep / "second")
