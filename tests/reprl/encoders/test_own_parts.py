"""The documentation's own examples work as printed: a user's mask, encoder and augmentation."""

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch
import yaml

from reprl.components import build
from tests.helpers import space

DOCS = Path(__file__).parents[3] / "docs"


def blocks(page, kind):
    return re.findall(rf"```{kind}\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)


@pytest.fixture
def own_parts(monkeypatch):
    """Every printed module that names its file, importable under that name."""
    modules = {}
    for page in ("encoders.md", "augmentations.md"):
        for code in blocks(page, "python"):
            if named := re.match(r"# (my_\w+)\.py\n", code):
                module = ModuleType(named[1])
                exec(code, module.__dict__)
                monkeypatch.setitem(sys.modules, named[1], module)
                modules[named[1]] = module
    return modules


def test_printed_parts_build_from_their_printed_yaml(own_parts):
    (mask,) = map(yaml.safe_load, blocks("encoders.md", "yaml"))
    spec = {"_target_": "my_encoders.Small", "attention": mask}
    encoder = build("encoder", spec, observation_space=space())
    output = encoder.encode(torch.rand(2, 4, 84, 84))
    assert output.features.shape == (2, 128)
    assert output.attention.shape == (2, 1, 21, 21)
    assert encoder.project(output.attention, 84).shape == (2, 1, 84, 84)
    output.features.sum().backward()
    assert encoder.attention.mask.width.grad.abs() > 0
    stacks = torch.randint(256, (8, 4, 84, 84), generator=torch.Generator().manual_seed(1)).byte()
    printed = [yaml.safe_load(text) for text in blocks("augmentations.md", "yaml")]
    assert len(printed) == 2
    for augmentation in printed:
        assert augmentation.pop("use") == "rad"
        built = build("augmentation", augmentation)
        changed = built(stacks, torch.Generator().manual_seed(0)).observations
        assert changed.shape == stacks.shape
        assert (changed != stacks).any()


@pytest.mark.parametrize("page", ["encoders.md", "augmentations.md"])
def test_printed_tests_pass(own_parts, page):
    """As printed, its imports included."""
    (printed,) = [code for code in blocks(page, "python") if "\ndef test_" in code]
    names: dict = {}
    exec(printed, names)
    (test,) = [value for key, value in names.items() if key.startswith("test_")]
    test()
