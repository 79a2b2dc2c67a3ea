"""README's and results.md's numbers of the shipped agents are those of their published games."""

import re
from pathlib import Path

import pandas as pd

from benchmarks.agents_page import ROBUST
from benchmarks.declared_page import COLOURS, OTHER
from reprl.runs.agents import shipped

ROOT = Path(__file__).parents[1]
FOUR = ("constant_rectangle", "moving_square", "green_lines", "diagonals")


def games(name: str) -> pd.DataFrame:
    return pd.read_csv(shipped()[name] / "evaluation" / "episodes.csv")


def between(text: str, mark: str) -> list[list[str]]:
    """The cells of the table between two marks."""
    block = re.search(rf"<!-- {mark} -->\n(.*?)<!-- end {mark} -->", text, re.S)
    assert block
    rows = [line.strip("| \n").split(" | ") for line in block[1].splitlines()]
    return [rows[0], *rows[2:]]


def test_the_tables_of_results() -> None:
    text = (ROOT / "docs" / "results.md").read_text()
    head, *rows = between(text, "shipped")
    assert head[1:] == ["original", *FOUR]
    for row in rows:
        played = games(row[0].strip("`").removeprefix("agent:")).groupby("variant")
        assert set(played.size()[head[1:]]) == {20}
        means = played["episode_return"].mean()
        assert [f"{means[v]:.1f}" for v in head[1:]] == row[1:]
    head, *rows = between(text, "shipped more")
    assert {row[0] for row in rows} == {f"`agent:{name}`" for name in shipped()}
    for row in rows:
        name = row[0].strip("`").removeprefix("agent:")
        played = games(name).groupby("variant")
        more = [*OTHER, *COLOURS] if name == ROBUST else []  # that its sentence is about
        for variant, cell in zip(head[1:], row[1:], strict=True):
            assert played.size()[variant] == (20 if variant in ["original", *more] else 5)
            assert f"{played['episode_return'].mean()[variant]:.1f}" == cell


def test_the_sentences_of_readme() -> None:
    text = " ".join((ROOT / "README.md").read_text().split())
    frames, changed = (
        games(name).groupby("variant")["episode_return"].mean()
        for name in ("imitation", "imitation_background")
    )
    said = re.search(r"One sees frames: (\d+) points on the clean game and (\d+) behind", text)
    assert said
    assert said.groups() == (f"{frames['original']:.0f}", f"{frames['green_lines']:.0f}")
    said = re.search(r"`env.background=1`\): (\d+) points, (\d+) behind the lines", text)
    assert said
    assert said.groups() == (f"{changed['original']:.0f}", f"{changed['green_lines']:.0f}")
