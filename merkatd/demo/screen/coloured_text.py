"""Coloured lines of text: pieces, cut or filled to a width, with charts and bars of characters."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

PLAIN = ""
BOLD = "1"
FAINT = "2"
TITLE = "7"
GOOD = "32"
BAD = "1;31"
WARN = "33"

_BLOCKS = " ▁▂▃▄▅▆▇█"
_ELLIPSIS = "…"


@dataclass(frozen=True, slots=True)
class Piece:
    """A text with a style: the numbers of an SGR sequence."""

    text: str
    style: str = PLAIN


Line = tuple[Piece, ...]


def tenant_letter(name: str) -> str:
    """Return the letter that marks a tenant, also without colours."""
    return name[:1].upper() or "?"


def length(line: Line) -> int:
    """Return the number of columns of a line."""
    return sum(len(piece.text) for piece in line)


def fitted(line: Iterable[Piece], width: int) -> Line:
    """Return the line with exactly `width` columns: filled with blanks, or cut with an ellipsis."""
    pieces = tuple(Piece(_printable(piece.text), piece.style) for piece in line)
    missing = width - length(pieces)
    if missing >= 0:
        return (*pieces, Piece(" " * missing)) if missing else pieces
    kept: list[Piece] = []
    left = max(width - 1, 0)
    for piece in pieces:
        text = piece.text[:left]
        left -= len(text)
        if len(text) < len(piece.text):
            mark = _ELLIPSIS if width > 0 else ""
            return (*kept, Piece(text + mark, piece.style))
        kept.append(piece)
    return tuple(kept)


def _printable(text: str) -> str:
    """Return the text with unprintable characters replaced: a name must not move the cursor."""
    return text if text.isprintable() else "".join(c if c.isprintable() else "?" for c in text)


def bare(line: Line) -> str:
    """Return the text of a line without colours."""
    return "".join(piece.text for piece in line)


def painted(line: Line) -> str:
    """Return the text of a line with escape sequences for colours."""
    return "".join(
        f"\x1b[{piece.style}m{piece.text}\x1b[0m" if piece.style else piece.text for piece in line
    )


def chart(values: Sequence[float], width: int, height: int) -> list[str]:
    """Return the newest values as columns of blocks, scaled from 0 to their maximum."""
    shown = [value if math.isfinite(value) else 0.0 for value in values[-width:]] if width else []
    most = max(shown, default=0.0) or 1.0
    eighths = [round(value / most * height * 8) for value in shown]
    rows = [
        "".join(_BLOCKS[min(max(height - row * 8, 0), 8)] for height in eighths)
        for row in reversed(range(height))
    ]
    # Each column has at least a low block, so that a price of 0 is visible.
    rows[-1] = rows[-1].replace(" ", _BLOCKS[1])
    return rows


def progress(done: float, passed: float, width: int) -> Line:
    """Return a bar of the work done with a mark at the time passed; the missing part is red."""
    full = round(min(max(done, 0.0), 1.0) * width)
    mark = min(int(min(max(passed, 0.0), 1.0) * width), width - 1)
    cells = ["█" if at < full else "░" if at < mark else "·" for at in range(width)]
    cells[mark] = "┃"
    late = full < mark
    return (
        Piece("".join(cells[: min(full, mark)]), GOOD),
        Piece("".join(cells[min(full, mark) : mark]), BAD),
        Piece(cells[mark], BOLD),
        Piece("".join(cells[mark + 1 :]), FAINT if late else GOOD),
    )


def wrapped(text: str, first: int, others: int) -> list[str]:
    """Return the text in lines: the first of at most `first` columns, the others of `others`."""
    lines, room, others = [], max(first, 1), max(others, 1)
    while len(text) > room:
        cut = text.rfind(" ", 1, room + 1)
        cut = cut if cut > 0 else room
        lines.append(text[:cut])
        text, room = text[cut:].lstrip(), others
    return [*lines, text]
