"""What runs are called: one readable method name from a resolved configuration."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from reprl.config.gained import completed, encoder_name
from reprl.config.overrides import PARTS, flatten
from reprl.envs.variation.lookup import catalogue

# Settings that change where or how a run is executed, or which seed it had, but not the method.
NOT_THE_METHOD = (
    "seed",
    "choices",
    "mode",
    "log",
    "run_dir",
    "threads",
    "device",
    "wandb",
    "progress",
    "experiment",
    "sweep",
    "parent",
    "checkpoint",
    "eval",
    "hydra",
    "env.workers",
)


def is_baseline(method: str) -> bool:
    """Random and scripted players: measured for reference, never trained."""
    return method == "random" or method == "scripted" or method.startswith("scripted ")


def part_name(spec: Any) -> str:
    """The short name of a part: itself if a name, else the last word of its `_target_`."""
    if spec is None or spec == {} or spec == "none" or spec == []:
        return "none"
    if isinstance(spec, str):
        return spec
    if isinstance(spec, Mapping):
        if spec.get("name"):
            return str(spec["name"])
        if "_target_" in spec:
            return str(spec["_target_"]).replace(":", ".").rpartition(".")[2].lower()
        named = [part_name(v) for v in spec.values() if isinstance(v, Mapping)]
        return "+".join(n for n in named if n != "none") or "none"
    if isinstance(spec, Iterable):
        return "+".join(part_name(item) for item in spec)
    return str(spec)


def curve_of(variant: str) -> str:
    """A variant without its severity; a composition `a@0.7+b` is a variant of its own."""
    return variant if "+" in variant else variant.partition("@")[0]


def usual_severity(variant: str) -> float | None:
    """The severity a variant has when none is asked for, None where that is not known."""
    known = [catalogue().get(part) for part in variant.split("+")]
    levels = {part.severity for part in known if part is not None and part.severity is not None}
    return levels.pop() if len(levels) == 1 and None not in known else None


def at_severity(variant: str, severity: float) -> str:
    """How to ask for a variant at a severity: in a composition every part that has one gets it."""
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
    variant = env.get("variant", "original") if isinstance(env, Mapping) else "original"
    if isinstance(variant, str):
        return [v for v in variant.split(",") if v]
    if isinstance(variant, Mapping):
        return [part_name(variant)]
    return [part_name(v) for v in variant or ["original"]]


def parts_of(config: Mapping[str, Any]) -> dict[str, str]:
    """What each part of a run is called: as it was chosen, else by what it is."""
    choices = config.get("choices")
    chosen = choices if isinstance(choices, Mapping) else {}
    names = {p: part_name(chosen.get(p) or config.get(p)) for p in PARTS}
    encoder = config.get("encoder")
    names["encoder"] = encoder_name(names["encoder"], encoder)
    if names["attention"] == "none" and isinstance(encoder, Mapping):
        names["attention"] = part_name(encoder.get("attention"))
    return names


def method_name(config: Mapping[str, Any]) -> str:
    """For example `ppo nature + drac + boxes (on green_lines)`: parts that are on, nothing else."""
    names = parts_of(config)
    first = " ".join(names[p] for p in ("algo", "encoder") if names[p] != "none") or "agent"
    extras = [names[p] for p in PARTS[2:] if names[p] != "none"]
    variants = trained_variants(config)
    where = "" if variants == ["original"] else f" (on {', '.join(variants)})"
    return " + ".join([first, *extras]) + where


def is_plain(config: Mapping[str, Any]) -> bool:
    """Whether a run is the bare algorithm and encoder, fed with frames, on the clean game."""
    encoder = config.get("encoder")
    fed = encoder.get("input", "frames") if isinstance(encoder, Mapping) else "frames"
    bare = " + " not in method_name(config) and fed == "frames"
    return bare and trained_variants(config) == ["original"]


def method_settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """The flattened settings that define the method, without seeds, folders and loggers."""
    return {
        key: value
        for key, value in flatten({part: completed(part, v) for part, v in config.items()}).items()
        if not any(key == skip or key.startswith(skip + ".") for skip in NOT_THE_METHOD)
    }
