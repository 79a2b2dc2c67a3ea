"""The one exception for wrong user input, and helpers that name the nearest right spelling."""

import difflib
from collections.abc import Iterable


class UserError(ValueError):
    """The user's input is wrong: the message is one sentence fit to print, without a traceback."""


def nearest(word: str, allowed: Iterable[str]) -> str:
    """Return " Did you mean 'x'?" for the closest allowed spelling, or an empty string."""
    hits = difflib.get_close_matches(str(word), list(allowed), n=1, cutoff=0.5)
    return f" Did you mean '{hits[0]}'?" if hits else ""


def unknown(kind: str, word: str, allowed: Iterable[str]) -> UserError:
    """Build the error for a name that is not among the allowed ones."""
    names = sorted(allowed)
    return UserError(
        f"unknown {kind} '{word}': choose from {', '.join(names)}.{nearest(word, names)}"
    )


def not_yaml(error: Exception) -> str:
    """Say where a YAML parser stopped: "is not YAML: line 3 is wrong (expected ']')."."""
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None)
    where = f": line {mark.line + 1} is wrong" if mark else ""
    return f"is not YAML{where}{f' ({problem})' if problem else ''}."
