"""What a user asks for besides SB3's arguments, as plain data, checked before anything is built."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from reprl import components
from reprl.errors import UserError
from reprl.naming import part_name
from reprl.settings import USE

Auxiliary = components.Spec | Sequence[components.Spec] | None


@dataclass(frozen=True)
class Specs:
    """The extras of one agent as data that JSON can hold."""

    encoder: dict[str, Any] | None = None
    auxiliary: dict[str, dict[str, Any]] = field(default_factory=dict)  # name -> spec
    augmentation: dict[str, Any] | None = None
    use: str = "rad"  # the training batch is augmented, or only the losses' views are

    def plain(self) -> dict[str, Any]:
        return asdict(self)


def resolve(
    *,
    encoder: components.Spec | None = None,
    attention: components.Spec | None = None,
    auxiliary: Auxiliary = None,
    augmentation: components.Spec | None = None,
) -> Specs:
    """Look names up and refuse what could not be built again from a checkpoint."""
    encoder_spec = components.resolve("encoder", encoder)
    attention_spec = components.resolve("attention", attention)
    auxiliary_specs = _auxiliaries(auxiliary)
    if encoder_spec is None and (auxiliary_specs or attention_spec):
        encoder_spec = components.resolve("encoder", "nature")
    if attention_spec is not None:
        assert encoder_spec is not None
        encoder_spec = encoder_spec | {"attention": attention_spec}
    augmentation_spec = components.resolve("augmentation", augmentation)
    use = "rad"
    if augmentation_spec is not None:
        use = USE["use"].checked("augmentation.use", augmentation_spec.pop("use", "rad"))
        if use == "views" and not auxiliary_specs:
            raise UserError(
                "augmentation use=views serves auxiliary losses, but auxiliary is none: "
                "set use=rad or choose an auxiliary loss."
            )
    specs = Specs(encoder_spec, auxiliary_specs, augmentation_spec, use)
    _require_plain(specs)
    return specs


def _auxiliaries(auxiliary: Auxiliary) -> dict[str, dict[str, Any]]:
    if auxiliary is None or auxiliary == "none":
        return {}
    if isinstance(auxiliary, str):
        named: list[tuple[str, Any]] = [(auxiliary, auxiliary)]
    elif isinstance(auxiliary, Mapping):
        single = "_target_" in auxiliary
        named = [(part_name(auxiliary), auxiliary)] if single else list(auxiliary.items())
    elif isinstance(auxiliary, Sequence):
        named = [(part_name(spec), spec) for spec in auxiliary]
    else:
        kind = type(auxiliary).__name__
        raise UserError(f"auxiliary must be a name, a mapping or a list, got {kind}.")
    found: dict[str, dict[str, Any]] = {}
    for name, spec in named:
        if name in found:
            raise UserError(f"auxiliary '{name}' is given twice: name each in a mapping.")
        if (resolved := components.resolve("auxiliary", spec)) is not None:
            found[name] = resolved
    return found


def _require_plain(specs: Specs) -> None:
    for part, spec in specs.plain().items():
        try:
            json.dumps(spec, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise UserError(
                f"{part} could not be saved with a checkpoint: {error}; give numbers, text, lists "
                "and mappings only."
            ) from None
