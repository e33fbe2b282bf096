"""The simulated time of a demo waits for the daemon and for the tenants."""

from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from merkatd.demo.demo_pace import DemoPace
from merkatd.embedded.model.event_clock import PacedClock
from merkatd.scheduler.base.settings import Rhythm
from merkatd.scheduler.phases.announce import PeriodOutcome
from merkatd.scheduler.timer import PeriodTimer

TICK_S = 0.25
START_S = 1_000.0


def paced(speed: float = 60.0, seconds: float = 60.0) -> tuple[Clock, DemoPace, PacedClock]:
    """Return a reactor, and the pace and the clock of a demo on it."""
    reactor = Clock()
    pace = DemoPace(seconds, speed, 60.0, TICK_S)
    clock = pace.make_clock(reactor, speed, START_S)
    assert isinstance(clock, PacedClock)
    return reactor, pace, clock


class Daemon:
    """The real timer of periods; each period needs some real time, as on a slow machine."""

    def __init__(self, reactor: Clock, pace: DemoPace, clock: PacedClock, needs_s: float) -> None:
        self.starts: list[float] = []
        self._reactor, self._pace, self._clock, self._needs_s = reactor, pace, clock, needs_s
        self.timer = PeriodTimer(clock, Rhythm(interval_s=60.0), self._period)
        self.timer.start()

    async def _period(self) -> None:
        begun_s = self._clock.seconds()
        self.starts.append(begun_s)
        working = Deferred[None]()
        self._reactor.callLater(self._needs_s, working.callback, None)
        await working
        self._pace.period_ended(PeriodOutcome.DONE, self._clock.seconds() - begun_s)


@given(st.floats(0.01, 10.0), st.floats(0.0, 5.0))
def test_each_simulated_minute_has_a_period(needs_s: float, turn_s: float) -> None:
    """This holds however long the daemon works on a period, and tenants on a turn."""
    reactor, pace, clock = paced()
    daemon = Daemon(reactor, pace, clock, needs_s)
    pace.begin(START_S)
    while pace.left_s(clock.seconds()) > 40.0:
        for _ in range(40):
            reactor.advance((TICK_S + turn_s) / 40)
        pace.turn_ended()
    minutes = (clock.seconds() - START_S) / 60.0
    assert minutes >= 20.0
    assert len(daemon.starts) >= int(minutes)
    grid = [START_S + 60.0 * at for at in range(len(daemon.starts))]
    assert all(abs(start - due) < 1e-3 for start, due in zip(daemon.starts, grid, strict=True))


def test_an_idle_machine_keeps_the_demos_speed() -> None:
    """A minute of the demo is an hour of the cloud."""
    reactor, pace, clock = paced()
    Daemon(reactor, pace, clock, 0.05)
    pace.begin(START_S)
    for _ in range(4 * 50):
        reactor.pump([0.05] * 5)
        pace.turn_ended()
    assert abs(clock.seconds() - START_S - 50 * 60.0) < 1.0
    assert abs(pace.left_s(clock.seconds()) - 10.0) < 0.1
    assert abs(pace.speed_part - 1.0) < 0.01


def test_a_slow_daemon_is_displayed() -> None:
    """Periods of 2 s at one a second leave less than half of the speed."""
    reactor, pace, clock = paced()
    Daemon(reactor, pace, clock, 2.0)
    pace.begin(START_S)
    for _ in range(80):
        reactor.pump([0.05] * 5)
        pace.turn_ended()
    assert 0.2 < pace.speed_part < 0.6


def test_the_demos_time_begins_with_its_tenants() -> None:
    """However long the start lasts, it takes nothing from the demo's time."""
    reactor, pace, clock = paced(speed=600.0)
    reactor.advance(10.0)
    assert clock.seconds() - START_S <= 10.0 + 1e-6
    pace.begin(clock.seconds())
    assert pace.left_s(clock.seconds()) == 60.0


def test_real_time_is_never_held() -> None:
    """With real guests the cloud's time is the guests' time."""
    reactor, pace, clock = paced(speed=1.0)
    pace.begin(START_S)
    reactor.advance(100.0)
    assert clock.seconds() == START_S + 100.0
