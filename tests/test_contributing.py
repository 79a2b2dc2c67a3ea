"""CONTRIBUTING's walk through the code: every place it names is there."""

import importlib
import re
from pathlib import Path

import pytest

TEXT = (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text()
PLACES = sorted(set(re.findall(r"`(reprl(?:\.\w+)+(?::[\w.]+)?)`", TEXT)))
FILES = sorted(
    set(re.findall(r"`((?:reprl|envs|analysis|benchmarks|conf|tests)/[\w/]+\.py)`", TEXT))
)


@pytest.mark.parametrize("place", PLACES)
def test_a_named_place_is_there(place: str) -> None:
    module, _, names = place.partition(":")
    found = importlib.import_module(module)
    for name in names.split(".") if names else ():
        found = getattr(found, name)


@pytest.mark.parametrize("file", FILES)
def test_a_named_file_is_there(file: str) -> None:
    assert (Path(__file__).parents[1] / file).is_file()


def test_a_sample_is_followed_in_few_steps() -> None:
    steps = [int(n) for n in re.findall(r"^(\d+)\. ", TEXT, flags=re.MULTILINE)]
    assert steps == list(range(1, len(steps) + 1))
    assert len(steps) <= 32
    assert len(PLACES) > 25
