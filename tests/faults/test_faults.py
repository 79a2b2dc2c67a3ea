"""The quick part of `make torture`: every kind of fault at least once, and the harness itself.

What is too slow for every commit (sweeps of processes, growth over many updates) is left to it.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.faults import scenarios, torture
from tests.faults.harness import NoDisk, Place, Row, difference, games, table, unclean

GOLDEN = Path(__file__).parents[1] / "golden" / "v0_2_0" / "runs" / "ppo_plain_s0"
QUICK = {
    scenarios.kills_while_training: 3,
    scenarios.full_disks: len(scenarios.WRITERS),
    scenarios.damaged_files: 3,
    scenarios.later_versions: 5,
}  # once for all others
LEFT_TO_TORTURE = (
    scenarios.kills_of_a_launcher,
    scenarios.kills_of_a_rank,
    scenarios.updates_without_growth,
    scenarios.a_sweep_without_growth,
)


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with Place(tmp_path_factory.mktemp("faults"), seed=1) as place:
        yield place


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(k, id=k.scenario.__name__)
        for k in torture.KINDS
        if k.scenario not in LEFT_TO_TORTURE
    ],
)
def test_nothing_is_lost(kind: torture.Kind, place: Place) -> None:
    count = QUICK.get(kind.scenario, 1)
    try:
        found = list(kind.scenario(place, count))
    except NoDisk as error:
        pytest.skip(f"no disk may be mounted here: {error}")
    assert len(found) == count
    assert [text for text in found if text] == []


# -- the harness: what it calls survived must be so ------------------------------------------------


def test_two_runs_that_differ_in_a_byte_a_row_or_a_checkpoint_differ(tmp_path: Path) -> None:
    run = Path(shutil.copytree(GOLDEN, tmp_path / "run"))
    assert difference(run, GOLDEN) is None
    newest = sorted((run / "checkpoints").iterdir())[-1]
    file = newest / "optimizer.safetensors"
    data = file.read_bytes()
    file.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    assert "optimizer.safetensors" in str(difference(run, GOLDEN))
    file.write_bytes(data)
    rows = (run / "metrics.csv").read_text().splitlines()
    (run / "metrics.csv").write_text("\n".join(rows[:-1]) + "\n")
    assert difference(run, GOLDEN) == "metrics.csv differs"
    assert difference(run, GOLDEN, rows=False) is None
    shutil.rmtree(newest)
    assert "checkpoints at" in str(difference(run, GOLDEN))


def test_games_are_compared_without_the_name_of_the_folder(tmp_path: Path) -> None:
    run = Path(shutil.copytree(GOLDEN, tmp_path / "run"))
    file = run / "evaluation" / "episodes.csv"
    header, first, *rest = file.read_text().splitlines()
    moved = first.replace("ppo_plain_s0", "elsewhere", 1)
    file.write_text("\n".join([header, *rest, moved]) + "\n")
    assert games(run) == games(GOLDEN)
    file.write_text("\n".join([header, *rest]) + "\n")
    assert games(run) != games(GOLDEN)


@pytest.mark.parametrize(
    ("code", "said", "wrong"),
    [
        (0, "", None),
        (2, "reprl: no.\n", None),
        (2, "", "it said nothing"),
        (3, "x\n", "exit code 3 (x)"),
        (1, "Traceback (most recent call last):\n  x\nValueError: y\n", "a traceback"),
        (-9, "x\n", "exit code -9"),
        (1000, "", "it did not end"),
    ],
)
def test_an_end_is_clean_or_not(code: int, said: str, wrong: str | None) -> None:
    process: Any = SimpleNamespace(code=code, said=said)
    found = unclean(process)
    assert found is None if wrong is None else str(found).startswith(wrong)


def test_a_command_is_a_process_that_can_be_killed(place: Place) -> None:
    process = place.start("list", "algo")
    assert process.end() == 0
    assert "imitation" in process.said
    process = place.start("list")
    process.signal(9)
    assert process.end() == -9


def test_the_table_counts_and_names_losses_and_goes_into_its_page(tmp_path: Path) -> None:
    text = table([Row("a", 3), Row("b", 2, ["it fell", "it fell"])])
    assert "| a | 3 | 3 | 0 |" in text
    assert "| b | 2 | 0 | 2 |" in text
    assert "| **all** | **5** | **3** | **2** |" in text
    assert text.count("- b: it fell") == 1
    page = tmp_path / "page.md"
    page.write_text(f"above\n{torture.BEGIN}\nold\n{torture.END}\nbelow\n")
    for words in ("one\n", "two\n"):
        torture.put(page, words)
    assert page.read_text() == f"above\n{torture.BEGIN}\ntwo\n{torture.END}\nbelow\n"
    torture.put(page, f"{text}\n`make torture` with a.\n")
    rows, said = torture.measured(page.read_text())
    assert said == ["`make torture` with a."]
    assert table(rows) == text  # so that ONLY= can leave the others as they were


def test_damage_is_done_and_a_scenario_that_fails_is_no_survivor(tmp_path: Path) -> None:
    place = Place(tmp_path)
    for kind in scenarios.KINDS:
        file = tmp_path / kind
        file.write_bytes(bytes(range(100)))
        scenarios.damage(place, file, kind)
        assert not file.exists() or file.read_bytes() != bytes(range(100))

    def broken(place: Place, count: int) -> Iterator[str | None]:
        yield None
        json.loads("{")

    (row,) = torture.inject([torture.Kind("x", broken, "kills")], place, {"kills": 2})
    assert (row.injected, row.survived) == (2, 1)
    assert "JSONDecodeError" in row.lost[0]


def test_kinds_take_turns_and_a_deadline_counts_what_was_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    now = iter(range(1000))

    def kind(name: str, **options: Any) -> torture.Kind:
        def scenario(place: Place, count: int) -> Iterator[str | None]:
            for _ in range(count):
                seen.append(name)
                yield None

        return torture.Kind(name, scenario, "kills", **options)  # type: ignore[arg-type]

    kinds = [kind("a"), kind("b"), kind("c", at_once=True)]
    rows = torture.inject(kinds, Place(tmp_path), {"kills": 20})
    assert [row.injected for row in rows] == [20, 20, 20]
    assert seen[:6] == ["c", "c", "a", "a", "b", "b"]
    monkeypatch.setattr(torture.time, "monotonic", lambda: next(now))
    rows = torture.inject(kinds, Place(tmp_path), {"kills": 20}, deadline=9)
    assert [row.injected for row in rows] == [3, 2, 4]
