"""A branch goes on exactly only where its parent's course is its own; otherwise it says so."""

from dataclasses import replace
from pathlib import Path

import pytest

from reprl import checkpoint
from reprl.cli import main
from reprl.config.schema import Config, load
from reprl.naming import completed
from reprl.runs.folder import create
from reprl.runs.warm_start import differences
from tests.helpers import refuses
from tests.runs import TINY, train

SAME: tuple[str, ...] = ()


def config_of(*more: str) -> Config:
    return load([*TINY, *more])


@pytest.mark.parametrize(
    ("parent", "child", "expected"),
    [
        (SAME, SAME, []),
        (SAME, ("mode=fast",), ["mode"]),
        (("mode=fast",), SAME, ["mode"]),
        (("mode=fast",), ("mode=fast", "algo.compile=false"), ["algo.compile"]),
        (SAME, ("algo.compile=false",), []),  # plain mode compiles nothing
        (SAME, ("algo.optimizer=rmsprop",), ["algo.optimizer"]),
        (SAME, ("env.variant=green_lines", "seed=4"), ["env", "seed"]),
        (SAME, ("algo.gamma=0.9", "algo.learning_rate=1e-4"), []),  # what a branch is for
        (("~algo.optimizer", "~algo.compile"), SAME, []),  # a folder from before these keys
        (("~encoder.input", "~encoder.contrast", "~encoder.threshold"), SAME, []),
        (SAME, ("encoder.input=differences",), ["encoder"]),
    ],
)
def test_what_leaves_the_parents_course(
    parent: tuple[str, ...], child: tuple[str, ...], expected: list[str], tmp_path: Path
) -> None:
    place = tmp_path / "parent"
    create(config_of(*parent, f"run_dir={place}"), command=["reprl"], python_path=[])
    assert differences(config_of(*child), place) == expected
    elsewhere = replace(config_of(*child), device="cuda:0")
    assert set(differences(elsewhere, place)) == {*expected, "device"}


def test_a_mask_from_before_its_new_keys_is_the_same_mask() -> None:
    new = config_of("attention=conv").attention
    gone = ("hard", "opening", "optimizer")
    old = {key: value for key, value in new.items() if key not in gone}
    assert old != new
    assert completed("attention", old) == completed("attention", new)
    hard = config_of("attention=conv", "attention.hard=top_k").attention
    assert completed("attention", old) != completed("attention", hard)


def test_a_branch_takes_over_what_it_does_not_say_again(tmp_path: Path) -> None:
    place = tmp_path / "parent"
    words = [
        "attention=conv",
        "attention.floor=0.3",
        "env.sticky=0.25",
        "env.background=2",
        "seed=7",
    ]
    words += ["auxiliary=[sparsity,contrastive]", "augmentation=cutout", "algo.gamma=0.9"]
    words += ["algo.learning_rate=1e-4", "wandb=offline", "experiment=background", "seed=7"]
    theirs = config_of(*words, f"run_dir={place}")
    create(theirs, command=["reprl"], python_path=[])
    same = load([f"parent={place}"])
    for key in ("algo", "encoder", "attention", "auxiliary", "augmentation", "env", "eval", "log"):
        assert getattr(same, key) == getattr(theirs, key), key
    assert (same.seed, same.total_steps, same.method) == (7, 192, theirs.method)
    assert same.wandb == "off"  # how it is shown is not the parent's to say
    assert differences(same, place) == []
    changed = ["attention.floor=0.1", "env.variant=green_lines", "auxiliary=none", "algo=a2c"]
    other = load([f"parent={place}", *changed, "algo.gamma=0.95"])
    assert (other.attention["_target_"], other.attention["floor"]) == (
        *(theirs.attention["_target_"], 0.1),
    )
    assert (other.env.variant, other.env.sticky, other.auxiliary) == ("green_lines", 0.25, {})
    assert other.algo["_target_"] == "reprl.algorithms.A2C"
    assert "batch_size" not in other.algo  # of an algorithm that is not the parent's
    assert other.algo["gamma"] == 0.95
    named = load([f"parent={place}", "experiment=sb3_ppo", "eval.every=0"])
    assert named.attention == named.auxiliary == named.augmentation == {}
    assert (named.env.n_envs, named.env.sticky) == (8, 0.25)  # the experiment's, the parent's
    encoder = load([f"parent={place}", "parent.load=encoder", "env.game=pong"])
    assert (encoder.attention["floor"], encoder.env.background, encoder.env.game) == (
        0.3,
        2,
        "pong",
    )
    assert (encoder.env.sticky, encoder.seed, encoder.auxiliary) == (0.0, 0, {})


def test_a_branch_of_a_teacher_learns_from_reward() -> None:
    config = load(["parent=agent:imitation_background"])
    assert config.algo["_target_"] == "reprl.algorithms.PPO"
    assert config.env.background == 1


def test_a_parents_folder_brings_no_code(tmp_path: Path) -> None:
    place = tmp_path / "parent"
    create(config_of(f"run_dir={place}"), command=["reprl"], python_path=[])
    text = (place / "config.yaml").read_text()
    (place / "config.yaml").write_text(text.replace("reprl.encoders.Nature", "os.system"))
    with refuses("os.system", str(place), "trust=os"):
        load([f"parent={place}"])
    assert load([f"parent={place}", "encoder=impala"]).encoder["_target_"].endswith("Impala")


@pytest.mark.slow
def test_another_mode_takes_the_weights_only_and_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    short = ["total_steps=32", "eval.every=0", "checkpoint.every=32"]
    assert train(tmp_path / "plain", *short) == 0
    capsys.readouterr()
    more = [*short, "mode=fast", "algo.compile=false", "algo.learning_rate=1e-9"]
    assert train(tmp_path / "fast", f"parent={tmp_path / 'plain'}", *more) == 0
    said = capsys.readouterr().out
    assert "not the same course (mode), so only the weights" in said
    ours, theirs = checkpoint.read(tmp_path / "fast"), checkpoint.read(tmp_path / "plain")
    assert ours.step == 32  # from step 0, not beyond the parent's 32
    for name, tensor in theirs.parameters.items():
        assert (ours.parameters[name] - tensor).abs().max() < 1e-6


@pytest.mark.slow
def test_ppo_goes_on_from_an_imitator(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Encoder, policy and value head carry over; the optimizer and the steps begin anew."""
    short = ["total_steps=64", "eval.every=0", "checkpoint.every=32", "attention=conv"]
    tiny = [setting for setting in TINY if "n_epochs" not in setting]
    imitation = [*tiny, *short, "algo=imitation", "algo.updates=3"]
    assert main(["train", *imitation, f"run_dir={tmp_path / 'imitator'}"]) == 0
    capsys.readouterr()
    more = [*short, "algo.learning_rate=1e-9", f"parent={tmp_path / 'imitator'}"]
    assert train(tmp_path / "ppo", *more) == 0
    said = capsys.readouterr().out
    assert "not the same course (algo._target_), so only the weights of" in said
    assert "begins at step 0 with a fresh optimizer" in said
    parent, first = checkpoint.read(tmp_path / "imitator"), checkpoint.read(tmp_path / "ppo", 0)
    names = set(first.parameters)
    for part in ("features_extractor", "action_net", "value_net"):
        assert any(name.startswith(f"policy.{part}") for name in names)
    assert names == set(parent.parameters)
    for name, tensor in parent.parameters.items():
        assert (first.parameters[name] == tensor).all()
    assert parent.optimizer
    assert not first.optimizer
    assert not any(name.startswith("memory.") for name in first.state)
    last = checkpoint.read(tmp_path / "ppo")
    assert last.meta["algorithm"] == "reprl.algorithms.PPO"
    assert last.step == 64
