"""The pieces of the sweep benchmark: what it counts, never how fast this machine is."""

import math

import pytest

from benchmarks import sweep


def test_only_the_time_in_which_all_jobs_work_counts():
    early = [(0.0, 100), (10.0, 1100)]  # 100 steps/s
    late = [(5.0, 100), (25.0, 1100)]  # 50 steps/s, and alone after 10 s
    assert sweep.common_rate([early]) == pytest.approx(100.0)
    assert sweep.common_rate([early, late]) == pytest.approx(150.0)
    with pytest.raises(SystemExit, match="never at work at the same time"):
        sweep.common_rate([early, [(10.0, 0), (20.0, 1000)]])


def test_rows_are_noted_once_when_they_appear(tmp_path):
    run = tmp_path / "000_run"
    run.mkdir()
    histories = {}
    sweep.look(tmp_path, histories, 512, 1.0)
    assert histories == {}
    (run / "metrics.csv").write_text("step\n512\n")
    for moment in (2.0, 3.0):
        sweep.look(tmp_path, histories, 512, moment)
    (run / "metrics.csv").write_text("step\n512\n1024\n")
    sweep.look(tmp_path, histories, 512, 4.0)
    assert list(histories.values()) == [[(2.0, 512), (4.0, 1024)]]


@pytest.mark.slow
def test_the_overhead_is_of_a_real_sweep_of_jobs_that_do_nothing():
    added, planned = sweep.overhead(3)
    assert planned > 0
    assert math.isfinite(added)  # seconds a job: some number came out


def test_the_table_compares_with_the_two_thread_job():
    names = list(sweep.CONTENDERS)
    found = {names[0]: [(200.0, 9.0)], names[2]: [(270.0, 12.0)]}
    assert sweep.rows_of(found) == [
        [names[0], "200", "200", "1.00", "9 s"],
        [names[2], "270", "135", "1.35", "12 s"],
    ]
