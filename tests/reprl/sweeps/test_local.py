"""The local launcher under exceptions, SIGKILL, hangs, SIGTERM, restarts and a lost ledger.

The jobs are real processes that write real run folders; only the training inside is replaced by a
script, so that a sweep takes seconds.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from reprl.sweeps import local, plan
from reprl.sweeps.ledger import Ledger
from tests.helpers import refuses

pytestmark = pytest.mark.slow  # starts processes

JOB = """
import fcntl, json, os, pathlib, signal, sys, time
action, folder, how = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3]
if how == "start slowly":
    time.sleep(60)
if how == "die starting":
    os.kill(os.getpid(), signal.SIGKILL)
if how == "refuse":
    sys.exit("reprl: there is no such key.")
folder.mkdir(parents=True, exist_ok=True)
(folder / "config.yaml").write_text("{}")
lock = open(folder / ".lock", "w"); fcntl.flock(lock, fcntl.LOCK_EX)
def record(**values):
    (folder / "run.json").write_text(json.dumps(values))
record(status="running")
def stop(*_):
    record(status="interrupted", reason="stopped by SIGTERM"); sys.exit(143)
signal.signal(signal.SIGTERM, stop)
with open(folder / "starts", "a") as file:
    file.write(action + "\\n")
if action == "train":
    if how == "raise":
        record(status="failed", reason="diverged: value loss [nan]"); sys.exit(1)
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "hang":
        time.sleep(60)
    if how == "garble":
        (folder / "run.json").write_text("{"); sys.exit(1)
time.sleep(0.2)
record(status="finished")
"""

HOLD = """
import fcntl, sys, time
file = open(sys.argv[1], "w"); fcntl.flock(file, fcntl.LOCK_EX); print("held", flush=True)
time.sleep(30)
"""


@pytest.fixture
def sweep(tmp_path, monkeypatch):
    """A sweep of four seeds whose job of seed s behaves as behaviours[s] says."""
    script = tmp_path / "job.py"
    script.write_text(JOB)
    behaviours = dict.fromkeys(range(4), "fine")
    real = local.command

    def command(job, ledger, retry):
        todo = real(job, ledger, retry)
        if todo is None:
            return None
        action = "resume" if "resume" in todo else "train"
        place = ledger.folder / ledger.entries[job.identity].folder
        return [sys.executable, str(script), action, str(place), behaviours[job.config.seed]]

    monkeypatch.setattr(local, "command", command)

    def run(*extra):
        seeds = [] if any(e.startswith("seed=") for e in extra) else ["seed=0,1,2,3"]
        made = plan.make([*seeds, f"run_dir={tmp_path / 'sweep'}", *extra], [])
        ledger = Ledger(made.folder)
        ledger.open(made.jobs)
        code = local.Local(made, ledger).run()
        return code, [ledger.entries[j.identity] for j in made.jobs], made.folder

    return run, behaviours


def ended(folder: Path) -> int:
    """How many jobs the index says have come to an end."""
    try:
        jobs = json.loads((folder / "ledger.json").read_text())["jobs"].values()
    except FileNotFoundError:
        return 0
    return sum(job["status"] in ("finished", "failed", "killed") for job in jobs)


def starts(folder: Path) -> list[str]:
    return sorted(
        f"{p.parent.name[:3]} {a}" for p in folder.glob("*/starts") for a in p.read_text().split()
    )


def test_one_bad_job_costs_only_itself_and_the_same_sweep_finishes_the_rest(sweep, capsys):
    run, behaviours = sweep
    behaviours |= {1: "raise", 2: "kill"}
    code, entries, folder = run()
    assert code == 1
    assert [e.status for e in entries] == ["finished", "failed", "killed", "finished"]
    assert entries[1].reason == "diverged: value loss [nan]"
    assert "SIGKILL" in entries[2].reason
    assert capsys.readouterr().out.count("value loss [nan]") == 2  # in a line and in the table
    code, entries, _ = run()  # resumes the killed one, leaves finished and failed alone
    assert code == 1
    assert [e.status for e in entries] == ["finished", "failed", "finished", "finished"]
    assert starts(folder) == ["000 train", "001 train", "002 resume", "002 train", "003 train"]
    behaviours[1] = "fine"
    code, entries, _ = run("sweep.retry=true")
    assert code == 0
    assert entries[1].folder.endswith("+1")  # nothing was overwritten
    failed = [json.loads(p.read_text()) for p in folder.glob("001*/run.json")]
    assert sorted(r["status"] for r in failed) == ["failed", "finished"]
    assert run()[0] == 0


def test_a_hanging_job_is_stopped_at_its_time_limit(sweep):
    run, behaviours = sweep
    behaviours[0] = "hang"
    code, entries, _ = run("sweep.time_limit=4", "sweep.jobs=4")
    assert code == 1
    assert entries[0].status == "interrupted"
    assert entries[0].reason == "time limit of 4 s"
    assert [e.status for e in entries[1:]] == ["finished"] * 3


def test_sigterm_stops_every_job_resumably(sweep, tmp_path):
    run, behaviours = sweep
    behaviours |= dict.fromkeys(range(4), "hang")

    def terminate():
        while len(list(tmp_path.glob("sweep/*/starts"))) < 2:
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=terminate).start()
    code, entries, folder = run("sweep.jobs=2")
    assert code == 143
    assert [e.status for e in entries] == ["interrupted"] * 2 + ["waiting"] * 2
    behaviours |= dict.fromkeys(range(4), "fine")
    assert run()[0] == 0
    assert starts(folder)[:4] == ["000 resume", "000 train", "001 resume", "001 train"]


def test_a_job_stopped_or_killed_before_it_has_a_folder_runs_again(sweep, tmp_path):
    run, behaviours = sweep
    behaviours |= {0: "start slowly", 1: "die starting", 2: "refuse"}

    def terminate():
        while ended(tmp_path / "sweep") < 3:
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=terminate).start()
    code, entries, folder = run("sweep.jobs=4")
    assert code == 143
    assert [e.status for e in entries] == ["interrupted", "killed", "failed", "finished"]
    assert entries[0].reason == "stopped while it was starting"
    assert entries[1].reason == "killed by SIGKILL (out of memory?)"
    assert entries[2].reason == "reprl: there is no such key."  # it ended by itself
    behaviours |= dict.fromkeys(range(4), "fine")
    _, entries, _ = run()
    assert [e.status for e in entries] == ["finished", "finished", "failed", "finished"]
    assert starts(folder) == ["000 train", "001 train", "003 train"]


def test_a_time_limit_while_a_job_starts_leaves_it_to_the_next_command(sweep):
    run, behaviours = sweep
    behaviours[0] = "start slowly"
    _, entries, _ = run("sweep.time_limit=1", "seed=0")
    assert (entries[0].status, entries[0].reason) == ("interrupted", "time limit of 1 s")
    behaviours[0] = "fine"
    assert run("seed=0")[0] == 0


def test_a_record_that_breaks_while_the_sweep_runs_costs_only_its_job(sweep):
    run, behaviours = sweep
    behaviours[1] = "garble"
    code, entries, _ = run("sweep.jobs=4")
    assert code == 1
    assert [e.status for e in entries] == ["finished", "failed", "finished", "finished"]
    assert "cannot read" in entries[1].reason
    behaviours[1] = "fine"
    assert run("sweep.retry=true")[0] == 0


def test_a_refused_resume_says_why(sweep, monkeypatch):
    run, behaviours = sweep
    behaviours[0] = "kill"
    assert run("seed=0")[1][0].status == "killed"
    refused = [sys.executable, "-c", "print('reprl: it was changed.'); raise SystemExit(2)"]
    monkeypatch.setattr(local, "command", lambda *_: refused)
    _, entries, _ = run("seed=0")
    assert (entries[0].status, entries[0].reason) == ("killed", "reprl: it was changed.")


def test_what_another_launcher_has_taken_up_is_elsewhere_at_the_end(sweep, monkeypatch):
    run, behaviours = sweep
    behaviours |= {0: "kill", 1: "kill"}
    held = []
    conclude = local.Local._conclude

    def taken(launcher, job):
        if job.config.seed == 0:
            other = Ledger(launcher.ledger.folder)
            other.read([job])
            held.append(other.claim(job))
        conclude(launcher, job)

    monkeypatch.setattr(local.Local, "_conclude", taken)
    _, entries, folder = run()
    held[0].close()
    assert [e.status for e in entries] == ["elsewhere", "killed", "finished", "finished"]
    index = json.loads((folder / "ledger.json").read_text())["jobs"]
    assert sorted(e["status"] for e in index.values()) == [
        "finished",
        "finished",
        "killed",
        "killed",
    ]


def test_a_job_is_let_go_only_when_its_end_is_written(sweep, monkeypatch):
    run, behaviours = sweep
    behaviours |= {0: "refuse"}
    free = []
    write = Ledger.write

    def written(ledger):
        for job in plan.make(["seed=0"], []).jobs:
            if ledger.entries[job.identity].status == "failed" and not free:
                other = Ledger(ledger.folder)
                other.read([job])
                free.append(other.claim(job))
        write(ledger)

    monkeypatch.setattr(Ledger, "write", written)
    run("seed=0")
    assert free == [None]


def test_a_lost_or_broken_ledger_is_rebuilt_from_the_folders(sweep):
    run, _ = sweep
    _, _, folder = run()
    before = starts(folder)
    for text in (None, "not json", "[1]", '{"version": 1}', '{"version": 1, "jobs": {"a": {}}}'):
        if text is None:
            (folder / "ledger.json").unlink()
        else:
            (folder / "ledger.json").write_text(text)
        assert run()[0] == 0
    assert starts(folder) == before
    assert len(json.loads((folder / "ledger.json").read_text())["jobs"]) == 4
    (folder / "ledger.json").write_text('{"version": 99, "jobs": {}}')
    with refuses("version 99"):
        run()


def test_drafts_and_copies_beside_a_run_are_not_taken_for_it(sweep):
    run, _ = sweep
    _, entries, folder = run()
    before = starts(folder)
    for name in (f".{entries[0].folder}.x7", f"{entries[0].folder}_backup", "mine"):
        (folder / name).mkdir()
        (folder / name / "run.json").write_text('{"status": "failed"}')
    code, entries, _ = run()
    assert code == 0
    assert starts(folder) == before


def test_a_job_held_by_another_sweep_is_left_to_it(sweep):
    run, _ = sweep
    _, _, folder = run("seed=0")
    holder = subprocess.Popen(
        [
            sys.executable,
            "-c",
            HOLD,
            str(folder / ".claims" / plan.make(["seed=1"], []).jobs[0].identity),
        ],
        stdout=subprocess.PIPE,
    )
    try:
        holder.stdout.readline()
        code, entries, _ = run()
    finally:
        holder.kill()
        holder.wait()
    assert code == 1
    assert [e.status for e in entries] == ["finished", "elsewhere", "finished", "finished"]
    assert "001 train" not in starts(folder)
    assert run()[0] == 0
