"""Variants: every declared change of the game's picture or physics, and the suites of them."""

from reprl.envs.variation.base import Effect, Machine, Part, Variant
from reprl.envs.variation.lookup import find, variants
from reprl.envs.variation.suites import suite, suites

__all__ = ["Effect", "Machine", "Part", "Variant", "find", "suite", "suites", "variants"]
