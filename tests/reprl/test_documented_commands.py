"""What the pages tell people to type is understood: every command that trains, every mapping."""

import re
import shlex
from pathlib import Path

import pytest

from reprl.config.schema import load

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
REMARK = re.compile(r"(\s+#|\s{3,}).*")  # beside a command
# sweeps are planned elsewhere (tests/reprl/sweeps); the rest names what only its reader has
ELSEWHERE = re.compile(r"\s-m\s|\$|<|\bparent=runs/|runs/THAT|my_package|my_schedules|\.\.\.")


def commands() -> dict[str, str]:
    """Every line of a page's shell blocks that trains one run, by page and line."""
    found = {}
    for page in PAGES:
        text = page.read_text(encoding="utf-8").replace("\\\n", " ")
        for _, block in BLOCK.findall(text):
            for number, whole in enumerate(block.splitlines()):
                line = REMARK.sub("", whole)
                if line.startswith("reprl train ") and not ELSEWHERE.search(line):
                    found[f"{page.name}-{number}-{line[12:60]}"] = line
    return found


def mappings() -> set[str]:
    """Every setting in braces that a page gives in its text, such as a schedule."""
    given = re.compile(r"`([a-z_]+\.[a-z_.]+=\{[^`]*\})`")
    found = {m for page in PAGES for m in given.findall(page.read_text(encoding="utf-8"))}
    return {m for m in found if not ELSEWHERE.search(m)}


@pytest.mark.parametrize("line", commands().values(), ids=commands())
def test_a_command_that_trains_is_understood(line: str) -> None:
    if "procgen" in line:
        pytest.importorskip("envpool")  # the extra that plays it
    load([*shlex.split(line)[2:], "device=cpu", "threads=1"])


@pytest.mark.parametrize("given", sorted(mappings()))
def test_a_setting_in_braces_is_understood(given: str) -> None:
    load([given, "device=cpu", "threads=1"])


def test_the_pages_have_some() -> None:
    assert len(commands()) > 30
    assert any(given.startswith("algo.momentum=") for given in mappings())


@pytest.mark.parametrize("key", ["learning_rate", "clip_range", "clip_range_vf", "momentum"])
@pytest.mark.parametrize("kind", ["one_cycle", "linear"])
def test_every_scheduled_setting_takes_a_schedule(key: str, kind: str) -> None:
    ends = "start: 0.2, peak: 0.3, end: 0.1" if kind == "one_cycle" else "start: 0.2, end: 0.1"
    config = load([f"algo.{key}={{kind: {kind}, {ends}}}", "device=cpu", "threads=1"])
    assert config.algo[key]["kind"] == kind
    assert config.algo[key]["start"] == 0.2
