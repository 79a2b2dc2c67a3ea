"""What runs are called: one readable method name from a resolved configuration."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

PARTS = ("algo", "encoder", "attention", "auxiliary", "augmentation")
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
    """Whether a run is the bare algorithm and encoder on the clean game."""
    return " + " not in method_name(config) and trained_variants(config) == ["original"]


def flatten(config: Any, prefix: str = "") -> dict[str, Any]:
    """Nested settings as dotted keys; lists stay whole."""
    if not isinstance(config, Mapping):
        return {prefix: config}
    out: dict[str, Any] = {}
    for key, value in config.items():
        name = f"{prefix}.{key}" if prefix else str(key)
        if isinstance(value, Mapping) and value:
            out.update(flatten(value, name))
        else:
            out[name] = value
    return out


def method_settings(config: Mapping[str, Any]) -> dict[str, Any]:
    """The flattened settings that define the method, without seeds, folders and loggers."""
    return {
        key: value
        for key, value in flatten(config).items()
        if not any(key == skip or key.startswith(skip + ".") for skip in NOT_THE_METHOD)
    }
