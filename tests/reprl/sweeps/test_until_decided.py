"""Seeds are added where a claim is undecided and nowhere else, whatever kills the launcher.

Launcher, ledger, looks and statistics are real; a job and its evaluation are a script that writes
a run folder and its games, so that a sweep takes seconds.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from reprl.analysis.claims import claims_table, find_claims
from reprl.analysis.load import collect
from reprl.cli import main
from reprl.sweeps import local, plan, start, until_decided
from reprl.sweeps.ledger import Ledger
from reprl.sweeps.until_decided import UntilDecided
from tests.helpers import Commands

CLAIMS = """
episodes: 4
claims:
  - {method: only_drac, baseline: plain, variants: [green_lines]}
  - {method: rad_boxes, baseline: plain, variants: [green_lines]}
"""
SWEEP = "seed: 1,2,3\nexperiment: plain,rad_boxes,only_drac,mask_decoder\ntotal_steps: 1024\n"

# DrAC is far above plain from the first look on, RAD is not: a run's points on green_lines.
JOB = """
import hashlib, json, os, pathlib, signal, sys
action, folder, method, experiment, seed, crash = sys.argv[1:]
folder, seed = pathlib.Path(folder), int(seed)
with open(folder.parent / "said", "a") as file:
    file.write(f"{action} {experiment} {seed}\\n")
crash = pathlib.Path(crash)
if crash.is_file() and crash.read_text() == f"{action} {experiment} {seed}":
    crash.unlink()
    os.kill(os.getppid(), signal.SIGKILL)
    sys.exit(1)
if action == "train":
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.yaml").write_text(f"seed: {seed}\\nenv: {{variant: original}}\\n")
    sha = hashlib.sha256((folder.parent / "claims.yaml").read_bytes()).hexdigest()
    record = {"status": "finished", "method": method, "experiment": experiment}
    record["claims"] = {"sha256": sha}
    (folder / "run.json").write_text(json.dumps(record))
else:
    high = {"plain": 2.0, "only_drac": 40.0, "rad_boxes": 2.2}.get(experiment, 9.0)
    spread = [0.3, -0.4, 0.1, -0.2, 0.5, -0.3][seed % 6]
    head = "run,method,train_seed,step,variant,severity,episode,eval_seed,game_seed,deterministic"
    rows = [head + ",sticky,episode_return,length,end"]
    for variant in ("original", "green_lines"):
        for game in range(4):
            points = high + spread * (2 if experiment == "plain" else 1) + game - 1.5
            place = f"{variant},,{game},0,{seed * 10 + game}"
            start = f"{folder.name},{method},{seed},1024,{place}"
            rows.append(f"{start},False,0.0,{points},100,game_over")
    (folder / "evaluation").mkdir(exist_ok=True)
    (folder / "evaluation" / "episodes.csv").write_text("\\n".join(rows) + "\\n")
"""


def fakes(place: Path) -> None:
    """Let the script above stand for training and evaluation, in this process."""

    def task(action: str, job: plan.Job, folder: Path) -> list[str]:
        experiment = str(job.config.choices["experiment"])
        words = [action, str(folder), job.config.method, experiment, str(job.config.seed)]
        return [sys.executable, str(place / "job.py"), *words, str(place / "crash")]

    def command(job: plan.Job, ledger: Ledger, retry: bool) -> list[str] | None:
        entry = ledger.look(job)
        if entry.status == "finished":
            return None
        return task("train", job, ledger.folder / entry.folder)

    local.command = command  # type: ignore[assignment]
    until_decided.evaluation = lambda folder, _, job: task("evaluate", job, folder)  # type: ignore[assignment]


def sweep_in(place: Path, most: int = 6) -> int:
    """Plan and run the sweep of a place."""
    words = ["sweep=mine", "seeds=until_decided", f"max_seeds={most}", f"run_dir={place / 'runs'}"]
    made = plan.make(words, [place])
    return UntilDecided(made, Ledger(made.folder), start).run()


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "sweep").mkdir()
    (tmp_path / "sweep" / "mine.yaml").write_text(SWEEP)
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "claims.yaml").write_text(CLAIMS)
    (tmp_path / "job.py").write_text(JOB)
    monkeypatch.setattr(local, "command", local.command)
    monkeypatch.setattr(until_decided, "evaluation", until_decided.evaluation)
    return tmp_path


def said(place: Path) -> list[str]:
    return sorted((place / "runs" / "said").read_text().splitlines())


def expected(most: int) -> list[str]:
    """Four methods at first; then only those of the claim about RAD."""
    names = ["plain", "rad_boxes", "only_drac", "mask_decoder"]
    jobs = [f"train {name} {seed}" for name in names for seed in (1, 2, 3)]
    jobs += [f"evaluate {name} {seed}" for name in names[:3] for seed in (1, 2, 3)]
    more = [(name, seed) for name in names[:2] for seed in range(4, most + 1)]
    jobs += [f"{action} {name} {seed}" for action in ("train", "evaluate") for name, seed in more]
    return sorted(jobs)


@pytest.mark.slow
def test_seeds_are_added_only_to_what_is_undecided(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fakes(place)
    assert sweep_in(place) == 0
    assert said(place) == expected(6)
    out = capsys.readouterr().out
    assert "Look at 3 seeds" in out
    assert "Held: only_drac beats plain on the mean of green_lines (+38" in out
    assert "Seed 4 is added to rad_boxes, plain." in out
    assert "All 6 seeds are used: it stays undecided." in out
    again = sweep_in(place)
    assert again == 0
    assert said(place) == expected(6)  # nothing is trained or played twice
    results = collect([place / "runs"])
    table = claims_table(results, find_claims([place / "runs"], results.warnings))
    assert table.frame["verdict"].tolist() == ["held", "undecided"]
    assert table.frame["n_method"].tolist() == [3, 6]
    assert table.frame["looks"].iloc[1] == "look 4 of at most 4, 6 seeds each of at most 6"
    lines = json.loads((place / "runs" / "looks.json").read_text())["looks"]
    assert [one["seeds"] for one in lines] == [3, 4, 5, 6]
    tails = [text.partition(" on the mean of ")[2] for text in table.frame["sentence"]]
    assert [text.partition(" on the mean of ")[2] for text in lines[-1]["said"]] == tails


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["train only_drac 2", "evaluate plain 4"])
def test_the_same_command_goes_on_after_kill_9(place: Path, moment: str) -> None:
    (place / "crash").write_text(moment)
    driver = (
        "import sys, pathlib; from tests.reprl.sweeps import test_until_decided as t; "
        "p = pathlib.Path(sys.argv[1]); t.fakes(p); sys.exit(t.sweep_in(p, 4))"
    )
    command = [sys.executable, "-c", driver, str(place)]
    root = Path(__file__).parents[3]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    first = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True)
    assert first.returncode == -signal.SIGKILL, first.stderr
    second = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True)
    assert second.returncode == 0, second.stderr
    assert sorted(set(said(place))) == expected(4)
    assert "All 4 seeds are used" in second.stdout
    twice = [line for line in set(said(place)) if said(place).count(line) > 1]
    assert moment in twice  # what was cut off is done again
    assert all(line.startswith("evaluate") or line == moment for line in twice)


def test_what_cannot_be_decided_is_refused_before_anything_starts(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    commands = Commands(capsys)
    words = ["train", "-m", "sweep=mine", f"--config-dir={place}", f"run_dir={place / 'runs'}"]
    until = [*words, "seeds=until_decided"]
    commands.refuse([*until, "seed=1,2"], "seeds=until_decided", "'seed=1,2'")
    commands.refuse([*until, "max_seeds=2"], "max_seeds=2", "3 seeds")
    commands.refuse([*until, "max_seeds=1"], "max_seeds=1", "from 2 to 1000")
    commands.refuse([*words, "max_seeds=9"], "max_seeds=9", "seeds=until_decided")
    commands.refuse([*words, "seeds=5"], "seeds=5", "until_decided", "seed=0,1,2")
    commands.refuse(["train", "seeds=until_decided"], "seeds=until_decided", "add -m")
    other = [w for w in until if not w.startswith("run_dir=")]
    commands.refuse([*other, f"run_dir={place / 'other'}"], "claims.yaml", "run_dir=")
    claims = place / "runs" / "claims.yaml"
    claims.write_text("- {method: only_drak, baseline: plain}")
    commands.refuse(until, "only_drak", "Did you mean 'only_drac'?")
    claims.write_text("- {method: only_drac, baseline: plain, variants: [green_line]}")
    commands.refuse(until, "green_line", "Did you mean 'green_lines'?")
    claims.write_text("episods: 5\nclaims: [{method: only_drac, baseline: plain}]")
    commands.refuse(until, "episods", "Did you mean 'episodes'?")
    claims.write_text("- {method: only_drac, baseline: plain}")
    (place / "sweep" / "mine.yaml").write_text(SWEEP.replace("seed: 1,2,3", "seed: 4"))
    commands.refuse(until, "seed=4", "two or more")
    (place / "sweep" / "mine.yaml").write_text(
        SWEEP.replace("seed: 1,2,3", "algo.ent_coef: 0.0,0.1\nseed: 1,2,3")
    )
    commands.refuse(until, "'only_drac' is 2 different methods")
    assert [p.name for p in (place / "runs").iterdir()] == ["claims.yaml"]


def test_a_design_or_claims_that_change_after_a_look_are_refused(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = plan.make(
        ["sweep=mine", "seeds=until_decided", "max_seeds=6", f"run_dir={place / 'runs'}"], [place]
    )
    UntilDecided(made, Ledger(made.folder), start).record.write(made.folder)
    commands = Commands(capsys)
    words = ["train", "-m", "sweep=mine", f"--config-dir={place}", f"run_dir={place / 'runs'}"]
    words += ["seeds=until_decided"]
    commands.refuse([*words, "max_seeds=8"], "max_seeds=8", "began with", "6 and 1,2,3")
    (place / "runs" / "claims.yaml").write_text(CLAIMS + "# later\n")
    commands.refuse([*words, "max_seeds=6"], "claims.yaml", "edited after the first look")
    (place / "runs" / "looks.json").write_text("{}")
    commands.refuse([*words, "max_seeds=6"], "looks.json", "damaged")


def test_cfg_lists_the_first_jobs_and_says_what_may_follow(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["train", "-m", "--cfg", "sweep=mine", f"--config-dir={place}"]
    assert main([*words, f"run_dir={place / 'runs'}", "seeds=until_decided", "max_seeds=7"]) == 0
    out = capsys.readouterr().out
    assert "12 jobs" in out
    assert (
        "then one seed at a time, up to 7 of each, for those of only_drac, plain, rad_boxes" in out
    )


def test_an_added_seed_is_the_run_that_a_sweep_of_that_seed_would_be(place: Path) -> None:
    base = ["experiment=only_drac", "total_steps=1024", f"run_dir={place / 'runs'}"]
    three = plan.make([*base, "seed=1,2,3"], [])
    four = plan.make([*base, "seed=1,2,3,4"], [])
    assert plan.with_seed(three.jobs[0], 4, 3).identity == four.jobs[3].identity
