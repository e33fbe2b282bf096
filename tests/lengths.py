"""The length of tests: `make test` runs the short form, `make soak` the whole one."""

import os
from collections.abc import Iterable, Sequence
from itertools import product
from typing import TypeVar

First = TypeVar("First")
Second = TypeVar("Second")

SOAK = "MERKAT_SOAK" in os.environ

EXAMPLES = 100 if SOAK else 20
"""The examples of a property that is cheap to break."""


def shorten(full: int, short: int) -> int:
    """Return the whole number in `make soak`, else the short one."""
    return full if SOAK else short


def pair(
    first: Iterable[First], second: Sequence[Second], at: int = 0
) -> list[tuple[First, Second]]:
    """Return every pair in `make soak`, else pair each of the first with one of the second.

    The second are used in turn, beginning with number `at`.
    """
    if SOAK:
        return list(product(first, second))
    return [(item, second[(at + row) % len(second)]) for row, item in enumerate(first)]
