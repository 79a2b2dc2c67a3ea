"""CONTRIBUTING holds: every place it names is there, and a class name means one thing."""

import ast
import importlib
import re
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "CONTRIBUTING.md").read_text()
PLACES = sorted(set(re.findall(r"`(reprl(?:\.\w+)+(?::[\w.]+)?)`", TEXT)))
FILES = sorted(
    set(re.findall(r"`((?:reprl|envs|analysis|benchmarks|conf|tests)/[\w/]+\.py)`", TEXT))
)
# What an augmentation and a variant's effect are called in files that exist.
NAMES_IN_FILES = {"Blur", "Lines", "Noise"}


def classes_defined_twice() -> dict[str, list[str]]:
    """Class names of the package with all the places that define them, where these are several."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in (p for top in ("reprl", "envs", "analysis") for p in (ROOT / top).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                found[node.name].append(f"{path.relative_to(ROOT)}:{node.lineno}")
    return {name: places for name, places in found.items() if len(set(places)) > 1}


def test_no_class_name_is_defined_twice() -> None:
    twice = classes_defined_twice()
    assert set(twice) == NAMES_IN_FILES, twice


@pytest.mark.parametrize(
    ("folders", "words", "home"),
    [
        (("reprl", "envs", "analysis"), r'== "breakout"', "envs/games/"),
        (("reprl", "analysis"), r"mlp_extractor", "policy.py"),
        (("reprl", "analysis"), r"read_csv|csv\.reader", "tables.py"),
        (("reprl/evaluation",), r"reprl\.analysis", "nowhere"),
    ],
    ids=["game", "policy forward", "reading tables", "evaluation knows no analysis"],
)
def test_a_rule_has_one_place(folders: tuple[str, ...], words: str, home: str) -> None:
    files = [str(path.relative_to(ROOT)) for top in folders for path in (ROOT / top).rglob("*.py")]
    assert files
    elsewhere = [file for file in files if home not in file]
    assert [file for file in elsewhere if re.search(words, (ROOT / file).read_text())] == []


@pytest.mark.parametrize("place", PLACES)
def test_a_named_place_is_there(place: str) -> None:
    module, _, names = place.partition(":")
    found = importlib.import_module(module)
    for name in names.split(".") if names else ():
        found = getattr(found, name)


@pytest.mark.parametrize("file", FILES)
def test_a_named_file_is_there(file: str) -> None:
    assert (ROOT / file).is_file()


def test_a_sample_is_followed_in_few_steps() -> None:
    steps = [int(n) for n in re.findall(r"^(\d+)\. ", TEXT, flags=re.MULTILINE)]
    assert steps == list(range(1, len(steps) + 1))
    assert len(steps) <= 20 + 12
    assert len(PLACES) > 25
