"""Arbitrary text where the user or a folder supplies it: a clean error or an answer, never a crash.

The examples are the same in every session; REPRL_FUZZ=2000 draws so many new ones for each test.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reprl import checkpoint, tables, trust
from reprl.cli import main
from reprl.config.overrides import expand, flatten
from reprl.config.schema import load
from reprl.errors import UserError
from reprl.runs.folder import RunFolder
from reprl.runs.metrics import evaluated_gap
from reprl.schema import EPISODES

GOLDEN = Path(__file__).parents[1] / "golden" / "v0_2_0" / "runs" / "ppo_plain_s0"
MANIFEST = json.loads(next(GOLDEN.glob("checkpoints/*/manifest.json")).read_text())
RECORD = json.loads((GOLDEN / "run.json").read_text())
CONFIG = yaml.safe_load((GOLDEN / "config.yaml").read_text())
GAMES = (GOLDEN / "evaluation" / "episodes.csv").read_text()


def examples(count: int) -> Callable[[Any], Any]:
    asked = int(os.environ.get("REPRL_FUZZ", "0"))
    return settings(
        max_examples=asked or count,
        derandomize=not asked,
        deadline=None,
        database=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    )


LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(max_size=12),
    st.sampled_from(["original", "green_lines@2", "a:b", "..", "/", "~", "nan", "1e400", "${a}"]),
)


def _nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3)


PLAIN = st.recursive(LEAVES, _nested, max_leaves=6)
BYTES = st.binary(max_size=8) | st.sampled_from([b'"', b"\n", b",", b"\0", b"[" * 40])


@st.composite
def changed(draw: st.DrawFn, values: dict[str, Any]) -> dict[str, Any]:
    """A mapping with a value somewhere in it replaced, or removed, or another one added."""
    found = json.loads(json.dumps(values))
    for _ in range(draw(st.integers(1, 2))):
        path = draw(st.sampled_from(sorted(flatten(found)) or ["a"])).split(".")
        place = found
        for word in path[:-1][: draw(st.integers(0, 2))]:
            place = place[word] if isinstance(place.get(word), dict) else place
        word = draw(st.sampled_from([*map(str, place), "news"]))
        if draw(st.integers(0, 5)):
            place[word] = draw(PLAIN)
        else:
            place.pop(word, None)
    return dict(found)


@st.composite
def hurt(draw: st.DrawFn, text: str) -> bytes:
    """A text with some of its bytes replaced, removed or doubled."""
    data = bytearray(text.encode())
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, max(0, len(data) - 1)))
        end = at + draw(st.integers(0, 40))
        data[at:end] = draw(BYTES)
    return bytes(data)


def clean(call: Callable[[], Any]) -> None:
    """An answer or a UserError of one line; everything else is a bug."""
    message = "answered"
    try:
        call()
    except UserError as error:
        message = str(error)
    finally:
        trust.begin()
    assert message.strip()
    assert "Traceback" not in message


KEYS = ["seed", "total_steps", "algo", "algo.gamma", "algo.learning_rate", "encoder", "auxiliary"]
KEYS += ["eval.variants", "env.variant", "env.n_envs", "checkpoint", "run_dir", "hydra.searchpath"]
SIGNS = st.sampled_from(["", "", "", "+", "++", "~", "a.", "@"])
VALUES = st.one_of(
    st.text(max_size=10),
    st.text("[]{}():,'\"\\$ =@+-.0123456789abcnul", max_size=14),
    LEAVES.map(str),
    st.sampled_from(["[a,b]", "{a:1}", "range(3)", "1,2", "'", "${oc.env:HOME}", "???", "\x00"]),
)


@examples(40)
@given(sign=SIGNS, key=st.sampled_from(KEYS), end=st.sampled_from(["", "x", ".x"]), value=VALUES)
def test_overrides(sign: str, key: str, end: str, value: str) -> None:
    clean(lambda: load([f"{sign}{key}{end}={value}", "device=cpu", "threads=1"]))


@examples(150)
@given(text=st.text(max_size=16) | VALUES, value=VALUES)
def test_a_sweep_of_overrides(text: str, value: str) -> None:
    clean(lambda: expand([text, f"seed={value}"])[:10])


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(shutil.copytree(GOLDEN, tmp_path_factory.mktemp("fuzz") / "run"))


def replaced(file: Path, data: bytes, call: Callable[[], Any]) -> None:
    """Call with other bytes in a file, and put back what was there."""
    before = file.read_bytes()
    file.write_bytes(data)
    try:
        clean(call)
    finally:
        file.write_bytes(before)
        for left in file.parent.glob("*.damaged"):
            left.unlink()


def codes(*commands: list[str]) -> None:
    for arguments in commands:
        assert main(arguments) in (0, 1, 2)


@examples(60)
@given(data=changed(MANIFEST).map(lambda v: json.dumps(v).encode()) | hurt(json.dumps(MANIFEST)))
def test_a_manifest(run: Path, data: bytes) -> None:
    place = sorted((run / "checkpoints").iterdir())[-1]
    replaced(place / "manifest.json", data, lambda: checkpoint.read(place))


@examples(40)
@given(data=changed(RECORD).map(lambda v: json.dumps(v).encode()) | hurt(json.dumps(RECORD)))
def test_a_record(run: Path, data: bytes) -> None:
    where = str(run)
    looking = (["runs", where], ["verify", where], ["diff", where, str(GOLDEN)])
    replaced(run / "run.json", data, lambda: codes(*looking))


@examples(80)
@given(
    data=changed(CONFIG).map(lambda v: yaml.safe_dump(v).encode()) | hurt(yaml.safe_dump(CONFIG))
)
def test_a_configuration(run: Path, data: bytes) -> None:
    replaced(run / "config.yaml", data, lambda: RunFolder(run).config())
    replaced(run / "config.yaml", data, lambda: codes(["diff", str(run), str(GOLDEN)]))


@examples(80)
@given(data=hurt(GAMES))
def test_games(run: Path, data: bytes) -> None:
    file = run / "evaluation" / "episodes.csv"

    def use() -> None:
        evaluated_gap(run)
        with suppress(UserError):
            rows, _ = tables.read(file, EPISODES)
            tables.merge(file, rows.head(1), EPISODES)

    replaced(file, data, use)
