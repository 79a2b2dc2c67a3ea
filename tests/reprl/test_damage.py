"""Damage of an honest life: lines cut or changed, checkpoints that lie, drafts, pruning."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from reprl import checkpoint
from reprl.checkpoint import files, storage
from reprl.cli import main
from reprl.disk import clear_drafts, replacing, write_atomically
from reprl.runs import metrics
from reprl.runs.metrics import CsvSink, rewind_csv

SMALL = [
    *("threads=1", "device=cpu", "progress=off", "env.n_envs=2", "env.workers=0"),
    *("env.max_frames=1000", "algo.n_steps=16", "algo.batch_size=16", "total_steps=160"),
    *("checkpoint.every=32", "checkpoint.keep=10", "eval.every=0", "log.every=32"),
    *("encoder.features_dim=16",),
]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("whole") / "run"
    assert main(["train", *SMALL, f"run_dir={place}"]) == 0
    return place


@pytest.fixture
def run(whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy that was interrupted at step 96 of 160."""
    copy = Path(shutil.copytree(whole, tmp_path / "run"))
    for step in (128, 160):
        shutil.rmtree(copy / "checkpoints" / f"{step:012d}")
    change(copy / "run.json", lambda record: record.update(status="interrupted", step=96))
    monkeypatch.chdir(tmp_path)
    return copy


def change(file: Path, edit: Callable[[dict[str, Any]], Any]) -> None:
    values = json.loads(file.read_text())
    edit(values)
    file.write_text(json.dumps(values))


def at(run: Path, step: int) -> Path:
    return run / "checkpoints" / f"{step:012d}"


def sign(place: Path) -> None:
    """Give a checkpoint's manifest the hashes of what it now holds."""
    digest = {f: hashlib.sha256((place / f).read_bytes()).hexdigest() for f in storage.FILES}
    change(place / "manifest.json", lambda manifest: manifest.update(sha256=digest))


def numbers(run: Path) -> pd.DataFrame:
    table = pd.read_csv(run / "metrics.csv")
    return table[[c for c in table if not c.startswith("time/")]]


# -- metrics.csv ----------------------------------------------------------------------------------


def test_resume_keeps_the_rows_behind_a_damaged_line(
    run: Path, whole: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = (run / "metrics.csv").read_text().splitlines(keepends=True)
    lines[2] = '64,"torn' + lines[2][:20] + "\n"
    damaged = "".join(lines)
    (run / "metrics.csv").write_text(damaged)
    assert main(["resume", str(run)]) == 0
    said = capsys.readouterr().err
    assert "metrics.csv: 1 damaged lines are left out; metrics.csv.damaged has the file" in said
    assert (run / "metrics.csv.damaged").read_text() == damaged
    want = numbers(whole)
    got = numbers(run)
    pd.testing.assert_frame_equal(got, want[want["step"] != 64].reset_index(drop=True))


@pytest.mark.parametrize("kind", ["BOM", "no number", "header only", "cut short"])
def test_resume_goes_on_from_odd_metrics(
    kind: str, run: Path, whole: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, expected = run / "metrics.csv", numbers(whole)
    text = file.read_text()
    if kind == "BOM":
        file.write_bytes(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())
    elif kind == "header only":
        file.write_text(text.splitlines(keepends=True)[0])
        expected = expected[expected["step"] > 96].reset_index(drop=True)
    elif kind == "cut short":
        file.write_text("".join(text.splitlines(keepends=True)[:4]) + "128,0.123")
    else:
        table = pd.read_csv(file, dtype=str)
        table.loc[table["step"] == "96", "time/elapsed"] = "abc"
        table.to_csv(file, index=False)
        expected = expected[expected["step"] != 96].reset_index(drop=True)
    assert main(["resume", str(run)]) == 0
    got = numbers(run)
    # what is looked at every tenth update only is in earlier rows, or nowhere
    assert {"step", "rollout/score", "train/loss"} <= set(got)
    pd.testing.assert_frame_equal(got, expected[list(got)], check_dtype=False)
    assert ("damaged lines" in capsys.readouterr().err) == (kind == "no number")


def test_a_damaged_header_is_kept_aside(tmp_path: Path) -> None:
    file = tmp_path / "metrics.csv"
    file.write_text('step,"lo\n1,2\n')
    rewind_csv(file, 10)
    assert not file.exists()
    assert (tmp_path / "metrics.csv.damaged").read_text() == 'step,"lo\n1,2\n'


def test_validation_games_behind_a_damaged_line_are_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its rows hold words too, such as variants: these are no damage."""
    file = tmp_path / "validation.csv"
    runs = Path(__file__).parents[1] / "golden" / "v0_2_0" / "runs"
    lines = next(runs.glob("*/evaluation/validation.csv")).read_text().splitlines(keepends=True)
    assert len(lines) > 3
    damaged = [lines[0], '"torn' + lines[1][:9] + "\n", *lines[2:]]
    file.write_text("".join(damaged))
    rewind_csv(file, 1 << 40)
    assert file.read_text() == "".join([lines[0], *lines[2:]])
    assert (tmp_path / "validation.csv.damaged").read_text() == "".join(damaged)
    assert "validation.csv: 1 damaged lines are left out" in capsys.readouterr().err


def test_header_and_first_row_appear_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whenever the process dies, the file has no header without a row."""
    seen: list[str] = []
    real = os.fsync

    def watch(descriptor: int) -> None:
        real(descriptor)
        if (tmp_path / "metrics.csv").exists():
            seen.append((tmp_path / "metrics.csv").read_text())

    monkeypatch.setattr(os, "fsync", watch)
    sink = CsvSink(tmp_path / "metrics.csv")
    sink.write(1, {"a": 1.0})
    sink.write(2, {"a": 2.0, "b": 3.0})
    sink.write(3, {"a": 2.0, "b": 3.0})
    seen.append((tmp_path / "metrics.csv").read_text())
    assert all(len(text.splitlines()) > 1 for text in seen)
    assert seen[-1] == "step,a,b\n1,1.0,\n2,2.0,3.0\n3,2.0,3.0\n"


def test_no_damaged_file_stops_a_report_or_a_list(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "runs"
    header = (run / "metrics.csv").read_text().splitlines(keepends=True)[0]
    damage = {
        "header": header,
        "empty": "",
        "words": "step,rollout/score\nx,y\n",
        "zeros": "\0" * 100,
        "no_step": "a,b\n1,2\n",
        "fine": (run / "metrics.csv").read_text(),
    }
    for name, text in damage.items():
        shutil.copytree(run, place / name)
        (place / name / "metrics.csv").write_text(text)
    record = (run / "run.json").read_bytes()
    for name, data in {"cut": record[:50], "nothing": b"", "list": b"[]"}.items():
        shutil.copytree(run, place / name)
        (place / name / "run.json").write_bytes(data)
    assert main(["report", str(place), "figures=false", "out=page"]) == 0
    assert (tmp_path / "page" / "report.html").stat().st_size > 10_000
    capsys.readouterr()
    assert main(["runs", str(place)]) == 0
    out = capsys.readouterr().out
    for name in ("cut", "nothing", "list"):
        assert f"{name} is left out: cannot read" in out
    assert main(["runs", str(place / "cut")]) == 0
    out = capsys.readouterr().out
    assert "run.json" in out
    assert "no runs" not in out


# -- checkpoints ----------------------------------------------------------------------------------


def lie(meta: str, value: Any) -> Callable[[dict[str, Any]], None]:
    return lambda record: record["meta"].update({meta: value})


@pytest.mark.parametrize(
    "edit",
    [
        lie("counters", {"num_timesteps": 96, "_n_updates": "many", "_iterations": []}),
        lie("counters", 7),
        lie("optimizer_scalars", {"nobody|step": 1}),
        lie("last_order", [0, 0, 9]),
        lie("episodes", 3),
        lie("mask", "x"),
        lie("log", [1]),
        lambda record: record.update(meta=[]),
        lambda record: record.update(layouts={"parameters": 1, "optimizer": [], "state": None}),
        lambda record: record.update(loop=5),
    ],
)
def test_a_checkpoint_that_lies_gives_way(
    edit: Callable[[dict[str, Any]], None],
    run: Path,
    whole: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    change(at(run, 96) / "state.json", edit)
    sign(at(run, 96))
    assert main(["resume", str(run)]) == 0
    said = capsys.readouterr().err
    assert "going back to 000000000064" in said
    assert "Traceback" not in said
    for file in storage.FILES:
        assert (at(run, 160) / file).read_bytes() == (at(whole, 160) / file).read_bytes()


def test_verify_compares_step_folder_and_counters(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["verify", str(run)]) == 0
    other = Path(shutil.copytree(run, run.with_name("other")))
    shutil.copytree(at(other, 64), at(other, 80))
    assert main(["verify", str(other)]) == 1
    assert "it is the checkpoint of step 64 under another name" in capsys.readouterr().out
    shutil.rmtree(at(other, 80))
    change(at(other, 64) / "manifest.json", lambda manifest: manifest.update(step=63))
    assert main(["verify", str(other)]) == 1
    assert "manifest.json says step 63, state.json 64" in capsys.readouterr().out
    shutil.rmtree(at(run, 96))
    assert main(["verify", str(run)]) == 1
    assert "run.json      CHANGED  it speaks of step 96" in capsys.readouterr().out


def test_what_is_pruned_while_it_is_read_is_not_damaged(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The run goes on beside us: it writes a newer checkpoint and removes the one we began with."""
    spare = Path(shutil.copytree(at(run, 96), run.with_name("spare")))
    shutil.rmtree(at(run, 96))
    real, calls = storage._manifest, []

    def slow(path: Path) -> dict[str, Any]:
        found = real(path)
        calls.append(path.name)
        if len(calls) == 1:
            shutil.copytree(spare, at(run, 96), dirs_exist_ok=True)
            files._remove(path)
        return found

    monkeypatch.setattr(storage, "_manifest", slow)
    assert checkpoint.read(run).step == 96
    assert capsys.readouterr().err == ""
    calls.clear()
    assert main(["verify", str(run)]) == 0  # the first of them goes while it is looked at
    assert "DAMAGED" not in capsys.readouterr().out


# -- drafts ---------------------------------------------------------------------------------------


def test_drafts_of_a_killed_process_are_removed(run: Path) -> None:
    old = [
        *(run / name for name in (".run.01234567.draft.json", ".run.json.01234567.draft")),
        run / ".metrics.89abcdef.draft.csv",
        run / "tensorboard" / ".events.out.tfevents.1.draft",
    ]
    for file in old:
        file.write_text("half")
    (run / "checkpoints" / f".{128:012d}.draft").mkdir()
    mine = run / ".run.notes.draft.json"  # not a name that we give
    mine.write_text("mine")
    assert main(["resume", str(run)]) == 0
    assert [file for file in old if file.exists()] == []
    assert not [*(run / "checkpoints").glob(".*")]
    assert mine.exists()


def test_a_draft_that_may_still_be_written_stays(tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    with replacing(file) as draft:
        draft.write_text("new")
        write_atomically(file, "other")  # of another process, at the same time
        assert draft.exists()
    assert file.read_text() == "new"
    draft.write_text("half")
    write_atomically(file, "newer")
    assert draft.exists()
    os.utime(draft, (time.time() - 3600,) * 2)
    write_atomically(file, "newest")
    assert not draft.exists()
    clear_drafts(file, older_than=0.0)
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]


def test_an_abandoned_run_folder_is_removed(tmp_path: Path) -> None:
    place = tmp_path / "runs"
    left, notes = place / ".x.01234567.draft", place / ".y.01234567.draft"
    for folder, file in ((left, "config.yaml"), (notes, "notes.txt")):
        folder.mkdir(parents=True)
        (folder / file).write_text("")
        os.utime(folder, (time.time() - 7200,) * 2)
    assert main(["train", *SMALL, "total_steps=32", f"run_dir={place / 'new'}"]) == 0
    assert sorted(p.name for p in place.iterdir()) == [notes.name, "new"]


# -- crashes --------------------------------------------------------------------------------------


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> None:
    def fault(*_: Any) -> None:
        raise LookupError("a fault of ours\nwith two lines")

    monkeypatch.setattr(metrics.Averages, "take", fault)
    monkeypatch.setattr("reprl.cli.diff._versions", fault)


@pytest.mark.usefixtures("broken")
def test_a_fault_of_ours_is_one_sentence_and_a_traceback_in_the_folder(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["resume", str(run)]) == 1
    said = capsys.readouterr().err
    assert "Traceback" not in said
    line = next(line for line in said.splitlines() if line.startswith("failed: "))
    assert "LookupError: a fault of ours" in line
    assert f"the traceback is in {run / 'crash.txt'}" in line
    assert f"parent={run}@" in said
    assert "Traceback (most recent call last)" in (run / "crash.txt").read_text()
    assert json.loads((run / "run.json").read_text())["status"] == "failed"
    (run / "crash.txt").unlink()
    assert main(["diff", str(run), str(run)]) == 1
    said = capsys.readouterr().err
    assert said.startswith("reprl: LookupError: a fault of ours (test_damage.py:")
    assert said.count("\n") == 1
    assert "test_damage.py" in (run / "crash.txt").read_text()
