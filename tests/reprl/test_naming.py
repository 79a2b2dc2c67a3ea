"""Names: one rule for parts and methods, whoever asks; names of files that any disk takes."""

from pathlib import Path

import pandas as pd
import pytest

from reprl.algorithms import PPO
from reprl.analysis.gap import generalization_gap
from reprl.analysis.load import collect
from reprl.checkpoint import load as load_model
from reprl.components import names, resolve
from reprl.config.schema import load
from reprl.envs import make_vec_env
from reprl.evaluation import ModelAgent, evaluate
from reprl.evaluation.checkpoints import targets
from reprl.evaluation.players import RandomAgent, labels_of
from reprl.naming import (
    class_name,
    file_name,
    is_plain,
    method_name,
    method_of,
    part_name,
    parts_of,
    spec_name,
    trained_variants,
)
from reprl.schema import IDENTITY, PARTS
from tests.runs import make_run


def test_names_of_methods() -> None:
    config = {
        "algo": {"_target_": "reprl.algorithms.PPO"},
        "encoder": "nature",
        "attention": {},
        "auxiliary": {"a": {"_target_": "x.y:Drac"}, "b": {"_target_": "x.Curl"}},
        "env": {"variant": ["original", "green_lines"]},
    }
    assert method_name(config) == "ppo nature + curl+drac (on original, green_lines)"
    assert trained_variants({"env": {"variant": "green_lines"}}) == ["green_lines"]
    assert part_name(None) == "none"
    assert not is_plain(config)
    plain = {"choices": {"algo": "a2c", "encoder": "impala", "attention": "none"}}
    assert method_name(plain) == "a2c impala"
    assert is_plain(plain)
    masked = {"choices": {"algo": "a2c", "encoder": {"_target_": "x.Y + Z"}}}
    assert is_plain(masked)  # whatever its class is called
    assert not is_plain({"choices": {"algo": "a2c", "encoder": "impala", "attention": "conv"}})


def test_a_run_is_called_alike_by_its_configuration_and_its_games():
    chosen = ["auxiliary=[drac,contrastive]", "attention=conv", "augmentation=shift"]
    config = load([*chosen, "device=cpu", "threads=1"])
    parts = parts_of(config.plain())
    assert config.method == method_of(parts) == "ppo-nature-conv-contrastive+drac-shift"
    # without the names that were chosen, what they are says the same
    assert parts_of(config.plain() | {"choices": {}}) == parts
    assert set(labels_of("random")) == set(RandomAgent().labels) == set(IDENTITY)


@pytest.mark.parametrize("group", PARTS)
def test_every_shipped_part_is_named_by_what_it_is(group: str) -> None:
    for name in names(group):
        assert spec_name(group, resolve(group, name)) == name
    assert spec_name("attention", {"_target_": "mine:Own"}) == "own"
    changed = resolve("attention", "conv_21") | {"floor": 0.125}
    assert spec_name("attention", changed) == "conv_21"  # as on the command line


def test_one_agent_has_one_name_by_command_script_and_checkpoint(tmp_path: Path) -> None:
    parts = {"encoder": "nature_padded", "attention": "conv_21", "augmentation": "gray_boxes"}
    parts |= {"auxiliary": "attention_contrastive", "env.background": 2}
    run = make_run(tmp_path / "run", seed=5, **parts, **{"env.size": 84})
    [target], _ = targets(run)
    command = target.labels(0)
    assert command["method"] == (
        "ppo-nature_padded_background-conv_21-attention_contrastive-gray_boxes"
    )
    assert ModelAgent(load_model(run)).labels == command
    env = make_vec_env(n_envs=2, stack=2, background=2)
    algo = {k: v for k, v in resolve("algo", "ppo").items() if k != "_target_"}
    sizes = {"n_steps": 8, "batch_size": 16, "device": "cpu"}
    del parts["env.background"]
    script = PPO("CnnPolicy", env, seed=5, **(algo | sizes | parts))
    labels = ModelAgent(script).labels
    assert labels | {"run": "run"} == command
    assert labels["run"] == f"{command['method']}_s5"
    other = PPO("CnnPolicy", env, seed=5, **(algo | sizes | parts | {"attention": "conv"}))
    assert ModelAgent(other).labels["attention"] == "conv"


def test_a_script_names_another_game_as_the_command_does(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", seed=5, **{"env.game": "pong"})
    [target], _ = targets(run)
    assert target.method.startswith("pong-ppo-")
    assert ModelAgent(load_model(run)).labels == target.labels(0)
    env = make_vec_env(n_envs=2, stack=2, size=36, game="pong")
    script = PPO("CnnPolicy", env, n_steps=8, batch_size=16, seed=5, device="cpu")
    labels = ModelAgent(script).labels
    assert labels["method"].startswith("pong-ppo_defaults")
    assert labels["run"] == f"{labels['method']}_s5"


def test_three_seeds_of_a_script_are_three_runs_in_the_report(tmp_path: Path) -> None:
    games = []
    for seed in range(3):
        env = make_vec_env(n_envs=2, size=36, stack=2)
        model = PPO("CnnPolicy", env, seed=seed, n_steps=8, encoder="nature", device="cpu")
        games.append(evaluate(model, ["original", "green_lines"], 2))
    (tmp_path / "script" / "evaluation").mkdir(parents=True)
    pd.concat(games).to_csv(tmp_path / "script" / "evaluation" / "episodes.csv", index=False)
    gaps = generalization_gap(collect([tmp_path]).episodes)
    [seeds] = set(gaps.loc[gaps["method"].str.contains("nature"), "n_seeds"])
    assert seeds == 3


def test_one_rule_names_a_part():
    for spec, name in (
        ("nature", "nature"),
        ({"_target_": "mine.parts:Tiny"}, "tiny"),
        ({"_target_": "reprl.encoders.masks.ConvMask", "hidden": []}, "convmask"),
        ({"_target_": None}, "none"),
        ({}, "none"),
        ([], "none"),
        (["drac", {"_target_": "a.Curl"}], "drac+curl"),
    ):
        assert part_name(spec) == name
    assert class_name("mine.parts:Tiny") == "Tiny"


def test_file_names_hold_no_sign_a_disk_could_refuse():
    assert file_name("a/b:c d@0.5+e_f-g.h") == "a-b-c-d@0.5+e_f-g.h"
    assert file_name("mine:band é", other="_") == "mine_band_é"
    assert len(file_name("x" * 400)) == 200
