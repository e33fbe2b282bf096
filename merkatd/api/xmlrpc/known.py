"""Addresses from which a login was good lately: what they send is worth more than a stranger's."""

_LATELY_S = 3600.0
_MOST = 10_000


class KnownAddresses:
    """Whose login was the last good one from each of them."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[int, float]] = {}
        """User and time, in the order of the times."""

    def note(self, address: str, user: int, now_s: float) -> None:
        """A login of this user was good."""
        self._last.pop(address, None)
        self._last[address] = user, now_s
        if len(self._last) > _MOST:
            del self._last[next(iter(self._last))]

    def user_at(self, address: str, now_s: float) -> int | None:
        """Return the user of the last good login from there; None for a stranger's address."""
        user, at_s = self._last.get(address, (None, now_s))
        return user if now_s - at_s < _LATELY_S else None
