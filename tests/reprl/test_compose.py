"""Values that replace what was there, whole numbers, and mistakes that Hydra would not explain."""

from pathlib import Path

import pytest

from reprl.cli import main
from reprl.config.overrides import _is_schedule
from reprl.config.schema import load
from tests.helpers import Commands, refuses

CPU = ["device=cpu", "threads=1"]


@pytest.mark.parametrize("algo", ["ppo", "a2c"])
@pytest.mark.parametrize(
    ("text", "spec"),
    [
        (
            "{kind:linear,start:2.5e-4,end:0.0,warmup:0.05}",
            {"kind": "linear", "start": 2.5e-4, "end": 0.0, "warmup": 0.05},
        ),
        ("{kind:constant,start:1e-3}", {"kind": "constant", "start": 1e-3}),
        ("{start:1e-3,end:1e-4}", {"start": 1e-3, "end": 1e-4}),
    ],
)
def test_a_schedule_takes_the_place_of_what_was_there(
    algo: str, text: str, spec: dict[str, float | str]
) -> None:
    config = load([*CPU, f"algo={algo}", f"algo.learning_rate={text}"])
    assert config.algo["learning_rate"] == spec
    later = load([*CPU, f"algo={algo}", f"algo.learning_rate={text}", "algo.learning_rate.start=1"])
    assert later.algo["learning_rate"] == {**spec, "start": 1}


def test_a_mapping_with_keys_of_its_own_is_no_schedule_and_keeps_the_others() -> None:
    config = load([*CPU, "algo=imitation", "algo.beta={start:0.9,until:0.5}"])
    assert config.algo["beta"] == {"start": 0.9, "end": 0.0, "until": 0.5}


def test_another_kind_of_hard_mask_leaves_no_key_of_the_first() -> None:
    config = load([*CPU, "attention=top_k", "attention.hard={by:gumbel}"])
    assert config.attention["hard"] == {"by": "gumbel"}


MISTAKES = {
    "algo.learning_rate={end:0}": ["algo.learning_rate", "start"],
    "algo.learning_rate={kind:cubic,start:1}": ["algo.learning_rate.kind=cubic", "linear"],
    "algo.learning_rate={start:1,strat:2}": ["'strat'", "'start'"],
    "algo.lerning_rate={start:1}": ["'algo.lerning_rate'", "'algo.learning_rate'"],
    "checkpoint={evry:3}": ["'checkpoint.evry'", "'checkpoint.every'"],
    "~algo.gama": ["'algo.gama'", "'algo.gamma'"],
    "algo@x=ppo": ["'algo@x'", "'algo'"],
    "sweep=seeds": ["'sweep=seeds'", "-m"],
    "sweep.jobs=2": ["'sweep.jobs=2'", "-m"],
    "hydra/launcher=submitit_slurm": ["launchers", "-m"],
    "++hydra.launcher.partition=gpu": ["launchers", "-m"],
    "hydra.sweep.dir=x": ["'hydra.sweep.dir=x'", "-m"],
    "hydra.rum.dir=x": ["hydra.rum"],
    "augmentation={size:3}": ["augmentation", "_target_", "augmentation.size"],
    "hydra.job.config_name=mine": ["--config-name=mine", "train"],
    "hydra.mode=MULTIRUN": ["'hydra.mode=MULTIRUN'"],
    "run_dir=/data/Größe": ["\"run_dir='/data/Größe'\""],
    "run_dir=a=b": ["\"run_dir='a=b'\""],
    f"seed={'1' * 400}": ["seed=1111", "0 to 2147483647"],
}


@pytest.mark.parametrize("override", MISTAKES)
def test_mistakes_are_one_sentence(override: str) -> None:
    with refuses(*MISTAKES[override]):
        load([override, *CPU])


def test_whole_numbers_may_be_written_with_a_point() -> None:
    whole = ["algo.n_steps=16", "algo.n_epochs=1", "algo.batch_size=32", "encoder.features_dim=8"]
    config = load([*CPU, *(f"{text}.0" for text in whole)])
    assert config.hash == load([*CPU, *whole]).hash
    found = [config.algo[key] for key in ("n_steps", "n_epochs", "batch_size")]
    assert [*map(type, found), type(config.encoder["features_dim"])] == [int] * 4
    with refuses("batch_size=16.5", "whole number"):
        load([*CPU, "algo.batch_size=16.5"])


@pytest.mark.parametrize("name", ["it's", "a[b] c=d,e", "Größe"])
def test_a_config_folder_may_have_any_name(tmp_path: Path, name: str) -> None:
    (tmp_path / name / "encoder").mkdir(parents=True)
    (tmp_path / name / "encoder" / "mine.yaml").write_text("# mine\n_target_: a.B\n")
    assert load(["encoder=mine", *CPU], [tmp_path / name]).encoder == {"_target_": "a.B"}


def test_a_file_in_another_encoding_is_listed_and_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], commands: Commands
) -> None:
    (tmp_path / "encoder").mkdir()
    (tmp_path / "encoder" / "latin.yaml").write_bytes("# café\n_target_: a.B\n".encode("latin-1"))
    assert main(["list", "encoder", f"--config-dir={tmp_path}"]) == 0
    assert "latin" in capsys.readouterr().out
    commands.refuse(
        ["train", "encoder=latin", f"--config-dir={tmp_path}", *CPU], "latin.yaml", "UTF-8"
    )


def test_a_file_that_is_not_yaml_is_named_with_its_line(tmp_path: Path, commands: Commands) -> None:
    (tmp_path / "encoder").mkdir()
    (tmp_path / "encoder" / "broken.yaml").write_text("_target_: a.B\nsizes: [1, 2\nx: 1\n")
    arguments = ["train", "encoder=broken", f"--config-dir={tmp_path}", *CPU]
    commands.refuse(arguments, f"{tmp_path}/encoder/broken.yaml", "line 3")


def test_what_takes_a_word_or_nothing_may_be_given_it() -> None:
    native = load(["attention=conv_21", "attention.resolution=native", *CPU])
    assert native.attention["resolution"] == "native"
    alone = load(["auxiliary=temporal", "auxiliary.augmentation=null", *CPU])
    assert alone.auxiliary["augmentation"] is None


def test_a_part_that_has_a_kind_is_no_schedule() -> None:
    spec = "auxiliary.augmentation={_target_:my.Stripes,kind:wide}"
    got = load(["auxiliary=temporal", spec, *CPU]).auxiliary["augmentation"]
    assert (got["_target_"], got["kind"]) == ("my.Stripes", "wide")
    assert _is_schedule({"start": 1.0, "ende": 0})  # misspelled, to be told so
    assert not _is_schedule({"kind": "wide", "eps": 1})
    assert not _is_schedule({})
