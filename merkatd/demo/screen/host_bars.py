"""The bars of hosts: a block for each VM, solid in colours, or of letters without colours."""

from collections.abc import Sequence
from dataclasses import dataclass

from merkatd.demo.screen.coloured_text import FAINT, Line, Piece
from merkatd.demo.screen.terminal_colours import Colours, tenant_style

_EDGE = "▏"
"""The first column of a block if the terminal has too few colours for two shades of a tenant's."""


@dataclass(frozen=True, slots=True)
class BarPart:
    """A part of a bar, for a VM."""

    amount: float
    letter: str
    """The first letter of the owner's name, as a capital letter."""
    tenant: int
    name: str = ""


def shares(
    parts: Sequence[BarPart], capacity: float, width: int, colours: Colours = Colours.NONE
) -> Line:
    """Return a bar with a block for each part, as wide as its part of the capacity."""
    pieces: list[Piece] = []
    sum_, at, shade, before = 0.0, 0, 0, None
    for part in parts:
        sum_ += part.amount
        end = round(min(sum_ / capacity, 1.0) * width) if capacity > 0 else 0
        if end <= at:
            continue
        shade = 1 - shade if part.tenant == before else 0
        if colours is Colours.NONE:
            pieces.append(Piece(_letters(part, end - at)))
        else:
            edge = "" if colours is Colours.MANY or part.tenant != before else _EDGE
            style = tenant_style(part.tenant, colours, shade)
            pieces.append(Piece(edge + _block(part, end - at - len(edge)), style))
        at, before = end, part.tenant
    pieces.append(Piece("·" * (width - at), FAINT))
    return tuple(piece for piece in pieces if piece.text)


def _block(part: BarPart, width: int) -> str:
    """Return blanks with the VM's name and amount in the middle, or as much of them as fits."""
    amount = amount_text(part.amount)
    return next(
        (label.center(width) for label in _labels(part, amount) if len(label) <= width), " " * width
    )


def _labels(part: BarPart, amount: str) -> Sequence[str]:
    """Return the labels of a block, the longest first."""
    if not part.name:
        return (f" {amount} ", amount)
    head = part.name.rstrip("0123456789")
    short = part.letter + part.name[len(head) :]
    return (f" {part.name} {amount} ", f"{part.name} {amount}", part.name, short, part.letter)


def amount_text(amount: float) -> str:
    """Return an amount in whole units, or with two digits below 1."""
    return f"{amount:.2g}" if 0 < amount < 1 else f"{amount:.0f}"


def _letters(part: BarPart, width: int) -> str:
    """Return the repeated letter, with the amount in the middle if there is room."""
    fill = part.letter + part.letter.lower() * (width - 1)
    label = f" {amount_text(part.amount)} "
    if width < len(label) + 3:
        return fill
    start = (width - len(label) + 1) // 2
    return fill[:start] + label + fill[start + len(label) :]
