"""Makes the synthetic sweep of fixture.py, and its report in a browser, available to the tests."""

import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from reprl.analysis.report import write_report


def load(name: str) -> ModuleType:
    path = Path(__file__).parent / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"analysis_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


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
    return load("fixture")


@pytest.fixture(scope="session")
def sweep(synthetic: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return synthetic.write_sweep(tmp_path_factory.mktemp("sweep") / "runs")


@pytest.fixture(scope="session")
def written(sweep: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    with own_random_play():
        return write_report([sweep], tmp_path_factory.mktemp("page"), figures=False)[0]


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
    browser = load("browser")
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
