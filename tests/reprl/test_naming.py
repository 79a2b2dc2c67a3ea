"""Names: one rule for parts and methods, whoever asks; names of files that any disk takes."""

from reprl.config.schema import load
from reprl.evaluation.players import RandomAgent, labels_of
from reprl.naming import (
    class_name,
    file_name,
    is_plain,
    method_name,
    method_of,
    part_name,
    parts_of,
    trained_variants,
)
from reprl.schema import IDENTITY


def test_names_of_methods() -> None:
    config = {
        "algo": {"_target_": "reprl.algorithms.PPO"},
        "encoder": "nature",
        "attention": {},
        "auxiliary": {"a": {"_target_": "x.y:Drac"}, "b": {"_target_": "x.Curl"}},
        "env": {"variant": ["original", "green_lines"]},
    }
    assert method_name(config) == "ppo nature + drac+curl (on original, green_lines)"
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
    # without the names that were chosen, classes name the parts
    bare = parts_of(config.plain() | {"choices": {}})
    assert method_of(bare) == "ppo-nature-convmask-drac+contrastive-shift"
    assert set(labels_of("random")) == set(RandomAgent().labels) == set(IDENTITY)


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
