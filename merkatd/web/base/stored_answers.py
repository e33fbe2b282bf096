"""What pages read from the database, and the last answers for when the database gives none.

# Note [Pages while the database hangs]
Each page reads with a patience of about a second in all. What is not answered by then is shown as
it was read last, and the page says so. A read that is late goes on, and its answer is kept for the
next page; meanwhile the same read is not begun again, and a bounded number is begun at all, so that
a database that comes back is not met by a storm. Of these a visitor has a part: a read that waits
for its turn behind others of its own visitor is late too. An order is given up as soon as the
database is known to hang: what it does is not known before the database answers.
"""

from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

import sqlalchemy as sa
from twisted.internet import defer
from twisted.internet.defer import Deferred, ensureDeferred

from merkatd.base.deferreds import SharedResult
from merkatd.service import TryAgainError

Result = TypeVar("Result")

PATIENCE_S = 1.2
"""For all that one page reads,"""
_SHORT_S = 0.2
"""and for each read while the database answers nothing."""
_QUICK_S = 0.4
"""An order that takes longer makes the page look whether the database answers."""
_MOST_KEPT = 256
_MOST_LATE = 32
"""Reads that are late,"""
_MOST_LATE_OF_ONE = 8
"""and those of one visitor."""
_GIVEN_UP_S = 60.0
NEEDED: Any = object()
"""Stands for a default that there is not."""


class NotStoredError(TryAgainError):
    """The database does not answer, and nothing is kept of what was asked."""


@dataclass(frozen=True, slots=True)
class _Kept:
    value: Any
    at_s: float


@dataclass(frozen=True, slots=True)
class _Late:
    visitor: Hashable
    begun_s: float


class Recall:
    """The last answers, and the reads that are late."""

    def __init__(self, clock: Any, now: Callable[[], float]) -> None:
        """`clock` measures patience; `now` tells the time that pages show."""
        self._clock = clock
        self._now = now
        self._kept: OrderedDict[Hashable, _Kept] = OrderedDict()
        self._late: dict[Hashable, _Late] = {}
        """Reads that are under way, and for which no page waits any more."""
        self._answered_s = float("-inf")

    @property
    def hangs(self) -> bool:
        """Whether the database has answered nothing since a read began that is late."""
        return any(one.begun_s >= self._answered_s for one in self._late.values())

    def reading(self, patience_s: float = PATIENCE_S, visitor: Hashable = None) -> "PageRead":
        """Return what one page reads with; None stands for reads that are no visitor's."""
        return PageRead(self, self._clock, patience_s, visitor)

    def begin(
        self, key: Hashable, read: Callable[[], Awaitable[Result]], visitor: Hashable
    ) -> SharedResult[Result] | None:
        """Begin to read; None where the same read, or too many, are late already.

        Reads of a visitor that are late keep no more than its part from others.
        """
        since_s = self._clock.seconds() - _GIVEN_UP_S
        self._late = {name: one for name, one in self._late.items() if one.begun_s > since_s}
        of = Counter(one.visitor for one in self._late.values())
        # Reads that began together are late together: of one visitor these can be more.
        late = sum(min(number, _MOST_LATE_OF_ONE) for number in of.values())
        if key in self._late or of[visitor] >= _MOST_LATE_OF_ONE or late >= _MOST_LATE:
            return None
        return SharedResult(self._read(key, read))

    async def _read(self, key: Hashable, read: Callable[[], Awaitable[Result]]) -> Result:
        try:
            value = await read()
        finally:
            self._late.pop(key, None)
        self._answered_s = self._clock.seconds()
        self._kept.pop(key, None)
        self._kept[key] = _Kept(value, self._now())
        while len(self._kept) > _MOST_KEPT:
            self._kept.popitem(last=False)
        return value

    async def outlast(
        self, work: SharedResult[Result], look: Callable[[], Awaitable[object]]
    ) -> bool:
        """Wait until the work is over; return False where the database hangs before.

        `look` reads something small, to find out whether the database answers.
        """
        while True:
            await self.reading(_QUICK_S).settle(work)
            if work.over:
                return True
            await self.reading().get("look", look, None)
            if self.hangs:
                return False

    def late(self, key: Hashable, begun_s: float, visitor: Hashable) -> None:
        """Note that nobody waits any more for a read that goes on."""
        self._late[key] = _Late(visitor, begun_s)

    def kept(self, key: Hashable) -> _Kept | None:
        """Return the last answer."""
        return self._kept.get(key)


class PageRead:
    """What one page reads, in the time that it has."""

    def __init__(self, recall: Recall, clock: Any, patience_s: float, visitor: Hashable) -> None:
        self._recall = recall
        self._clock = clock
        self._visitor = visitor
        self._until_s = clock.seconds() + patience_s
        self.old_s: float | None = None
        """When the oldest was read of what is shown though it is old."""
        self.missing = False
        """Whether something is left out that was never read."""

    async def get(
        self, key: Hashable, read: Callable[[], Awaitable[Result]], default: Any = NEEDED
    ) -> Result:
        """Return what is read, or what was read last, or the default. Raises NotStoredError."""
        begun_s = self._clock.seconds()
        once = self._recall.begin(key, read, self._visitor)
        if once is not None:
            try:
                return await self._in_time(once)
            except (defer.TimeoutError, sa.exc.SQLAlchemyError):
                if not once.over:
                    self._recall.late(key, begun_s, self._visitor)
        found: Result = self._as_before(key, default)
        return found

    async def settle(self, once: SharedResult[Any] | None) -> None:
        """Wait for the end of something, good or bad, as long as there is time."""
        if once is not None:
            with suppress(Exception):
                await self._in_time(once)

    async def _in_time(self, once: SharedResult[Result]) -> Result:
        if once.over:
            return await once.result()
        left_s = max(self._until_s - self._clock.seconds(), 0.0)
        waiting: Deferred[Result] = ensureDeferred(once.result())
        waiting.addTimeout(min(left_s, _SHORT_S) if self._recall.hangs else left_s, self._clock)
        return await waiting

    def _as_before(self, key: Hashable, default: Any) -> Any:
        kept = self._recall.kept(key)
        if kept is not None:
            self.old_s = kept.at_s if self.old_s is None else min(self.old_s, kept.at_s)
            return kept.value
        self.missing = True
        if default is NEEDED:
            raise NotStoredError("the database does not answer, and this was not read before")
        return default
