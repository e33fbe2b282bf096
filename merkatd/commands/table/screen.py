"""Text on a screen: how wide it is there, cut to a width, and free of what a terminal obeys."""

import unicodedata


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
