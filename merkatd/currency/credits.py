"""What the accounts count in: micro-credits and their exact division, days and months."""

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from typing import TypeVar

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


DAY_S = 86_400


def day_of(at_s: float) -> int:
    """The number of the day."""
    return int(at_s // DAY_S)


@dataclass(frozen=True, slots=True, order=True)
class Month:
    """A calendar month."""

    year: int
    month: int

    def __post_init__(self) -> None:
        if not (1970 <= self.year <= 9998 and 1 <= self.month <= 12):
            raise ValueError(f"{self.year}-{self.month}: a month like 2026-05 is right")

    @property
    def next(self) -> "Month":
        """The month after."""
        return Month(self.year + self.month // 12, self.month % 12 + 1)

    @property
    def begin_s(self) -> float:
        """When it begins."""
        return datetime(self.year, self.month, 1, tzinfo=UTC).timestamp()

    @property
    def end_s(self) -> float:
        """When the next one begins."""
        return self.next.begin_s

    def __str__(self) -> str:
        return f"{self.year:04}-{self.month:02}"


def month_of(at_s: float) -> Month:
    """The month of a time."""
    then = datetime.fromtimestamp(at_s, tz=UTC)
    return Month(then.year, then.month)


def parse_month(text: str) -> Month:
    """The month that `2026-05` means; ValueError where it means none."""
    year, dash, month = text.partition("-")
    if not (dash and year.isascii() and year.isdigit() and month.isascii() and month.isdigit()):
        raise ValueError(f"{text!r}: a month like 2026-05 is right")
    if len(year) > 4 or len(month) > 2:
        raise ValueError(f"{text!r}: a month like 2026-05 is right")
    return Month(int(year), int(month))


Key = TypeVar("Key", bound=Hashable)


def divided_rounding_down(total: int, weights: Mapping[Key, float]) -> dict[Key, int]:
    """Total x weight / sum of weights, each rounded down; the remainder belongs to nobody.

    Nobody's part falls when their own weight rises, which dealing out the remainder could
    not promise.
    """
    exact = {key: Fraction(weight) for key, weight in weights.items()}
    whole = sum(exact.values(), Fraction(0))
    if not whole:
        return dict.fromkeys(weights, 0)
    return {key: int(total * weight / whole) for key, weight in exact.items()}


def divided_exactly(total: int, amounts: Sequence[int]) -> list[int]:
    """Total in proportion to the amounts, of which it is at most the sum; all of it.

    Each gets its part rounded down; what is left goes one by one to those that lost most by
    rounding, the first among equals. Nobody gets more than their amount.
    """
    whole = sum(amounts)
    if not 0 <= total <= whole:
        raise ValueError(f"{total} can't be dealt out among amounts that sum to {whole}")
    if total == whole:
        return list(amounts)
    parts = [divmod(total * amount, whole) for amount in amounts]
    found = [part for part, _ in parts]
    by_loss = sorted(range(len(parts)), key=lambda at: (-parts[at][1], at))
    for at in by_loss[: total - sum(found)]:
        found[at] += 1
    return found
