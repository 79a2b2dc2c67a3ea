"""Keys that parts have gained since: a configuration that lacks them stands for their defaults.

Runs of an older version and of this one are compared, continued and named by what they compute.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

GAINED: dict[str, dict[str, Any]] = {
    "encoder": {"input": "frames", "contrast": 0, "threshold": 0.0},
    "attention": {"opening": None, "hard": None, "optimizer": None},
}


def completed(part: str, spec: Any) -> Any:
    """A part's spec with the keys it has gained; nothing stays nothing."""
    if not isinstance(spec, Mapping) or not spec:
        return spec
    return {**GAINED.get(part, {}), **spec}
