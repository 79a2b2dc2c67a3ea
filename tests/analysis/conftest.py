"""The synthetic sweep of fixture.py, a copy to change, and its report in a browser."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from reprl.analysis.report import write_report
from tests.analysis import browser, fixture


@contextmanager
def own_random_play() -> Iterator[None]:
    """The synthetic sweep has a random player of its own; test_random_play has the shipped one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("reprl.analysis.load.with_measured", lambda episodes, game: episodes)
        yield


@pytest.fixture(scope="module", autouse=True)
def _own_random_play() -> Iterator[None]:
    with own_random_play():
        yield


@pytest.fixture(scope="session")
def synthetic() -> ModuleType:
    return fixture


@pytest.fixture(scope="session")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fixture.write_sweep(tmp_path_factory.mktemp("sweep") / "runs")


@pytest.fixture
def runs(sweep: Path, tmp_path: Path) -> Path:
    """A copy of the sweep to change."""
    return Path(shutil.copytree(sweep, tmp_path / "runs"))


@pytest.fixture(scope="session")
def written(sweep: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report on the whole sweep, without figures; nobody changes it."""
    with own_random_play():
        return write_report([sweep], tmp_path_factory.mktemp("page") / "out", figures=False)[0]


@pytest.fixture(scope="session")
def six(synthetic: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of six methods with long names."""
    folder = tmp_path_factory.mktemp("six")
    with own_random_play():
        return write_report([synthetic.write_six(folder / "runs")], folder / "out", figures=False)[
            0
        ]


@pytest.fixture(scope="module")
def shared() -> Iterator[Any]:
    if browser.CHROMIUM is None:
        pytest.skip("Chromium is not installed")
    page = browser.Page()
    yield page
    page.close()


@pytest.fixture
def page(shared: Any, written: Path) -> Iterator[Any]:
    """A freshly opened report; whatever a test does must leave no request and no error."""
    shared.requests.clear()
    shared.errors.clear()
    shared.resize(1280)
    shared.open(written)
    yield shared
    assert shared.errors == []
    assert [r for r in shared.requests if not r.startswith(("data:", written.as_uri()))] == []
