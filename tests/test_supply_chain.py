"""The supply chain: every pin is locked by hashes, an unanswered audit is not called clean."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from packaging.version import Version

from tools import audit, lock, sbom

ROOT = Path(__file__).parents[1]


def test_the_lock_holds_every_pin_and_no_address() -> None:
    text = lock.LOCK.read_text()
    pins = dict(lock.pinned(lock.CONSTRAINTS.read_text()))
    locked = dict(re.findall(r"^([\w.-]+)==([\w.!+]+) \\$", text, re.MULTILINE))
    assert locked == pins, "run `make lock`"
    for block in re.split(r"^(?=\w)", text.partition("\n\n")[2] or text, flags=re.MULTILINE):
        if "==" in block:
            assert re.search(r"--hash=sha256:[0-9a-f]{64}\b", block), block
    assert "://" not in text


@pytest.mark.parametrize(
    ("file", "wanted"),
    [
        ("numpy-2.4.6-cp311-cp311-manylinux_2_28_x86_64.whl", True),
        ("numpy-2.4.6-cp310-cp310-manylinux_2_28_x86_64.whl", False),  # a Python we do not run on
        ("numpy-2.4.6-cp39-abi3-manylinux_2_28_x86_64.whl", True),
        ("numpy-2.4.6+cpu-cp312-cp312-linux_x86_64.whl", True),
        ("numpy-2.4.6-py2.py3-none-any.whl", True),
        ("numpy-2.4.60-cp311-cp311-linux_x86_64.whl", False),
        ("numpy_financial-2.4.6-py3-none-any.whl", False),
        ("numpy-2.4.6.tar.gz", True),
        ("numpy-2.4.6.exe", False),
    ],
)
def test_only_files_of_the_release_are_locked(file: str, wanted: bool) -> None:
    assert lock.matches(file, "numpy", Version("2.4.6")) is wanted


def test_hashes_come_from_pages_and_folders(tmp_path: Path) -> None:
    page = tmp_path / "index" / "a-b"
    page.mkdir(parents=True)
    digest, other = "0" * 64, "1" * 64
    page.joinpath("index.html").write_text(
        f'<a href="../../f/a_b-1.0-py3-none-any.whl#sha256={digest}">x</a>'
        f'<a href="../../f/a_b-1.1-py3-none-any.whl#sha256={other}">x</a>'
        f'<a href="../../f/a_b-1.0.tar.gz#sha256={other}">x</a>'
    )
    shop = tmp_path / "folder"
    shop.mkdir()
    (shop / "a_b-1.0+cpu-cp311-cp311-linux_x86_64.whl").write_bytes(b"wheel")
    index = (tmp_path / "index").as_uri()
    mine = hashlib.sha256(b"wheel").hexdigest()
    found = lock.hashes("a-b", Version("1.0"), [index, "file:///nowhere"], [shop])
    assert found == sorted([digest, mine])
    assert lock.hashes("a-b", Version("2.0"), [index], [shop]) == []


def answer(*packages: dict[str, Any], code: int = 0) -> Any:
    text = json.dumps({"dependencies": list(packages)})
    return SimpleNamespace(stdout=text, stderr="", returncode=code)


def package(*fixes: list[str]) -> dict[str, Any]:
    weak = [{"id": f"X-{n}", "aliases": ["CVE-1"], "fix_versions": f} for n, f in enumerate(fixes)]
    return {"name": "p", "version": "1", "vulns": weak}


SKIPPED = {"name": "q", "skip_reason": "not found"}


@pytest.mark.parametrize(
    ("said", "code", "words"),
    [
        (answer(package()), 0, "1 of 1 packages looked up, 0 known"),
        (answer(SKIPPED, SKIPPED), 0, "audit left out: none of 2 packages"),
        (answer(package(["2"]), SKIPPED, code=1), 1, "1 of 2 packages looked up, 1 known"),
        (answer(package([]), code=1), 0, "fixed in no release"),
        (SimpleNamespace(stdout="", stderr="no route\n", returncode=1), 0, "left out: no route"),
        (subprocess.TimeoutExpired("x", 1), 0, "left out: no answer within"),
    ],
)
def test_an_audit_fails_only_for_what_an_update_removes(
    said: Any,
    code: int,
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def run(*_: Any, **__: Any) -> Any:
        if isinstance(said, Exception):
            raise said
        return said

    monkeypatch.setattr(subprocess, "run", run)
    assert audit.main() == code
    assert words in capsys.readouterr().out
    monkeypatch.setattr(audit, "ACCEPTED", {"CVE-1": "does not reach us"})
    assert audit.main() == 0


def test_the_bill_lists_what_reprl_needs_and_nothing_of_the_developers(tmp_path: Path) -> None:
    assert sbom.main([str(tmp_path / "sbom.json")]) == 0
    bill = json.loads((tmp_path / "sbom.json").read_text())
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    names = {part["name"] for part in bill["components"]}
    assert {"torch", "numpy", "safetensors", "sympy", "hydra-core"} <= names
    assert not {"pytest", "ruff", "mypy", "reprl"} & names
    known = {part["bom-ref"] for part in bill["components"]} | {
        bill["metadata"]["component"]["bom-ref"]
    }
    for entry in bill["dependencies"]:
        assert {entry["ref"], *entry["dependsOn"]} <= known
    assert sbom.bill("reprl") == bill  # the same environment, the same file


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("import torch\ntorch.load('x')", "TID251"),
        ("import yaml\nyaml.load('x', yaml.Loader)", "TID251"),
        ("import yaml\nyaml.unsafe_load('x')", "TID251"),
        ("import subprocess\nsubprocess.run('x', shell=True)", "S602"),
        ("import os\nos.system('x')", "S605"),
        ("import pickle\npickle.loads(b'')", "S301"),
        ("eval('1')", "S307"),
    ],
)
def test_ruff_refuses_what_runs_a_strangers_code(line: str, rule: str) -> None:
    command = [sys.executable, "-m", "ruff", "check", "--output-format=concise", "--no-cache"]
    done = subprocess.run(
        [*command, "--stdin-filename", "reprl/new.py", "-"],
        input=line + "\n",
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert f" {rule} " in done.stdout
