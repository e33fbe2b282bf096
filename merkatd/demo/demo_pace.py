"""The pace of a demo: the cloud's time waits for the daemon and for the tenants."""

import sys
from collections import deque
from typing import Any

from merkatd.base.clock import Clock
from merkatd.embedded.model.event_clock import PacedClock
from merkatd.scheduler.phases.announce import PeriodOutcome

_PERIOD_PART = 1 / 6
"""The part of an interval that may pass while the daemon works on a period."""
_LEAD_TURNS = 2
"""The number of the tenants' turns by which the cloud's time may be ahead of their last turn."""
_LATELY_S = 3.0


class DemoPace:
    """The clock of a demo's cloud, and the limits of its time.

    # Note [The pace of a demo]

    The cloud's time runs at the demo's speed while two conditions hold: the last period that was
    due has ended, and all tenants have acted lately. Otherwise it runs no faster than real time. So
    each simulated minute has a period, and tenants can react to it, also on a slow or busy machine.
    The demo then lasts longer.
    Example: at a speed of 60, a simulated minute takes a second. If the daemon needs 3 s for a
    period, 10 simulated seconds pass at full speed and then 2.8 in real time. The next period
    starts 60 simulated seconds after the start of this one, as planned.
    """

    def __init__(self, seconds: float, speed: float, interval_s: float, tick_s: float) -> None:
        """`tick_s` is the real time between two turns of the tenants."""
        self._seconds = seconds
        self._speed = speed
        self._interval_s = interval_s
        self._lead_s = _LEAD_TURNS * tick_s * speed
        self._clock: Clock | None = None
        self._paced: PacedClock | None = None
        self._period_limit_s = self._turn_limit_s = self._began_s = 0.0
        self._lately: deque[tuple[float, float]] = deque()

    def make_clock(self, reactor: Clock, speed: float, world_s: float) -> Clock:
        """Return the cloud's clock; its time waits until the tenants begin."""
        self._clock, self._paced = reactor, PacedClock(reactor, speed, world_s)
        self._period_limit_s = world_s + self._interval_s * _PERIOD_PART
        self._turn_limit_s = world_s
        self._hold()
        return self._paced

    def begin(self, world_s: float) -> None:
        """Begin the demo's time."""
        self._began_s = world_s
        self.turn_ended()

    def turn_ended(self) -> None:
        """Let the cloud's time continue after a turn of the tenants."""
        if self._paced is None or self._clock is None:
            return
        now_s = self._paced.seconds()
        self._turn_limit_s = now_s + self._lead_s
        self._hold()
        self._lately.append((self._clock.seconds(), now_s))
        while self._lately[-1][0] - self._lately[0][0] > _LATELY_S:
            self._lately.popleft()

    def period_ended(self, _outcome: PeriodOutcome, lasted_s: float) -> None:
        """Let the cloud's time continue until the next period is under way.

        The next period starts an interval after this one, or after a pause as long as this one
        (Note [Pauses between periods]).
        """
        if self._paced is None:
            return
        now_s = self._paced.seconds()
        due_s = max(now_s - lasted_s + self._interval_s, now_s + min(lasted_s, self._interval_s))
        self._period_limit_s = due_s + self._interval_s * _PERIOD_PART
        self._hold()

    def left_s(self, world_s: float) -> float:
        """Return the demo's remaining time, in seconds at its speed."""
        return max(self._seconds - (world_s - self._began_s) / self._speed, 0.0)

    @property
    def speed_part(self) -> float:
        """Return the present speed as a part of the demo's speed, 1 until it is known."""
        if len(self._lately) < 2:
            return 1.0
        (real_s, world_s), (real_now_s, world_now_s) = self._lately[0], self._lately[-1]
        passed_s = real_now_s - real_s
        return (world_now_s - world_s) / (passed_s * self._speed) if passed_s > 0 else 1.0

    def _hold(self) -> None:
        if self._paced is not None:
            self._paced.hold_at(min(self._period_limit_s, self._turn_limit_s))


def is_compiling() -> bool:
    """Return whether the strategies have no machine code yet, so that numba compiles them."""
    numba: Any = sys.modules.get("numba")
    return numba is not None and not numba.config.DISABLE_JIT
