"""The attack table: by which door, through which file, on which command, and what comes of it.

A row is one command on one crafted folder. Whatever its result, no line of the folder's code is
executed, nothing outside of it is changed, and no secret from outside is in what was written.
"""

from __future__ import annotations

import os
import shutil
import zlib
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from reprl.cli import main
from tests.attacks.folders import (
    EVIL,
    LAUGHS,
    change,
    change_config,
    change_snapshot,
    change_state,
    every_command,
    studies,
    touching,
)

# door | file | commands | exit code and words of the answer (a command may only look: 0)
TABLE = """
a function as variant | config.yaml | evaluate attention probe resume | 2 os:system
a function as variant | config.yaml | verify runs diff report export | 0
a function as validation variant | config.yaml | evaluate attention probe resume | 2 os:system
a function as validation variant | config.yaml | verify report | 0
a function as effect | state.safetensors | resume | 2 os:system
a function as effect | state.safetensors | verify runs report export | 0
a function as schedule | state.json | evaluate attention probe | 2 shutil
a function as schedule | state.json | verify runs report export parent resume | 0
a module of the folder as encoder | config.yaml | resume | 2 evilmod
a module of the folder as encoder | config.yaml | verify runs report | 0
a module of the folder as encoder | state.json | evaluate attention probe video | 2 evilmod
a module of the folder as encoder | state.json | layers intervene breaking embed | 2 evilmod
a module of the folder as encoder | state.json | plasticity player teacher | 2 evilmod
a module of the folder as encoder | state.json | verify parent resume | 0
a module of the folder as game | config.yaml | evaluate attention probe resume | 2 evilmod
a module of the folder as game | config.yaml | verify runs diff report export | 0
a module of the folder as variant | evaluation/episodes.csv | report runs export | 0
a search path of the folder | run.json | evaluate attention probe | 2 evilmod
a link out | checkpoints | verify evaluate attention probe parent resume | 2 link
a link out | .lock | verify evaluate attention probe resume | 2 link
a link out | evaluation | verify report evaluate attention probe resume | 2 link
a link out | evaluation/episodes.csv | report evaluate | 2 link
a link out | evaluation/probes.csv | report probe | 2 link
a link out | attention | report attention | 2 link
a link out | tensorboard | verify resume | 2 link
a link out | metrics.csv | report diff resume | 2 link
a link out | run.json | verify diff report evaluate resume | 2 link
a pipe | run.json | verify diff evaluate attention probe resume | 2 neither a file nor a folder
a pipe | metrics.csv | report resume | 2 neither a file nor a folder
a device without end | config.yaml | verify diff evaluate probe resume | 2 link
aliases that multiply | config.yaml | verify diff evaluate probe resume | 2 is not YAML
more than it unpacks to | state.safetensors | resume | 2 does not hold
"""
Craft = Callable[[Path, Path, Path, str], None]


def a_function_as_variant(run: Path, marker: Path, outside: Path, file: str) -> None:
    change_config(run, lambda c: c["env"].update(variant=[touching(marker)]))


def a_function_as_validation_variant(run: Path, marker: Path, outside: Path, file: str) -> None:
    change_config(run, lambda c: c["eval"].update(variants=[touching(marker)]))


def a_function_as_effect(run: Path, marker: Path, outside: Path, file: str) -> None:
    effect = [{"target": "os:system", "parameters": {"command": f"touch {marker}"}}]
    change_snapshot(run, lambda m: m.update(variant={**m["variant"], "effects": effect}))


def a_function_as_schedule(run: Path, marker: Path, outside: Path, file: str) -> None:
    rate = {"~import": "shutil:rmtree"}
    change_state(run, lambda m: m["arguments"].update(learning_rate=rate))


def a_module_of_the_folder(run: Path, marker: Path, outside: Path, file: str) -> None:
    for place in (run, Path.cwd()):
        (place / "evilmod.py").write_text(EVIL.format(marker=str(marker)))


def a_module_of_the_folder_as_encoder(run: Path, marker: Path, outside: Path, file: str) -> None:
    a_module_of_the_folder(run, marker, outside, file)
    if file == "config.yaml":
        change_config(run, lambda c: c["encoder"].update(_target_="evilmod.Enc"))
    else:
        change_state(run, lambda m: m["extras"]["encoder"].update(_target_="evilmod.Enc"))


def a_module_of_the_folder_as_game(run: Path, marker: Path, outside: Path, file: str) -> None:
    a_module_of_the_folder(run, marker, outside, file)
    change_config(run, lambda c: c["env"].update(game="evilmod:GAME"))


def a_module_of_the_folder_as_variant(run: Path, marker: Path, outside: Path, file: str) -> None:
    a_module_of_the_folder(run, marker, outside, file)
    golden = Path(__file__).parents[1] / "golden" / "v0_2_0" / "runs" / "ppo_plain_s0"
    games = pd.read_csv(golden / file)
    games["variant"] = games["variant"].replace({"green_lines": "evilmod:Look"})
    (run / file).parent.mkdir(exist_ok=True)
    games.to_csv(run / file, index=False)


def a_search_path_of_the_folder(run: Path, marker: Path, outside: Path, file: str) -> None:
    a_module_of_the_folder(run, marker, outside, file)
    change(run / file, lambda record: record.update(python_path=[".", "runs/x", str(run)]))
    change_state(run, lambda m: m["extras"]["encoder"].update(_target_="evilmod.Enc"))


def a_link_out(run: Path, marker: Path, outside: Path, file: str) -> None:
    there = run / file
    there.parent.mkdir(exist_ok=True)
    if there.is_dir() or "." not in Path(file).name:
        (outside / "place").mkdir()
        (outside / "place" / "kept").write_text("secret")
        (outside / "place" / ".ssh").mkdir()
        shutil.rmtree(there, ignore_errors=True)
        os.symlink(outside / "place", there)
        return
    (outside / "file").write_bytes(there.read_bytes() if there.exists() else b"secret")
    there.unlink(missing_ok=True)
    os.symlink(outside / "file", there)


def a_pipe(run: Path, marker: Path, outside: Path, file: str) -> None:
    (run / file).unlink()
    os.mkfifo(run / file)


def a_device_without_end(run: Path, marker: Path, outside: Path, file: str) -> None:
    (run / file).unlink()
    os.symlink("/dev/zero", run / file)


def aliases_that_multiply(run: Path, marker: Path, outside: Path, file: str) -> None:
    (run / file).write_text(LAUGHS)


def more_than_it_unpacks_to(run: Path, marker: Path, outside: Path, file: str) -> None:
    change_snapshot(run, lambda meta: None, zlib.compress(bytes(1 << 26), 9))


def rows() -> list[tuple[str, str, str, str]]:
    found = []
    for line in TABLE.strip().splitlines():
        door, file, commands, result = line.split(" | ")
        found += [(door, file, command, result) for command in commands.split()]
    return found


ROWS = rows()


@pytest.mark.parametrize(
    ("door", "file", "command", "result"), ROWS, ids=[" | ".join(row[:3]) for row in ROWS]
)
def test_attack(
    door: str,
    file: str,
    command: str,
    result: str,
    run: Path,
    marker: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    craft: Craft = globals()[door.replace(" ", "_")]
    craft(run, marker, outside, file)
    before = {p: p.read_bytes() if p.is_file() else b"" for p in outside.rglob("*")}
    code, _, words = result.partition(" ")
    given = main({**every_command(run), **studies(run)}[command])
    said = capsys.readouterr()
    assert not marker.exists()
    assert {p: p.read_bytes() if p.is_file() else b"" for p in outside.rglob("*")} == before
    assert given == int(code), said.err
    assert words in said.err + said.out
    assert "Traceback" not in said.err
    if given == 2:
        assert sum(line.startswith("reprl: ") for line in said.err.splitlines()) == 1
    made = [p for top in ("page", "copy", "branch") for p in (tmp_path / top).rglob("*")]
    assert not [p for p in made if p.is_file() and b"secret" in p.read_bytes()]


def test_every_command_that_opens_a_folder_is_in_the_table(tmp_path: Path) -> None:
    commands = {command for _, _, command, _ in ROWS}
    every = {**every_command(tmp_path), **studies(tmp_path)}
    assert commands == set(every) - {"a folder of runs"}
    assert len(ROWS) == len({row[:3] for row in ROWS}) >= 80
