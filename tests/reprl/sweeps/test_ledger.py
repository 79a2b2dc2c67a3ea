"""The index of a sweep that several launchers write, and run folders that say nothing sensible."""

import json
import threading
from pathlib import Path

import pytest

from reprl.disk import write_atomically
from reprl.sweeps import plan
from reprl.sweeps.ledger import Ledger
from reprl.sweeps.process import command


@pytest.fixture
def made(tmp_path: Path) -> plan.Plan:
    return plan.make(["seed=0,1", "device=cpu", f"run_dir={tmp_path / 'sweep'}"], [])


def opened(made: plan.Plan) -> Ledger:
    ledger = Ledger(made.folder)
    ledger.open(made.jobs)
    return ledger


def test_two_launchers_write_only_what_is_theirs(made: plan.Plan) -> None:
    first, second = (job.identity for job in made.jobs)
    a, b = opened(made), opened(made)
    b.entries[second].status, b.entries[second].reason = "failed", "it has no folder"
    b.write()
    a.entries[first].status = "running"
    a.entries[second].status = "elsewhere"  # what a sees of it is no news of it
    a.write()
    a.write()
    index = json.loads((made.folder / "ledger.json").read_text())["jobs"]
    assert index[first]["status"] == "running"
    assert (index[second]["status"], index[second]["reason"]) == ("failed", "it has no folder")
    assert opened(made).entries[second].status == "failed"


def test_a_failure_that_another_launcher_saw_is_not_tried_again(made: plan.Plan) -> None:
    job = made.jobs[1]
    a, b = opened(made), opened(made)
    b.entries[job.identity].status, b.entries[job.identity].reason = "failed", "it has no folder"
    b.write()
    claim = a.claim(job)
    assert claim is not None
    with claim:
        assert command(job, a, retry=False) is None
    assert a.entries[job.identity].reason == "it has no folder"


def test_a_lost_index_is_written_whole_again(made: plan.Plan) -> None:
    ledger = opened(made)
    ledger.file.write_text("{")
    ledger.write()
    assert len(json.loads(ledger.file.read_text())["jobs"]) == 2
    ledger.file.write_text('{"version": 99}')
    ledger.write()  # another reprl's: said at the end, the jobs go on
    assert "version 99" in str(ledger.unwritten)


def test_two_writers_of_one_file_do_not_meet(tmp_path: Path) -> None:
    file, texts, problems = tmp_path / "file", ["a" * 9999, "b" * 9999], []

    def write(text: str) -> None:
        try:
            for _ in range(50):
                write_atomically(file, text)
                assert file.read_text() in texts
        except (OSError, AssertionError) as error:
            problems.append(error)

    threads = [threading.Thread(target=write, args=(text,)) for text in texts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_a_draft_goes_with_whatever_stops_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(descriptor: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("os.fsync", stop)
    with pytest.raises(KeyboardInterrupt):
        write_atomically(tmp_path / "file", "text")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "cannot read"),
        ("[1, 2]", "does not hold a run's record"),
        ("{}", "has no status"),
        ('{"status": 5}', "has no status"),
        ('{"status": "failed", "reason": ["nan"]}', "['nan']"),
    ],
)
def test_a_record_that_says_nothing_is_a_failed_job(
    made: plan.Plan, text: str, reason: str
) -> None:
    broken, fine = made.jobs
    for job, record in ((broken, text), (fine, '{"status": "finished"}')):
        (made.folder / job.name).mkdir(parents=True)
        (made.folder / job.name / "run.json").write_text(record)
    ledger = opened(made)
    assert ledger.entries[fine.identity].status == "finished"
    entry = ledger.entries[broken.identity]
    assert entry.status == "failed"
    assert reason in str(entry.reason)
    assert command(broken, ledger, retry=False) is None
    again = command(broken, ledger, retry=True)
    assert again is not None
    assert entry.folder == f"{broken.name}+1"
