"""From a command line to jobs: expansion, identity, settings and every way to get it wrong."""

import json
import subprocess
from importlib import metadata, resources
from pathlib import Path

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser

from reprl.cli import main
from reprl.config.compose import options
from reprl.config.overrides import quoted
from reprl.naming import method_name
from reprl.runs.code import git_of
from reprl.sweeps import launch, plan
from reprl.sweeps.local import Local
from tests.helpers import refuses
from tests.runs import TINY, train


def make(*overrides):
    return plan.make(list(overrides), [])


def test_a_product_of_values_becomes_jobs_with_one_thread_each():
    made = make("seed=0,1", "encoder=nature,impala", "run_dir=somewhere")
    assert [(j.config.choices["encoder"], j.config.seed) for j in made.jobs] == [
        ("nature", 0),
        ("impala", 0),
        ("nature", 1),
        ("impala", 1),
    ]
    assert {(j.config.threads, j.config.env.workers) for j in made.jobs} == {(1, 0)}
    assert len({j.identity for j in made.jobs}) == 4
    assert str(made.folder) == "somewhere"


def test_a_sweep_whose_folder_differs_by_job_is_refused_before_anything_trains(
    commands, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    sweep = ["train", "-m", *TINY, "seed=0,1"]
    commands.refuse([*sweep, "run_dir=y_${seed}"], "run_dir=y_${seed}", "y_0", "y_1")
    commands.refuse([*sweep, "run_dir=y_${sede}"], "run_dir=y_${sede}", "sede")
    assert list(tmp_path.iterdir()) == []
    assert str(make("seed=0,1", "run_dir=y_${total_steps}", "total_steps=64").folder) == "y_64"


def test_what_the_user_says_wins_over_defaults_and_files():
    made = make("sweep=seeds", "seed=7,8", "threads=2")
    assert [j.config.seed for j in made.jobs] == [7, 8]
    assert {j.config.threads for j in made.jobs} == {2}


def test_identity_is_what_is_computed_not_where_or_how_it_is_shown():
    first = make("seed=3", "run_dir=a", "wandb=offline").jobs[0]
    assert first.identity == make("seed=3", "run_dir=b", "progress=off").jobs[0].identity
    assert first.identity != make("seed=3", "algo.gamma=0.98").jobs[0].identity


def test_the_first_comparison_is_six_methods_told_apart_seed_by_seed():
    made = make("sweep=methods")
    seeds = [j.config.seed for j in made.jobs]
    assert seeds == [1] * 6 + [2] * 6 + [3] * 6  # stopped early, it has whole comparisons
    names = [method_name(j.config.plain()) for j in made.jobs]
    assert names[:6] == names[6:12] == names[12:]
    assert len(set(names)) == len({j.config.method for j in made.jobs}) == 6
    plain, rad, drac, _, decoder, _ = (j.config for j in made.jobs[:6])
    assert (plain.total_steps, plain.mode, plain.env.n_envs) == (500_000, "fast", 8)
    assert {j.config.algo["learning_rate"] for j in made.jobs} == {2.5e-4}
    assert (plain.attention, plain.auxiliary, plain.augmentation) == ({}, {}, {})
    boxes = {"boxes": [0, 3], "sides": [1, 15], "fill": "gray"}  # what was measured before
    assert rad.augmentation.items() >= (boxes | {"use": "rad"}).items()
    assert drac.augmentation.items() >= (boxes | {"use": "views"}).items()
    assert set(decoder.auxiliary) == {"sparsity", "decoder"}


def test_a_key_of_the_file_keeps_its_place_whoever_sets_it():
    made = make("sweep=methods", "total_steps=1024", "seed=8,9")
    assert [j.config.seed for j in made.jobs] == [8] * 6 + [9] * 6
    assert {j.config.total_steps for j in made.jobs} == {1024}


@pytest.mark.parametrize("name", sorted({*options("sweep")} - {"tune", "pbt"}))  # no grids
def test_every_sweep_file_expands(name):
    made = make(f"sweep={name}")
    assert len(made.jobs) == len({j.identity for j in made.jobs}) >= 5


@pytest.mark.parametrize(
    ("overrides", "names"),
    [
        (["seed=1,1"], ["jobs 0 and 1"]),
        (["sede=1,2"], ["'sede'", "'seed'"]),
        (["sweep=ablations"], ["sweep=ablations", "'ablation'"]),
        (["sweep.job=2"], ["'sweep.job'", "'jobs'"]),
        (["sweep.jobs=0"], ["sweep.jobs=0", "at least 1"]),
        (["sweep.time_limit=-3"], ["sweep.time_limit=-3"]),
        (["sweep.retry=perhaps"], ["sweep.retry=perhaps", "true or false"]),
        (["algo.gamma=0.9,1.5"], ["algo.gamma=1.5"]),
        (["seed=range(0)"], ["'seed=range(0)'"]),
        (["sweep.jobs=[1"], ["sweep.jobs=[1", "whole number"]),
        (["seed=0,1", "run_dir="], ["run_dir=", "empty"]),
        (["seed=0,1", "run_dir=a,b"], ["'run_dir=a,b'"]),
        (["seed=0,1", "run_dir=5"], ["'run_dir=5'"]),
        (["seed=0,1", "run_dir=a=b"], ["\"run_dir='a=b'\""]),
        (["seed=0,1", "run_dir='~nobody-of-this-name/x'"], ["~nobody-of-this-name"]),
    ],
)
def test_bad_sweeps_are_one_sentence(overrides, names):
    with refuses(*names):
        make(*overrides)


@pytest.mark.parametrize("folder", ["runs/a,b", "runs/it's", "runs/a=b {c}", "runs/back\\slash\\"])
def test_any_folder_name_reaches_a_job_as_it_is(folder: str) -> None:
    parsed = OverridesParser.create().parse_override(f"run_dir={quoted(Path(folder))}")
    assert parsed.value() == folder


@pytest.mark.parametrize(
    ("said", "folder"),
    [
        ("run_dir='my sweep'", "my sweep"),
        ("run_dir='/data/Größe'", "/data/Größe"),
        ("++run_dir=zzz", "zzz"),
        ("run_dir='~/sweep'", str(Path.home() / "sweep")),
    ],
)
def test_the_folder_is_what_hydra_reads(said: str, folder: str) -> None:
    assert str(make("seed=0,1", said).folder) == folder


def test_without_a_folder_it_is_named_by_time_and_content() -> None:
    assert make("seed=0,1", "run_dir=null").folder.parent == Path("runs")


@pytest.mark.parametrize("text", [b"seed: [1,\n  a: b: c\n", b"# caf\xe9\nseed: 1\n", b"- seed\n"])
def test_a_broken_sweep_file_is_named(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "sweep").mkdir()
    (tmp_path / "sweep" / "mine.yaml").write_bytes(text)
    with refuses("mine.yaml", "'key: values'", "UTF-8"):
        plan.make(["sweep=mine"], [tmp_path])


def test_cfg_shows_the_jobs_and_starts_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = ["seed=0,1", "algo.gamma=0.9,0.99", "device=cpu", "run_dir=mine"]
    assert main(["train", "-m", "--cfg", *arguments]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "4 jobs in mine, each with device=cpu threads=1 env.workers=0",
        "0  seed=0 gamma=0.9",
        "1  seed=0 gamma=0.99",
        "2  seed=1 gamma=0.9",
        "3  seed=1 gamma=0.99",
    ]
    assert not list(tmp_path.iterdir())


def test_the_folder_and_every_parent_are_checked_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Local, "run", lambda self: 0)
    (tmp_path / "file").write_text("")
    (tmp_path / "sweep" / "something").mkdir(parents=True)
    (tmp_path / "parent" / "checkpoints" / "000000000064").mkdir(parents=True)
    (tmp_path / "empty").mkdir()
    there = f"parent={tmp_path / 'parent'}"
    new = f"run_dir={tmp_path / 'new'}"
    for more, *names in (
        ([f"run_dir={tmp_path / 'file'}"], str(tmp_path / "file")),
        ([f"run_dir={tmp_path / 'file' / 'x'}"], str(tmp_path / "file" / "x")),
        (["run_dir=/proc/x"], "/proc/x"),
        ([new, f"{there},nowhere"], "'nowhere'"),
        ([new, f"{there}@65"], "step 65", "64"),
        ([new, f"parent={tmp_path / 'empty'}"], str(tmp_path / "empty")),
    ):
        with refuses(*names):
            launch(["seed=0,1", "device=cpu", *more], [])
    assert not (tmp_path / "new").exists()
    assert launch(["seed=0,1", "device=cpu", there, f"run_dir={tmp_path / 'sweep'}"], []) == 0


def test_edited_user_code_makes_other_jobs_and_is_said(tmp_path, capsys, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "edited_helper.py").write_text("WIDTH = 1\n")
    mine = tmp_path / "edited_masks.py"
    text = "import edited_helper\nfrom reprl.encoders.masks import ConvMask\n\n\n"
    mine.write_text(text + "class Own(ConvMask):\n    pass\n")
    (tmp_path / "attention").mkdir()
    spec = (resources.files("reprl.conf") / "attention" / "conv.yaml").read_text()
    own = spec.replace("reprl.encoders.masks.ConvMask", "edited_masks.Own")
    (tmp_path / "attention" / "own.yaml").write_text(own)
    sweep = ["attention=own", "seed=0,1"]

    def identities():
        return [job.identity for job in plan.make(sweep, [tmp_path]).jobs]

    first = identities()
    assert identities() == first
    (tmp_path / "edited_helper.py").write_text("WIDTH = 2\n")
    second = identities()
    assert not {*first} & {*second}
    run = tmp_path / "run"
    arguments = ["attention=own", f"--config-dir={tmp_path}", "total_steps=32", "eval.every=0"]
    assert train(run, *arguments) == 0
    record = json.loads((run / "run.json").read_text())
    assert list(record["code"]["modules"]) == ["edited_masks"]
    assert record["versions"]["kornia"] == metadata.version("kornia")
    capsys.readouterr()
    assert main(["verify", str(run)]) == 0
    assert "code edited_masks  ok" in capsys.readouterr().out
    mine.write_text(mine.read_text() + "\n\nNEW = 1\n")
    assert main(["verify", str(run)]) == 0
    assert "code edited_masks  CHANGED" in capsys.readouterr().out
    short = ["variants=original", "episodes=1", f"--config-dir={tmp_path}"]
    assert main(["evaluate", str(run), *short]) == 0
    assert "WARNING: edited_masks was edited" in capsys.readouterr().err


def test_the_record_knows_commit_and_dirty_flag(tmp_path):
    def git(*words):
        who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        subprocess.run(["git", "-C", str(tmp_path), *who, *words], check=True, capture_output=True)

    assert git_of(tmp_path) is None
    git("init")
    (tmp_path / "file").write_text("1")
    git("add", "file")
    git("commit", "-m", "first")
    clean = git_of(tmp_path)
    assert len(clean["commit"]) == 40
    assert not clean["dirty"]
    (tmp_path / "file").write_text("2")
    assert git_of(tmp_path) == {**clean, "dirty": True}
