"""Early periods: what starts a period before its time, with a limit for each account.

# Note [Early periods of an account]

A change of a bid, a platform or a group starts a period early, and so does a time for which a
platform waits. Each period costs the daemon, OpenNebula and all hosts work. So an account can cause
at most `AT_ONCE` early periods at once, and `PER_HOUR` in an hour. After that its changes wait for
the next period, which comes an interval after the last one at the latest. A change counts only if
it makes a period start earlier: changes of other accounts in the meantime count for nobody else.
Example: a tenant changes a bid every second. Its first 30 changes start a period each. After that
one change in two minutes does, and the others wait for at most a minute.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from merkatd.base.clock import Clock
from merkatd.base.rate_limit import RateLimit
from merkatd.cluster import Decision
from merkatd.cluster.columns import NO_HOST

PER_HOUR = AT_ONCE = 30
"""The early periods that the calls and the platforms of one account can cause in an hour."""
EVENT_S = 5.0
"""The least time between the starts of two periods if an event in OpenNebula starts the second one:
its users can cause any number of events, and the account that caused one is unknown."""
GATHER_S = 0.5
"""The time from an event in OpenNebula until it counts, together with all events until then."""
_HOUR_S = 3600.0
_LATE_S = 0.05
"""How long after its time an alarm rings: the observation must see a later time."""


def pause_before_event_s(decision: Decision | None) -> float:
    """Return the least time from a period with this decision to one that an event starts.

    An order that waits until others have left its hosts pays for their room. So the event that they
    have left starts a period as soon as the least interval allows.
    """
    terms = None if decision is None else decision.order_terms
    room_is_made = terms is not None and bool((terms.coming != NO_HOST).any())
    return 0.0 if room_is_made else EVENT_S


class WokenTimer(Protocol):
    """The used part of the timer of periods."""

    def wake(self) -> None:
        """Start the next period early."""

    def is_hastened_by_waking(self) -> bool:
        """Return whether `wake` would start the next period before its present time."""


class AwaitedTime(NamedTuple):
    """A time for which a platform waits."""

    at_s: float
    """On the clock that decides about it."""
    in_s: float
    """The time from now until then, in seconds."""
    owner: int


class EarlyPeriods:
    """Starts periods early; before `bind` it starts none."""

    def __init__(self) -> None:
        self._limit = RateLimit(PER_HOUR / _HOUR_S, AT_ONCE * _HOUR_S / PER_HOUR)
        self._clock: Clock | None = None
        self._timer: WokenTimer | None = None
        self._may: Callable[[], bool] = lambda: False
        self._awaited: list[tuple[float, AwaitedTime]] = []
        """The awaited times, each after the time of its alarm on the clock; the next one last."""
        self._alarm: Any = None
        self._rung_s: float | None = None
        """The time of the last alarm. It rings once, even on a clock that stands still."""

    def bind(self, clock: Clock, timer: WokenTimer, may: Callable[[], bool]) -> None:
        """Start periods of this timer early from now on; `may` returns whether periods act."""
        self._clock, self._timer, self._may = clock, timer, may

    def want(self, owner: int) -> bool:
        """Start the next period early, because of something that an account has caused.

        Return whether it starts early, for this reason or another.
        """
        if self._timer is None or self._clock is None or not self._may():
            return False
        if self._timer.is_hastened_by_waking():
            if self._limit.take(owner, self._clock.seconds()):
                return False
            self._timer.wake()
        return True

    def await_times(self, times: Sequence[AwaitedTime]) -> None:
        """Start a period at each of these times, and at no others; the next period forgets them."""
        self.forget()
        if self._clock is None:
            return
        now_s = self._clock.seconds()
        rings = [
            (now_s + max(time.in_s, 0.0) + _LATE_S, time)
            for time in times
            if time.at_s != self._rung_s
        ]
        self._awaited = sorted(rings, reverse=True)
        self._set_alarm()

    def forget(self) -> None:
        """Forget all awaited times, because a period begins or the daemon ends."""
        self._awaited = []
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def _set_alarm(self) -> None:
        if self._awaited and self._clock is not None:
            wait_s = self._awaited[-1][0] - self._clock.seconds()
            self._alarm = self._clock.callLater(max(wait_s, 0.0), self._ring)

    def _ring(self) -> None:
        self._alarm = None
        _, time = self._awaited.pop()
        self._rung_s = time.at_s
        if not self.want(time.owner):
            self._set_alarm()
