"""How many orders a user may give: what they leave behind is kept for a year."""

from typing import Any

from merkatd.base.rate_limit import RateLimit
from merkatd.service.base.errors import Code, RequestError

_HOUR_S = 3600.0
_BYTES = 4_096.0
"""So many bytes of an order count as another."""
PER_HOUR = 300.0
SMALL = 0.05
"""What an order counts as that leaves little behind, for a week: a bid."""


class OrderCounts:
    """Counts them by user; an hour's may come at once."""

    def __init__(self, clock: Any, per_hour: float = PER_HOUR) -> None:
        self._clock = clock
        self._rates = RateLimit(per_hour / _HOUR_S, _HOUR_S)

    def count(self, user: int, weight: float, arguments: list[Any]) -> None:
        """Count one. Raises Refusal where the user gave too many."""
        size = len(repr(arguments)) // _BYTES
        parts = self._rates.part(1.0 + size) if weight >= 1.0 else weight
        wait_s = self._rates.take(user, self._clock.seconds(), parts)
        if wait_s:
            raise RequestError(
                Code.ACTION,
                f"Too many orders of user {user}, with what they leave behind:"
                f" try again in {wait_s:.2g} s.",
            )
