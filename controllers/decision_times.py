"""The times of a controller's decisions: once in an interval, however many periods it has.

# Note [Controllers decide once in an interval]

The daemon starts periods early when something matters, and announces each of them. A controller
that decided after each one would run many times as fast: its bids double or halve with each
decision, it counts decisions before it suspends or gives up, and each of its new bids starts
another period. So a controller gets the news of a period only if an interval has passed since the
last news that it got. It gets them at once if something changed that it can't wait for: the state
of its platform, a goal or the budget, or if its platform had no VMs before. If no further news
come, it gets the last news that it was not given once the interval has passed.
Example: with an interval of 60 s and periods after 0, 5, 30 and 61 s, the controller gets the news
of 0 and 61 s.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from math import inf

from merkatd.protocol.bus_messages import Measured
from merkatd.protocol.platform_messages import News

_NEARLY = 0.9
"""The part of an interval that counts as a whole one: real intervals differ."""


class DecisionTimes:
    """Selects the news for a controller. Clock times are those of any clock that is never set."""

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
        self._last: News | None = None
        self._late: News | None = None
        self._due_s = inf

    @property
    def late_s(self) -> float:
        """Return the clock time at which the controller gets news that it was not given yet.

        Infinite without such news.
        """
        return inf if self._late is None else self._due_s

    def is_due(self, news: News) -> bool:
        """Return whether the controller gets these news now."""
        last = self._last
        if last is None or _marks(news) != _marks(last) or (news.vms and not last.vms):
            return True
        # A clock that was set back delays no decision.
        return not 0.0 < news.at_s - last.at_s < _NEARLY * self._interval_s

    def note(self, news: News, clock_s: float) -> None:
        """Record the news that the controller gets."""
        self._last, self._late, self._due_s = news, None, clock_s + self._interval_s

    def select(self, news: News, clock_s: float) -> News | None:
        """Return the news if the controller gets them now; otherwise keep them for later."""
        if not self.is_due(news):
            self._late = news
            return None
        self.note(news, clock_s)
        return news

    def select_late(self, clock_s: float) -> News | None:
        """Return the last news that the controller was not given, once it gets them."""
        late = self._late
        if late is None or clock_s < self._due_s:
            return None
        self.note(late, clock_s)
        return late

    async def paced(
        self, events: AsyncIterator[News | Measured]
    ) -> AsyncGenerator[News | Measured, None]:
        """Yield the measurements at once, and the news that are due."""
        clock = asyncio.get_running_loop().time
        if self._due_s == inf:
            self._due_s = clock() + self._interval_s
        coming = asyncio.ensure_future(anext(events))
        try:
            while True:
                wait_s = None if self.late_s == inf else max(self.late_s - clock(), 0.0)
                done, _ = await asyncio.wait({coming}, timeout=wait_s)
                if done:
                    try:
                        event: News | Measured | None = coming.result()
                    except StopAsyncIteration:
                        return
                    coming = asyncio.ensure_future(anext(events))
                    if isinstance(event, News):
                        event = self.select(event, clock())
                else:
                    event = self.select_late(clock())
                if event is not None:
                    yield event
        finally:
            coming.cancel()


def _marks(news: News) -> tuple[object, ...]:
    """Return what a controller must know at once."""
    return (
        news.state,
        news.deadline_s,
        news.performance,
        news.budget,
        news.replenishment,
    )
