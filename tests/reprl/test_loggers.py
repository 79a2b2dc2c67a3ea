"""Metrics and loggers: averages survive a checkpoint, wandb files read back, dead ones are lost."""

import errno
import io
import json
import math
import threading
import time
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from reprl.runs.metrics import Averages, CsvSink, rewind_csv
from reprl.runs.progress import Progress, ProgressState, alarms, duration, line
from reprl.runs.writers import (
    TensorBoardSink,
    WandbSink,
    leave_to_the_writer,
    rewind_tensorboard,
)
from reprl.tables import read_rows
from tests.runs import train
from tests.wandb_files import records


def test_averages_between_two_rows_survive_as_plain_data() -> None:
    averages = Averages()
    averages.add({"loss": 1.0, "train/n_updates": 3, "text": "no number"})
    averages = Averages(json.loads(json.dumps(averages.state())))
    averages.add({"loss": 4.0, "train/n_updates": 4})
    assert averages.take() == {"loss": 2.5, "train/n_updates": 4.0}
    assert averages.take() == {}


def test_a_column_that_appears_later_widens_the_file_and_rewinds(tmp_path: Path) -> None:
    path = tmp_path / "metrics.csv"
    sink = CsvSink(path)
    sink.write(1, {"a": 0.1 + 0.2})
    sink.write(2, {"a": 2.0, "b": float("nan")})
    text = "step,a,b\n1,0.30000000000000004,\n2,2.0,nan\n"
    assert path.read_text() == text
    rewind_csv(path, 1)
    assert path.read_text() == "step,a\n1,0.30000000000000004\n"
    CsvSink(path).write(2, {"a": 2.0, "b": float("nan")})
    assert path.read_text() == text
    path.write_text(text + "3,9")
    assert [row["step"] for row in read_rows(path)] == ["1", "2"]
    rewind_csv(path, 0)
    assert not path.exists()


def test_tensorboard_is_rewound_even_from_a_cut_file(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    sink = TensorBoardSink(tmp_path)
    for step in (10, 20, 30):
        sink.write(step, {"loss": step / 10, "bad": float("nan")})
    sink.close()
    [path] = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:-3])
    rewind_tensorboard(tmp_path, 20)
    events = EventAccumulator(str(tmp_path), purge_orphaned_data=False)
    events.Reload()
    assert [(e.step, e.value) for e in events.Scalars("loss")] == [(10, 1.0), (20, 2.0)]
    assert events.Tags()["scalars"] == ["loss"]


def test_wandb_offline_files_read_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WANDB_MODE", raising=False)
    checkpoint = tmp_path / "checkpoints" / "000000000020"
    checkpoint.mkdir(parents=True)
    (checkpoint / "state.json").write_text("{}")
    (tmp_path / "config.yaml").write_text("seed: 0\n")
    settings = {"config": {"algo": {"gamma": 0.99}}, "group": "a sweep", "tags": ["ppo"]}
    sink = WandbSink(tmp_path, mode="offline", identity="abc123", settings=settings)
    for step in (10, 20):
        sink.write(step, {"train/loss": step / 100})
    sink.close()
    assert sink.lost is None
    [file] = (tmp_path / "wandb").glob("offline-run-*/run-abc123.wandb")
    found = list(records(file))
    for _ in range(100):  # wandb's service writes the end of the file on its own time
        if any(r.HasField("exit") for r in found):
            break
        time.sleep(0.1)
        found = list(records(file))
    rows = [
        {"".join(i.nested_key) or i.key: json.loads(i.value_json) for i in r.history.item}
        for r in found
        if r.HasField("history")
    ]
    assert [(row["step"], row["train/loss"]) for row in rows] == [(10, 0.1), (20, 0.2)]
    [run] = [r.run for r in found if r.HasField("run")][:1]
    assert run.run_group == "a sweep"
    assert list(run.tags) == ["ppo"]
    config = {u.key: json.loads(u.value_json) for u in run.config.update}
    assert config["algo"] == {"gamma": 0.99}
    artifacts = [r.artifact.name for r in found if r.HasField("artifact")]
    artifacts += [
        r.request.log_artifact.artifact.name
        for r in found
        if r.HasField("request") and r.request.HasField("log_artifact")
    ]
    assert "checkpoint-abc123" in artifacts


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
def test_a_tensorboard_that_fails_is_lost_and_a_full_disk_is_not_hidden(
    number: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    sink = TensorBoardSink(tmp_path)
    sink.write(1, {"loss": 0.0})

    def fail(*_: Any) -> None:
        raise OSError(number, "the disk says no")

    monkeypatch.setattr(sink.writer, "flush", fail)
    monkeypatch.setattr(sink.writer, "close", fail)
    if number == errno.ENOSPC:
        with pytest.raises(OSError, match="the disk says no"):
            sink.write(2, {"loss": 0.0})
        return
    for step in (2, 3):
        sink.write(step, {"loss": 0.0})
    sink.close()
    assert capsys.readouterr().err.count("WARNING: TensorBoard is lost (OSError") == 1


@pytest.mark.parametrize("trouble", ["init", "log", "hang"])
def test_a_dead_or_slow_wandb_never_stops_training(
    trouble: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    release, ended = threading.Event(), []

    class Run:
        id = "x"

        def log(self, *_: Any, **__: Any) -> None:
            if trouble == "hang":
                ended.append(release.wait(60))
            raise BrokenPipeError("the service process is gone")

    def start(**_: Any) -> Run:
        if trouble == "init":
            raise RuntimeError("no network\nand a second line")
        return Run()

    sink = WandbSink(tmp_path, mode="online", identity="x", settings={}, start=start, patience=0.2)
    for step in range(100):
        sink.write(step, {"loss": 0.0})
    sink.close()
    assert not ended  # nobody waited for the call that hangs
    error = capsys.readouterr().err
    release.set()
    assert error.count("WARNING: wandb is lost") == 1
    assert error.count("\n") == 1


def test_alarms_name_what_left_its_range() -> None:
    healthy = {"train/approx_kl": 0.006, "train/entropy_loss": -1.2}
    assert alarms(healthy, 4, 0.5) == []
    for change, says in (
        ({"train/approx_kl": 0.05}, "KL 0.050"),
        ({"train/clip_fraction": 0.6}, "60% of the updates"),
        ({"train/entropy_loss": -0.01}, "stopped exploring"),
        ({"train/explained_variance": -0.5}, "value head"),
        ({"encoder/dead_units": 0.9}, "never fire"),
        ({"dormant_units/linear.1": 0.8}, "few units carry"),
        ({"gradient/contrastive_cosine": -0.6}, "pulls against"),
        ({"features/effective_rank": 1.9}, "effective rank 1.9"),
        ({"features/rms": 101.0}, "growing away"),
        ({"churn/policy": 0.51}, "best action of 51%"),
    ):
        [found] = alarms(healthy | change, 4, 0.5)
        assert says in found
    assert alarms({"train/explained_variance": -0.5}, 4, 0.01) == []
    at_the_limit = {"dormant_units/a": 0.75, "gradient/a_cosine": -0.5, "churn/policy": 0.5}
    at_the_limit |= {"features/effective_rank": 2.0, "features/rms": 100.0}
    assert alarms(healthy | at_the_limit, 4, 0.5) == []
    assert alarms({"train/clip_fraction": 0.6, "train/clip_range": 1e-4}, 4, 0.9) == []


def test_a_run_says_nothing_of_clipping_at_its_end_and_raises_no_alarm_at_its_beginning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    steps = ["total_steps=1280", "log.every=32", "eval.every=0", "checkpoint.every=1280"]
    wild = ["algo.learning_rate=0.02", "algo.n_epochs=2", "progress=auto"]
    assert train(tmp_path / "run", *steps, *wild) == 0
    lines = [x for x in capsys.readouterr().out.splitlines() if x.startswith("step ")]
    assert len(lines) == 40
    rows = pd.read_csv(tmp_path / "run" / "metrics.csv")
    assert rows["train/approx_kl"][0] > 0.03  # wild indeed, and it goes on
    assert "ALARM" not in lines[0] + lines[1]
    assert any("ALARM" in line for line in lines[2:])
    assert rows["train/clip_range"].iloc[-1] < 0.01
    assert "clipped" in lines[0]
    assert "clipped" not in lines[-1]


def test_a_score_that_is_not_there_yet_is_not_shown() -> None:
    values = {"rollout/score": math.nan, "train/loss": 0.5}
    assert (
        line(ProgressState(5, 20, 3.0, {}, values)) == "step 5/20 | 3 steps/s | left 5s | loss 0.5"
    )


def test_the_line_and_the_live_view_hold_the_same_facts() -> None:
    from rich.console import Console

    values = {"rollout/score": 12.5, "train/approx_kl": 0.012, "loss/contrastive": 3.25}
    shares = {"env": 0.3, "forward": 0.1, "update": 0.5, "other": 0.1}
    moment = ProgressState(500, 2000, 300.0, shares, values, ["KL 0.050 is high"])
    console = Console(force_terminal=True, width=100, record=True, file=io.StringIO())
    with Progress("run", console=console) as progress:
        progress.show(moment, row=True)
    pages = (console.export_text(), line(moment))
    for page in pages:
        for fact in ("500", "2,000", "300", "5s", "score", "12.5", "0.012", "contrastive", "3.25"):
            assert fact in page, (fact, page)
        assert "update 50%" in page
        assert "KL 0.050 is high" in page


def test_durations_read_like_speech() -> None:
    assert [duration(s) for s in (42, 720, 11_100, 187_200)] == ["42s", "12m", "3h 05m", "2d 4h"]


def test_a_failed_thread_of_tensorboard_prints_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its writer raises the error again; a thread of anybody else is still heard."""
    heard = []
    monkeypatch.setattr(threading, "excepthook", lambda failed: heard.append(failed.thread.name))
    leave_to_the_writer()
    leave_to_the_writer()  # once is enough

    class Other(threading.Thread):
        def run(self) -> None:
            raise OSError("full")

    class Writing(Other):
        __module__ = "tensorboard.summary.writer.event_file_writer"

    for thread in (Other(name="other"), Writing(name="writing")):
        thread.start()
        thread.join()
    assert heard == ["other"]
