"""Pages' reads from the database, with the last answers for times when the database hangs.

# Note [Pages while the database hangs]
All reads of a page together may take about a second. For a read without an answer by then, the
page shows the last answer and says so. The late read continues, and its answer is stored for the
next page. A read that waits for its turn behind other reads of its visitor can be late too. A late
read is not started a second time. With 32 late reads no other read starts while the database hangs,
so that a database that returns does not get a flood of reads. A visitor with 8 late reads starts no
other read, and counts for at most 8 of the 32.
Example: the database hangs, and each of four visitors opens a page with 10 reads. After 1.2 s, 40
reads are late and count as 4 x 8 = 32. Pages now show last answers for all reads, until the
database answers one of them or until the late reads are 60 s old.
An order is answered without its result as soon as the database is known to hang.
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
from merkatd.service.base.errors import TryAgainError

Result = TypeVar("Result")

PATIENCE_S = 1.2
"""The longest time of all reads of a page together."""
_SHORT_S = 0.2
"""The longest time of each read while the database hangs."""
_QUICK_S = 0.4
"""The time of an order after which the daemon tests whether the database answers."""
_MOST_KEPT = 256
_MOST_LATE = 32
"""The number of late reads at which no read is started while the database hangs."""
_MOST_LATE_OF_ONE = 8
"""The number of a visitor's late reads at which no read of that visitor is started."""
_GIVEN_UP_S = 60.0
NEEDED: Any = object()
"""The default of a value without a default: without an answer, the read fails."""


class NotStoredError(TryAgainError):
    """The database does not answer, and this value was not read before."""


@dataclass(frozen=True, slots=True)
class _Kept:
    value: Any
    at_s: float
    visitor: Hashable


@dataclass(frozen=True, slots=True)
class _Late:
    visitor: Hashable
    begun_s: float


class StoredAnswers:
    """The last answers, and the late reads."""

    def __init__(self, clock: Any, now: Callable[[], float]) -> None:
        """`clock` measures the time limits; `now` returns the time that pages show."""
        self._clock = clock
        self._now = now
        self._kept: OrderedDict[Hashable, _Kept] = OrderedDict()
        self._late: dict[Hashable, _Late] = {}
        """Running reads that no page waits for."""
        self._answered_s = float("-inf")

    @property
    def hangs(self) -> bool:
        """Return whether the database has not answered since the start of a late read."""
        return any(answer.begun_s >= self._answered_s for answer in self._late.values())

    def reading(self, patience_s: float = PATIENCE_S, visitor: Hashable = None) -> "PageRead":
        """Return the reads of a page; `visitor` is None for the daemon's own reads."""
        return PageRead(self, self._clock, patience_s, visitor)

    def begin(
        self, key: Hashable, read: Callable[[], Awaitable[Result]], visitor: Hashable
    ) -> SharedResult[Result] | None:
        """Start a read; return None if the same read, or too many reads, are already late.

        A visitor's late reads use up at most its own part of the limit.
        """
        since_s = self._clock.seconds() - _GIVEN_UP_S
        self._late = {
            name: answer for name, answer in self._late.items() if answer.begun_s > since_s
        }
        of = Counter(answer.visitor for answer in self._late.values())
        # Parallel reads become late together, so a visitor can exceed its part of the limit.
        late = sum(min(number, _MOST_LATE_OF_ONE) for number in of.values())
        if key in self._late or of[visitor] >= _MOST_LATE_OF_ONE:
            return None
        if late >= _MOST_LATE and self.hangs:
            return None
        return SharedResult(self._read(key, read, visitor))

    async def _read(
        self, key: Hashable, read: Callable[[], Awaitable[Result]], visitor: Hashable
    ) -> Result:
        try:
            value = await read()
        finally:
            self._late.pop(key, None)
        self._answered_s = self._clock.seconds()
        self._kept.pop(key, None)
        self._kept[key] = _Kept(value, self._now(), visitor)
        if len(self._kept) > _MOST_KEPT:
            self._drop_one()
        return value

    def _drop_one(self) -> None:
        """Drop the oldest answer of the visitor with the most: others' answers stay."""
        of = Counter(answer.visitor for answer in self._kept.values())
        most = max(of, key=lambda visitor: of[visitor])
        del self._kept[next(key for key, answer in self._kept.items() if answer.visitor == most)]

    async def outlast(
        self, work: SharedResult[Result], look: Callable[[], Awaitable[object]]
    ) -> bool:
        """Wait until the work ends and return True; return False if the database hangs first.

        `look` reads a small row to test whether the database answers.
        """
        while True:
            await self.reading(_QUICK_S).settle(work)
            if work.over:
                return True
            await self.reading().get("look", look, None)
            if self.hangs:
                return False

    def late(self, key: Hashable, begun_s: float, visitor: Hashable) -> None:
        """Record that no page waits for this running read."""
        self._late[key] = _Late(visitor, begun_s)

    def kept(self, key: Hashable) -> _Kept | None:
        """Return the last answer to a read, None if there is none."""
        return self._kept.get(key)


class PageRead:
    """The reads of a page, with their common time limit."""

    def __init__(
        self, recall: StoredAnswers, clock: Any, patience_s: float, visitor: Hashable
    ) -> None:
        self._recall = recall
        self._clock = clock
        self._visitor = visitor
        self._until_s = clock.seconds() + patience_s
        self.old_s: float | None = None
        """The time of the oldest of the last answers that the page shows, None without any."""
        self.missing = False
        """Whether the page lacks a value that was never read."""

    async def get(
        self, key: Hashable, read: Callable[[], Awaitable[Result]], default: Any = NEEDED
    ) -> Result:
        """Return the value read, else the last answer, else the default, else raise NotStoredError.

        A late read continues.
        """
        begun_s = self._clock.seconds()
        once = self._recall.begin(key, read, self._visitor)
        if once is not None:
            try:
                return await self._in_time(once)
            except (defer.TimeoutError, sa.exc.SQLAlchemyError):
                if not once.over:
                    self._recall.late(key, begun_s, self._visitor)
        answer: Result = self._last_answer(key, default)
        return answer

    async def settle(self, once: SharedResult[Any] | None) -> None:
        """Wait until the work succeeds or fails, within the page's time limit."""
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

    def _last_answer(self, key: Hashable, default: Any) -> Any:
        kept = self._recall.kept(key)
        if kept is not None:
            self.old_s = kept.at_s if self.old_s is None else min(self.old_s, kept.at_s)
            return kept.value
        self.missing = True
        if default is NEEDED:
            raise NotStoredError("the database does not answer, and this was not read before")
        return default
