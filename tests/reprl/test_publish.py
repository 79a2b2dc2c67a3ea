"""Exported runs: read like the originals, and nothing in them names the machine they ran on."""

import json
import socket
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from reprl.analysis.load import collect
from reprl.cli import main
from reprl.config.schema import load
from reprl.runs import publish
from reprl.runs.folder import create, where
from tests.analysis.fixture import write_film_of, write_sweep


def a_run(place: Path, **extra: Any) -> Any:
    config = load([f"run_dir={place}", "threads=1"])
    command = ["reprl", "train", f"run_dir={place}", f"hydra.searchpath=[file://{place.parent}/c]"]
    run = create(config, command=command, python_path=[str(place.parent)], **extra)
    run.update(status="finished", **where())
    return run


def test_the_report_finds_the_same_in_the_copy(tmp_path: Path, capsys: Any) -> None:
    source, target = tmp_path / "runs" / "sweep", tmp_path / "results" / "first"
    write_sweep(source, seeds=2, episodes=3)
    write_film_of(sorted(source.glob("ppo-*"))[0])
    for name in ("claims.yaml", "looks.json"):
        (source / name).write_text(f"the very {name}\n")
    assert main(["runs", str(source)]) == 0
    before = capsys.readouterr().out
    assert main(["runs", str(source), f"export={target}"]) == 0
    assert "4 runs -> " in capsys.readouterr().out
    for name in ("claims.yaml", "looks.json"):
        assert (target / name).read_text() == f"the very {name}\n"
    ours, theirs = collect([source]), collect([target])
    assert [r.name for r in ours.runs] == [r.name for r in theirs.runs]
    for name in ("episodes", "twin", "attention", "faithfulness"):
        pd.testing.assert_frame_equal(getattr(ours, name), getattr(theirs, name))
    assert {"random", "scripted"} <= set(theirs.episodes["method"])  # the baselines came along
    assert all(r.metrics is not None for r in theirs.runs)
    assert main(["runs", str(target)]) == 0
    assert capsys.readouterr().out == before
    assert [r.images.keys() for r in ours.runs] == [r.images.keys() for r in theirs.runs]
    film = theirs.runs[0].path / "evaluation" / "film"
    assert {p.name for p in film.iterdir()} >= {"film.json", "0_frames.webp", "1_masks.webp"}
    kept = {p.suffix for p in target.rglob("*") if p.is_file()}
    assert kept == {".csv", ".json", ".yaml", ".png", ".svg", ".webp"}  # no video


def test_nothing_names_the_machine(tmp_path: Path) -> None:
    run = a_run(tmp_path / "runs" / "one", parent=f"{tmp_path}/old@64")
    run.update(reason=f"OSError: [Errno 28] No space left on device: '{run.path}/metrics.csv'")
    assert main(["runs", str(tmp_path / "runs"), f"export={tmp_path / 'out'}"]) == 0
    text = "".join(p.read_text() for p in (tmp_path / "out").rglob("*") if p.is_file())
    assert str(tmp_path) not in text
    assert f'"{socket.gethostname()}"' not in text
    record = json.loads((tmp_path / "out" / "one" / "run.json").read_text())
    assert not {"host", "pid", "python_path"} & set(record)
    assert record["command"] == ["reprl", "train", "run_dir=one", "hydra.searchpath=[c]"]
    assert record["parent"] == "old@64"
    assert record["reason"].endswith("device: 'metrics.csv'")
    assert record["config_hash"] == run.record()["config_hash"]


def test_a_second_export_refreshes_and_never_replaces_another_run(tmp_path: Path) -> None:
    run = a_run(tmp_path / "runs" / "one")
    arguments = ["runs", str(tmp_path / "runs"), f"export={tmp_path / 'out'}"]
    assert main(arguments) == 0
    games = run.path / "evaluation" / "episodes.csv"
    games.parent.mkdir()
    games.write_text("run,method\n")
    assert main(arguments) == 0
    assert (tmp_path / "out" / "one" / "evaluation" / "episodes.csv").read_text() == "run,method\n"
    run.update(id="another")
    assert main(arguments) == 2
    assert main(["runs", str(tmp_path / "runs"), f"export={tmp_path / 'runs' / 'x'}"]) == 2


def test_a_killed_run_is_named_so_and_a_running_one_is_left_out(
    tmp_path: Path, capsys: Any
) -> None:
    a_run(tmp_path / "runs" / "dead").update(status="running")
    alive = a_run(tmp_path / "runs" / "alive")
    alive.update(status="running")
    with alive.lock():
        assert main(["runs", str(tmp_path / "runs"), f"export={tmp_path / 'out'}"]) == 0
    assert "alive is still running" in capsys.readouterr().out
    assert [p.name for p in (tmp_path / "out").iterdir()] == ["dead"]
    record = json.loads((tmp_path / "out" / "dead" / "run.json").read_text())
    assert record["status"] == "killed"


def test_of_long_metrics_only_the_curves_are_kept(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(publish, "SMALL", 60)
    run = a_run(tmp_path / "runs" / "one")
    run.metrics_file.write_text(
        "step,rollout/score,train/loss,validation/score,time/elapsed\n64,1.5,0.25,,3.0\n"
    )
    publish.publish([run], tmp_path / "runs", tmp_path / "out")
    kept = (tmp_path / "out" / "one" / "metrics.csv").read_text()
    assert kept == "step,rollout/score,validation/score,time/elapsed\n64,1.5,,3.0\n"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("run_dir=/home/me/runs/x/", "run_dir=x"),
        ("[/a/b,~/c/d]", "[b,d]"),
        ("runs/a and 1/2 of rollout/score", "runs/a and 1/2 of rollout/score"),
    ],
)
def test_only_absolute_paths_are_cut(text: str, left: str) -> None:
    assert publish.scrub({"key": [text]}) == {"key": [left]}


def test_the_gap_is_that_of_the_games_played_with_the_newest_checkpoint(
    tmp_path: Path, capsys: Any
) -> None:
    run = a_run(tmp_path / "runs" / "one")
    games = run.path / "evaluation" / "episodes.csv"
    games.parent.mkdir()
    rows = [
        *("100,original,50", "100,green_lines,0"),  # an older checkpoint
        *("200,original,10", "200,original,12", "200,green_lines,2", "200,diagonals,4"),
    ]
    games.write_text("step,variant,episode_return\n" + "\n".join(rows) + "\n")
    assert main(["runs", str(tmp_path / "runs")]) == 0
    assert " 8.0" in capsys.readouterr().out  # 11 - (2 + 4) / 2
