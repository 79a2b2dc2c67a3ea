"""`sweep=tune`: a study in the sweep's folder that is quicker than a grid, shared and continued."""

import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any

import pandas as pd
import pytest

from reprl.cli import main
from reprl.config.schema import load
from reprl.runs.folder import RunFolder, score_of
from reprl.runs.train import start
from reprl.sweeps import tune
from reprl.sweeps.plan import Job
from reprl.sweeps.process import Running
from reprl.sweeps.search import Interval, Search, Space, Words, space_of
from reprl.sweeps.tune import validated
from tests.helpers import refuses
from tests.runs import same_runs

TOYS = Path(__file__).parents[2] / "toys"
SPACE: Space = {"rate": Interval(1e-6, 1e-1, log=True), "depth": Interval(1, 8, whole=True)}
GRID = [(10.0**-e, d) for e in range(1, 7) for d in range(1, 9)]  # 48 runs


def score(rate: float, depth: int) -> float:
    """A stand-in for a training, best at 2e-4 and 5."""
    from math import log10

    return -abs(log10(rate) - log10(2e-4)) - 0.3 * abs(depth - 5)


def settings_in(words: list[str]) -> tuple[float, int]:
    found = dict(word.split("=") for word in words)
    return float(found["rate"]), int(found["depth"])


def test_a_planted_optimum_is_found_in_half_the_runs_of_a_grid(tmp_path: Path) -> None:
    search = Search(tmp_path, SPACE, trials=len(GRID) // 2)
    while (asked := search.ask()) is not None:
        search.complete(asked[0].number, score(*settings_in(asked[1])))
    best = search.best()
    assert best is not None
    assert best.value is not None
    assert best.value >= max(score(*point) for point in GRID)


def test_what_is_proposed_does_not_depend_on_who_asks(tmp_path: Path) -> None:
    proposed = []
    for again in (False, True):
        search = Search(tmp_path / str(again), SPACE, trials=7)
        words = []
        for _ in range(7):
            if again:  # a new process each time
                search = Search(tmp_path / str(again), SPACE, trials=7)
            asked = search.ask()
            assert asked is not None
            search.complete(asked[0].number, score(*settings_in(asked[1])))
            words.append(asked[1])
        assert search.ask() is None
        proposed.append(words)
    assert proposed[0] == proposed[1]
    assert len({str(words) for words in proposed[0]}) == 7


def test_a_trial_whose_launcher_was_killed_stays_open(tmp_path: Path) -> None:
    first = Search(tmp_path, SPACE, trials=3)
    asked = first.ask()
    assert asked is not None
    first.report(asked[0], {10: 1.0})
    later = Search(tmp_path, SPACE, trials=3)  # the first one told nothing
    ((trial, words),) = later.unfinished()
    assert (trial.number, words) == (asked[0].number, asked[1])
    assert not later.report(trial, {10: 1.0, 20: 2.0})  # what is known is not said twice
    later.complete(trial.number, 2.0)
    assert not later.unfinished()
    first.complete(asked[0].number, 9.0)  # came late
    best = later.best()
    assert best is not None
    assert best.value == 2.0


def test_a_trial_that_is_being_proposed_is_not_taken_for_a_killed_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = (Search(tmp_path, SPACE, trials=2) for _ in range(2))
    seen: list[tuple[int, list[str]]] = []

    def look() -> None:
        seen.extend((trial.number, words) for trial, words in two.unfinished())

    other = threading.Thread(target=look)
    suggested = Interval.suggested

    def interrupted(self: Interval, trial: Any, key: str) -> str:
        found = suggested(self, trial, key)
        if other.ident is None:  # the first value is drawn, the second is not
            other.start()
            other.join(0.5)
        return found

    monkeypatch.setattr(Interval, "suggested", interrupted)
    asked = one.ask()
    other.join()
    assert asked is not None
    assert seen == [(asked[0].number, asked[1])]  # it waited until the trial was whole
    one.complete(asked[0].number, 1.0)
    begun = two.study.ask()  # and one that a kill left half proposed is given up
    SPACE["rate"].suggested(begun, "rate")
    assert not two.unfinished()
    assert [t.state.name for t in two.all()] == ["COMPLETE", "FAIL"]


CHILD = """
import sys
from pathlib import Path
from tests.reprl.sweeps.test_tune import SPACE
from reprl.sweeps.search import Search
search = Search(Path(sys.argv[1]), SPACE, trials=12)
while (asked := search.ask()) is not None:
    search.complete(asked[0].number, 0.0)
    print(asked[0].number)
"""


@pytest.mark.slow
def test_two_launchers_share_a_study(tmp_path: Path) -> None:
    root = Path(__file__).parents[3]
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", CHILD, str(tmp_path)], stdout=subprocess.PIPE, cwd=root
        )
        for _ in range(2)
    ]
    numbers = [int(n) for p in processes for n in p.communicate()[0].split()]
    assert sorted(numbers) == list(range(12))


def test_a_trial_behind_the_others_is_pruned(tmp_path: Path) -> None:
    search = Search(tmp_path, SPACE, trials=7)
    for _ in range(6):
        asked = search.ask()
        assert asked is not None
        assert not search.report(asked[0], {100: 5.0})
        search.complete(asked[0].number, 5.0)
    asked = search.ask()
    assert asked is not None
    assert search.report(asked[0], {100: 1.0})
    search.prune(asked[0].number)
    assert search.all()[-1].state.name == "PRUNED"


def test_the_command_line_says_what_is_searched() -> None:
    words = [
        "a.b=int(interval(1,8))",
        "c=tag(log,interval(1e-5,1e-3))",
        "d=x,y",
        "e=3",
        "f=range(3)",
    ]
    space, rest = space_of(words)
    assert space == {
        "a.b": Interval(1, 8, whole=True),
        "c": Interval(1e-5, 1e-3, log=True),
        "d": Words(("x", "y")),
        "f": Words(("0", "1", "2")),
    }
    assert rest == ["e=3"]
    for wrong, named in {
        "a=3": "nothing to search",
        "seed=1,2": "seed",
        "a=interval(3,1)": "lower",
        "a=tag(log,interval(0,1))": "logarithm",
        "a=tag(lgo,interval(1,2))": "lgo",
    }.items():
        with refuses(named):
            space_of([wrong])


def test_another_space_needs_another_folder(tmp_path: Path) -> None:
    Search(tmp_path, SPACE, trials=1)
    with refuses("study.db", "depth", "run_dir="):
        Search(tmp_path, {"rate": SPACE["rate"]}, trials=1)
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "study.db").write_bytes(b"no database" * 100)
    with refuses("study.db", "cannot be used"):
        Search(tmp_path / "broken", SPACE, trials=1)


RUN = [
    *("env=gymnasium", "device=cpu", "env.n_envs=2", "total_steps=128", "checkpoint.every=64"),
    *("log.every=32", "eval.every=64", "eval.episodes=1", "algo.batch_size=16"),
    *("algo.n_epochs=1", "media=0", "sweep=tune", "sweep.jobs=1"),
    *("algo.learning_rate=tag(log,interval(1e-5,1e-2))", "algo.n_steps=16,32"),
]


@pytest.mark.slow
def test_trials_are_runs_and_the_same_command_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "search"
    begin = ["train", "-m", *RUN, f"run_dir={folder}"]
    assert main([*begin, "sweep.trials=1"]) == 0
    assert main([*begin, "sweep.trials=2"]) == 0
    said = capsys.readouterr().out
    assert "1 proposed before" in said
    assert said.count("started") == 2
    trials = pd.read_csv(folder / "trials.csv")
    assert trials["state"].tolist() == ["complete", "complete"]
    for row in trials.itertuples():
        scores = validated(folder / str(row.folder))
        assert sorted(scores) == [64, 128]
        assert max(scores.values()) == row.score
    assert f"best {trials['score'].max():.4g}" in said


@pytest.mark.slow
def test_a_killed_launcher_loses_no_trial_and_counts_none_twice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "search"
    changed = {"total_steps": 2048, "checkpoint.every": 128, "eval.every": 1024, "sweep.trials": 2}
    words = [word for word in RUN if word.partition("=")[0] not in changed]
    words += [*(f"{key}={value}" for key, value in changed.items()), "checkpoint.keep=100"]
    search = ["train", "-m", *words, f"run_dir={place}"]

    launcher = subprocess.Popen([sys.executable, "-m", "reprl", *search], start_new_session=True)
    while len(list(place.glob("*/checkpoints/*128"))) < 2:  # the second trial has begun
        assert launcher.poll() is None, "the search ended too early"
        time.sleep(0.01)
    trials = Path(f"/proc/{launcher.pid}/task/{launcher.pid}/children").read_text().split()
    os.killpg(launcher.pid, signal.SIGKILL)
    for trial in trials:  # of a session of its own: it would go on
        os.kill(int(trial), signal.SIGKILL)
    launcher.wait()
    runs = [RunFolder(file.parent) for file in sorted(place.glob("*/run.json"))]
    while runs[1].status() == "running":  # its process is on its way out
        time.sleep(0.01)
    assert [run.status() for run in runs] == ["finished", "killed"]
    assert runs[1].record()["step"] < 2048, "it was killed too late"

    capsys.readouterr()
    assert main(search) == 0
    said = capsys.readouterr().out
    assert "2 proposed before" in said
    assert "trial 1 resumed" in said
    assert "started" not in said
    table = pd.read_csv(place / "trials.csv")
    assert table["state"].tolist() == ["complete", "complete"]
    assert table["folder"].tolist() == [run.path.name for run in runs]
    assert len(list(place.glob("*/run.json"))) == 2
    jobs = json.loads((place / "ledger.json").read_text())["jobs"].values()
    (drawn,) = (job["overrides"] for job in jobs if job["folder"] == runs[1].path.name)
    assert main(["train", *drawn, f"run_dir={tmp_path / 'straight'}", "progress=off"]) == 0
    assert same_runs(runs[1].path, tmp_path / "straight")
    assert score_of(RunFolder(tmp_path / "straight")) == table["score"][1]


@pytest.mark.slow
def test_two_launchers_train_one_search_to_its_end(tmp_path: Path) -> None:
    place, said = tmp_path / "search", [tmp_path / name for name in ("one", "two")]
    changed = {"total_steps": 2048, "checkpoint.every": 1024, "eval.every": 1024, "sweep.trials": 3}
    words = [word for word in RUN if word.partition("=")[0] not in changed]
    words += [*(f"{key}={value}" for key, value in changed.items()), f"run_dir={place}"]
    command = [sys.executable, "-m", "reprl", "train", "-m", *words]
    launchers = []
    for file in said:
        with file.open("w") as out:
            launchers.append(subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT))
    assert [launcher.wait() for launcher in launchers] == [0, 0]
    texts = [file.read_text() for file in said]
    both = "".join(texts)
    for number in range(3):
        assert both.count(f"trial {number} started") == 1
    assert all("started" in text for text in texts)
    assert "resumed" not in both
    assert "killed" not in both
    assert "waiting for what other launchers train: trial" in both  # three trials are odd
    assert all("3 complete" in text for text in texts)
    table = pd.read_csv(place / "trials.csv")
    assert table["state"].tolist() == ["complete"] * 3
    assert len(list(place.glob("*/run.json"))) == 3
    assert [score_of(RunFolder(place / str(name))) for name in table["folder"]] == [*table["score"]]


ECHO = [
    *("env=gymnasium", "env.id=echo_gym:Echo-v0", "device=cpu", "threads=1", "progress=off"),
    *("env.n_envs=4", "total_steps=512", "eval.every=512", "eval.episodes=10", "media=0"),
    *("checkpoint.every=512", "log.every=512", "algo.n_steps=32", "algo.batch_size=32"),
    *("algo.n_epochs=4", "algo.clip_range=0.2"),
]
RATES, GAMMAS = [10.0**-k for k in range(1, 6)], (0.0, 0.3, 0.6, 0.9)


class Here(Running):
    """A trial that is trained in this process, at once."""

    def __init__(
        self, task: Job, todo: list[str], *, folder: Path, claim: IO[str], limit: float | None
    ) -> None:
        self.task, self.claim, self.limit = task, claim, limit
        self.began, self.stopped, self.timed_out = time.monotonic(), None, False
        self.log, self.log_before = folder / "log", 0
        config = replace(task.config, run_dir=str(folder / task.name))
        code = start(config, command=todo, python_path=[])
        self.process: Any = SimpleNamespace(returncode=code, poll=lambda: code)


@pytest.mark.slow
def test_training_finds_its_best_rate_and_discount_in_half_the_runs_of_a_grid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In Echo an action decides its own reward alone, and 512 steps are few.

    So a discount near 0 and one rate are best: smaller ones have not learned by then, larger ones
    have forgotten.
    """
    monkeypatch.syspath_prepend(str(TOYS))
    monkeypatch.setattr(tune, "Running", Here)
    monkeypatch.setattr(tune, "POLL", 0.0)
    plain = load([*ECHO, "algo.learning_rate=1e-3"])
    grid = {}
    for point in itertools.product(RATES, GAMMAS):
        place = tmp_path / f"grid_{len(grid)}"
        algo = plain.algo | dict(zip(("learning_rate", "gamma"), point, strict=True))
        config = replace(plain, algo=algo, run_dir=str(place))
        assert start(config, command=[], python_path=[]) == 0
        grid[point] = score_of(RunFolder(place)) or 0.0
    best = max(grid.values())
    assert {rate for (rate, _), value in grid.items() if value > best - 0.3} == {1e-2}

    words = [*ECHO, "sweep=tune", f"sweep.trials={len(grid) // 2}", "sweep.jobs=1"]
    words += ["algo.learning_rate=tag(log,interval(1e-5,1e-1))", "algo.gamma=interval(0,0.9)"]
    found = []
    for sampler in range(3):
        planned = tune.plan([*words, f"run_dir={tmp_path / f'study_{sampler}'}"], [])
        study = tune.Tune(replace(planned, seed=sampler))
        assert study.run() == 0
        assert len(study.search.all()) == len(grid) // 2
        chosen = study.search.best()
        assert chosen is not None
        assert chosen.value is not None
        found.append(chosen.value >= best - 0.3)  # of 100 lamps, three that were chance
    assert sum(found) >= 2, found
