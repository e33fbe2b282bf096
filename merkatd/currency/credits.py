"""The units of the accounts: micro-credits and their exact division, days and months."""

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from typing import TypeVar

MICRO = 1_000_000
"""Micro-credits in a credit."""
MOST_CREDITS = 4e12
"""The largest amount in credits; sums of such amounts still fit a database integer."""


def micro(amount: float) -> int:
    """Return the nearest whole number of micro-credits. Raise ValueError if it is too large."""
    if not math.isfinite(amount) or abs(amount) > MOST_CREDITS:
        raise ValueError(f"an amount must be within +/-{MOST_CREDITS:,.0f} credits (got {amount})")
    return round(amount * MICRO)


def credits_of(amount: int) -> float:
    """Convert micro-credits to credits."""
    return amount / MICRO


DAY_S = 86_400


def day_of(at_s: float) -> int:
    """Return the number of the day (UTC, since 1970)."""
    return int(at_s // DAY_S)


_LAST_YEAR = 9999
"""The last year of a date in Python."""


@dataclass(frozen=True, slots=True, order=True)
class Month:
    """A calendar month."""

    year: int
    month: int

    def __post_init__(self) -> None:
        if not (1970 <= self.year <= _LAST_YEAR and 1 <= self.month <= 12):
            raise ValueError(f"a month must look like 2026-05 (got {self.year}-{self.month})")

    @property
    def next(self) -> "Month":
        """The month after this one."""
        return Month(self.year + self.month // 12, self.month % 12 + 1)

    @property
    def begin_s(self) -> float:
        """The start of the month, in seconds since the epoch (UTC)."""
        return datetime(self.year, self.month, 1, tzinfo=UTC).timestamp()

    @property
    def end_s(self) -> float:
        """The start of the next month."""
        return self.next.begin_s

    def __str__(self) -> str:
        return f"{self.year:04}-{self.month:02}"


def month_of(at_s: float) -> Month:
    """Return the month (UTC) of a time."""
    then = datetime.fromtimestamp(at_s, tz=UTC)
    return Month(then.year, then.month)


def parse_month(text: str) -> Month:
    """Parse a month such as `2026-05`. Raise ValueError for any other text."""
    year, dash, month = text.partition("-")
    if not (dash and year.isascii() and year.isdigit() and month.isascii() and month.isdigit()):
        raise ValueError(f"a month must look like 2026-05 (got {text!r})")
    # The month after it must be a month, too: a statement ends where that begins.
    if len(year) > 4 or len(month) > 2 or int(year) >= _LAST_YEAR:
        raise ValueError(f"a month must look like 2026-05 (got {text!r})")
    return Month(int(year), int(month))


Key = TypeVar("Key", bound=Hashable)


def divided_rounding_down(total: int, weights: Mapping[Key, float]) -> dict[Key, int]:
    """Return total x weight / sum of weights for each key, rounded down.

    The remainder is given to no key. So a part never falls when its own weight rises; with the
    remainder distributed, it could.
    """
    exact = {key: Fraction(weight) for key, weight in weights.items()}
    weight_sum = sum(exact.values(), Fraction(0))
    if not weight_sum:
        return dict.fromkeys(weights, 0)
    return {key: int(total * weight / weight_sum) for key, weight in exact.items()}


def part_rounding_down(total: int, weight: float, weights: Mapping[float, int]) -> int:
    """Return the part of `divided_rounding_down` for one key with this weight.

    `weights` has the number of keys, this key among them, by their weight.
    """
    weight_sum = sum((Fraction(weight) * count for weight, count in weights.items()), Fraction(0))
    return int(total * Fraction(weight) / weight_sum) if weight_sum else 0


def divided_exactly(total: int, amounts: Sequence[int]) -> list[int]:
    """Divide the whole total in proportion to the amounts; their sum must be at least the total.

    Each part is rounded down. The remaining units go one each to the parts that lost most by
    rounding, the first among equals. No part exceeds its amount.
    """
    weight_sum = sum(amounts)
    if not 0 <= total <= weight_sum:
        raise ValueError(
            f"a total must be between 0 and the sum of the amounts, {weight_sum} (got {total})"
        )
    if total == weight_sum:
        return list(amounts)
    parts = [divmod(total * amount, weight_sum) for amount in amounts]
    shares = [part for part, _ in parts]
    by_loss = sorted(range(len(parts)), key=lambda at: (-parts[at][1], at))
    for at in by_loss[: total - sum(shares)]:
        shares[at] += 1
    return shares
