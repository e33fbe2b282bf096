"""Credits, which people speak of, and whole micro-credits, which are kept."""

import math

MICRO = 1_000_000
"""Micro-credits in a credit."""

MOST_CREDITS = 4e12
"""No amount is larger: sums of them still fit what a database counts."""


def micro(amount: float) -> int:
    """The nearest whole micro-credits; ValueError where that is no amount."""
    if not math.isfinite(amount) or abs(amount) > MOST_CREDITS:
        raise ValueError(f"{amount} credits: a number up to {MOST_CREDITS:g} is right")
    return round(amount * MICRO)


def credits_of(amount: int) -> float:
    """The credits that so many micro-credits are."""
    return amount / MICRO
