"""`profile=true`: a trace and a table, the same bits, nothing without it."""

import gzip
import json
from pathlib import Path

import pytest

from reprl.cli import main
from reprl.runs.profiler import SPANS as IN_TABLE
from reprl.runs.profiler import where_a_second_goes
from tests.reprl.test_gymnasium_runs import OTHERS, PPO, RUN

SPANS = {"update.losses", "update.backward", "update.step"}
RUNS = {
    "ppo": (PPO, SPANS),
    "dqn": (OTHERS["dqn"], SPANS | {"update.sample"}),
    "sac": (OTHERS["sac"], SPANS | {"update.sample", "update.targets"}),
}


def test_a_second_is_taken_apart_by_hand() -> None:
    spent = {"env": 0.5, "forward": 0.25, "update": 1.0, "other": 0.1}
    text = where_a_second_goes(2.0, spent, {"update: backward pass": 0.75}, 4)
    title, *rows = text.splitlines()
    assert title == "where a second goes (4 updates in 2.0 s)"
    found = {row[:34].strip(): int(row[34:].split()[0]) for row in rows}
    assert found == {
        "games": 250,
        "rollout: policy and memory": 125,
        "update: backward pass": 375,
        "update: the rest": 125,
        "everything else": 125,
    }


@pytest.mark.slow
@pytest.mark.parametrize("algo", RUNS)
def test_a_run_is_profiled_and_stays_the_same(
    algo: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole, looked = tmp_path / "whole", tmp_path / "looked"
    words, spans = RUNS[algo]
    settings = [*RUN, f"algo={algo}", *words, "eval.every=0"]
    assert main(["train", *settings, f"run_dir={whole}"]) == 0
    assert not (whole / "profile").exists()
    assert main(["train", *settings, "profile=true", f"run_dir={looked}"]) == 0
    assert "where a second goes" in capsys.readouterr().out
    for name in ("parameters", "optimizer", "state"):
        files = [
            sorted(run.glob(f"checkpoints/*/{name}.safetensors"))[-1] for run in (whole, looked)
        ]
        assert files[0].read_bytes() == files[1].read_bytes()
    trace = looked / "profile" / "trace.json.gz"
    events = json.loads(gzip.decompress(trace.read_bytes()))["traceEvents"]
    names = {event.get("name") for event in events}
    assert spans | {"aten::addmm"} <= names
    table = (looked / "profile" / "table.txt").read_text()
    assert "aten::" in table
    assert all(IN_TABLE[span] in table for span in spans)
    assert sorted(file.name for file in trace.parent.iterdir()) == ["table.txt", "trace.json.gz"]


@pytest.mark.slow
def test_a_replay_algorithm_is_recorded_from_its_first_update_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its rollouts before `learning_starts` learn nothing, and were once taken for updates."""
    for limit in ("ENOUGH", "MOST"):  # however slow the machine
        monkeypatch.setattr(f"reprl.runs.profiler.{limit}", 1e9)
    run = tmp_path / "run"
    words = [w for w in OTHERS["dqn"] if not w.startswith("algo.learning_starts")]
    settings = [*RUN, "algo=dqn", *words, "algo.learning_starts=64", "eval.every=0"]
    assert main(["train", *settings, "profile=true", f"run_dir={run}"]) == 0
    assert "WARNING" not in capsys.readouterr().out
    table = (run / "profile" / "table.txt").read_text()
    backward = next(row for row in table.splitlines() if row.startswith("update: backward pass"))
    assert int(backward.split()[-2]) > 0
    # a rollout is 8 steps: of 24, those that end after step 64 are learned from, the first unseen
    assert "(15 updates in" in table


@pytest.mark.slow
def test_a_run_that_never_learns_twice_has_no_profile(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [w for w in OTHERS["dqn"] if not w.startswith("algo.learning_starts")]
    total = next(int(w.split("=")[1]) for w in (*RUN, *words) if w.startswith("total_steps"))
    settings = [*RUN, "algo=dqn", *words, f"algo.learning_starts={total - 1}", "eval.every=0"]
    assert main(["train", *settings, "profile=true", f"run_dir={tmp_path / 'run'}"]) == 0
    assert "no update came after the first" in capsys.readouterr().out
    assert not (tmp_path / "run" / "profile").exists()
