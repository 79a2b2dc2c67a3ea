"""Text that somebody else may have chosen, harmless where it is shown: terminal, Markdown, CSV.

Names, reasons and metrics come from files, and files from strangers. The page of a report escapes
its own HTML (jinja's autoescape); everything else that is printed or written for people to open
goes through here.
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

# control signs, signs that turn the direction of writing, line and paragraph ends, lone surrogates
UNSEEN = ("Cc", "Cf", "Cs", "Zl", "Zp")
FORMULA = ("=", "+", "-", "@", "\t", "\r")  # what makes a spreadsheet calculate
MARKED = re.compile(r"[\\`*|]")


def shown(text: object) -> str:
    """Text for a terminal, on one line: what could move the cursor or hide something is spelled."""
    words = re.sub(r"[ \t]*[\r\n]+[ \t]*", " ", str(text).strip("\r\n"))
    return "".join(c if unicodedata.category(c) not in UNSEEN else _spelled(c) for c in words)


def _spelled(sign: str) -> str:
    return " " if sign == "\t" else sign.encode("unicode_escape", "surrogatepass").decode()


def cell(text: object) -> str:
    """The same inside one of rich's tables, whose markup it must not be taken for."""
    from rich.markup import escape

    return escape(shown(text))


def markdown(text: str) -> str:
    """Text inside a Markdown table: no tags, no links, no pictures, no cell of its own."""
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    text = MARKED.sub(lambda sign: f"\\{sign[0]}", shown(text))
    return text.replace("](", "]\\(").replace("![", "!\\[")


def spreadsheet(frame: pd.DataFrame) -> pd.DataFrame:
    """A table whose texts no spreadsheet takes for a formula; numbers stay what they are."""
    safe = frame.map(_harmless)
    safe.columns = safe.columns.map(_harmless)
    return safe


def _harmless(value: Any) -> Any:
    if not isinstance(value, str) or not value.startswith(FORMULA):
        return value
    try:
        float(value)
    except ValueError:
        return f"'{value}"
    return value
