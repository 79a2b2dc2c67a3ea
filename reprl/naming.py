"""What things are called: parts, methods, variants and files, each by one rule.

A part's name comes from its spec, a method's from its parts, a variant's from its severity; the
configuration, the players and the report all ask here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from reprl.envs.defaults import DEFAULT_GAME, GYMNASIUM, LATER, PROCGEN, TRUTH_NOISE
from reprl.schema import CLEAN, PARTS

PERSON = "person"  # the method of games that people played


def is_baseline(method: str) -> bool:
    """Random, scripted and human players: measured for reference, never trained."""
    return method in ("random", "scripted", PERSON) or method.startswith(("scripted ", "person "))


def class_name(target: Any) -> str:
    """The last word of a `_target_`, "none" without one."""
    return re.split(r"[.:]", str(target or "none"))[-1]


def part_name(spec: Any) -> str:
    """The short name of a part: itself if a name, else the last word of its `_target_`."""
    if spec is None or spec == {} or spec == "none" or spec == []:
        return "none"
    if isinstance(spec, str):
        return spec
    if isinstance(spec, Mapping):
        if spec.get("name"):
            return str(spec["name"])
        adapted = class_name(spec.get("_target_")) == "ModuleAugmentation"
        if adapted and isinstance(spec.get("module"), Mapping):
            return part_name(spec["module"])
        if "_target_" in spec:
            return class_name(spec["_target_"]).lower()
        named = [part_name(v) for v in spec.values() if isinstance(v, Mapping)]
        return "+".join(n for n in named if n != "none") or "none"
    if isinstance(spec, Iterable):
        return "+".join(part_name(item) for item in spec)
    return str(spec)


def spec_name(group: str, spec: Any) -> str:
    """What a part of a group is called by what it is: the shipped option that it is, or is nearest.

    Other settings of a class leave its option's name as the command line does; a class of the
    user's own, or one as near to several options, is called by the class.
    """
    if not isinstance(spec, Mapping) or not spec or spec.get("name"):
        return part_name(spec)
    if "_target_" not in spec:
        several = [spec_name(group, s) for s in spec.values() if isinstance(s, Mapping)]
        return "+".join(sorted(n for n in several if n != "none")) or "none"
    own = completed(group, {k: v for k, v in spec.items() if k not in LEFT_OUT})
    far: dict[str, int] = {}
    for name, option in _shipped(group).items():
        if option["_target_"] == own["_target_"]:
            keys = option.keys() if group == "algo" else option.keys() | own.keys()
            far[name] = sum(not _same(own.get(k), option.get(k)) for k in keys)
    nearest = [name for name, distance in far.items() if distance == min(far.values())]
    return nearest[0] if len(nearest) == 1 else part_name(spec)


# a part of its own, how an augmentation is applied, whether an encoder is trained, how it begins
LEFT_OUT = ("attention", "use", "freeze", "init")


@cache
def _shipped(group: str) -> dict[str, dict[str, Any]]:
    from reprl.components import names, resolve  # which asks here what a part is called

    found = {name: resolve(group, name) for name in names(group)}
    return {
        name: completed(group, {k: v for k, v in option.items() if k not in LEFT_OUT})
        for name, option in found.items()
        if option is not None
    }


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, Mapping) and isinstance(b, Mapping):  # a schedule may leave its warmup out
        return all(_same(a[key], b[key]) for key in a.keys() & b.keys())
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return list(a) == list(b)
    return bool(a == b)


def curve_of(variant: str) -> str:
    """A variant without its severity; a composition `a@0.7+b` is a variant of its own."""
    return variant if "+" in variant else variant.partition("@")[0]


def usual_severity(variant: str) -> float | None:
    """The severity a variant has when none is asked for, None where that is not known."""
    from reprl.envs.variation.lookup import catalogue

    known = [catalogue().get(part) for part in variant.split("+")]
    levels = {part.severity for part in known if part is not None and part.severity is not None}
    return levels.pop() if len(levels) == 1 and None not in known else None


def at_severity(variant: str, severity: float) -> str:
    """How to ask for a variant at a severity: in a composition every part that has one gets it."""
    from reprl.envs.variation.lookup import catalogue

    parts = variant.split("+")
    known = {part: catalogue().get(part) for part in parts}

    def fixed(part: str) -> bool:
        found = known[part]
        return len(parts) > 1 and found is not None and found.severity is None

    return "+".join(part if fixed(part) else f"{part}@{severity:g}" for part in parts)


def variant_label(name: str, severity: float | None) -> str:
    """The name, with the severity wherever it is not the variant's usual one."""
    if severity is None or severity != severity or "@" in name or severity == usual_severity(name):
        return name
    return at_severity(name, severity)


def trained_variants(config: Mapping[str, Any]) -> list[str]:
    """The variants a run was trained on."""
    env = config.get("env")
    variant = env.get("variant", CLEAN) if isinstance(env, Mapping) else CLEAN
    if isinstance(variant, str):
        return [v for v in variant.split(",") if v]
    if isinstance(variant, Mapping):
        return [part_name(variant)]
    return [part_name(v) for v in variant or [CLEAN]]


def parts_of(config: Mapping[str, Any]) -> dict[str, str]:
    """What each part of a run is called: as it was chosen, else by what it is."""
    choices = config.get("choices")
    chosen = choices if isinstance(choices, Mapping) else {}
    names = {
        p: part_name(chosen[p]) if chosen.get(p) else spec_name(p, config.get(p)) for p in PARTS
    }
    encoder = config.get("encoder")
    names["encoder"] = encoder_name(names["encoder"], encoder)
    names["encoder"] += "".join(f"_{word}" for word in _seen_otherwise(config))
    names["algo"] += "".join(f"_{word}" for word in _paid_otherwise(config))
    if names["attention"] == "none" and isinstance(encoder, Mapping):
        names["attention"] = spec_name("attention", encoder.get("attention"))
    return names


def _paid_otherwise(config: Mapping[str, Any]) -> list[str]:
    """What a run is paid besides or instead of the game's reward, in words for its name."""
    choices = config.get("choices")
    words = []
    for part in ("intrinsic", "shaping"):
        chosen = choices.get(part) if isinstance(choices, Mapping) else None
        words.append(part_name(chosen) if chosen else spec_name(part, config.get(part)))
    return [word for word in words if word != "none"]


def _seen_otherwise(config: Mapping[str, Any]) -> list[str]:
    """What a run's observations are instead of gray frames, in words for its name."""
    env = config.get("env")
    if not isinstance(env, Mapping):
        return []
    known = {**LATER, **env}
    words = []
    if (background := known["background"]) is not None:
        words.append(background if isinstance(background, str) else "background")
    if known["observation"] != LATER["observation"]:
        words.append(str(known["observation"]))
    words += [f"{key}_{known[key]:g}" for key in TRUTH_NOISE if known[key]]
    return words if known["gray"] else [*words, "colour"]


def encoder_name(name: str, spec: Any) -> str:
    """What an encoder is called: `nature_differences` by what it is fed, `_he`, `_frozen`."""
    fed = spec.get("input") if isinstance(spec, Mapping) else None
    if fed not in (None, "frames") and not name.endswith(f"_{fed}"):
        name = f"{name}_{fed}"
    begins = spec.get("init") if isinstance(spec, Mapping) else None
    if begins not in (None, "sb3"):
        name = f"{name}_{begins}"
    frozen = isinstance(spec, Mapping) and spec.get("freeze") is True
    return f"{name}_frozen" if frozen else name


def game_word(env: Any) -> str:
    """The game of a run's `env` section as names of methods begin with it.

    Agents of Procgen that were trained on other levels than usual are other methods.
    """
    known = {**LATER, **env} if isinstance(env, Mapping) else dict(LATER)
    game = str(known.get("game", DEFAULT_GAME))
    word = game.removeprefix(GYMNASIUM).rpartition(":")[2].lower().replace("/", "-")
    if not game.startswith(PROCGEN):
        return word
    if known["distribution"] != LATER["distribution"]:
        word += f"_{known['distribution']}"
    words = {"levels": "levels", "start_level": "from"}
    return word + "".join(f"_{w}_{known[k]}" for k, w in words.items() if known[k] != LATER[k])


def method_of(parts: Mapping[str, str]) -> str:
    """What distinguishes an agent from others, in one word: ppo-nature-conv-curl-cutout."""
    return "-".join(parts[p] for p in PARTS if parts.get(p, "none") != "none")


def in_game(method: str, env: Any) -> str:
    """A method as it is called in an `env` section's game: other than Breakout, it comes first."""
    word = game_word(env)
    return method if word == DEFAULT_GAME else f"{word}-{method}"


def method_name(config: Mapping[str, Any]) -> str:
    """For example `ppo nature + drac + boxes (on green_lines)`: parts that are on, nothing else."""
    names = parts_of(config)
    first = " ".join(names[p] for p in ("algo", "encoder") if names[p] != "none") or "agent"
    extras = [names[p] for p in PARTS[2:] if names[p] != "none"]
    variants = trained_variants(config)
    env = config.get("env")
    curriculum = env.get("curriculum") if isinstance(env, Mapping) else None
    listed = ", ".join(variants) if curriculum is None else f"{curriculum}: {', '.join(variants)}"
    where = "" if variants == [CLEAN] else f" (on {listed})"
    return " + ".join([first, *extras]) + where


def is_plain(config: Mapping[str, Any]) -> bool:
    """Whether a run is the bare algorithm and encoder, fed with frames, on the clean game."""
    names, encoder = parts_of(config), config.get("encoder")
    fed = encoder.get("input", "frames") if isinstance(encoder, Mapping) else "frames"
    extras = [p for p in PARTS[2:] if names[p] != "none"]
    frozen = isinstance(encoder, Mapping) and encoder.get("freeze") is True
    begins = encoder.get("init", "sb3") if isinstance(encoder, Mapping) else "sb3"
    if fed != "frames" or frozen or begins != "sb3":
        return False
    if _paid_otherwise(config) or _seen_otherwise(config):
        return False
    return not extras and trained_variants(config) == [CLEAN]


def file_name(text: str, *, other: str = "-", keep: str = "-_+.@", longest: int = 200) -> str:
    """Text as a file name: signs that some disk could refuse become `other`."""
    return "".join(c if c.isalnum() or c in keep else other for c in text)[:longest]


# Keys that parts have gained since 0.1: a configuration that lacks them stands for their defaults.
# Runs of an older version and of this one are compared, continued and named by what they compute.
GAINED: dict[str, dict[str, Any]] = {
    "encoder": {
        "input": "frames",
        "contrast": 0,
        "threshold": 0.0,
        "freeze": False,
        "init": "sb3",
    },
    "algo": {"actor_loss_coef": 1.0, "momentum": None, "instrument_every": 250},
    "attention": {"opening": None, "hard": None, "optimizer": None},
}


def completed(part: str, spec: Any) -> Any:
    """A part's spec with the keys it has gained; nothing stays nothing."""
    if not isinstance(spec, Mapping) or not spec:
        return spec
    return {**GAINED.get(part, {}), **spec}
