"""Text on a screen: cut, wrapped, free of control characters; sparklines."""

import textwrap
import unicodedata
from collections.abc import Sequence


def plain(text: str) -> str:
    """The same on one line and without control characters: names come from strangers."""
    if text.isascii() and text.isprintable():
        return text
    return "".join("?" if _is_obeyed(unicodedata.category(char)) else char for char in text)


def _is_obeyed(category: str) -> bool:
    """Control characters, and the separators of lines and paragraphs."""
    return category[0] == "C" or category in {"Zl", "Zp"}


def width(text: str) -> int:
    """How many cells of a terminal it takes."""
    if text.isascii():
        return len(text)
    return sum(_cells(char) for char in text)


def _cells(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def cut(text: str, cells: int) -> str:
    """As much of it as fits, with an ellipsis where something is missing."""
    if width(text) <= cells:
        return text
    if cells < 1:
        return ""
    kept, left = [], cells - 1
    for char in text:
        left -= _cells(char)
        if left < 0:
            break
        kept.append(char)
    return "".join(kept) + "…"


def padded(text: str, cells: int, *, right: bool) -> str:
    """Filled up to the width with blanks."""
    blanks = " " * max(cells - width(text), 0)
    return blanks + text if right else text + blanks


_LEVELS = "▁▂▃▄▅▆▇█"
_GAP = " "


def spark(values: Sequence[float | None], most: int = 30) -> str:
    """The newest `most` values, each between the least and the greatest of them.

    A gap stands for None, where there was no price. One that never changed is flat, and low.
    """
    shown = list(values)[-most:]
    known = [value for value in shown if value is not None]
    if not known:
        return ""
    least, greatest = min(known), max(known)
    span = greatest - least
    if span <= abs(greatest) * 1e-12:
        return "".join(_GAP if value is None else _LEVELS[0] for value in shown)
    top = len(_LEVELS) - 1
    return "".join(
        _GAP if value is None else _LEVELS[round((value - least) / span * top)] for value in shown
    )


def wrapped(text: str, cells: int | None, first: str = "", others: str = "") -> list[str]:
    """The lines of a text, each behind its indent; one line where there is no screen."""
    if cells is None:
        return [first + text]
    return textwrap.wrap(text, max(cells, 20), initial_indent=first, subsequent_indent=others) or [
        first.rstrip()
    ]
