"""Names to parts: resolves `encoder="nature"` or `{"_target_": ...}` through the YAML in conf/.

The Hydra application and plain Python scripts build their parts from the same files.
"""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from importlib import resources
from typing import Any

from omegaconf import OmegaConf

from reprl.errors import UserError, unknown
from reprl.user_code import described, imported

Spec = str | Mapping[str, Any]
# what a group's `_target_` must be derived from; a path, because these modules import this one
BASES = {
    "algo": "reprl.algorithms.base:Algorithm",
    "encoder": "reprl.encoders.base:Encoder",
    "attention": "reprl.encoders.masks:Mask",
    "auxiliary": "reprl.auxiliary.base:AuxiliaryLoss",
    "augmentation": "reprl.augmentation.base:Augmentation",
}


def names(group: str) -> list[str]:
    """The names a group offers, from the YAML files of the package."""
    folder = resources.files("reprl.conf") / group
    return sorted(
        f.name.removesuffix(".yaml") for f in folder.iterdir() if f.name.endswith(".yaml")
    )


def resolve(group: str, spec: Spec | None) -> dict[str, Any] | None:
    """Turn a name or a mapping into a plain dict with `_target_`, or None for nothing."""
    if spec is None or spec == "none":
        return None
    if isinstance(spec, str):
        if spec not in names(group):
            raise unknown(group, spec, names(group))
        text = (resources.files("reprl.conf") / group / f"{spec}.yaml").read_text()
        spec = OmegaConf.to_container(OmegaConf.create(text), resolve=True)  # type: ignore[assignment]
    if not isinstance(spec, Mapping):
        kind = type(spec).__name__  # a module's repr has many lines
        raise UserError(f"{group} must be a name or a mapping with _target_, got {kind}.")
    plain = {str(k): v for k, v in spec.items()}
    if "_target_" not in plain:
        raise UserError(f"{group}: a mapping needs _target_, got {', '.join(plain) or 'no keys'}.")
    return plain if plain["_target_"] else None


def build(group: str, spec: Mapping[str, Any], **extra: Any) -> Any:
    """Call the spec's `_target_` with its other keys; nested specs are left to the target.

    A checkpoint's specs come from a file: whatever else can be imported is refused uncalled.
    """
    path, arguments = spec["_target_"], {k: v for k, v in spec.items() if k != "_target_"}
    target = class_of(group, str(path))
    try:
        return target(**extra, **arguments)
    except (TypeError, ValueError, AssertionError) as error:
        # arguments that do not fit are refused where a constructor is called, or by SB3's checks
        where = traceback.extract_tb(error.__traceback__)[-1]
        called = isinstance(error, TypeError) and where.name in ("build", "__init__")
        if isinstance(error, UserError) or not (called or "stable_baselines3" in where.filename):
            raise
        said = str(error).strip().splitlines() or [type(error).__name__]
        raise UserError(f"{group} '{path}': {said[0].rstrip('.')}.") from error


def class_of(group: str, path: str) -> Any:
    """The class at a path, refused unless it is of the group's kind."""
    try:
        target = imported(path)
    except UserError:
        raise
    except Exception as error:
        raise UserError(f"{group}: cannot import _target_ '{path}': {described(error)}") from error
    if not isinstance(target, type) or not issubclass(target, imported(BASES[group])):
        named = BASES[group].replace(":", ".")
        raise UserError(f"{group}: _target_ '{path}' must be a class derived from {named}.")
    return target
