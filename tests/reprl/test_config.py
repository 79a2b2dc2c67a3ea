"""Configuration: every YAML composes, every wrong value has its sentence, no folder is left."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from reprl.cli import main
from reprl.config.checks import may_have_gpu
from reprl.config.compose import compose, groups, options
from reprl.config.overrides import expand
from reprl.config.schema import check, load
from reprl.schema import PARTS
from tests.helpers import Commands, refuses

CPU = ["device=cpu", "threads=1"]
EXPERIMENTS = list(options("experiment"))

# what the declared ranges refuse is in test_settings; here is one of each kind, as a command
BAD = {
    "encoder=natur": ["encoder=natur", "impala", "'nature'"],
    "experiment=sb3_pp": ["experiment=sb3_pp", "'sb3_ppo'"],
    "attention=motoin": ["attention=motoin", "'motion'"],
    "encodr=nature": ["'encodr'", "'encoder'"],
    "tottal_steps=3": ["'tottal_steps'", "'total_steps'"],
    "algo.gama=0.9": ["'algo.gama'", "'algo.gamma'"],
    "checkpoint.evry=3": ["'checkpoint.evry'", "'checkpoint.every'"],
    "+foo=1": ["'foo'"],
    "+eval.variant=[original]": ["'eval.variant'", "'variants'"],
    "env.variant=green_line": ["'green_line'", "'green_lines'"],
    "env.game=brekout": ["'brekout'", "'breakout'"],
    "env.game=warlords": ["'warlords'"],
    "eval.variants=[]": ["eval.variants=[]"],
    "mode=fats": ["mode=fats", "plain, fast", "'fast'"],
    "wandb=of": ["wandb=of", "'off'"],
    "progress=fancy": ["progress=fancy"],
    "device=gpu": ["device=gpu", "cpu"],
    "device=cuda": ["device=cuda", "CUDA"],
    "algo.gamma=1.5": ["algo.gamma=1.5", "0 to 1"],
    "algo.gamma=nan": ["algo.gamma=nan", "0 to 1"],
    "algo.gamma=high": ["algo.gamma=high", "0 to 1"],
    "algo.gamma=null": ["algo.gamma=null", "0 to 1"],
    "algo.learning_rate={start:3,end:0}": ["algo.learning_rate.start=3", "0 to 1"],
    "algo.normalize_advantage=off": ["algo.normalize_advantage=off", "true or false"],
    "algo.compile=3": ["algo.compile=3", "true or false"],
    "algo.n_epochs=1.5": ["algo.n_epochs=1.5", "whole number"],
    "algo.batch_size=4096": ["algo.batch_size=4096", "1024"],
    "threads=1000": ["threads=1000", "1 to 256"],
    "threads=0": ["threads=0", "1 to 256"],
    **{f"total_steps={v}": [f"total_steps={v}", "1"] for v in ("many", "nan", 0, -5, 10.5)},
    "env.workers=9": ["env.workers=9", "env.n_envs=8"],
    "env.reward=clipped": ["env.reward=clipped", "clip, raw"],
    "env.reward=0": ["env.reward=0", "1e-06 to 1e+06"],
    "env=null": ["env"],
    "env.n_envs": ["'env.n_envs'", "key=value"],
    "seed=1,2": ["'seed=1,2'", "-m"],
    "algo.gamma=[": ["'algo.gamma=['"],
    "--fast": ["'--fast'"],
    "--config-dir=nowhere": ["'nowhere'"],
    "hydra.searchpath=[file:///nowhere]": ["'/nowhere'"],
    "encoder.threshold=low": ["encoder.threshold=low", "number"],
    "parent=nowhere@12": ["'nowhere'"],
    "parent=nowhere@soon": ["soon", "whole number"],
}


@pytest.mark.parametrize("argument", BAD)
def test_wrong_input_is_one_sentence_exit_2_and_no_folder(
    argument: str, tmp_path: Path, commands: Commands
) -> None:
    rest = [] if argument.startswith("device") else ["device=cpu"]
    place = tmp_path / "runs" / "mine"
    commands.refuse(["train", argument, *rest, f"run_dir={place}"], *BAD[argument])
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
    with refuses(what, "env.stack=1"):
        load([*CPU, "env.stack=1", *arguments])
    load([*CPU, "env.stack=2", *arguments])


def test_a_method_is_named_by_what_its_encoder_is_fed() -> None:
    assert load(CPU).method == "ppo-nature"
    assert load([*CPU, "encoder.input=differences"]).method == "ppo-nature_differences"
    assert load([*CPU, "encoder=nature_differences"]).method == "ppo-nature_differences"


def test_an_output_folder_that_cannot_be_used_is_refused(
    tmp_path: Path, commands: Commands
) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "full" / "data").mkdir(parents=True)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.json").write_text("{}")
    for folder in ("file", "file/below", "full", "run", "/proc/nothing"):
        place = str(tmp_path / folder)
        commands.refuse(["train", *CPU, f"run_dir={place}"], place)


def test_one_variant_needs_no_brackets_and_too_many_threads_are_said() -> None:
    config = load(["eval.variants=green_lines", "device=cpu", "threads=255"])
    assert config.eval.variants == ["green_lines"]
    assert any(w.startswith("threads=255 on ") for w in config.warnings())
    assert load(["algo.clip_range_vf=null", *CPU]).algo["clip_range_vf"] is None


@pytest.mark.slow
def test_a_damaged_neighbour_stops_nothing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    commands: Commands,
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
    assert "match=zzz" in capsys.readouterr().out
    (fine,) = (tmp_path / "runs").glob("*_s0*")
    for name, says in (("yaml", "line 1"), ("empty", "config.yaml")):
        for command in (["diff", str(fine), f"runs/{name}"], ["evaluate", f"runs/{name}"]):
            commands.refuse(command, f"runs/{name}", says)
    (tmp_path / "file").write_text("")
    for command, named in (
        (["runs", "runs", "export=file"], "file"),
        (["runs", "runs", "export=/proc/x"], "export=/proc/x"),
        (["evaluate", "file"], "'file'"),
        (["preview", "variant=original", "output=/proc/x.png"], "/proc/x.png"),
    ):
        commands.refuse(command, named)


def test_wandb_online_needs_a_login(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, commands: Commands
) -> None:
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    monkeypatch.delenv("WANDB_MODE", raising=False)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    commands.refuse(["train", *CPU, "wandb=online", f"run_dir={tmp_path / 'r'}"], "wandb=online")
    assert not (tmp_path / "r").exists()


def test_duplicate_seeds_in_a_sweep_are_refused(tmp_path: Path, commands: Commands) -> None:
    arguments = ["train", "-m", *CPU, "seed=1,2,1", f"run_dir={tmp_path / 'r'}"]
    commands.refuse(arguments, "jobs 0 and 2")
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


def test_phases_that_never_come_are_named() -> None:
    words = [*CPU, "algo=ppg", "algo.n_policy_phases=4", "env.n_envs=8", "algo.n_steps=128"]
    (warning,) = load([*words, "total_steps=3072"]).warnings()
    for part in ("algo.n_policy_phases=4", "1024", "total_steps=3072", "no auxiliary phase"):
        assert part in warning
    assert load([*words, "total_steps=3073"]).warnings() == []  # the fourth rollout goes beyond
    assert load([*words, "total_steps=3072", "algo.auxiliary_epochs=0"]).warnings() == []


def test_a_folder_of_a_run_that_could_not_learn_is_still_read() -> None:
    words = ["env=gymnasium", "env.id=Pendulum-v1", "algo=sac", "total_steps=500"]
    with refuses("algo.learning_starts=1000", "total_steps=500"):
        load([*CPU, *words])
    learned = load([*CPU, *words, "total_steps=2000"]).plain()
    assert check({**learned, "run_dir": None, "total_steps": 500}).algo["learning_starts"] == 1000


def test_the_instruments_and_the_compiler_are_keys_of_every_algorithm() -> None:
    plain = {"reinforce", "recurrent_ppo", "dqn", "qrdqn"}  # no fast mode
    plain |= {"sac", "td3", "ddpg", "impala", "apex"}
    for algo in {*options("algo")} - plain:
        loss = ["auxiliary=spr"] if algo == "pretrain" else []  # all that it learns from
        chosen = [f"algo={algo}", "algo.instrument_every=7", "algo.compile=false", *loss]
        config = load([*chosen, *CPU])
        assert (config.algo["instrument_every"], config.algo["compile"]) == (7, False)
        assert config.algo["optimizer"] in ("adam", "rmsprop", "rmsprop_tf")
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
    with refuses("mine", "impala"):
        load(["encoder=mine", *CPU])


@pytest.mark.slow
def test_bad_input_is_found_before_torch_loads() -> None:
    code = (
        "import sys; from reprl.cli import main; code = main(['train', 'algo.gamma=1.5']);"
        "print(code, 'torch' in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert found.stdout.split() == ["2", "False"]


@pytest.mark.slow
def test_a_run_says_its_first_line_before_torch_loads() -> None:
    code = (
        "import sys; from reprl.config import checks, schema;"
        "checks.may_have_gpu = lambda: False;"
        "print(schema.load(['mode=fast', 'precision=auto']).device, 'torch' in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert found.stdout.split() == ["cpu", "False"], found.stderr


def test_torch_is_asked_for_a_gpu_where_a_driver_is(tmp_path: Path) -> None:
    driver = tmp_path / "nvidiactl"
    on_linux = sys.platform == "linux"
    assert may_have_gpu((str(driver),)) is not on_linux
    driver.touch()
    assert may_have_gpu((str(driver),))


def test_train_yaml_names_every_part() -> None:
    text = (Path(__file__).parents[2] / "conf" / "train.yaml").read_text()
    listed = [next(iter(d)) for d in yaml.safe_load(text)["defaults"] if isinstance(d, dict)]
    chosen = [name for name in listed if not name.startswith("override hydra/")]
    assert chosen == [*PARTS, "env", "intrinsic", "shaping", "experiment"]
    assert set(chosen) <= {*groups(), "experiment"}
