"""After an event the next period starts early, but never too soon after the last one."""

from itertools import pairwise

import pytest
from twisted.internet.defer import Deferred, ensureDeferred
from twisted.internet.task import Clock

from merkatd.database.scheduler.order_store import Mode
from merkatd.embedded.model.vm_states import Lcm
from merkatd.scheduler.base.acting_settings import ActingSettings
from merkatd.scheduler.base.early_periods import AT_ONCE, EVENT_S, PER_HOUR, AwaitedTime
from merkatd.scheduler.base.settings import Rhythm
from merkatd.scheduler.timer import PeriodTimer
from tests.lengths import shorten
from tests.scheduler.frontend import Frontend
from tests.scheduler.test_ordered_vms import Site as OrderSite

TENANT, OTHER = 7, 8


def record_starts(frontend: Frontend) -> list[float]:
    """Return a list of the start times of the following periods."""
    starts: list[float] = []
    frontend.scheduler.listen(lambda announcement: starts.append(announcement.seen.started_s))
    frontend.scheduler.start()
    return starts


def delay_observations(frontend: Frontend, seconds: float, count: int = 1) -> None:
    """Let OpenNebula answer late, so that periods last that long."""
    frontend.bench.ok(
        "embedded.fault.add",
        {"kind": "delay", "method": "one.hostpool.info", "seconds": seconds, "count": count},
    )


def test_an_event_starts_a_period_soon(frontend: Frontend) -> None:
    """The next interval begins there; further events meanwhile change nothing."""
    starts = record_starts(frontend)
    frontend.clock.pump([1.0] * 20)
    frontend.scheduler.wake()
    frontend.clock.pump([1.0] * 65)
    first = starts[0]
    assert [start - first for start in starts] == pytest.approx([0, 20, 80], abs=1.5)
    frontend.result(frontend.stopped())


def test_periods_keep_their_minimum_distance(frontend: Frontend) -> None:
    """This holds for any number of events."""
    starts = record_starts(frontend)
    for _ in range(60):
        frontend.clock.advance(0.25)
        frontend.scheduler.wake()
    gaps = [late - soon for soon, late in pairwise(starts)]
    least_s = frontend.scheduler.world.rhythm.least_interval_s
    assert len(gaps) >= 14
    assert all(least_s <= gap <= least_s + 0.25 for gap in gaps)
    frontend.result(frontend.stopped())


def test_events_of_opennebula_keep_a_longer_distance(frontend: Frontend) -> None:
    """Users of the cloud can cause any number of them; a wake for another reason overtakes them."""
    starts = record_starts(frontend)
    for _ in range(40):
        frontend.clock.advance(0.5)
        frontend.scheduler.wake_after_event()
    gaps = [late - soon for soon, late in pairwise(starts)]
    assert len(gaps) == 4
    assert all(EVENT_S <= gap <= EVENT_S + 0.5 for gap in gaps)
    frontend.clock.advance(1.0)
    frontend.scheduler.wake_after_event()
    frontend.scheduler.wake()
    frontend.clock.advance(0.5)
    assert starts[-1] == pytest.approx(frontend.clock.seconds(), abs=1.0)
    frontend.result(frontend.stopped())


@pytest.mark.parametrize(("mode", "seconds"), [(Mode.ON, 1.0), (Mode.DRY, EVENT_S)])
def test_events_while_vms_make_room_start_periods_at_once(mode: Mode, seconds: float) -> None:
    """An order pays for the room that they leave. In mode dry they never leave it."""
    site = OrderSite()
    try:
        site.state_order(site.vms("ann", 4), 3.0)
        site.periods(6)
        site.set_duration(Lcm.SAVE_STOP, 600.0)
        site.state_order(site.vms("bob", 4), 90.0)
        site.world_settings["acting"] = ActingSettings(mode=mode)
        site.start_daemon()
        site.periods(1)
        starts = record_starts(site)
        for _ in range(20):
            site.scheduler.wake_after_event()
            site.clock.advance(1.0)
        gaps = [later - earlier for earlier, later in pairwise(starts)]
        assert gaps
        assert gaps == pytest.approx([seconds] * len(gaps), abs=0.5)
        site.result(site.stopped())
    finally:
        site.close()


def test_an_event_during_a_period_starts_another(frontend: Frontend) -> None:
    """The running period may have missed it. The pause is as long as the running period was."""
    delay_observations(frontend, 10.0)
    starts = record_starts(frontend)
    frontend.clock.pump([1.0] * 5)
    frontend.scheduler.wake()
    frontend.clock.pump([1.0] * 20)
    assert [start - starts[0] for start in starts] == pytest.approx([0, 20], abs=1.5)
    frontend.result(frontend.stopped())


@pytest.mark.parametrize("lasts_s", [0.5, 3.0, 20.0, 50.0, 80.0, 200.0])
def test_at_most_half_of_the_time_is_spent_in_periods(lasts_s: float) -> None:
    """The pause is at least as long as the last period was, up to an interval."""
    clock, rhythm = Clock(), Rhythm()
    starts: list[float] = []
    ends: list[float] = []

    async def period() -> None:
        starts.append(clock.seconds())
        over: Deferred[None] = Deferred()
        clock.callLater(lasts_s, over.callback, None)
        await over
        ends.append(clock.seconds())

    timer = PeriodTimer(clock, rhythm, period)
    timer.start()
    for _ in range(8000):
        clock.advance(0.25)
        timer.wake()
    pauses = [start - end for start, end in zip(starts[1:], ends, strict=False)]
    least_s = min(lasts_s, rhythm.interval_s)
    assert len(pauses) >= 5
    assert min(pauses) >= least_s
    # Nor does it sleep: a woken daemon waits no longer than it must.
    assert max(pauses) <= max(least_s, rhythm.least_interval_s) + 0.5
    ended = ensureDeferred(timer.stop())
    clock.advance(lasts_s)
    assert ended.called


def test_an_event_after_the_stop_starts_no_period(frontend: Frontend) -> None:
    """Neither does one before the start."""
    frontend.scheduler.wake()
    starts = record_starts(frontend)
    frontend.clock.pump([1.0] * 5)
    frontend.result(frontend.stopped())
    frontend.scheduler.wake()
    frontend.scheduler.wake_for(TENANT)
    frontend.clock.pump([1.0] * 100)
    assert len(starts) == 1


def test_a_storm_of_one_account_is_bounded(frontend: Frontend) -> None:
    """After its early periods its calls wait for the next one; others start periods as before."""
    starts = record_starts(frontend)
    seconds = shorten(1800, 600)
    for _ in range(seconds):
        frontend.clock.advance(1.0)
        frontend.scheduler.wake_for(TENANT)
    interval_s = frontend.scheduler.world.rhythm.interval_s
    regular, refilled = seconds / interval_s, PER_HOUR * seconds / 3600
    assert AT_ONCE + regular / 2 <= len(starts) <= AT_ONCE + refilled + regular + 2
    while frontend.scheduler.world.early.want(TENANT):
        frontend.clock.advance(1.0)
    before = len(starts)
    frontend.clock.advance(2.0)
    assert len(starts) == before
    frontend.scheduler.wake_for(OTHER)
    frontend.clock.advance(1.0)
    assert len(starts) == before + 1
    frontend.result(frontend.stopped())


def test_a_change_counts_only_if_it_hastens_a_period(frontend: Frontend) -> None:
    """A thousand changes at once are one early period, whoever made them."""
    starts = record_starts(frontend)
    for _ in range(AT_ONCE - 1):
        frontend.clock.advance(10.0)
        for _ in range(1000):
            frontend.scheduler.wake_for(TENANT)
            frontend.scheduler.wake_for(OTHER)
    frontend.clock.advance(10.0)
    frontend.scheduler.wake_for(TENANT)
    frontend.clock.advance(2.0)
    assert len(starts) == AT_ONCE + 1
    frontend.result(frontend.stopped())


def test_an_awaited_time_starts_a_period(frontend: Frontend) -> None:
    """Each of several times does, once, although the clock of the times may stand still."""
    starts = record_starts(frontend)
    frontend.clock.advance(5.0)
    early = frontend.scheduler.world.early
    early.await_times([AwaitedTime(100.0, 22.5, TENANT), AwaitedTime(90.0, 12.5, TENANT)])
    frontend.clock.pump([0.5] * 26)
    assert [start - starts[0] for start in starts] == pytest.approx([0, 17.5], abs=0.6)
    # The period has forgotten the other time; the manager of platforms would state it again.
    early.await_times([AwaitedTime(90.0, 0.0, TENANT), AwaitedTime(100.0, 9.5, TENANT)])
    frontend.clock.pump([0.5] * 40)
    assert [start - starts[0] for start in starts] == pytest.approx([0, 17.5, 27.5], abs=0.6)
    frontend.result(frontend.stopped())


def test_the_times_of_an_exhausted_account_hide_no_others(frontend: Frontend) -> None:
    """Its time passes without an early period; a later one of another account starts one."""
    starts = record_starts(frontend)
    for _ in range(AT_ONCE):
        frontend.clock.advance(2.0)
        frontend.scheduler.wake_for(TENANT)
    frontend.clock.advance(2.0)
    before = len(starts)
    times = [AwaitedTime(5.0, 5.0, TENANT), AwaitedTime(10.0, 10.0, OTHER)]
    frontend.scheduler.world.early.await_times(times)
    frontend.clock.pump([0.5] * 16)
    assert len(starts) == before
    frontend.clock.pump([0.5] * 8)
    assert len(starts) == before + 1
    frontend.result(frontend.stopped())


def test_a_paused_daemon_starts_no_early_period(frontend: Frontend) -> None:
    """Calls of tenants would otherwise only read the cloud."""
    outcomes: list[str] = []
    frontend.scheduler.count(lambda outcome, _: outcomes.append(str(outcome)))
    frontend.scheduler.hold()
    frontend.scheduler.start()
    for _ in range(30):
        frontend.clock.advance(1.0)
        frontend.scheduler.wake_for(TENANT)
    assert outcomes == ["not_begun"]
    frontend.result(frontend.stopped())


def test_the_default_rhythm() -> None:
    """The least interval is a second."""
    assert Rhythm().least_interval_s == 1.0
