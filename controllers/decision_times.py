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

from merkatd.protocol.bus_messages import Measured
from merkatd.protocol.platform_messages import News

_NEARLY = 0.9
"""The part of an interval that counts as a whole one: real intervals differ."""


class DecisionTimes:
    """Selects the news for a controller."""

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
        self._last: News | None = None

    def is_due(self, news: News) -> bool:
        """Return whether the controller gets these news now."""
        last = self._last
        if last is None or _marks(news) != _marks(last) or (news.vms and not last.vms):
            return True
        # A clock that was set back delays no decision.
        return not 0.0 < news.at_s - last.at_s < _NEARLY * self._interval_s

    def note(self, news: News) -> None:
        """Record the news that the controller gets."""
        self._last = news

    async def paced(
        self, events: AsyncIterator[News | Measured]
    ) -> AsyncGenerator[News | Measured, None]:
        """Yield the measurements at once, and the news that are due."""
        clock = asyncio.get_running_loop().time
        late: News | None = None
        due_s = clock() + self._interval_s
        coming = asyncio.ensure_future(anext(events))
        try:
            while True:
                wait_s = None if late is None else max(due_s - clock(), 0.0)
                done, _ = await asyncio.wait({coming}, timeout=wait_s)
                event: News | Measured | None = late
                if done:
                    try:
                        event = coming.result()
                    except StopAsyncIteration:
                        return
                    coming = asyncio.ensure_future(anext(events))
                    if isinstance(event, News) and not self.is_due(event):
                        late = event
                        continue
                if event is None:
                    continue
                if isinstance(event, News):
                    self.note(event)
                    late, due_s = None, clock() + self._interval_s
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
