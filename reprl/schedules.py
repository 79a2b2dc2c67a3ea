"""Numbers that change over training: plain data in, a function of the remaining progress out.

Learning rate, clip range, entropy and value coefficients and the weights of auxiliary terms are
all given as a number, as `{"kind": "linear", "start": 2.5e-4, "end": 0.0, "warmup": 0.05}`, or as
one of the user's own, `{"_target_": "my_module.Decay", ...}`.
`{"kind": "piecewise", "points": [[0, 1e-3], [0.5, 1e-4], [1, 0]]}` goes straight from one point to
the next, `{"kind": "one_cycle", "start": 4e-5, "peak": 1e-3, "end": 0, "peak_at": 0.3}` up and down
on cosines.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from itertools import pairwise
from numbers import Real
from typing import Any

from reprl.errors import UserError, unknown
from reprl.validation import Number, choice, number

KINDS = ("constant", "linear", "cosine", "piecewise", "one_cycle")
KEYS = ("kind", "start", "end", "warmup", "points", "peak", "peak_at")
# keys that belong to one kind only
OF_KIND = {"points": "piecewise", "peak": "one_cycle", "peak_at": "one_cycle"}
TARGET, PARTIAL, FACTOR = "_target_", "_partial_", "_factor_"  # of a schedule of the user's own
# schedules that a folder from somebody else may name; what else is installed with us may act
STOCK = (
    "reprl.schedules.Schedule",
    *(f"stable_baselines3.common.utils.{kind}Schedule" for kind in ("Constant", "Linear")),
)


Coefficient = float | dict[str, Any]  # a number, or a spec for `schedule`
WARMUP = Number(0, 1, open_high=True)
PEAK_AT = Number(0, 1, open_low=True, open_high=True)


class Schedule:
    """A value over training, called as SB3 does: with 1 at the start and 0 at the end.

    `warmup` is the fraction of training in which the value climbs from 0 to `start`; the rest of
    training then belongs to the schedule's own shape.
    """

    def __init__(
        self,
        *,
        kind: str = "constant",
        start: float | None = None,
        end: float | None = None,
        warmup: float = 0.0,
        points: Any = None,
        peak: float | None = None,
        peak_at: float = 0.3,
        name: str = "schedule",
    ) -> None:
        choice(f"{name}.kind", kind, KINDS)
        self.points: list[tuple[float, float]] = []  # fraction of training done, value
        self.peak_at = 0.0
        if kind == "piecewise":
            self.points = _checked_points(points, name)
            start, end = self.points[0][1], self.points[-1][1]
        if kind == "one_cycle":
            if peak is None:
                raise UserError(f"{name}: a one_cycle schedule needs peak, its largest value.")
            self.peak = number(f"{name}.peak", peak)
            self.peak_at = float(PEAK_AT.checked(f"{name}.peak_at", peak_at))
        if (self.points or self.peak_at) and warmup:
            raise UserError(f"{name}: a {kind} schedule begins as it says, without warmup.")
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
        if self.points:
            return _between(self.points, done)
        if self.peak_at:
            rising = done < self.peak_at
            low = self.start if rising else self.end
            share = done / self.peak_at if rising else (1.0 - done) / (1.0 - self.peak_at)
            return low + (self.peak - low) * 0.5 * (1.0 - math.cos(math.pi * share))
        if self.kind == "cosine":
            left = 0.5 * (1.0 - math.cos(math.pi * left))
        return self.end + (self.start - self.end) * left

    def plain(self) -> dict[str, Any]:
        """The spec that builds this schedule again."""
        if self.points:
            return {"kind": self.kind, "points": [list(point) for point in self.points]}
        if self.peak_at:
            ends = {"start": self.start, "end": self.end}
            return {"kind": self.kind, **ends, "peak": self.peak, "peak_at": self.peak_at}
        spec: dict[str, Any] = {"kind": self.kind, "start": self.start, "warmup": self.warmup}
        return spec if self.kind == "constant" else spec | {"end": self.end}

    def __repr__(self) -> str:
        return f"Schedule({self.plain()})"


class OwnSchedule(Schedule):
    """A schedule by the path of its class, or of a function that returns one.

    It is called with the spec's other keys, and what that gives with the remaining progress, as SB3
    does; with `_partial_: true` the function itself is the schedule and the keys are its arguments.
    """

    def __init__(self, spec: Mapping[str, Any], *, name: str = "schedule") -> None:
        require_target(spec, name)
        self.spec, self.name, self.kind = dict(spec), name, "own"
        self.factor = number(f"{name}.{FACTOR}", spec.get(FACTOR, 1.0))
        self.function = _made(self.spec, name)
        self.start, self.end, self.warmup = self(1.0), self(0.0), 0.0

    def __call__(self, progress_remaining: float) -> float:
        value: Any = self.function(max(progress_remaining, 0.0))
        if not isinstance(value, Real) or isinstance(value, bool) or not math.isfinite(value):
            raise UserError(
                f"{self.name}: {self.spec[TARGET]} gave {value!r} where {progress_remaining:g} of "
                "training remains, and a schedule gives finite numbers."
            )
        return self.factor * float(value)

    def plain(self) -> dict[str, Any]:
        return dict(self.spec)


def require_target(spec: Mapping[str, Any], name: str) -> None:
    """Refuse, without importing anything, what cannot be the spec of a schedule of one's own."""
    path = spec.get(TARGET)
    if not isinstance(path, str) or not path.replace(":", ".").strip(".").count("."):
        raise UserError(
            f"{name}.{TARGET}={path} must be the path of a class or function, such as "
            "my_module.Decay."
        )


def _made(spec: Mapping[str, Any], name: str) -> Callable[[float], Any]:
    from reprl import trust
    from reprl.components import described, imported  # they ask here what a schedule is

    path = str(spec[TARGET])
    if path not in STOCK:
        trust.require_named(
            path.partition(":")[0] if ":" in path else path.rpartition(".")[0], path
        )
    arguments = {k: v for k, v in spec.items() if k not in (TARGET, PARTIAL, FACTOR)}
    try:
        target = imported(path)
        made = partial(target, **arguments) if spec.get(PARTIAL) else target(**arguments)
    except UserError:
        raise
    except Exception as error:
        raise UserError(f"{name}: {TARGET} '{path}': {described(error)}") from error
    if not callable(made):
        raise UserError(
            f"{name}: {TARGET} '{path}' gave {type(made).__name__}, which cannot be called with "
            f"the remaining progress; a function of it is given with {PARTIAL}: true."
        )
    return made


def _checked_points(points: Any, name: str) -> list[tuple[float, float]]:
    """[[0, a], ..., [1, b]]: fractions of training that rise from 0 to 1, each with its value."""
    pairs = points if isinstance(points, list | tuple) else []
    if len(pairs) < 2 or any(not isinstance(p, list | tuple) or len(p) != 2 for p in pairs):
        raise UserError(
            f"{name}.points={points!r} must be pairs of a fraction of training and a value, such "
            "as [[0, 1e-3], [0.5, 1e-4], [1, 0]]."
        )
    found = [(number(f"{name}.points", at, 0, 1), number(f"{name}.points", v)) for at, v in pairs]
    places = [at for at, _ in found]
    if places[0] != 0 or places[-1] != 1 or sorted(set(places)) != places:
        raise UserError(f"{name}.points={points!r}: the fractions must rise from 0 to 1.")
    return found


def _between(points: list[tuple[float, float]], done: float) -> float:
    for (left, low), (right, high) in pairwise(points):
        if done <= right:
            return low + (high - low) * (done - left) / (right - left)
    return points[-1][1]


def values_of(spec: Mapping[str, Any]) -> dict[str, float]:
    """The values a schedule's spec names, by their keys: those that a range is asked of."""
    found = {key: spec[key] for key in ("start", "peak", "end") if spec.get(key) is not None}
    if isinstance(points := spec.get("points"), list | tuple):
        found |= {f"points[{k}]": value for k, (_, value) in enumerate(points)}
    return found


def is_spec(value: Any) -> bool:
    """Whether a value is meant as a schedule's spec rather than a number or a function."""
    return isinstance(value, Mapping)


def schedule(value: Any, *, name: str = "schedule") -> Schedule:
    """Build a schedule from a number or a spec."""
    if isinstance(value, Schedule):
        return value
    if not isinstance(value, Mapping):
        return Schedule(start=number(name, value), name=name)
    if TARGET in value:
        return OwnSchedule(value, name=name)
    for key in value:
        if key not in KEYS:
            raise unknown(f"{name} key", str(key), KEYS)
    kind = value.get("kind")
    for key, of in OF_KIND.items():
        if key in value and kind != of:
            raise UserError(f"{name}.{key} is for kind={of}, got kind={kind}.")
    if kind == "piecewise":
        for key in ("start", "end"):
            if key in value:
                raise UserError(f"{name}.{key}: a piecewise schedule has points only.")
    elif "start" not in value:
        raise UserError(f"{name}: a schedule needs start, got {dict(value)!r}.")
    return Schedule(**{"kind": "linear" if "end" in value else "constant", **value}, name=name)


def scaled(value: Coefficient, factor: float = 1.0) -> Coefficient:
    """A number or a schedule's whole spec, times the factor it is nested in."""
    if not isinstance(value, Mapping):
        return factor * float(value)
    if TARGET in value:
        return {**value, FACTOR: factor * float(value.get(FACTOR, 1.0))}
    spec = schedule(value).plain()
    if "points" in spec:
        return spec | {"points": [[at, factor * number] for at, number in spec["points"]]}
    return spec | {end: factor * spec[end] for end in ("start", "peak", "end") if end in spec}
