"""Numbers that change over training: plain data in, a function of the remaining progress out.

Learning rate, clip range, entropy and value coefficients and the weights of auxiliary terms are
all given as a number or as `{"kind": "linear", "start": 2.5e-4, "end": 0.0, "warmup": 0.05}`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from reprl.errors import UserError, unknown
from reprl.validation import Number, choice, number

KINDS = ("constant", "linear", "cosine")
KEYS = ("kind", "start", "end", "warmup")


Coefficient = float | dict[str, Any]  # a number, or a spec for `schedule`
WARMUP = Number(0, 1, open_high=True)


class Schedule:
    """A value over training, called as SB3 does: with 1 at the start and 0 at the end.

    `warmup` is the fraction of training in which the value climbs from 0 to `start`; the rest of
    training then belongs to the schedule's own shape.
    """

    def __init__(
        self,
        *,
        kind: str = "constant",
        start: float,
        end: float | None = None,
        warmup: float = 0.0,
        name: str = "schedule",
    ) -> None:
        choice(f"{name}.kind", kind, KINDS)
        if kind == "constant" and end is not None:
            raise UserError(f"{name}: a constant schedule has no end, got end={end!r}.")
        self.kind = kind
        self.start = number(f"{name}.start", start)
        self.end = self.start if kind == "constant" else number(f"{name}.end", end or 0.0)
        self.warmup = float(WARMUP.checked(f"{name}.warmup", warmup))

    def __call__(self, progress_remaining: float) -> float:
        # The last rollout may end beyond the last step: a rate or clip range below 0 would undo.
        progress_remaining = max(progress_remaining, 0.0)
        done = 1.0 - progress_remaining
        if done < self.warmup:
            return self.start * done / self.warmup
        # Without warm-up the SB3 idiom `progress * value` must come out with the same bits.
        left = progress_remaining / (1.0 - self.warmup) if self.warmup else progress_remaining
        if self.kind == "constant":
            return self.start
        if self.kind == "cosine":
            left = 0.5 * (1.0 - math.cos(math.pi * left))
        return self.end + (self.start - self.end) * left

    def plain(self) -> dict[str, Any]:
        """The spec that builds this schedule again."""
        spec: dict[str, Any] = {"kind": self.kind, "start": self.start, "warmup": self.warmup}
        return spec if self.kind == "constant" else spec | {"end": self.end}

    def __repr__(self) -> str:
        return f"Schedule({self.plain()})"


def is_spec(value: Any) -> bool:
    """Whether a value is meant as a schedule's spec rather than a number or a function."""
    return isinstance(value, Mapping)


def schedule(value: Any, *, name: str = "schedule") -> Schedule:
    """Build a schedule from a number or a spec."""
    if isinstance(value, Schedule):
        return value
    if not isinstance(value, Mapping):
        return Schedule(start=number(name, value), name=name)
    for key in value:
        if key not in KEYS:
            raise unknown(f"{name} key", str(key), KEYS)
    if "start" not in value:
        raise UserError(f"{name}: a schedule needs start, got {dict(value)!r}.")
    return Schedule(**{"kind": "linear" if "end" in value else "constant", **value}, name=name)


def scaled(value: Coefficient, factor: float = 1.0) -> Coefficient:
    """A number or a schedule's whole spec, times the factor it is nested in."""
    if not isinstance(value, Mapping):
        return factor * float(value)
    spec = schedule(value).plain()
    return spec | {end: factor * spec[end] for end in ("start", "end") if end in spec}
