"""What a sweep prints: jobs told apart by what varies, news in lines, a table that fits."""

import pytest
from rich.console import Console

from reprl.config.schema import Config
from reprl.sweeps import plan
from reprl.sweeps.ledger import Ledger
from reprl.sweeps.view import SweepView, what_varies


def make(tmp_path, *overrides):
    made = plan.make([*overrides, f"run_dir={tmp_path / 'sweep'}"], [])
    ledger = Ledger(made.folder)
    ledger.open(made.jobs)
    return made, ledger, [ledger.entries[job.identity] for job in made.jobs]


def test_jobs_are_told_apart_by_what_varies(tmp_path):
    made, _, _ = make(tmp_path, "algo.gamma=0.9,0.99", "seed=1,2", "total_steps=4096")
    assert list(what_varies(made.jobs).values())[:2] == ["gamma=0.9 seed=1", "gamma=0.9 seed=2"]
    # two keys that end alike are written out
    made, _, _ = make(tmp_path, "checkpoint.every=1000,2000", "log.every=100,200")
    assert next(iter(what_varies(made.jobs).values())) == "checkpoint.every=1000 log.every=100"


def test_a_restart_says_what_is_there_and_only_then_what_changes(tmp_path, capsys):
    made, ledger, entries = make(tmp_path, "seed=0,1,2,3")
    entries[0].status = "finished"
    entries[1].status = "killed"
    with SweepView(made, ledger) as view:
        view.show()
        assert capsys.readouterr().out == (
            f"4 jobs in {tmp_path / 'sweep'}: 1 finished, 1 killed, 2 waiting\n"
        )
        entries[1].status = entries[2].status = "running"
        view.show()
        entries[2].status, entries[2].reason = "failed", "diverged"
        view.show()
        entries[3].status, entries[3].reason = "killed", "killed by SIGKILL"
        view.show()
        assert capsys.readouterr().out.splitlines() == [
            "job 1 resumed  seed=1",
            "job 2 started  seed=2",
            "job 2 failed: diverged",
            "job 3 killed by SIGKILL",
        ]
    entries[1].status, entries[1].reason = "interrupted", "time limit of 5 s"
    view.finish()
    table = capsys.readouterr().out
    assert "1 failed, 1 finished, 1 interrupted, 1 killed" in table
    assert "the same command goes on" in table
    assert "sweep.retry=true" in table
    rows = {line.split()[0]: line.split() for line in table.splitlines() if line.startswith("   ")}
    assert rows["2"][1] == "failed"
    assert rows["2"][-1] == "diverged"
    assert made.jobs[2].name in rows["2"]


def test_watching_many_jobs_hashes_no_configuration_again(tmp_path, monkeypatch):
    """Five looks a second at hundreds of jobs must not take a core from them."""
    made, ledger, entries = make(tmp_path, "seed=range(20)")
    hashed = []
    own = Config.hash.fget
    monkeypatch.setattr(Config, "hash", property(lambda self: hashed.append(1) or own(self)))
    with SweepView(made, ledger) as view:
        for entry in entries:
            entry.status = "running"
            view.show()
    assert not hashed


def test_where_jobs_are_too_many_those_at_work_and_in_trouble_are_shown(tmp_path):
    made, ledger, entries = make(tmp_path, "seed=range(12)")
    for number, status in ((7, "running"), (8, "running"), (2, "failed"), (0, "finished")):
        entries[number].status = status
    view = SweepView(made, ledger)
    view.console = Console(height=9, width=100, record=True, quiet=True)
    table = view._live_table()
    assert table.row_count == 4
    assert list(table.columns[0]._cells) == ["1", "2", "7", "8"]
    assert table.caption == "1 failed, 1 finished, 2 running, 8 waiting; 8 more not shown"


def test_a_closed_pipe_does_not_end_the_jobs(tmp_path, monkeypatch):
    made, ledger, entries = make(tmp_path, "seed=0,1")

    def gone(*_, **__):
        raise BrokenPipeError

    with SweepView(made, ledger) as view:
        monkeypatch.setattr("builtins.print", gone)
        entries[0].status = "running"
        view.show()
    view.finish()
    with pytest.raises(BrokenPipeError):
        print("the pipe is closed")
