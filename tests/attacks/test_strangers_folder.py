"""A folder from a stranger runs no code and reaches no file outside, whatever command opens it.

Every attack leaves a marker if a line of its own is executed, or a victim outside that must stay.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

from reprl import checkpoint, guard
from reprl.checkpoint.files import remove_leftovers
from reprl.cli import main
from reprl.errors import UserError
from reprl.sweeps.ledger import Ledger
from tests.attacks.folders import (
    EVIL,
    LAUGHS,
    PLAY,
    SMALL,
    change,
    change_config,
    change_snapshot,
    change_state,
    every_command,
    newest,
    run_all,
    sign,
    touching,
)

# -- code -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["env.variant", "eval.variants"])
@pytest.mark.parametrize("name", ["os:system", "reprl.checkpoint.files:_remove"])
def test_a_variant_of_config_yaml_is_not_called(
    key: str, name: str, run: Path, marker: Path, tmp_path: Path
) -> None:
    """Neither Python's functions nor ours: what is called is known to make a variant first."""
    victim = tmp_path / "victim"
    victim.mkdir()
    spec = {**touching(marker), "_target_": name}
    if name != "os:system":
        spec = {"_target_": name, "path": str(victim)}
    section, word = key.split(".")
    change_config(run, lambda c: c[section].update({word: [spec]}))
    codes = run_all(run)
    assert not marker.exists()
    assert victim.exists()
    assert codes["resume"] == codes["evaluate"] == codes["attention"] == 2
    assert codes["runs"] == codes["report"] == codes["diff"] == 0


@pytest.mark.parametrize("where", ["variant", "own", "queued"])
@pytest.mark.parametrize("workers", [0, 1])
def test_an_effect_of_a_snapshot_is_not_called(
    where: str, workers: int, run: Path, marker: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def edit(meta: dict[str, Any]) -> None:
        effect = {"target": "os:system", "parameters": {"command": f"touch {marker}"}}
        variant = {**meta["variant"], "effects": [effect]}
        if where == "queued":
            meta["queued"] = [[1, variant]]
        else:
            meta[where] = variant

    change_config(run, lambda c: c["env"].update(workers=workers))
    change_snapshot(run, edit)
    assert main(["resume", str(run)]) == 2
    assert not marker.exists()
    assert "os:system" in capsys.readouterr().err


@pytest.mark.parametrize("path", ["runs.x.evilmod.Enc", "evilmod.Enc", "evilmod:Enc"])
@pytest.mark.parametrize(
    "door", ["config", "state", "variant", "snapshot", "activation", "rate", "shaping"]
)
def test_a_module_in_the_folder_is_not_imported(
    path: str, door: str, run: Path, marker: Path, tmp_path: Path
) -> None:
    """Not through a python_path of any kind, and not as a package of the working folder."""
    (run / "evilmod.py").write_text(EVIL.format(marker=str(marker)))
    (tmp_path / "evilmod.py").write_text(EVIL.format(marker=str(marker)))
    places = ["runs/x", ".", str(run)]
    change(run / "run.json", lambda record: record.update(python_path=places))
    look = path.replace(".Enc", ":Enc").replace("Enc", "Look")
    if door == "config":
        change_config(run, lambda c: c["encoder"].update(_target_=path))
    elif door == "shaping":
        change_config(run, lambda c: c.update(shaping={"_target_": path}))
    elif door == "variant":
        change_config(run, lambda c: c["env"].update(variant=look))
    elif door == "snapshot":
        effect = [{"target": look, "parameters": {}}]
        change_snapshot(run, lambda m: m.update(queued=[[1, {**m["variant"], "effects": effect}]]))
    elif door == "state":
        change_state(run, lambda m: m["extras"]["encoder"].update(_target_=path))
    elif door == "activation":
        kwargs = {"policy_kwargs": {"activation_fn": {"~import": look.replace("Look", "Enc")}}}
        change_state(run, lambda m: m["arguments"].update(kwargs))
    else:
        rate = {"~import": look.replace("Look", "rate")}
        change_state(run, lambda m: m["arguments"].update(learning_rate=rate))
    if door in ("state", "activation", "rate"):
        with pytest.raises(UserError, match="not by you"):
            checkpoint.load(run)
    run_all(run)
    assert not marker.exists()


@pytest.mark.parametrize(
    "path",
    [
        *("shutil:rmtree", "os:system", "reprl.checkpoint:shutil.rmtree"),
        *("reprl.checkpoint.files:_remove", "reprl.__main__:main"),
    ],
)
def test_a_schedule_is_a_function_of_the_users_own(path: str, run: Path) -> None:
    change_state(run, lambda m: m["arguments"].update(learning_rate={"~import": path}))
    with pytest.raises(UserError, match="learning_rate|not imported"):
        checkpoint.load(run)
    assert run_all(run, ("evaluate", "attention")) == {"evaluate": 2, "attention": 2}


@pytest.mark.parametrize("path", ["argparse.ArgumentParser", "subprocess.Popen", "torch.hub.load"])
def test_a_class_of_another_kind_is_not_called(path: str, run: Path) -> None:
    change_config(run, lambda c: c["encoder"].update(_target_=path))
    change_state(run, lambda m: m["extras"]["encoder"].update(_target_=path))
    for name in ("resume", "evaluate"):
        assert main(every_command(run)[name]) == 2


def test_reading_commands_import_no_code_though_the_user_named_its_folder(
    run: Path, marker: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "evilmod.py").write_text(EVIL.format(marker=str(marker)))
    monkeypatch.setenv("PYTHONPATH", str(home))
    sys.path.append(str(home))
    change_config(run, lambda c: c["env"].update(variant="evilmod:Look"))
    codes = run_all(run, ("verify", "runs", "diff", "report"))
    assert set(codes.values()) == {0}
    assert not marker.exists()
    assert run_all(run, ("evaluate",)) == {"evaluate": 0}
    assert marker.exists()  # the same name where it is asked for


def command(*arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """The real command in a process of its own."""
    kept = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONSAFEPATH")}
    return subprocess.run(
        [str(Path(sys.executable).parent / "reprl"), *arguments],
        cwd=cwd,
        env=kept | environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.slow
def test_modules_of_the_working_folder_stand_in_for_none(run: Path, tmp_path: Path) -> None:
    """Neither in the command, nor in its workers, nor in a sweep's jobs."""
    text = f"open({str(tmp_path / 'marker')!r}, 'w')\nraise ImportError\n"
    for name in ("numpy", "pandas"):
        (tmp_path / f"{name}.py").write_text(text)
    change_config(run, lambda c: c["env"].update(workers=1))
    done = command("resume", str(run), cwd=tmp_path, PYTHONPATH=":")  # a usual accident
    assert done.returncode == 0, done.stderr
    for name in ("random", "secrets", "zlib"):
        (tmp_path / f"{name}.py").write_text(text)
    small = [word for word in SMALL if not word.startswith("env.workers")]
    sweep = ["train", "-m", "seed=0,1", "run_dir=sweep", "sweep.jobs=1", *small, "env.workers=1"]
    done = command(*sweep, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert not (tmp_path / "marker").exists()


OWN = """
from reprl.encoders import Nature
from reprl.envs import Effect
class Enc(Nature): pass
class Look(Effect):
    def draw(self, frame, objects): frame[100:110] = 200
"""


@pytest.mark.slow
def test_the_users_own_run_goes_on_with_what_the_user_names(run: Path, tmp_path: Path) -> None:
    """Asked for in one sentence that says where it was; then it is found in each of three ways."""
    home = tmp_path / "home"
    home.mkdir()
    (home / "mine_of_trust.py").write_text(OWN)
    own = ["+encoder._target_=x", "encoder._target_=mine_of_trust.Enc"][1:]
    own += ["encoder=nature", "env.variant=mine_of_trust:Look", f"--config-dir={home}"]
    small = [word for word in SMALL if not word.startswith("env.workers")]
    place = tmp_path / "own"
    done = command("train", *own, *small, "env.workers=1", f"run_dir={place}", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    shutil.rmtree(place / "checkpoints" / "000000000064")
    change(place / "run.json", lambda record: record.update(status="interrupted"))
    refused = command("resume", str(place), cwd=tmp_path)
    assert refused.returncode == 2
    assert "trust=mine_of_trust" in refused.stderr
    assert "--config-dir" in refused.stderr
    assert str(home) in refused.stderr
    assert len(refused.stderr.strip().splitlines()) == 1
    copies = [shutil.copytree(place, tmp_path / f"own{i}") for i in range(2)]
    done = command("resume", str(copies[0]), f"--config-dir={home}", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    done = command("resume", str(copies[1]), cwd=tmp_path, PYTHONPATH=str(home))
    assert done.returncode == 0, done.stderr
    done = command("evaluate", str(copies[0]), *PLAY, "trust=mine_of_trust", cwd=tmp_path)
    assert done.returncode == 2
    assert "No module named" in done.stderr
    first, second = (checkpoint.read(copy) for copy in copies)
    for name, tensor in first.parameters.items():
        assert tensor.equal(second.parameters[name]), name


def test_trust_names_a_module_and_what_is_below_it(
    run: Path, marker: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An installed module needs trust=; its name must be one."""
    installed = tmp_path / "site"
    installed.mkdir()
    (installed / "evil_installed.py").write_text(EVIL.format(marker=str(marker)))
    sys.path.append(str(installed))
    change_config(run, lambda c: c["encoder"].update(_target_="evil_installed.Enc"))
    change_state(run, lambda m: m["extras"]["encoder"].update(_target_="evil_installed.Enc"))
    assert main(["evaluate", str(run), *PLAY]) == 2
    assert not marker.exists()
    assert main(["evaluate", str(run), *PLAY, "trust=evil"]) == 2
    assert not marker.exists()
    assert main(["evaluate", str(run), *PLAY, "trust=../evil"]) == 2
    assert "trust=../evil must be the name of a module" in capsys.readouterr().err
    assert main(["evaluate", str(run), *PLAY, "trust=evil_installed"]) == 0
    assert marker.exists()


def test_a_folder_that_is_itself_a_package_is_not_the_users(
    run: Path, marker: Path, tmp_path: Path
) -> None:
    """Though --config-dir names the folder it was unpacked in, a run names nothing around it."""
    pack = tmp_path / "evilpack"
    pack.mkdir()
    (pack / "__init__.py").touch()
    (pack / "mod.py").write_text(EVIL.format(marker=str(marker)))
    shutil.move(run, pack / "x")
    change_state(pack / "x", lambda m: m["extras"]["encoder"].update(_target_="evilpack.mod.Enc"))
    (tmp_path / "conf").mkdir()
    assert main(["evaluate", str(pack / "x"), *PLAY, "--config-dir=conf"]) == 2
    assert not marker.exists()


# -- files ----------------------------------------------------------------------------------------


def test_leftovers_are_removed_by_our_own_names_only(run: Path, tmp_path: Path) -> None:
    theirs = [run / "checkpoints" / name for name in (".git", ".ssh", ".12.draft", ".notes.old")]
    ours = [run / "checkpoints" / f".{32:012d}.{end}" for end in ("draft", "trash")]
    for folder in (*theirs, *ours):
        folder.mkdir()
        (folder / "file").touch()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "keep").touch()
    model = checkpoint.load(run)
    os.symlink(elsewhere, run / "checkpoints" / f".{48:012d}.draft")
    with pytest.raises(UserError, match="link"):  # one that leads out
        checkpoint.load(run)
    checkpoint.save(model, run)
    assert all((folder / "file").exists() for folder in theirs)
    assert (elsewhere / "keep").exists()
    assert not any(folder.exists() for folder in ours)


def test_checkpoints_behind_a_link_are_not_touched(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever moved them to a larger disk is told how to do it."""
    disk = tmp_path / "disk"
    shutil.move(run / "checkpoints", disk)
    (disk / ".ssh").mkdir()
    (disk / f".{32:012d}.draft").mkdir()
    (disk / f"{96:012d}").mkdir()
    os.symlink(disk, run / "checkpoints")
    before = sorted(disk.rglob("*"))
    assert main(["resume", str(run)]) == 2
    assert "move the whole folder" in capsys.readouterr().err
    with pytest.raises(UserError, match="link"):
        remove_leftovers(run)
    assert sorted(disk.rglob("*")) == before
    assert main(["runs", str(run.parent)]) == 0
    assert "interrupted" in capsys.readouterr().out


LINKED = {
    ".lock": "resume",
    "metrics.csv": "resume",
    "tensorboard": "resume",
    "checkpoints": "resume",
    "evaluation": "evaluate",
    "evaluation/.episodes.csv.lock": "evaluate",
    "evaluation/episodes.csv": "report",
    "evaluation/episodes.csv.damaged": "evaluate",
    "evaluation/twin.csv": "report",
    "attention": "attention",
    "attention/original.png": "attention",
    "run.json": "verify",
    "config.yaml": "verify",
}


@pytest.mark.parametrize("name", LINKED)
@pytest.mark.parametrize("way", ["absolute", "relative"])
def test_a_link_out_of_the_folder_is_not_followed(
    name: str, way: str, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outside = tmp_path / "outside"
    file = run / name
    file.parent.mkdir(exist_ok=True)
    if file.is_dir() or "." not in Path(name).name:
        shutil.rmtree(file, ignore_errors=True)
        outside.mkdir()
        (outside / "events.out.tfevents.1").write_text("secret")
    else:
        shutil.copy(file, outside) if file.exists() else outside.write_text("secret")
        file.unlink(missing_ok=True)
    os.symlink(outside if way == "absolute" else os.path.relpath(outside, file.parent), file)
    held = {p: p.read_bytes() for p in (outside, *outside.rglob("*")) if p.is_file()}
    code = main(every_command(run)[LINKED[name]])
    said = capsys.readouterr()
    assert "is a link out of the folder" in said.err + said.out
    assert code == 2
    assert {p: p.read_bytes() for p in (outside, *outside.rglob("*")) if p.is_file()} == held


def test_a_link_within_the_folder_is_followed(run: Path) -> None:
    shutil.move(run / "metrics.csv", run / "kept.csv")
    os.symlink("kept.csv", run / "metrics.csv")
    assert run_all(run, ("verify", "report")) == {"verify": 0, "report": 0}


@pytest.mark.parametrize("name", ["../../outside", "/tmp/outside", "..", "a/../../b", "~root"])
def test_a_ledger_names_folders_beside_it(name: str, tmp_path: Path) -> None:
    jobs = {"0123456789ab": {"folder": name}}
    (tmp_path / "ledger.json").write_text(json.dumps({"version": 1, "jobs": jobs}))
    ledger = Ledger(tmp_path)
    ledger.read([])
    assert ledger.entries == {}


@pytest.mark.parametrize("name", [".ledger.lock", "logs", ".claims"])
def test_a_sweep_folder_is_not_written_through_a_link(name: str, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("secret")
    (tmp_path / "sweep").mkdir()
    os.symlink(outside, tmp_path / "sweep" / name)
    with pytest.raises(UserError, match="link out of the folder"):
        Ledger(tmp_path / "sweep").open([])
    assert outside.read_text() == "secret"


# -- sizes ----------------------------------------------------------------------------------------


def spoil(run: Path, how: str) -> None:
    if how.startswith("fifo"):
        file = run / how.partition(" ")[2]
        file.unlink(missing_ok=True)
        os.mkfifo(file)
    elif how.startswith("zero"):
        file = run / how.partition(" ")[2]
        file.unlink(missing_ok=True)
        os.symlink("/dev/zero", file)
    elif how.startswith("huge"):
        os.truncate(run / how.partition(" ")[2], 1 << 42)
    elif how == "aliases":
        (run / "config.yaml").write_text(LAUGHS)
    elif how == "itself":
        (run / "config.yaml").write_text("a: &a [*a]\n")
    elif how == "deep":
        (run / "config.yaml").write_text("[" * 100_000)
        (run / "run.json").write_text("[" * 100_000)


SPOILT = (
    *("fifo run.json", "fifo config.yaml", "fifo metrics.csv", "fifo .lock"),
    *("zero run.json", "zero metrics.csv", "zero config.yaml"),
    *("huge run.json", "huge config.yaml", "huge metrics.csv", "aliases", "itself", "deep"),
)


@pytest.mark.parametrize("how", SPOILT)
def test_one_bad_folder_stops_neither_itself_nor_the_others(
    how: str, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(run, run.parent / "y")
    spoil(run, how)
    assert main(["runs", str(run.parent)]) == 0
    assert "y" in capsys.readouterr().out
    assert main(["report", str(run.parent), "figures=false", "out=page"]) == 0
    assert "not evaluated" in capsys.readouterr().out
    assert main(["verify", str(run)]) in ((2,) if "metrics" not in how else (0, 2))
    assert main(["evaluate", str(run.parent), *PLAY]) in (0, 1)
    assert (run.parent / "y" / "evaluation" / "episodes.csv").exists()


def test_a_snapshot_is_not_unpacked_beyond_its_size(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A bomb: a kilobyte for each megabyte that it would take."""
    bomb = zlib.compress(bytes(1 << 28), 9)
    change_snapshot(run, lambda meta: None, bomb)
    peak = peak_of(lambda: main(["resume", str(run)]))
    assert "the environment snapshot does not hold" in capsys.readouterr().err
    assert peak < 1 << 27


def test_a_snapshot_does_not_say_how_large_it_may_be(run: Path) -> None:
    change_snapshot(run, lambda meta: meta.update(ale_bytes=1 << 40))
    assert main(["resume", str(run)]) == 2


def peak_of(call: Callable[[], Any]) -> int:
    """Bytes that Python's own objects took at most, above what there was."""
    import tracemalloc

    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_checkpoint_does_not_say_how_large_a_tensor_is(run: Path) -> None:
    def edit(record: dict[str, Any]) -> None:
        shapes = load_file(newest(run) / "parameters.safetensors")
        name = next(n for n, t in shapes.items() if t.ndim == 4)
        record["layouts"]["parameters"][name] = [1 << 40] * 4

    change(newest(run) / "state.json", edit)
    sign(newest(run))
    with pytest.raises(UserError, match="layout"):
        checkpoint.load(run)


@pytest.mark.parametrize("file", ["parameters.safetensors", "state.json", "manifest.json"])
def test_a_file_larger_than_the_memory_is_not_read(file: str, run: Path) -> None:
    os.truncate(newest(run) / file, 1 << 42)
    with pytest.raises(UserError, match="more than the|damaged"):
        checkpoint.load(run)
    assert main(["verify", str(run)]) == 1


def test_a_header_that_lies_about_its_length_is_one_sentence(run: Path) -> None:
    file = newest(run) / "parameters.safetensors"
    file.write_bytes((1 << 60).to_bytes(8, "little") + file.read_bytes()[8:])
    sign(newest(run))
    with pytest.raises(UserError, match="damaged"):
        checkpoint.load(run)


def test_yaml_of_our_own_may_repeat_itself() -> None:
    assert guard.load_yaml("a: &a [1, 2]\nb: *a\n") == {"a": [1, 2], "b": [1, 2]}


# -- recordings -----------------------------------------------------------------------------------


@pytest.fixture
def recording(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small recording in the folder where the command is given."""
    monkeypatch.chdir(tmp_path)
    arguments = ["record", "frames=32", "n_envs=2", "size=36", "out=data"]
    assert main(arguments) == 0
    return tmp_path / "data"


PRETRAIN = [
    *("pretrain", "auxiliary=reconstruction", "threads=1", "device=cpu", "progress=off"),
    *("env.n_envs=2", "env.stack=2", "encoder.features_dim=16", "algo.updates=1"),
    *("algo.batch_size=16", "total_frames=16", "data=data", "run_dir=pre"),
]


@pytest.mark.parametrize("fact", ["game", "variants"])
def test_a_recording_names_no_code(
    fact: str, recording: Path, marker: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (recording / "evilmod.py").write_text(EVIL.format(marker=str(marker)))
    (recording.parent / "evilmod.py").write_text(EVIL.format(marker=str(marker)))
    name: Any = "evilmod:Look" if fact == "game" else ["original+evilmod:Look"]
    change(recording / "recording.json", lambda record: record["facts"].update({fact: name}))
    assert main(PRETRAIN) == 2
    assert not marker.exists()
    assert "evilmod" in capsys.readouterr().err
    assert not Path("pre").exists()


@pytest.mark.parametrize("file", ["recording.json", "000000.frames"])
def test_a_recording_leads_nowhere_else(
    file: str, recording: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outside = tmp_path / "outside"
    shutil.move(recording / file, outside)
    (recording / file).symlink_to(outside)
    assert main(PRETRAIN) == 2
    assert f"{file} is a link out of the folder" in capsys.readouterr().err
