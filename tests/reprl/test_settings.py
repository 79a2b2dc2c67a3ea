"""Declared settings: the configuration and the constructor refuse the same values, alike."""

import math
import subprocess
import sys
from collections.abc import Iterator
from importlib import resources
from typing import Any

import gymnasium
import numpy as np
import pytest
import yaml
from gymnasium import spaces

from reprl import components
from reprl.config.checks import CONTINUOUS
from reprl.config.compose import compose
from reprl.config.schema import check
from reprl.encoders import Nature
from reprl.envs import make_vec_env
from reprl.errors import UserError
from reprl.naming import class_name
from reprl.settings import (
    CLASSES,
    ENV,
    HARD,
    MASK_OPTIMIZER,
    PLACEMENT,
    SEED,
    declared,
    settings_of,
)
from reprl.validation import Address, Flag, Number, Numbers, OneOf, Setting, Span, Window
from tests.helpers import refuses
from tests.toys.catch import Catch

SPACE = spaces.Box(0, 255, (4, 36, 36), np.uint8)
# one YAML of the package for every class, and what else its constructor needs
GROUPS = ("algo", "encoder", "attention", "auxiliary", "augmentation", "intrinsic", "shaping")
SMALL = {"n_steps": 4, "device": "cpu", "policy": "CnnPolicy", "instrument_every": 0}


def specs() -> dict[str, tuple[str, dict[str, Any]]]:
    """Class name -> its group and a spec of it, from the package's own YAML."""
    found: dict[str, tuple[str, dict[str, Any]]] = {}
    for group in GROUPS:
        for name in components.names(group):
            text = (resources.files("reprl.conf") / group / f"{name}.yaml").read_text()
            spec = yaml.safe_load(text)
            if spec["_target_"]:
                kind = str(spec["_target_"]).rpartition(".")[2]
                if kind not in found or len(spec) > len(found[kind][1]):  # the fullest
                    found[kind] = (group, spec)
    inverted = {"_target_": "kornia.augmentation.RandomInvert"}  # an adapter has no YAML of its own
    adapter = {"_target_": "reprl.augmentation.ModuleAugmentation", "module": inverted}
    found["ModuleAugmentation"] = ("augmentation", {**adapter, "channels": 1, "use": "rad"})
    return found


SPECS = specs()
VALUES = compose(["device=cpu", "threads=1"])


def outside(setting: Setting) -> Iterator[Any]:
    """Values that a setting must refuse."""
    yield from ("much", [[]])
    if isinstance(setting, Flag):
        yield from (1,) if setting.optional else (1, None)
        return
    yield True
    if isinstance(setting, Number):
        yield from (math.nan, math.inf)
        if not setting.optional:
            yield None
        if setting.whole:
            yield 1.5
        for limit, is_open, away in (
            (setting.low, setting.open_low, -1),
            (setting.high, setting.open_high, 1),
        ):
            if math.isfinite(limit):
                yield limit if is_open else limit + away * (1 if setting.whole else 1e-3)
        if setting.scheduled:
            yield {"start": setting.low - 1}
            yield {"start": 0.05, "end": setting.low - 1}
            yield {"kind": "liner", "start": 0.05}
            yield {"start": 0.05, "end": 0.0, "warmup": 1.0}
    elif isinstance(setting, Span):
        yield from ([setting.ends.low - 1, setting.ends.low], [setting.ends.low], None)
        if math.isfinite(setting.ends.high):
            yield [setting.ends.high, setting.ends.high + 1]
            yield [setting.ends.high, setting.ends.low]
    elif isinstance(setting, Numbers):
        yield from ([setting.each.low - 1], 64, [1.5])
    elif isinstance(setting, Window):
        yield from (None, math.nan, 1, 4, 2.5, -3)
    elif isinstance(setting, Address):
        yield from ("HEAD", "HEAD:", ":6379", 6379)
    else:
        assert isinstance(setting, OneOf)
        yield from (f"{setting.words[0]}x", 3)


def inside(setting: Setting) -> Iterator[Any]:
    """Values at the limits themselves, which a setting must take."""
    if isinstance(setting, Number):
        for limit, is_open in ((setting.low, setting.open_low), (setting.high, setting.open_high)):
            if math.isfinite(limit) and not is_open:
                yield limit
    elif isinstance(setting, OneOf):
        yield from setting.words
    elif isinstance(setting, Window):
        yield from (0, 3)
    elif isinstance(setting, Address):
        yield from (None, "auto", "HEAD:6379", "ray://HEAD:10001")


def named(setting: Setting, key: str, wrong: Any) -> list[str]:
    """What a refusal must name: the key, a plain value, what is allowed, the nearest word."""
    if isinstance(wrong, dict | list):
        return [key]
    if isinstance(setting, OneOf):
        near = [f"'{setting.words[0]}'"] if wrong == f"{setting.words[0]}x" else []
        return [f"{key}={wrong}", ", ".join(setting.words), *near]
    return [f"{key}={wrong}", str(setting)]


CASES = [(name, key) for name in CLASSES for key in CLASSES[name]]
CASES += [("ConvMask", key) for key in PLACEMENT]


def configured(group: str, spec: dict[str, Any], key: str) -> None:
    check({**VALUES, "seed": spec["seed"]} if key == "seed" else {**VALUES, group: spec})


def constructed(group: str, spec: dict[str, Any], key: str) -> None:
    spec = {k: v for k, v in spec.items() if k != "use"}
    if group == "attention":
        Nature(spaces.Box(0, 255, (4, 84, 84), np.uint8), attention=spec)
    elif group == "encoder":
        components.build(group, spec, observation_space=SPACE)
    elif group == "algo":
        small = {k: v for k, v in SMALL.items() if k != key}
        for name in ("n_steps", "instrument_every"):  # pretraining collects nothing
            if name not in spec:
                small.pop(name, None)
        if class_name(spec["_target_"]) in CONTINUOUS:
            env = gymnasium.make("Pendulum-v1")
            components.build(group, {**spec, **small, "policy": "MlpPolicy"}, env=env)
        else:
            components.build(group, {**spec, **small}, env=Catch())
    else:
        components.build(group, spec)


@pytest.mark.parametrize(("name", "key"), CASES)
def test_the_configuration_and_the_constructor_refuse_the_same(name: str, key: str) -> None:
    group, spec = SPECS[name]
    setting = settings_of(group, spec["_target_"])[key]
    # keys of SB3 that no YAML of ours names
    assert set(CLASSES[name]) - set(spec) <= {"seed", "stats_window_size", "verbose"}
    for wrong in outside(setting):
        for where in (configured, constructed):
            with refuses(*named(setting, key, wrong)):
                where(group, {**spec, key: wrong}, key)
    for right in inside(setting):
        setting.checked(key, right)


NESTED = [("hard", key) for key in HARD] + [("optimizer", key) for key in MASK_OPTIMIZER]


@pytest.mark.parametrize(("part", "key"), NESTED)
def test_what_is_nested_in_attention_is_refused_alike(part: str, key: str) -> None:
    """In the configuration before torch is there, in the constructor again, of any mask."""
    setting = {"hard": HARD, "optimizer": MASK_OPTIMIZER}[part][key]
    _, spec = SPECS["ConvMask"]
    for wrong in outside(setting):
        given = {**spec, part: {"by": "top_k", key: wrong} if part == "hard" else {key: wrong}}
        for where in (configured, constructed):
            with pytest.raises(UserError, match=rf"attention\.{part}\.{key}="):
                where("attention", given, key)
    users = {"_target_": "mine.Mask", part: {"by": "top_k", key: "much"}}
    with pytest.raises(UserError, match=rf"attention\.{part}\.{key}=much"):
        check({**VALUES, "attention": users})


@pytest.mark.parametrize("key", [*ENV, "seed"])
def test_the_environment_refuses_what_the_configuration_refuses(key: str) -> None:
    for wrong in outside({**ENV, "seed": SEED}[key]):
        changed = {**VALUES, "env": {**VALUES["env"], key: wrong}}
        changed = {**VALUES, "seed": wrong} if key == "seed" else changed
        with refuses(key):
            check(changed)
        with refuses(key):
            make_vec_env(**{"n_envs": 4096, "variant": "green_lines", key: wrong})


def test_a_users_own_class_has_its_own_ranges() -> None:
    own = {"p": 3.5, "weight": -2, "tau": 7, "floor": 2.0, "width": -1, "hidden": "many"}
    own |= {"dropout": 1.5, "my_coef": -4, "learning_rate": 12, "begin": 1.5, "end": -1}
    for target in ("mine.Contrastive", "mine:Nature", "reprl_more.PPO", "mine.reprl.DrAC"):
        for group in ("encoder", "auxiliary", "augmentation"):
            spec = {"_target_": target, **own, "attention": {"floor": 9}}
            assert getattr(check({**VALUES, group: spec}), group) == spec
            nested = {"first": spec, "attention": spec}
            assert check({**VALUES, "auxiliary": nested}).auxiliary == nested
        assert check({**VALUES, "algo": {"_target_": target, **own}}).warnings() == []
    # where a mask of the user's is placed is for our encoder to say
    with refuses("attention.floor=2.0"):
        check({**VALUES, "attention": {"_target_": "mine.Mask", "floor": 2.0}})
    with refuses("auxiliary.p=nan"):
        check({**VALUES, "auxiliary": {"_target_": "mine.Loss", "p": math.nan}})


def test_nested_specs_of_ours_are_found() -> None:
    spec = {
        "_target_": "reprl.augmentation.Compose",
        "steps": ["shift", {"_target_": "reprl.augmentation.Noise", "deviation": 300}],
    }
    keys = [key for key, _, _, setting in declared("augmentation", "augmentation", spec) if setting]
    assert keys == ["augmentation.steps.1.deviation"]
    with refuses("augmentation.steps.1.deviation=300", "0 to 255"):
        check({**VALUES, "augmentation": spec})
    placed = {"_target_": "reprl.encoders.Nature", "attention": {"_target_": "x.Y", "floor": 1}}
    keys = [key for key, _, _, setting in declared("encoder", "encoder", placed) if setting]
    assert keys == ["encoder.attention.floor"]


def test_every_declared_setting_is_a_key_of_its_yaml() -> None:
    assert set(CLASSES) <= set(SPECS)


@pytest.mark.slow
def test_settings_load_without_torch() -> None:
    code = "import sys, reprl.settings; print('torch' in sys.modules, 'numpy' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert found.stdout.split() == ["False", "False"]
