"""Resume when it is hard: twice in one validation, a parent that is gone, half-replaced state."""

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from reprl import checkpoint
from reprl.cli import main
from reprl.evaluation.checkpoints import targets
from reprl.runs import train as training
from reprl.runs.folder import open_run
from reprl.runs.loop import Session
from tests.helpers import Commands, refuses
from tests.runs import LAST, same_runs, train

pytestmark = pytest.mark.slow  # trains

FREQUENT = ["eval.every=32", "checkpoint.every=100_000"]


def at_update(number: int, act: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """Do something when so many updates have been made from now on."""
    original, count = Session.take_numbers, [0]

    def take(session: Session) -> None:
        count[0] += 1
        if count[0] == number:
            act()
        original(session)

    monkeypatch.setattr(Session, "take_numbers", take)


def die() -> None:
    """End at once, as a SIGKILL does to everything that is not on the disk."""
    raise KeyboardInterrupt


def killed_copy(whole: Path, tmp_path: Path) -> Path:
    """A copy of a whole run as if its process had been killed."""
    place = tmp_path / "run"
    shutil.copytree(whole, place)
    open_run(place).update(status="running")
    return place


def test_an_interrupted_validation_is_written_once_however_often_it_is_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # where nothing is the best so far, no checkpoint follows the validation
    monkeypatch.setattr(Session, "_improves", lambda *_: False)
    assert train(tmp_path / "straight", *FREQUENT) == 0
    place = tmp_path / "run"
    with monkeypatch.context() as patch:
        at_update(2, lambda: os.kill(os.getpid(), signal.SIGTERM), patch)
        assert train(place, *FREQUENT) == 143
    assert checkpoint.read(place).loop["pending"] is True
    with monkeypatch.context() as patch:
        at_update(1, die, patch)
        assert main(["resume", str(place)]) == 130
    assert open_run(place).status() == "killed"
    assert main(["resume", str(place)]) == 0
    assert same_runs(place, tmp_path / "straight")


@pytest.mark.parametrize("change", ["algo.gamma=0.9", "seed=4"], ids=["same course", "weights"])
def test_a_branch_killed_early_needs_its_parent_no_more(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    parent = tmp_path / "parent"
    shutil.copytree(whole, parent)
    shutil.rmtree(parent / "checkpoints" / LAST)
    arguments = [f"parent={parent}", change, "eval.every=0"]
    assert train(tmp_path / "straight", *arguments) == 0
    place = tmp_path / "run"
    with monkeypatch.context() as patch:
        at_update(1, die, patch)
        assert train(place, *arguments) == 130
    with refuses("run", "trained"):
        targets(place)
    (begun,) = checkpoint.steps(place)
    assert begun == (0 if change.startswith("seed") else checkpoint.steps(parent)[-1])
    shutil.rmtree(parent)
    assert main(["resume", str(place)]) == 0
    assert [target.step for target in targets(place)[0]] == [int(LAST)]
    for file in checkpoint.FILES:
        ours, theirs = (p / "checkpoints" / LAST / file for p in (place, tmp_path / "straight"))
        assert ours.read_bytes() == theirs.read_bytes(), file


def test_a_branch_without_its_first_checkpoint_is_refused(
    whole: Path, tmp_path: Path, commands: Commands
) -> None:
    arguments = [f"parent={whole}", "seed=4", "eval.every=0", "total_steps=32"]
    assert train(tmp_path / "run", *arguments) == 0
    shutil.rmtree(tmp_path / "run" / "checkpoints")
    open_run(tmp_path / "run").update(status="running")
    commands.refuse(["resume", str(tmp_path / "run")], str(tmp_path / "run"), "checkpoint")


def test_a_run_that_was_published_without_checkpoints_is_not_begun_anew(
    whole: Path, tmp_path: Path, commands: Commands
) -> None:
    place = killed_copy(whole, tmp_path)
    shutil.rmtree(place / "checkpoints")
    before = (place / "metrics.csv").read_bytes()
    commands.refuse(["resume", str(place)], str(place), "no checkpoint", "reported, not resumed")
    assert (place / "metrics.csv").read_bytes() == before
    assert not (place / "checkpoints").exists()


def test_a_run_whose_settings_were_edited_is_not_the_same_run(
    whole: Path, tmp_path: Path, commands: Commands
) -> None:
    place = tmp_path / "run"
    shutil.copytree(whole, place)
    open_run(place).update(status="interrupted")
    text = (place / "config.yaml").read_text()
    (place / "config.yaml").write_text(text.replace("total_steps: 192", "total_steps: 256"))
    commands.refuse(["resume", str(place)], "config.yaml", f"parent={place}")
    assert open_run(place).status() == "interrupted"
    # how a run is shown is no part of it
    (place / "config.yaml").write_text(text.replace("progress: 'off'", "progress: auto"))
    assert main(["resume", str(place)]) == 0


def test_a_checkpoint_that_was_being_replaced_is_found_again(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = killed_copy(whole, tmp_path)
    middle = checkpoint.steps(place)[-2]
    for step in checkpoint.steps(place):
        if step != middle:
            shutil.rmtree(place / "checkpoints" / f"{step:012d}")
    kept = place / "checkpoints" / f"{middle:012d}"
    kept.rename(kept.with_name(f".{kept.name}.old"))
    begun: list[int] = []
    rewind = training.rewind
    monkeypatch.setattr(training, "rewind", lambda f, step: begun.append(step) or rewind(f, step))
    assert main(["resume", str(place)]) == 0
    assert begun == [middle]
    assert same_runs(place, whole)


def test_damaged_checkpoints_ahead_do_not_push_out_new_ones(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = killed_copy(whole, tmp_path)
    (place / "checkpoints" / LAST / "state.json").write_text("{}")
    with monkeypatch.context() as patch:
        at_update(1, die, patch)
        assert main(["resume", str(place)]) == 130
    assert checkpoint.steps(place)[-1] < 192
    assert main(["resume", str(place)]) == 0
    assert same_runs(place, whole)


def test_another_version_goes_on_with_a_warning(
    whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "run"
    shutil.copytree(whole, place)
    shutil.rmtree(place / "checkpoints" / LAST)
    folder = open_run(place)
    assert main(["resume", str(place)]) == 0
    assert "0.0.1" not in capsys.readouterr().err
    folder.update(status="interrupted", versions={"reprl": "0.0.1"})
    assert main(["resume", str(place)]) == 0
    assert "0.0.1" in capsys.readouterr().err
