"""Rate limits by name: token buckets for users, addresses, or kinds of events."""

from collections.abc import Callable


class NamedRateLimits:
    """A limit that allows each name `rate` events a second, and `burst` events at once."""

    def __init__(self, now: Callable[[], float], rate: float, burst: float) -> None:
        self._now = now
        self._rate = rate
        self._burst = burst
        self._left: dict[object, tuple[float, float]] = {}

    def allows(self, name: object) -> bool:
        """Return whether one more event is allowed; an allowed event counts."""
        now = self._now()
        left, seen_s = self._left.get(name, (self._burst, now))
        left = min(self._burst, left + (now - seen_s) * self._rate)
        allowed = left >= 1
        self._left[name] = (left - 1 if allowed else left, now)
        return allowed

    def spend(self, name: object, amount: float) -> None:
        """Charge `amount` to an allowed event, also below 0: then the name has to wait."""
        now = self._now()
        left, seen_s = self._left.get(name, (self._burst, now))
        left = min(self._burst, left + (now - seen_s) * self._rate)
        self._left[name] = left - amount, now

    def forget(self, name: object) -> None:
        """Drop the state of a name, as if it had never been seen."""
        self._left.pop(name, None)


_MOST_KNOWN = 10_000


class RateLimit:
    """Token buckets by name: users, or addresses."""

    def __init__(self, per_s: float, burst_s: float) -> None:
        self._per_s = per_s
        self._full = per_s * burst_s
        self._buckets: dict[object, tuple[float, float]] = {}
        """The calls left in each bucket, and the time of that count."""

    def take(self, who: object, now_s: float, calls: float = 1.0) -> float:
        """Take `calls` and return 0, or return the seconds until the bucket holds enough."""
        held = self._held(who, now_s)
        if held < calls:
            return (calls - held) / self._per_s
        self._keep(who, held - calls, now_s)
        return 0.0

    def part(self, calls: float) -> float:
        """Return `calls`, but at least 1 and at most a full bucket."""
        return max(1.0, min(calls, self._full))

    def fine(self, who: object, now_s: float, calls: float) -> None:
        """Take `calls`, also if the bucket holds fewer; the debt is at most a full bucket."""
        self._keep(who, max(self._held(who, now_s) - calls, -self._full), now_s)

    def _held(self, who: object, now_s: float) -> float:
        held, at_s = self._buckets.get(who, (self._full, now_s))
        return min(held + (now_s - at_s) * self._per_s, self._full)

    def _keep(self, who: object, held: float, now_s: float) -> None:
        if len(self._buckets) >= _MOST_KNOWN and who not in self._buckets:
            self._forget(now_s)
        self._buckets[who] = (held, now_s)

    def _forget(self, now_s: float) -> None:
        """Drop the full buckets; if too many are not full, drop all buckets."""
        held = {who: self._held(who, now_s) for who in self._buckets}
        kept = {who: (left, now_s) for who, left in held.items() if left < self._full}
        self._buckets = kept if len(kept) < _MOST_KNOWN else {}
