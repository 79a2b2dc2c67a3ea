"""What a stranger calls a run, a reason or a variant is shown as text, wherever it is shown."""

from __future__ import annotations

import csv
import importlib.util
import json
import re
import shutil
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pandas as pd
import pytest
import yaml

from reprl.cli import main
from reprl.escaping import markdown, shown

CLEAR = "\x1b[2J\x1b]0;pwned\x07\x9b31m"  # clears the screen, names the window, turns it red
TURNED = "\u202egnp.exe"  # writes backwards
FORMULA = '=HYPERLINK("http://x","y")'
TAGS = "<img src=x onerror=alert(1)>![t](http://x/p.png)[go](http://x)|`*"
EVIL = f"{CLEAR}{TURNED}\nfinished{TAGS}"


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two evaluated runs on disk, one of them with names of a stranger's choice."""
    file = Path(__file__).parents[1] / "analysis" / "fixture.py"
    spec = importlib.util.spec_from_file_location("escaping_fixture", file)
    assert spec is not None
    assert spec.loader is not None
    synthetic = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(synthetic)
    place = tmp_path / "runs"
    for seed in (1, 2):
        synthetic.write_run(place / f"run{seed}", "ppo nature", seed, episodes=4)
    evil = place / f"=run\x1b[2J{TURNED}"
    (place / "run2").rename(evil)
    record = json.loads((evil / "run.json").read_text())
    record |= {"method": f"{FORMULA}{EVIL}", "status": "failed", "reason": EVIL}
    record |= {"started": CLEAR, "versions": {CLEAR: EVIL}, "config_hash": EVIL}
    (evil / "run.json").write_text(json.dumps(record))
    config = yaml.safe_load((evil / "config.yaml").read_text())
    config["algo"][f"rate{EVIL}"] = EVIL
    config["augmentation"] = {"_target_": f"a.{TAGS}", "name": FORMULA}
    (evil / "config.yaml").write_text(yaml.safe_dump(config))
    episodes = pd.read_csv(evil / "evaluation" / "episodes.csv")
    episodes["method"] = f"{FORMULA}{TAGS}"
    episodes["variant"] = episodes["variant"].replace({"diagonals": f"{FORMULA}{TAGS}"})
    episodes.to_csv(evil / "evaluation" / "episodes.csv", index=False)
    monkeypatch.chdir(tmp_path)
    return place


def unseen(text: str) -> list[str]:
    """Signs that a terminal would obey; our own output is plain outside of one."""
    return [c for c in text if not c.isprintable() and c not in "\n\u00a0"]


@pytest.mark.parametrize(
    "command",
    [
        ["runs", "runs"],
        ["runs", "runs", f"match={CLEAR}"],
        ["diff", "runs/run1", "EVIL"],
        ["verify", "EVIL"],
        ["report", "runs", "figures=false"],
        ["evaluate", "runs"],
        ["evaluate", "EVIL"],
        ["attention", "EVIL"],
        ["resume", "EVIL"],
        ["evaluate", "runs/run1", f"variants={EVIL}"],
        ["train", f"algo={EVIL}"],
    ],
)
def test_a_terminal_is_given_no_control_characters(
    command: list[str], runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    evil = str(next(p for p in runs.iterdir() if p.name.startswith("=")))
    main([evil if word == "EVIL" else word for word in command])
    found: Any = capsys.readouterr()
    assert found.out + found.err
    assert unseen(found.out + found.err) == []


def test_a_reason_cannot_look_like_a_row_of_its_own() -> None:
    assert shown("lost\nrun7  finished\r\n") == "lost run7  finished"
    assert shown("\x1b[2J\x07\u202e") == "\\x1b[2J\\x07\\u202e"
    assert shown("Grüße, 100\u00a0%") == "Grüße, 100\u00a0%"


def test_markdown_holds_neither_tags_nor_links_nor_pictures(runs: Path, tmp_path: Path) -> None:
    assert main(["report", "runs", "figures=false"]) == 0
    files = [*(tmp_path / "report").rglob("*.md")]
    assert len(files) > 3
    for file in files:
        text = file.read_text()
        assert "HYPERLINK" in text or file.name not in ("tables.md", "overall.md")
        assert not re.search(r"<\w|!\[|\]\(|(?<!\\)[`*]", text), file.name
        assert unseen(text) == []
        for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
            columns = {len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}
            assert len(columns) == 1, file.name
    assert markdown("a\\|b") == "a\\\\\\|b"  # else the backslash would free the pipe


def test_no_cell_of_a_csv_table_is_a_formula(runs: Path, tmp_path: Path) -> None:
    assert main(["report", "runs", "figures=false"]) == 0
    found = 0
    for file in (tmp_path / "report").rglob("*.csv"):
        with file.open(newline="") as lines:
            for word in (word for row in csv.reader(lines) for word in row):
                found += word.startswith("'=")
                if word.startswith(("=", "+", "-", "@", "\t", "\r")):
                    float(word)  # a number may begin with its sign
    assert found > 3


def test_figures_and_page_take_the_names_as_text(runs: Path, tmp_path: Path) -> None:
    shutil.rmtree(runs / "run1")
    assert main(["report", "runs"]) == 0
    for file in [tmp_path / "report" / "report.html", *(tmp_path / "report").rglob("*.svg")]:
        assert "<img src=x" not in file.read_text(), file.name
        if file.suffix == ".svg":
            ElementTree.fromstring(file.read_text())  # a control character would end it
