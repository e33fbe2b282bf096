"""A sparkline: how a number went, in one line of characters."""

from collections.abc import Sequence

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
