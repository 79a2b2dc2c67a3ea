"""The only checker of numbers, words and flags: what a key allows, and the sentence that refuses.

`reprl/settings.py` declares with these what our own settings allow; the configuration reads it
before torch is imported, the constructors read it again. Values may be numpy's, what is returned
is Python's own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any, Protocol

from reprl.errors import UserError, nearest


class Setting(Protocol):
    """What one key allows."""

    def __str__(self) -> str:
        """What is allowed, in words that follow "must be"."""

    def checked(self, key: str, value: Any) -> Any:
        """The value as it is used, or a UserError with key, value and what is allowed."""


@dataclass(frozen=True)
class Number:
    """Finite numbers within limits, and within them those nobody wonders about."""

    low: float = -math.inf
    high: float = math.inf
    usual: tuple[float, float] = (-math.inf, math.inf)
    open_low: bool = False  # the limit itself is not allowed
    open_high: bool = False
    whole: bool = False  # also written as 1e5
    optional: bool = False  # None is allowed
    scheduled: bool = False  # a schedule's spec is allowed
    word: str | None = None  # allowed instead of a number
    meaning: str = ""  # of the limits, where they depend on another value

    def __str__(self) -> str:
        kind = "a whole number" if self.whole else "a number"
        if self.scheduled:
            kind += " or a schedule"
        if self.word is not None:
            kind = f"{self.word} or {kind}"
        limits = self.limits
        if limits.startswith("at"):
            limits = f"of {limits}"
        if not limits:
            kind = kind.replace("a number", "a finite number")
        return " ".join(filter(None, (kind, limits, self.meaning and f"({self.meaning})")))

    @property
    def limits(self) -> str:
        """The limits in words, empty where there are none."""
        low, high = _plain(self.low), _plain(self.high)
        if math.isfinite(self.low) and math.isfinite(self.high):
            if not self.open_low and not self.open_high:
                return f"from {low} to {high}"
            upper = f"below {high}" if self.open_high else f"at most {high}"
            return f"{f'above {low}' if self.open_low else f'at least {low}'} and {upper}"
        if math.isfinite(self.low):
            return f"above {low}" if self.open_low else f"at least {low}"
        if math.isfinite(self.high):
            return f"below {high}" if self.open_high else f"at most {high}"
        return ""

    def checked(self, key: str, value: Any) -> Any:
        if (value is None and self.optional) or (isinstance(value, str) and value == self.word):
            return value
        if self.scheduled and isinstance(value, Mapping):
            return self._checked_schedule(key, value)
        is_number = isinstance(value, Real) and not isinstance(value, bool)
        if not is_number or not self.contains(value):
            raise UserError(f"{key}={_shown(value)} must be {self}.")
        if self.whole:
            return int(value)  # type: ignore[call-overload]
        return value if isinstance(value, int | float) else float(value)

    def contains(self, value: Any) -> bool:
        """Whether a number is finite, whole where it must be, and within the limits."""
        exact = isinstance(value, Integral)  # may be too large for a float
        if not exact and (not math.isfinite(value) or (self.whole and value != int(value))):
            return False
        above = value > self.low if self.open_low else value >= self.low
        below = value < self.high if self.open_high else value <= self.high
        return bool(above and below)

    def _checked_schedule(self, key: str, spec: Mapping[str, Any]) -> dict[str, Any]:
        from reprl.schedules import (  # they check their own numbers with this module
            TARGET,
            require_target,
            schedule,
            values_of,
        )

        if TARGET in spec:  # one of the user's own: built, and so imported, with the agent
            require_target(spec, key)
            return dict(spec)
        schedule(spec, name=key)
        number = replace(self, scheduled=False)
        for name, value in values_of(spec).items():
            # it may fall to the limit that no value may begin at
            first = name in ("start", "points[0]")
            (number if first else replace(number, open_low=False)).checked(f"{key}.{name}", value)
        return dict(spec)


@dataclass(frozen=True)
class OneOf:
    """One of several words."""

    words: tuple[str, ...]
    optional: bool = False

    def __str__(self) -> str:
        return f"one of {', '.join(self.words)}"

    def checked(self, key: str, value: Any) -> Any:
        return value if value is None and self.optional else choice(key, value, self.words)


@dataclass(frozen=True)
class Flag:
    """True or false."""

    optional: bool = False  # None is allowed

    def __str__(self) -> str:
        return "true or false"

    def checked(self, key: str, value: Any) -> bool | None:
        return None if value is None and self.optional else flag(key, value)


@dataclass(frozen=True)
class Span:
    """A range [from, to] within a number's limits, both ends included; one number is both ends."""

    ends: Number

    def __str__(self) -> str:
        kind = "whole numbers" if self.ends.whole else "numbers"
        return f"a range [from, to] of {kind} {self.ends.limits}"

    def checked(self, key: str, value: Any) -> tuple[Any, Any]:
        pair = [value, value] if isinstance(value, Real) else value
        try:
            first, last = (self.ends.checked(key, end) for end in pair)
        except (TypeError, ValueError):
            first, last = 1, 0
        if first > last:
            raise UserError(f"{key}={_shown(value)} must be {self}.")
        return first, last


@dataclass(frozen=True)
class Numbers:
    """A list of numbers within limits, such as the widths of layers."""

    each: Number
    example: str
    count: int | None = None  # how many, where that is fixed
    optional: bool = False

    def __str__(self) -> str:
        kind = "whole numbers" if self.each.whole else "numbers"
        kind = kind if self.count is None else f"{self.count} {kind}"
        return f"a list of {kind} of {self.each.limits}, such as {self.example}"

    def checked(self, key: str, value: Any) -> Any:
        if value is None and self.optional:
            return None
        if isinstance(value, str) or not isinstance(value, Sequence):
            raise UserError(f"{key}={_shown(value)} must be {self}.")
        if self.count not in (None, len(value)):
            raise UserError(f"{key}={_shown(value)} must be {self}.")
        return [self.each.checked(key, each) for each in value]


@dataclass(frozen=True)
class Window:
    """The side of a window around a pixel: odd, or 0 for none."""

    def __str__(self) -> str:
        return "0 (off) or an odd whole number of at least 3"

    def checked(self, key: str, value: Any) -> int:
        real = isinstance(value, Real) and not isinstance(value, bool)
        if not real or not (value == 0 or (value >= 3 and value % 2 == 1)):
            raise UserError(f"{key}={_shown(value)} must be {self}.")
        return int(value)


@dataclass(frozen=True)
class Address:
    """Where a Ray cluster is: `auto` is the one of this machine, null starts one."""

    def __str__(self) -> str:
        return "auto or the HOST:PORT of a Ray cluster"

    def checked(self, key: str, value: Any) -> str | None:
        if value is None or value == "auto":
            return value
        host, _, port = str(value).removeprefix("ray://").rpartition(":")
        if not isinstance(value, str) or not host or not port.isdigit():
            raise UserError(f"{key}={_shown(value)} must be {self}.")
        return value


Settings = Mapping[str, Setting]


def checker(settings: Settings, owner: object = "") -> Callable[[str, Any], Any]:
    """How a constructor checks its arguments: `check("tau", tau)`.

    The owner is the object they are meant for, or the section of the configuration.
    """
    if isinstance(owner, str):
        prefix = f"{owner}." if owner else ""
    else:  # which may not be built yet: nothing but its class is asked for
        prefix = f"{type(owner).__name__}: "

    def check(key: str, value: Any) -> Any:
        return settings[key].checked(prefix + key, value)

    return check


def number(key: str, value: Any, low: float = -math.inf, high: float = math.inf) -> float:
    """A finite number between two limits, both allowed."""
    return float(Number(low, high).checked(key, value))


def whole(
    key: str, value: Any, low: float = -math.inf, high: float = math.inf, meaning: str = ""
) -> int:
    """A whole number between two limits, both allowed."""
    return int(Number(low, high, whole=True, meaning=meaning).checked(key, value))


def flag(key: str, value: Any) -> bool:
    """True or False."""
    if not isinstance(value, bool):
        raise UserError(f"{key}={_shown(value)} must be true or false.")
    return value


def choice(key: str, value: Any, allowed: Iterable[str]) -> str:
    """One of the allowed words."""
    words = list(allowed)
    if not isinstance(value, str) or value not in words:
        shown = _shown(value)
        raise UserError(
            f"{key}={shown} is unknown: choose from {', '.join(words)}.{nearest(shown, words)}"
        )
    return value


def _plain(limit: float) -> str:
    return str(limit) if isinstance(limit, int) else f"{limit:g}"


def _shown(value: Any) -> str:
    lines = str(value).splitlines()  # an array's repr has several
    return lines[0] if len(lines) == 1 else repr(value).replace("\n", " ")
