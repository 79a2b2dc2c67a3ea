"""Configuration: every YAML composes, every wrong value has its sentence, no folder is left."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from reprl.cli import main
from reprl.config.compose import compose, groups, options
from reprl.config.overrides import expand
from reprl.config.schema import check, load
from reprl.errors import UserError
from reprl.schema import PARTS

CPU = ["device=cpu", "threads=1"]
EXPERIMENTS = list(options("experiment"))

BAD = [
    ("encoder=natur", "encoder=natur is unknown: choose from", "Did you mean 'nature'?"),
    ("experiment=sb3_pp", "experiment=sb3_pp is unknown", "Did you mean 'sb3_ppo'?"),
    ("encodr=nature", "there is no key 'encodr'", "Did you mean 'encoder'?"),
    ("tottal_steps=3", "there is no key 'tottal_steps'", "Did you mean 'total_steps'?"),
    ("algo.gama=0.9", "there is no key 'algo.gama'", "Did you mean 'algo.gamma'?"),
    ("checkpoint.evry=3", "no key 'checkpoint.evry'", "Did you mean 'checkpoint.every'?"),
    ("+foo=1", "there is no key 'foo'", ""),
    ("+eval.variant=[original]", "there is no key 'eval.variant'", "'variants'"),
    ("env.variant=green_line", "unknown variant 'green_line'", "Did you mean 'green_lines'?"),
    ("env.game=brekout", "brekout", ""),
    ("eval.variants=[]", "eval.variants=[] is empty", ""),
    ("mode=fats", "mode=fats is unknown: choose from plain, fast", "Did you mean 'fast'?"),
    ("wandb=of", "wandb=of is unknown", "Did you mean 'off'?"),
    ("progress=fancy", "progress=fancy is unknown", ""),
    ("device=gpu", "device=gpu is unknown", "cpu"),
    ("device=cuda", "this machine has no CUDA device", ""),
    ("algo.weight_decay=999", "algo.weight_decay=999", "from 0 to 1"),
    ("algo.gamma=1.5", "algo.gamma=1.5", "from 0 to 1"),
    ("algo.learning_rate=1e10", "algo.learning_rate=10000000000.0", "from 0 to 1"),
    ("algo.learning_rate={start:3,end:0}", "algo.learning_rate.start=3", "from 0 to 1"),
    ("algo.ent_coef=-0.1", "algo.ent_coef=-0.1", "from 0 to 10"),
    ("algo.vf_coef=-1", "algo.vf_coef=-1", "from 0 to 100"),
    ("algo.gamma=nan", "algo.gamma=nan", "from 0 to 1"),
    ("algo.vf_coef=inf", "algo.vf_coef=inf", "from 0 to 100"),
    ("algo.gamma=high", "algo.gamma=high", "a number from 0 to 1"),
    ("encoder.features_dim=big", "encoder.features_dim=big", "a whole number from 1 to 65536"),
    ("algo.normalize_advantage=off", "algo.normalize_advantage=off must be true or false", ""),
    ("algo.compile=3", "algo.compile=3 must be true or false", ""),
    ("algo.gamma=null", "algo.gamma=null", "a number from 0 to 1"),
    ("algo.instrument_every=2.5", "algo.instrument_every=2.5 must be a whole number", ""),
    ("algo.n_steps=null", "algo.n_steps=null", "a whole number from 1"),
    ("algo.batch_size=null", "algo.batch_size=null", "a whole number from 2"),
    ("algo.learning_rate=null", "algo.learning_rate=null must be a number or a schedule", ""),
    ("env.game=warlords", "unknown game 'warlords'", ""),
    ("threads=1000", "threads=1000", "from 1 to 256"),
    ("total_steps=many", "total_steps=many", "a whole number from 1"),
    ("total_steps=nan", "total_steps=nan", "a whole number from 1"),
    ("total_steps=0", "total_steps=0", "a whole number from 1"),
    ("total_steps=-5", "total_steps=-5", "a whole number from 1"),
    ("total_steps=10.5", "total_steps=10.5 must be a whole number", ""),
    ("algo.n_steps=0", "algo.n_steps=0", "a whole number from 1"),
    ("algo.n_epochs=0", "algo.n_epochs=0", "a whole number from 1 to 1000"),
    ("algo.n_epochs=1.5", "algo.n_epochs=1.5 must be a whole number", ""),
    ("algo.batch_size=1", "algo.batch_size=1", "a whole number from 2"),
    ("algo.batch_size=4096", "algo.batch_size=4096 is larger than a rollout", "= 1024"),
    ("env.n_envs=0", "env.n_envs=0", "a whole number from 1 to 4096"),
    ("env.workers=9", "env.workers=9 is more than env.n_envs=8", ""),
    ("env.sticky=2", "env.sticky=2", "from 0 to 0.99"),
    ("env.sticky=1", "env.sticky=1", "from 0 to 0.99"),
    ("seed=-1", "seed=-1", "from 0 to 2147483647"),
    ("seed=1,2", "'seed=1,2' gives several values: add -m", ""),
    ("threads=0", "threads=0", "from 1 to 256"),
    ("env.reward=clipped", "env.reward=clipped is unknown", "clip, raw"),
    ("env.reward=0", "env.reward=0", "from 1e-06 to 1e+06"),
    ("env.size=7", "env.size=7", "from 8 to 512"),
    ("env=null", "env", ""),
    ("env.n_envs", "cannot read 'env.n_envs'", "key=value"),
    ("algo.gamma=[", "cannot read 'algo.gamma=['", ""),
    ("--fast", "no option '--fast'", ""),
    ("--config-dir=nowhere", "there is no folder 'nowhere'", ""),
    ("hydra.searchpath=[file:///nowhere]", "there is no config folder '/nowhere'", ""),
    ("encoder.threshold=low", "encoder.threshold=low must be", "number"),
    ("attention=motoin", "attention=motoin is unknown", "Did you mean 'motion'?"),
    ("parent=nowhere@12", "there is no checkpoint 'nowhere'", ""),
    ("parent=nowhere@soon", "step after @ must be a whole number", ""),
]


@pytest.mark.parametrize(("argument", "says", "also"), BAD, ids=[b[0] for b in BAD])
def test_wrong_input_is_one_sentence_exit_2_and_no_folder(
    argument: str, says: str, also: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rest = [] if argument.startswith("device") else ["device=cpu"]
    place = tmp_path / "runs" / "mine"
    assert main(["train", argument, *rest, f"run_dir={place}"]) == 2
    error = capsys.readouterr().err
    assert says in error
    assert also in error
    assert error.count("\n") == 1
    assert not place.parent.exists()


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["encoder.input=differences"], "encoder.input=differences"),
        (["encoder=impala", "encoder.input=both"], "encoder.input=both"),
        (["attention=motion"], "attention=motion"),
        (["attention=conv_21", "auxiliary=motion_target"], "auxiliary=motion_target"),
        (["attention=conv_21", "auxiliary=[motion_target,sparsity]"], "motion_target+sparsity"),
    ],
)
def test_motion_with_one_frame_is_refused(arguments: list[str], what: str) -> None:
    with pytest.raises(UserError, match=re.escape(what) + " with env.stack=1 would never see"):
        load([*CPU, "env.stack=1", *arguments])
    load([*CPU, "env.stack=2", *arguments])


def test_a_method_is_named_by_what_its_encoder_is_fed() -> None:
    assert load(CPU).method == "ppo-nature"
    assert load([*CPU, "encoder.input=differences"]).method == "ppo-nature_differences"
    assert load([*CPU, "encoder=nature_differences"]).method == "ppo-nature_differences"


def test_an_output_folder_that_cannot_be_used_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "full" / "data").mkdir(parents=True)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.json").write_text("{}")
    for folder, says in (
        ("file", "is a file"),
        ("file/below", "cannot be written"),
        ("full", "is not empty"),
        ("run", "already holds a run"),
        ("/proc/nothing", "cannot be written"),
    ):
        assert main(["train", *CPU, f"run_dir={tmp_path / folder}"]) == 2
        assert says in capsys.readouterr().err


def test_one_variant_needs_no_brackets_and_too_many_threads_are_said() -> None:
    config = load(["eval.variants=green_lines", "device=cpu", "threads=255"])
    assert config.eval.variants == ["green_lines"]
    assert any(w.startswith("threads=255 on ") for w in config.warnings())
    assert load(["algo.clip_range_vf=null", *CPU]).algo["clip_range_vf"] is None


def test_a_damaged_neighbour_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It stands where the launch looks for the previous run, and where `reprl runs` lists them."""
    monkeypatch.chdir(tmp_path)
    for name, settings, record in (
        ("yaml", "hello: [", "{}"),
        ("empty", "", "{}"),
        ("json", "algo: {}", "{"),
    ):
        folder = tmp_path / "runs" / name
        folder.mkdir(parents=True)
        (folder / "config.yaml").write_text(settings)
        (folder / "run.json").write_text(record)
    small = ["total_steps=8", "algo.n_steps=4", "env.n_envs=2", "algo.batch_size=4", "eval.every=0"]
    assert main(["train", *CPU, *small]) == 0
    capsys.readouterr()
    assert main(["runs"]) == 0
    listed = capsys.readouterr().out
    assert "note: runs/json is left out: cannot read runs/json/run.json: " in listed
    assert "finished" in listed
    assert main(["runs", "match=zzz"]) == 0
    assert "no runs in runs with match=zzz" in capsys.readouterr().out
    (fine,) = (tmp_path / "runs").glob("*_s0*")
    for name, says in (("yaml", "is not YAML: line 1 is wrong"), ("empty", "does not hold a con")):
        assert main(["diff", str(fine), f"runs/{name}"]) == 2
        assert main(["evaluate", f"runs/{name}"]) == 2
        error = capsys.readouterr().err
        assert error.count(says) == 2
        assert error.count("\n") == 2
    (tmp_path / "file").write_text("")
    for arguments, says in (
        (["runs", "runs", "export=file"], "a file of that name is in the way"),
        (["runs", "runs", "export=/proc/x"], "export=/proc/x: No such file or directory"),
        (["evaluate", "file"], "'file' is a file: reprl evaluate takes a folder"),
        (["preview", "variant=original", "output=/proc/x.png"], "cannot be written"),
    ):
        assert main(arguments) == 2
        assert says in capsys.readouterr().err


def test_wandb_online_needs_a_login(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    monkeypatch.delenv("WANDB_MODE", raising=False)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    assert main(["train", *CPU, "wandb=online", f"run_dir={tmp_path / 'r'}"]) == 2
    assert "wandb=online needs a login" in capsys.readouterr().err
    assert not (tmp_path / "r").exists()


def test_duplicate_seeds_in_a_sweep_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["train", "-m", *CPU, "seed=1,2,1", f"run_dir={tmp_path / 'r'}"]
    assert main(arguments) == 2
    assert "jobs 0 and 2 of the sweep are the same run" in capsys.readouterr().err
    assert not (tmp_path / "r").exists()


def test_sweeps_expand_in_hydras_order() -> None:
    assert expand(["seed=range(2)", "encoder=nature,impala", "mode=plain"]) == [
        ["seed=0", "encoder=nature", "mode=plain"],
        ["seed=0", "encoder=impala", "mode=plain"],
        ["seed=1", "encoder=nature", "mode=plain"],
        ["seed=1", "encoder=impala", "mode=plain"],
    ]


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_every_experiment_composes(experiment: str) -> None:
    config = check(compose([f"experiment={experiment}", *CPU]))
    assert config.choices["experiment"] == experiment
    assert check({**config.plain(), "run_dir": None}) == config


def test_every_option_says_what_it_is() -> None:
    for group in groups():
        for name, text in options(group).items():
            assert text, f"conf/{group}/{name}.yaml needs a first line of help"


def test_several_auxiliary_losses_compose_under_their_names() -> None:
    config = load(["auxiliary=[contrastive,temporal]", "auxiliary.temporal.coef=0.25", *CPU])
    assert set(config.auxiliary) == {"contrastive", "temporal"}
    assert config.auxiliary["temporal"]["coef"] == 0.25
    assert config.choices["auxiliary"] == "contrastive+temporal"


def test_the_hash_is_of_what_is_computed() -> None:
    base = load(CPU)
    assert load([*CPU, "progress=off", "wandb=offline", "run_dir=elsewhere"]).hash == base.hash
    assert load(["experiment=sb3_ppo", *CPU]).hash == base.hash
    for change in ("seed=1", "algo.gamma=0.98", "mode=fast"):
        assert load([*CPU, change]).hash != base.hash


def test_unusual_values_are_named() -> None:
    warnings = load([*CPU, "algo.gamma=0.5", "algo.batch_size=100", "total_steps=10"]).warnings()
    assert "algo.gamma=0.5 is unusual: 0.9 to 0.9999 is common." in warnings
    assert any("batch_size=100 does not divide" in w for w in warnings)
    assert any("less than one rollout" in w for w in warnings)
    assert load(CPU).warnings() == []
    masked = [*CPU, "auxiliary=attention_contrastive", "attention=conv"]
    assert load(masked).warnings() == []
    assert load([*masked, "auxiliary.repr_coef=0.3"]).warnings() == []
    for key, value in (("repr_coef", 1), ("regularize_coef", 1e-4)):
        (warning,) = load([*masked, f"auxiliary.{key}={value}"]).warnings()
        assert f"auxiliary.{key}={value:g} is unusual" in warning
    falling = "auxiliary.repr_coef={kind:linear,start:0.2,end:0}"
    assert load([*masked, falling]).auxiliary["repr_coef"]["start"] == 0.2


def test_the_instruments_and_the_compiler_are_keys_of_every_algorithm() -> None:
    for algo in options("algo"):
        config = load([f"algo={algo}", "algo.instrument_every=7", "algo.compile=false", *CPU])
        assert (config.algo["instrument_every"], config.algo["compile"]) == (7, False)
        assert config.algo["optimizer"] in ("adam", "rmsprop", "rmsprop_tf")
    with pytest.raises(UserError, match="instrument_every=-1 must be a whole number from 0"):
        load(["algo.instrument_every=-1", *CPU])
    parts = ["auxiliary=attention_contrastive", "auxiliary.contrastive.tau=0.01"]
    config = load([*parts, "auxiliary.contrastive.feature=64", "auxiliary.decoder.hidden=8", *CPU])
    assert config.auxiliary["decoder"]["hidden"] == 8


def test_the_users_own_folder_adds_options(tmp_path: Path) -> None:
    (tmp_path / "encoder").mkdir()
    (tmp_path / "encoder" / "mine.yaml").write_text("# my own\n_target_: mine.Encoder\nwidth: 3\n")
    for given in ([], [f"hydra.searchpath=[file://{tmp_path}]"]):
        dirs = [] if given else [tmp_path]
        config = load([*given, "encoder=mine", "encoder.width=4", *CPU], dirs)
        assert config.encoder == {"_target_": "mine.Encoder", "width": 4}
    assert options("encoder", [tmp_path])["mine"] == "my own"
    with pytest.raises(UserError, match="choose from impala"):
        load(["encoder=mine", *CPU])


def test_bad_input_is_found_before_torch_loads() -> None:
    code = (
        "import sys; from reprl.cli import main; code = main(['train', 'algo.gamma=1.5']);"
        "print(code, 'torch' in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert found.stdout.split() == ["2", "False"]


def test_train_yaml_names_every_part() -> None:
    text = (Path(__file__).parents[2] / "conf" / "train.yaml").read_text()
    chosen = [next(iter(d)) for d in yaml.safe_load(text)["defaults"] if isinstance(d, dict)]
    assert chosen == [*PARTS, "env", "experiment"]
    assert set(chosen) <= {*groups(), "experiment"}
