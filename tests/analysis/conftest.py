"""Makes the synthetic sweep of fixture.py available to the tests of this folder."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="session")
def synthetic() -> ModuleType:
    spec = importlib.util.spec_from_file_location("sweep", Path(__file__).parent / "fixture.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def sweep(synthetic: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return synthetic.write_sweep(tmp_path_factory.mktemp("sweep") / "runs")
