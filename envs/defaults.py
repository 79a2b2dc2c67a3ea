"""What is meant where nothing is named: the game, and the variant that leaves it as it is."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

DEFAULT_GAME = "breakout"
GYMNASIUM = "gymnasium/"  # begins the names of games that are environments of gymnasium
PROCGEN = "procgen/"  # begins the names of Procgen's games
CLEAN = "original"  # the unchanged game, which every gap is measured from

# Settings that came later, with what an environment does without them: files of older versions do
# not have them, and newer files hold only what differs.
LATER: Mapping[str, Any] = MappingProxyType(
    {
        "background": None,
        "observation": "frames",
        "missed": 0.0,
        "mislabelled": 0.0,
        "shifted": 0,
        "gray": True,
        "skip": 4,
        "levels": 200,
        "start_level": 0,
        "distribution": "easy",
        "continuous": False,
    }
)
TRUTH_NOISE = ("missed", "mislabelled", "shifted")


def without_later(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as files hold them: later ones only where they are not what was done before."""
    return {k: v for k, v in settings.items() if k not in LATER or v != LATER[k]}
