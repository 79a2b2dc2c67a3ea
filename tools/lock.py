"""`make lock`: constraints.txt -> **lock** -> requirements.lock, with the hashes of every file.

The hashes come from where pip looks on this machine (its indexes and folders, from its own
configuration), so none is named here or in the lock. Only wheels of the Pythons we support are
taken; a source archive where a release has no wheel.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    canonicalize_name,
    parse_sdist_filename,
    parse_wheel_filename,
)
from packaging.version import InvalidVersion, Version

ROOT = Path(__file__).parents[1]
CONSTRAINTS, LOCK = ROOT / "constraints.txt", ROOT / "requirements.lock"
PYTHONS = ("cp311", "cp312", "cp313", "py3", "py2.py3")
HEADER = """\
# Every package of constraints.txt with the hashes of its files; made by `make lock`.
# pip install --no-deps --require-hashes -r requirements.lock && pip install --no-deps -e .
"""


def main() -> int:
    """Write the lock, or say for which package no file was found."""
    pins = dict(pinned(CONSTRAINTS.read_text(encoding="utf-8")))
    lines = [HEADER]
    sources = [*indexes()], [*folders()]
    for name, version in sorted(pins.items()):
        found = hashes(name, Version(version), *sources)
        if not found:
            print(f"no file of {name} {version} where pip looks", file=sys.stderr)
            return 1
        rows = [f"{name}=={version}", *(f"    --hash=sha256:{digest}" for digest in found)]
        lines.append(" \\\n".join(rows) + "\n")
        print(f"{name} {version}: {len(found)} files", file=sys.stderr)
    LOCK.write_text("".join(lines), encoding="utf-8")
    return 0


def pinned(text: str) -> Iterator[tuple[str, str]]:
    """The names, as indexes spell them, and versions of a constraints file."""
    for line in text.splitlines():
        if match := re.fullmatch(r"([\w.-]+)==([\w.!+]+)", line.strip()):
            yield str(canonicalize_name(match[1])), match[2]


def hashes(name: str, version: Version, urls: list[str], places: list[Path]) -> list[str]:
    """The sha256 of each file of a release that one of our Pythons may install."""
    files: dict[str, str] = {}
    for url in urls:
        for link in links(f"{url.rstrip('/')}/{name}/"):
            parts = urlsplit(link)
            digest = re.fullmatch(r"sha256=([0-9a-f]{64})", parts.fragment)
            file = unquote(parts.path.rpartition("/")[2])
            if digest and matches(file, name, version):
                files[file] = digest[1]
    for place in places:
        for path in place.iterdir():
            if matches(path.name, name, version):
                files[path.name] = hashlib.sha256(path.read_bytes()).hexdigest()
    wheels = {file: digest for file, digest in files.items() if file.endswith(".whl")}
    return sorted(set((wheels or files).values()))


def matches(file: str, name: str, version: Version) -> bool:
    """Whether a file is one of a release, with or without a local label, for our Pythons."""
    try:
        if file.endswith(".whl"):
            found, of, _, tags = parse_wheel_filename(file)
            ours = any(t.interpreter in PYTHONS or t.abi == "abi3" or "py3" in t.interpreter
                       for t in tags)  # fmt: skip
        else:
            (found, of), ours = parse_sdist_filename(file), True
    except (InvalidWheelFilename, InvalidSdistFilename, InvalidVersion):
        return False
    return ours and found == canonicalize_name(name) and of.public == version.public


def links(page: str) -> list[str]:
    """The addresses on an index's page of a package; none where it has no such page."""
    # where pip itself is told to look
    request = urllib.request.Request(page, headers={"Accept": "text/html"})  # noqa: S310
    try:
        if page.startswith("file:"):
            text = (Path(unquote(urlsplit(page).path)) / "index.html").read_text(encoding="utf-8")
        else:
            with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
                text = answer.read().decode("utf-8")
    except OSError:
        return []
    reader = Anchors()
    reader.feed(text)
    return [urljoin(page, link) for link in reader.found]


class Anchors(HTMLParser):
    """Collects where a page's anchors lead."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [value for key, value in attrs if (tag, key) == ("a", "href") and value]


def indexes() -> Iterator[str]:
    """The indexes that pip is set up to ask, its own default first."""
    from pip._internal.models.index import PyPI

    set_up = configured()
    yield set_up.get("index-url", PyPI.simple_url)
    yield from set_up.get("extra-index-url", "").split()


def folders() -> Iterator[Path]:
    """The folders of files that pip is set up to look into."""
    for word in configured().get("find-links", "").split():
        path = Path(urlsplit(word).path if word.startswith("file:") else word)
        if path.is_dir():
            yield path


def configured() -> dict[str, str]:
    """pip's settings, of whichever file or variable."""
    command = [sys.executable, "-m", "pip", "config", "list"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = re.findall(r"^(?:global|:env:|install)\.([\w-]+)='(.*)'$", text, re.MULTILINE)
    return dict(found)


if __name__ == "__main__":
    sys.exit(main())
