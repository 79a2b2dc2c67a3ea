"""Which variants to play: names, compositions, severities and suites become a list of variants."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from reprl.envs import Variant, find, suite, suites
from reprl.envs.defaults import DEFAULT_GAME
from reprl.envs.protocol import VariantSpec
from reprl.envs.variation.base import checked_severity
from reprl.envs.variation.suites import lacking
from reprl.errors import UserError, unknown
from reprl.naming import variant_label

SUITE = "suite:"


def expand(
    specs: VariantSpec | Iterable[VariantSpec],
    severities: Sequence[float] = (),
    game: str = DEFAULT_GAME,
) -> list[Variant]:
    """The variants meant, each once; `severities` multiply those whose severity is left open."""
    levels = [checked_severity(s) for s in severities]
    found: dict[tuple[str, float | None], Variant] = {}
    for spec in _listed(specs, game):
        variant = find(spec, None, game)
        is_fixed = isinstance(spec, str) and "@" in spec
        several = [variant] if is_fixed or not has_severity(variant) else []
        for chosen in several or [variant.at(s) for s in levels] or [variant]:
            if found.setdefault((chosen.name, chosen.severity), chosen) != chosen:
                raise UserError(f"two different variants are called '{label(chosen)}'.")
    if not found:
        raise UserError("variants is empty: name at least one variant, for example original.")
    return list(found.values())


def has_severity(variant: Variant) -> bool:
    """Whether there is a weaker and a stronger form of it."""
    return any("severity" in part.parameters for part in variant.effects)


def label(variant: Variant) -> str:
    """The name, with the severity wherever it is not the variant's usual one."""
    return variant_label(variant.name, variant.severity)


def left_out(specs: Iterable[VariantSpec], game: str) -> list[str]:
    """What the suites among some specs have that a game lacks, a sentence for each suite."""
    found = []
    for spec in specs:
        if isinstance(spec, str) and spec.startswith(SUITE):
            name = spec.removeprefix(SUITE).partition("/")[0]
            if missing := lacking(name, game):
                found.append(f"suite {name} without what {game} lacks: {', '.join(missing)}.")
    return found


def _listed(
    specs: VariantSpec | Iterable[VariantSpec], game: str = DEFAULT_GAME
) -> Iterable[VariantSpec]:
    if isinstance(specs, str | Variant) or hasattr(specs, "keys"):
        specs = [specs]  # type: ignore[list-item]
    for spec in specs:
        if isinstance(spec, str) and spec.startswith(SUITE):
            yield from _suite(spec.removeprefix(SUITE), game)
        else:
            yield spec


def _suite(text: str, game: str) -> list[str]:
    """`published` is all of a suite's variants, `published/test` those of one split."""
    name, slash, split = text.partition("/")
    if name not in suites():
        raise unknown("suite", name, suites())
    parts = suite(name, game)
    if not slash:
        return [variant for part in parts.values() for variant in part]
    if split not in parts:
        raise unknown(f"split of suite '{name}'", split, parts)
    return parts[split]
