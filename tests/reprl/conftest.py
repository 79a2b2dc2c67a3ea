"""What tests of runs share."""

from pathlib import Path

import pytest

from tests.runs import train


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was never interrupted; nobody changes it."""
    place = tmp_path_factory.mktemp("whole") / "run"
    assert train(place) == 0
    return place
