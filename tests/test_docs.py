"""The pages hold together: every link and anchor leads somewhere, every page is in the site.

No network: addresses elsewhere are only held to their form. The site is built by mkdocs where
the extra [docs] is installed, with every warning an error.
"""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
PAGES = sorted([*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md")])
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def text_of(page: Path) -> str:
    """A page without its code."""
    return re.sub(r"`[^`\n]*`", "", FENCE.sub("", page.read_text(encoding="utf-8")))


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub and mkdocs make them."""
    headings = re.findall(
        r"^#+ (.+)$", FENCE.sub("", page.read_text(encoding="utf-8")), re.MULTILINE
    )
    words = [re.sub(r"[^\w\s-]", "", h.lower()).strip() for h in headings]
    return {re.sub(r"\s", "-", w) for w in words} | {re.sub(r"[-\s]+", "-", w) for w in words}


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    for link in LINK.findall(text_of(page)):
        if re.match(r"[a-z]+:", link):
            assert re.match(r"(https://[\w.-]+(/|$)|mailto:)", link), f"{link} in {page.name}"
            continue
        file, _, anchor = link.partition("#")
        target = (page.parent / file).resolve() if file else page
        assert target.exists(), f"{link} in {page.name}"
        assert target.is_relative_to(ROOT), f"{link} in {page.name} leaves the repository"
        if anchor and target.suffix == ".md":
            assert anchor in anchors(target), f"{link} in {page.name}"


def flat(nav: object) -> list[str]:
    if isinstance(nav, str):
        return [nav]
    parts = nav.values() if isinstance(nav, dict) else nav
    return [page for part in parts for page in flat(part)]  # type: ignore[union-attr]


def test_every_page_is_found_from_the_first_one() -> None:
    listed = flat(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"])
    there = {p.relative_to(ROOT / "docs").as_posix() for p in PAGES if "docs" in p.parts}
    assert set(listed) <= there
    first = (ROOT / "docs" / "index.md").read_text() + (ROOT / "README.md").read_text()
    linked = {link.removeprefix("docs/").partition("#")[0] for link in LINK.findall(first)}
    assert there - {"index.md"} <= linked  # a page nobody comes to


def test_the_reference_names_what_is_there() -> None:
    for page in (ROOT / "docs" / "api").glob("*.md"):
        for name in re.findall(r"^::: (\S+)$", page.read_text(), re.MULTILINE):
            assert importlib.util.find_spec(name) is not None, name


@pytest.mark.slow
def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    pytest.importorskip("mkdocstrings_handlers.python")
    pytest.importorskip("material")
    links = tmp_path / "typed" / "reprl"
    links.mkdir(parents=True)
    for place in [*(ROOT / "reprl").iterdir(), *(ROOT / n for n in ("envs", "conf", "analysis"))]:
        (links / place.name).symlink_to(place)
    config = (ROOT / "mkdocs.yml").read_text()
    config = config.replace("build/typed", str(tmp_path / "typed"))
    config = config.replace("docs_dir: docs", f"docs_dir: {ROOT / 'docs'}")
    (tmp_path / "mkdocs.yml").write_text(config.replace("build/site", str(tmp_path / "site")))
    command = [sys.executable, "-m", "mkdocs", "build", "-q", "-f", str(tmp_path / "mkdocs.yml")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    page = (tmp_path / "site" / "api" / "extending.html").read_text()
    assert "reprl.auxiliary.base.AuxiliaryLoss" in page
    assert "https://fonts" not in page


@pytest.mark.parametrize(
    ("group", "page"),
    [("auxiliary", "losses"), ("attention", "encoders"), ("augmentation", "augmentations")],
)
def test_every_part_that_can_be_chosen_is_on_its_page(group: str, page: str) -> None:
    names = {file.stem for file in (ROOT / "conf" / group).glob("*.yaml")} - {"none"}
    written = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    assert {name for name in names if f"`{name}`" not in written} == set()
