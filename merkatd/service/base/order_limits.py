"""The limit of orders per user: the database keeps the traces of each order for a year."""

from typing import Any

from merkatd.base.rate_limit import RateLimit
from merkatd.service.base.errors import TooManyOrdersError

_HOUR_S = 3600.0
_BYTES = 4_096.0
"""The bytes of arguments that count as an additional order."""
PER_HOUR = 300.0
WHOLE = 1.0
"""The weight of an order whose traces are kept for a year."""
SMALL = 0.05
"""The weight of an order that leaves little data, kept for a week: a bid."""


class OrderCounts:
    """The orders counted per user; a user may give the orders of an hour at once."""

    def __init__(self, clock: Any, per_hour: float = PER_HOUR) -> None:
        self._clock = clock
        self._rates = RateLimit(per_hour / _HOUR_S, _HOUR_S)

    def count(self, user: int, weight: float, arguments: list[Any]) -> None:
        """Count an order. Raise TooManyOrdersError if the user gave too many."""
        size = len(repr(arguments)) // _BYTES
        parts = self._rates.part(1.0 + size) if weight >= 1.0 else weight
        wait_s = self._rates.take(user, self._clock.seconds(), parts)
        if wait_s:
            raise TooManyOrdersError(
                f"Too many orders, or too large ones, of user {user}: try again in {wait_s:.2g} s.",
            )
