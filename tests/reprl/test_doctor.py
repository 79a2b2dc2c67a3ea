"""What `reprl doctor` concludes from its measurements, on machines with known faults."""

from dataclasses import replace
from pathlib import Path

import pytest

from reprl.cli import main
from reprl.doctor import Rates, findings, has_bf16

GOOD = Rates(
    cores=4,
    load=0.1,
    games_one=1000.0,
    games_all=4000.0,
    update_one=1000.0,
    update_threads=3600.0,
    update_all=4000.0,
    bf16=True,
)


def said(measured: Rates) -> str:
    return "\n".join(findings(measured))


def test_the_two_loops_by_hand():
    assert GOOD.one_rank() == pytest.approx(1 / (1 / 1000 + 4 / 3600))
    assert GOOD.all_ranks() == pytest.approx(1 / (1 / 4000 + 4 / 4000))


def test_a_good_machine_gets_a_rank_a_core_and_no_complaint():
    assert "ranks=4" in said(GOOD)
    assert len(findings(GOOD)) == 2


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"load": 3.0}, "busy"),
        ({"games_all": 2000.0}, "Emulators in all cores"),
        ({"update_all": 2000.0}, "Updates in all cores"),
        ({"update_threads": 1200.0}, "wait for each other"),
        ({"bf16": False}, "bf16"),
        ({"games_all": 900.0, "update_all": 900.0}, "Keep ranks=1"),
    ],
)
def test_each_fault_is_named(change: dict[str, float], word: str):
    assert word not in said(GOOD)
    assert word in said(replace(GOOD, **change))


def test_the_processor_is_asked(tmp_path: Path):
    file = tmp_path / "cpuinfo"
    file.write_text("processor : 0\nflags\t\t: fpu avx2 avx512_bf16\n")
    assert has_bf16(file)
    file.write_text("processor : 0\nflags\t\t: fpu avx2\n")
    assert not has_bf16(file)
    assert not has_bf16(tmp_path / "none")


@pytest.mark.slow
def test_the_command_measures_this_machine(capsys: pytest.CaptureFixture[str]):
    assert main(["doctor", "seconds=0.1"]) == 0
    out = capsys.readouterr().out
    assert out.count("agent steps/s") == 2
    assert out.count("samples/s") == 3
    assert "A PPO step here" in out
