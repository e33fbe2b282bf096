"""The last refused bids, orders, VMs, groups and platforms, with the reasons.

They are kept in memory, so a restart of the daemon forgets them. Memory is bounded: a user has at
most 20 of them, and all users together 2,000; the oldest go first.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice

from merkatd.service.base.callers import Caller

MOST_OF_USER = 20
MOST_USERS = 100
_LONGEST = 500
"""The most characters of a reason that are kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedRequest:
    """A request that was refused."""

    at_s: float
    user: str
    """The name of the user."""
    request: str
    """The name of the call, for example `merkat.bid.set`."""
    reason: str


class RefusedRequests:
    """The refused requests of all users."""

    def __init__(self, now: Callable[[], float]) -> None:
        """`now` returns the cloud's time."""
        self._now = now
        self._of: OrderedDict[int, deque[RefusedRequest]] = OrderedDict()

    def note(self, caller: Caller, request: str, reason: str) -> None:
        """Keep a refusal."""
        own = self._of.setdefault(caller.uid, deque(maxlen=MOST_OF_USER))
        self._of.move_to_end(caller.uid)
        cut = reason if len(reason) <= _LONGEST else f"{reason[: _LONGEST - 3]}..."
        own.append(
            RefusedRequest(at_s=self._now(), user=caller.identity.name, request=request, reason=cut)
        )
        while len(self._of) > MOST_USERS:
            self._of.popitem(last=False)

    def last(self, caller: Caller, limit: int = MOST_OF_USER) -> Sequence[RefusedRequest]:
        """Return the newest refusals first: the caller's own, for administrators those of all."""
        rows = [self._of.get(caller.uid, ())]
        if caller.is_admin:
            rows = list(self._of.values())
        newest = sorted((row for own in rows for row in own), key=lambda row: -row.at_s)
        return list(islice(newest, limit))
