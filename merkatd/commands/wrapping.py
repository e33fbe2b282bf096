"""Prose on a screen: broken between words where the screen ends."""

import textwrap


def wrapped(text: str, cells: int | None, first: str = "", others: str = "") -> list[str]:
    """The lines of a text, each behind its indent; one line where there is no screen."""
    if cells is None:
        return [first + text]
    return textwrap.wrap(text, max(cells, 20), initial_indent=first, subsequent_indent=others) or [
        first.rstrip()
    ]
