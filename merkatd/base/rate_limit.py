"""So many in so much time: what keeps one sender from having all of anything."""

from collections.abc import Callable


class Throttle:
    """Lets each name do a thing `rate` times a second, and `burst` times at once."""

    def __init__(self, now: Callable[[], float], rate: float, burst: float) -> None:
        self._now = now
        self._rate = rate
        self._burst = burst
        self._left: dict[object, tuple[float, float]] = {}

    def allows(self, name: object) -> bool:
        """Whether once more is not too often; if so it counts."""
        now = self._now()
        left, seen_s = self._left.get(name, (self._burst, now))
        left = min(self._burst, left + (now - seen_s) * self._rate)
        allowed = left >= 1
        self._left[name] = (left - 1 if allowed else left, now)
        return allowed

    def spend(self, name: object, amount: float) -> None:
        """Count something that was allowed and took `amount` more; what is owed is waited for."""
        now = self._now()
        left, seen_s = self._left.get(name, (self._burst, now))
        left = min(self._burst, left + (now - seen_s) * self._rate)
        self._left[name] = left - amount, now

    def forget(self, name: object) -> None:
        """As if it had never come."""
        self._left.pop(name, None)
