"""What runs say about each other: settings that differ, and the list of what ran."""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from reprl.cli import main
from reprl.config.schema import load
from reprl.runs.diff import differences
from reprl.runs.folder import RunFolder, create, open_run, runs_in
from reprl.runs.places import check_new, parent_of
from tests.helpers import refuses


def folder(path: Path, config: dict[str, Any]) -> RunFolder:
    path.mkdir()
    (path / "config.yaml").write_text(yaml.safe_dump(config, sort_keys=False))
    return RunFolder(path)


def test_differences_show_what_counts_and_parts_as_a_whole(tmp_path: Path) -> None:
    linear = {"kind": "linear", "start": 1e-3, "end": 0.0}
    before = {
        "algo": {"_target_": "reprl.algorithms.PPO", "learning_rate": linear, "n_steps": 128},
        "attention": {},
        "augmentation": {"_target_": "reprl.augmentation.Shift", "pad": 4},
        "auxiliary": {"_target_": "mine:Loss", "coef": 1.0, "margin": 2},
        "env": {"variant": "original", "n_envs": 8},
        "progress": "auto",
        "wandb": "off",
        "choices": {"algo": "ppo"},
    }
    now = {
        "algo": {"_target_": "reprl.algorithms.PPO", "learning_rate": 2.5e-4, "n_steps": 128},
        "attention": {"_target_": "reprl.encoders.masks.ConvMask", "hidden": [], "floor": 0.2},
        "augmentation": {"_target_": "reprl.augmentation.Cutout", "size": 12},
        "auxiliary": {"_target_": "mine:Loss", "coef": {**linear, "end": None}, "margin": 2},
        "env": {"variant": ["original", "green_lines"], "n_envs": 8},
        "progress": "off",
        "wandb": "offline",
        "choices": {"algo": "other"},
    }
    assert differences(folder(tmp_path / "a", before), folder(tmp_path / "b", now)) == [
        ("algo.learning_rate", "linear(start=0.001, end=0.0)", "0.00025"),
        ("attention", "none", "ConvMask(hidden=none, floor=0.2)"),
        ("augmentation", "Shift(pad=4)", "Cutout(size=12)"),
        ("auxiliary.coef", "1.0", "linear(start=0.001, end=none)"),
        ("env.variant", "original", "original, green_lines"),
    ]


def test_a_list_inside_a_part_is_told_from_the_next_setting(tmp_path: Path) -> None:
    boxes = {"_target_": "reprl.augmentation.Cutout", "boxes": [0, 3], "sides": [], "fill": "gray"}
    a, b = folder(tmp_path / "a", {}), folder(tmp_path / "b", {"augmentation": boxes})
    found = [("augmentation", "-", "Cutout(boxes=[0, 3], sides=none, fill=gray)")]
    assert differences(a, b) == found


def test_two_schedules_of_one_kind_differ_in_their_numbers(tmp_path: Path) -> None:
    rates = [{"kind": "linear", "start": s, "end": 0.0} for s in (1e-3, 2e-3)]
    a, b = (folder(tmp_path / f"{i}", {"rate": rate}) for i, rate in enumerate(rates))
    assert differences(a, b) == [("rate.start", "0.001", "0.002")]
    assert differences(a, a) == []


def test_runs_are_listed_by_time_with_their_gap(tmp_path: Path, capsys: Any) -> None:
    metrics = "step,rollout/score,validation/original,validation/a,validation/b,validation/score\n"
    for name, started, row in (
        ("alpha", "2026-02-01T00:00:00", "64,3.5,9.0,4.0,2.0,5.0\n128,4.5,,,,\n"),
        ("beta", "2026-01-01T00:00:00", ""),
    ):
        place = folder(tmp_path / name, {}).path
        (place / "run.json").write_text(
            json.dumps({"status": "finished", "started": started, "reason": "[/]"})
        )
        (place / "metrics.csv").write_text(metrics + row)
    assert main(["runs", str(tmp_path)]) == 0
    _, first, second = (line.split() for line in capsys.readouterr().out.splitlines())
    assert first == ["beta", "2026-01-01", "00:00", "finished", "0", "-", "-", "[/]"]
    assert second == ["alpha", "2026-02-01", "00:00", "finished", "128", "4.5", "6.0", "[/]"]


def test_a_run_folder_names_no_place_but_those_the_user_gave(tmp_path: Path) -> None:
    config = load([f"run_dir={tmp_path / 'run'}", "threads=1"])
    gone = str(tmp_path / "gone")
    run = create(config, command=["reprl", "train"], python_path=[gone])
    assert str(tmp_path) not in run.config_file.read_text()
    record = run.record()
    assert record.pop("python_path") == [gone]
    assert str(tmp_path) not in json.dumps(record)
    assert str(Path.cwd()) not in json.dumps(record) + run.config_file.read_text()
    moved = run.path.rename(tmp_path / "moved")
    assert RunFolder(moved).config().hash == config.hash  # though the user's code is elsewhere now
    assert gone not in sys.path


FOREIGN = [
    ("[1, 2]", "unreadable"),
    ("{", "unreadable"),
    ("{}", "unknown"),
    ('{"status": "finished", "step": "x", "best": 5, "started": 3, "versions": [1]}', "finished"),
    ('{"status": "running", "python_path": 7, "reason": ["a"]}', "killed"),
]


@pytest.mark.parametrize(("text", "status"), FOREIGN, ids=[text for text, _ in FOREIGN])
def test_a_foreign_record_costs_only_itself(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, status: str
) -> None:
    config = load([f"run_dir={tmp_path / 'fine'}", "threads=1", "device=cpu"])
    fine = create(config, command=["reprl"], python_path=[])
    foreign = tmp_path / "foreign"
    shutil.copytree(fine.path, foreign)
    (foreign / "run.json").write_text(text)
    assert main(["runs", str(tmp_path)]) == 0
    listed = capsys.readouterr().out
    assert "fine" in listed
    assert (f"note: {foreign} is left out" if status == "unreadable" else status) in listed
    assert len(runs_in(tmp_path)) == (1 if status == "unreadable" else 2)
    assert main(["verify", str(foreign)]) == (2 if status == "unreadable" else 1)
    assert main(["diff", str(fine.path), str(foreign)]) == (2 if status == "unreadable" else 0)
    assert main(["evaluate", str(tmp_path)]) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_somebody_elses_folder_is_read_without_writing(tmp_path: Path) -> None:
    config = load([f"run_dir={tmp_path / 'run'}", "threads=1", "device=cpu"])
    run = create(config, command=["reprl"], python_path=[])
    assert run.status() == "killed"
    assert main(["verify", str(run.path)]) == 0
    assert sorted(p.name for p in run.path.iterdir()) == ["config.yaml", "run.json"]
    with run.lock():
        assert run.status() == "running"
    assert run.status() == "killed"
    (run.path / ".lock").unlink()
    (run.path / ".lock").mkdir()  # neither can be opened, as where one has no rights
    assert run.status() == "running"
    with refuses(str(run.path), "Is a directory"):
        run.lock()


@pytest.mark.parametrize(("length", "fits"), [(250, True), (300, False)])
def test_long_names_are_used_or_refused(tmp_path: Path, length: int, fits: bool) -> None:
    for place in (tmp_path / ("a" * length), tmp_path / "new" / ("a" * length)):
        config = load([f"run_dir={place}", "threads=1", "device=cpu"])
        if fits:
            check_new(config.run_dir)
            assert create(config, command=[], python_path=[]).path == place
            continue
        for refused in (
            lambda c=config: check_new(c.run_dir),
            lambda c=config: create(c, command=[], python_path=[]),
        ):
            with refuses("aaa", "File name too long"):
                refused()
        with refuses("aaa"):
            open_run(place)
    assert not list(tmp_path.glob(".*"))


def test_a_parent_is_a_folder_first_and_a_step_second(tmp_path: Path) -> None:
    named = tmp_path / "green_lines@0.7"
    named.mkdir()
    assert parent_of(str(named)) == (named, None)
    assert parent_of(f"{named}@12") == (named, 12)
    for parent, says in (
        (f"{named}@²", "²"),
        ("~nobody-of-this-name/run", "~nobody-of-this-name"),
        ("a" * 300, "checkpoint 'aaa"),
    ):
        with refuses(says):
            parent_of(parent)
    with refuses("~nobody-of-this-name"):
        check_new("~nobody-of-this-name/run")
