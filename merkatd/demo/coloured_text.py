"""Lines of coloured text: pieces, cut and filled to a width, and small pictures made of letters."""

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

_TENANTS = ("44;97", "42;30", "45;97", "43;30", "46;30", "41;97", "47;30", "100;97")
_BLOCKS = " ▁▂▃▄▅▆▇█"
_ELLIPSIS = "…"


@dataclass(frozen=True, slots=True)
class Piece:
    """Some text in one style, given as the numbers of an SGR sequence."""

    text: str
    style: str = PLAIN


Line = tuple[Piece, ...]


def tenant_style(tenant: int) -> str:
    """The colours of a tenant of the cast; none for anybody else."""
    return _TENANTS[tenant % len(_TENANTS)] if tenant >= 0 else TITLE


def tenant_letter(name: str) -> str:
    """What stands for a tenant where there are no colours."""
    return name[:1].upper() or "?"


def length(line: Line) -> int:
    """Columns that a line takes."""
    return sum(len(piece.text) for piece in line)


def fitted(line: Iterable[Piece], width: int) -> Line:
    """The line in exactly so many columns: filled with blanks, or cut and marked as cut."""
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
    """Names are anybody's choice: none of them is to move the cursor."""
    return text if text.isprintable() else "".join(c if c.isprintable() else "?" for c in text)


def bare(line: Line) -> str:
    """The text alone."""
    return "".join(piece.text for piece in line)


def painted(line: Line) -> str:
    """The text with its colours, as a terminal takes it."""
    return "".join(
        f"\x1b[{piece.style}m{piece.text}\x1b[0m" if piece.style else piece.text for piece in line
    )


def chart(values: Sequence[float], width: int, height: int) -> list[str]:
    """The newest values as columns of blocks, from nought to the greatest, in so many rows."""
    shown = [value if math.isfinite(value) else 0.0 for value in values[-width:]] if width else []
    most = max(shown, default=0.0) or 1.0
    eighths = [round(value / most * height * 8) for value in shown]
    rows = [
        "".join(_BLOCKS[min(max(one - row * 8, 0), 8)] for one in eighths)
        for row in reversed(range(height))
    ]
    # Something stands in every column, so that a price of nothing is seen as well.
    rows[-1] = rows[-1].replace(" ", _BLOCKS[1])
    return rows


def progress(done: float, passed: float, width: int) -> Line:
    """A bar of what is done, with a mark where the time is: what lacks to it is coloured."""
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
    """The text in lines, the first of so many columns, the others of as many as they have."""
    lines, room, others = [], max(first, 1), max(others, 1)
    while len(text) > room:
        cut = text.rfind(" ", 1, room + 1)
        cut = cut if cut > 0 else room
        lines.append(text[:cut])
        text, room = text[cut:].lstrip(), others
    return [*lines, text]


@dataclass(frozen=True, slots=True)
class BarPart:
    """A part of a bar."""

    amount: float
    letter: str
    style: str


def shares(parts: Sequence[BarPart], capacity: float, width: int) -> Line:
    """A bar in which each part has its length, and begins with a capital letter."""
    pieces: list[Piece] = []
    sum_, at = 0.0, 0
    for part in parts:
        sum_ += part.amount
        end = min(round(sum_ / capacity * width), width) if capacity > 0 else 0
        if end > at:
            pieces.append(Piece(_labelled(part, end - at), part.style))
            at = end
    pieces.append(Piece("·" * (width - at), FAINT))
    return tuple(piece for piece in pieces if piece.text)


def _labelled(part: BarPart, width: int) -> str:
    """The letter, repeated, with the amount in the middle where there is room."""
    fill = part.letter + part.letter.lower() * (width - 1)
    label = f" {part.amount:.2g} " if 0 < part.amount < 1 else f" {part.amount:.0f} "
    if width < len(label) + 3:
        return fill
    start = (width - len(label) + 1) // 2
    return fill[:start] + label + fill[start + len(label) :]
