"""Words on pictures of attention: the font, and lines broken so that nothing is cut off."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import matplotlib
from PIL import ImageFont

LINE = 20  # pixels of one line of text


@cache
def font(size: int) -> ImageFont.FreeTypeFont:
    """The font of all pictures, which matplotlib brings along."""
    place = Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf"
    return ImageFont.truetype(str(place), size)


def wrapped(text: str, width: int, size: int) -> list[str]:
    """Lines of at most `width` pixels, broken at blanks, else within a name, else anywhere."""
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        if _fits(longer, width, size):
            lines[-1] = longer
            continue
        first, *others = _pieces(word, width, size)
        lines = [*filter(None, lines), first, *others]
    return lines


def _pieces(word: str, width: int, size: int) -> list[str]:
    """A word cut to size, after one of _.:+@-/ where there is one."""
    pieces = [""]
    for part in re.findall(r"[^_.:+@/-]*[_.:+@/-]|[^_.:+@/-]+", word):
        letters = [part] if _fits(part, width, size) else list(part)
        for some in letters:
            if pieces[-1] and not _fits(pieces[-1] + some, width, size):
                pieces.append("")
            pieces[-1] += some
    return pieces


def _fits(text: str, width: int, size: int) -> bool:
    return bool(font(size).getlength(text) <= width)
