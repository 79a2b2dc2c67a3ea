"""What all tests share: where temporary files go, one thread, commands that are refused."""

import getpass
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from tests.helpers import Commands


@pytest.fixture(scope="session", autouse=True)
def _temporary_files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    # SB3 makes a folder for every model that was given no logger, and never removes it.
    place = tmp_path_factory.mktemp("temporary")
    usual = Path(tempfile.gettempdir())
    patch = pytest.MonkeyPatch()
    # Compiled code is kept from one test session to the next: it takes minutes to make.
    if "TORCHINDUCTOR_CACHE_DIR" not in os.environ:
        cache = usual / f"torchinductor_{getpass.getuser()}"
        patch.setenv("TORCHINDUCTOR_CACHE_DIR", str(cache))
    patch.setenv("TMPDIR", str(place))
    patch.setattr(tempfile, "tempdir", str(place))
    torch.set_num_threads(1)  # also for what is made once for all
    yield
    patch.undo()


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Bits depend on the number of threads, and what is tested is too small to share them."""
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(1)


@pytest.fixture
def commands(capsys: pytest.CaptureFixture[str]) -> Commands:
    """`commands.refuse(["train", "seed=x"], "seed=x")`."""
    return Commands(capsys)
