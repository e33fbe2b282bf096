"""Text for a screen: cut, wrapped and without control characters; sparklines."""

import textwrap
import unicodedata
from collections.abc import Sequence


def plain(text: str) -> str:
    """Return the text on one line without control characters: tenants choose the names in it."""
    if text.isascii() and text.isprintable():
        return text
    return "".join("?" if _is_obeyed(unicodedata.category(char)) else char for char in text)


def _is_obeyed(category: str) -> bool:
    """Return whether a terminal may interpret the character: control, line or paragraph break."""
    return category[0] == "C" or category in {"Zl", "Zp"}


def width(text: str) -> int:
    """Return the number of terminal cells that the text occupies."""
    if text.isascii():
        return len(text)
    return sum(_cells(char) for char in text)


def _cells(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def cut(text: str, cells: int) -> str:
    """Return the start of the text that fits, with an ellipsis if something is missing."""
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
    """Return the text filled up to the width with blanks."""
    blanks = " " * max(cells - width(text), 0)
    return blanks + text if right else text + blanks


_LEVELS = "▁▂▃▄▅▆▇█"
_GAP = " "


def spark(values: Sequence[float | None], most: int = 30) -> str:
    """Return a sparkline of the newest `most` values, scaled from their least to their greatest.

    A gap stands for None (no price). A line of equal values is flat and low.
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
    """Return the lines of a text, indented; a single line if `cells` is None."""
    if cells is None:
        return [first + text]
    return textwrap.wrap(text, max(cells, 20), initial_indent=first, subsequent_indent=others) or [
        first.rstrip()
    ]
