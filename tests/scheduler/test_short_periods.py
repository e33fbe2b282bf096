"""Short periods cost and do as much as long ones: money, debts, migrations, memory."""

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from merkatd.cluster import Migrate
from merkatd.currency.settings import MoneySettings
from merkatd.database.ledger import usage_store
from merkatd.database.scheduler import journal, period_store
from merkatd.embedded.model.settings import HostSize
from merkatd.placement.contract import Pricing
from merkatd.scheduler.base.acting_settings import ActingSettings
from merkatd.scheduler.base.settings import MarketRules, Rhythm
from merkatd.scheduler.charging.charged_span import CYCLE_S, ChargedSpan
from merkatd.scheduler.execution.execute import PeriodResult
from merkatd.scheduler.observation.observed import RecentUse
from merkatd.scheduler.pace import PeriodPace
from merkatd.scheduler.period import Scheduler
from merkatd.scheduler.phases.permission import Permission
from tests.lengths import shorten
from tests.scheduler.frontend import START_S, Frontend
from tests.scheduler.test_recent import RESOURCES, look, use

INTERVAL_S = 60.0
SPAN_S = shorten(180, 60)
PACE_S = shorten(2, 4)
"""The time between early periods."""


@given(
    st.floats(0.0, 1e4),
    st.floats(0.0, 2e9),
    st.lists(st.integers(1, 60 * 64), min_size=1, max_size=60),
)
def test_charges_of_parts_add_up_to_that_of_the_whole(
    cost: float, from_s: float, parts: list[int]
) -> None:
    """They differ by a micro-credit at most, and each is at most what the decision reserved."""
    at_s, costs, total = float(int(from_s)), np.array([[cost]]), 0
    for part in parts:
        seconds = part / 64
        span = ChargedSpan(at_s, INTERVAL_S, 2.0)
        owed = int(span.owed(costs, np.array([[seconds]]))[0, 0])
        exact = cost * 1e6 * seconds / INTERVAL_S
        assert max(exact - 1.001, 0) <= owed + 1e-9 <= exact + 1.001
        total += owed
        at_s += seconds
    # A cycle that ends meanwhile rounds once more.
    cycles = at_s // CYCLE_S - from_s // CYCLE_S
    exact = cost * 1e6 * sum(parts) / 64 / INTERVAL_S
    assert abs(total - exact) <= 1.001 + cycles


def test_a_charge_is_at_most_the_reservation() -> None:
    """A VM that costs less than a micro-credit in the reserved time pays nothing."""
    owed = [
        int(ChargedSpan(at_s, INTERVAL_S, 2.0).owed(np.array([[0.2e-6]]), 1.0)[0, 0])
        for at_s in range(1000)
    ]
    assert max(owed) == 0
    owed = [
        int(ChargedSpan(at_s, INTERVAL_S, 2.0).owed(np.array([[0.3e-6]]), 1.0)[0, 0])
        for at_s in range(1000)
    ]
    assert (max(owed), sum(owed)) == (1, 5)


@contextmanager
def frontend_of(**world: Any) -> Iterator[Frontend]:
    """Yield a frontend with one host, and close it."""
    made = Frontend(hosts=1, size=HostSize(400, 8192), **world)
    try:
        yield made
    finally:
        made.close()


def charged(frontend: Frontend, since: int) -> dict[int, np.ndarray]:
    """Return the micro-credits of each VM by resource, for periods from this number on."""
    sums: dict[int, np.ndarray] = defaultdict(lambda: np.zeros(2, dtype=np.int64))
    newest = frontend.read(period_store.newest).number
    for number in range(since, newest):
        detail = frontend.read(lambda c, number=number: usage_store.load(c, number))
        for vm, amounts in zip(detail.vm.tolist(), detail.charged, strict=True):
            sums[vm] = sums[vm] + amounts
    return sums


@pytest.mark.parametrize("bids", [(3.7, 11.0, 0.9), (1e-5, 3e-5, 2e-6), (0.0, 0.0, 0.0)])
def test_periods_of_a_second_charge_as_much_as_those_of_a_minute(
    bids: tuple[float, ...],
) -> None:
    """At constant bids the charges of each VM for some minutes differ by one micro-credit."""
    found = []
    for each_s in (60.0, 1.0):
        with frontend_of() as frontend:
            for bid in bids:
                frontend.vm(bid, MERKAT_BID_MEMORY=bid / 3)
            frontend.vm(bids[0], MERKAT_BID_MEMORY=bids[0])
            frontend.periods(8)
            while frontend.clock.seconds() < START_S + 600.0:
                frontend.clock.advance(1.0)
            since = frontend.period().period
            frontend.clock.advance(each_s)
            frontend.periods(int(SPAN_S / each_s), each_s)
            found.append(charged(frontend, since))
    assert found[0].keys() == found[1].keys() == {0, 1, 2, 3}
    for vm, amounts in found[0].items():
        assert np.abs(amounts - found[1][vm]).max() <= 1, vm
    assert any(amounts.any() for amounts in found[1].values()) == any(bids)


def test_a_start_costs_its_least_charge_once() -> None:
    """With a period in each second, twenty seconds of running cost no more than with one."""
    found = []
    for each_s in (24.0, 1.0):
        with frontend_of() as frontend:
            vm = frontend.vm(3.0)
            frontend.periods(4)
            frontend.bench.ok("one.vm.action", "suspend", vm)
            frontend.periods(4)
            since = frontend.period().period
            frontend.clock.advance(5.0)
            frontend.bench.ok("one.vm.action", "resume", vm)
            frontend.clock.advance(1.0)
            frontend.placed_again.add(vm)
            frontend.periods(int(24.0 / each_s), each_s)
            frontend.bench.ok("one.vm.action", "suspend", vm)
            frontend.clock.advance(1.0)
            frontend.periods(3, each_s)
            newest = frontend.read(period_store.newest).number
            details = [
                frontend.read(lambda c, number=number: usage_store.load(c, number))
                for number in range(since, newest)
            ]
            found.append(sum(float(detail.seconds.sum()) for detail in details))
    assert 15.0 <= found[1] <= found[0] + 2.0


def test_a_debt_suspends_vms_after_as_much_time() -> None:
    """Five intervals without payment are five minutes, however many periods they have."""
    waited = []
    reserve = {"cpu": 0.001, "memory": 0.0001}
    market = MarketRules(pricing=Pricing(reserve=reserve))
    money = MoneySettings(supply=1e6, starting_credits=0.0, renewal_s=1e9, unpaid_periods=5)
    for each_s in (60.0, shorten(2, 5)):
        with frontend_of(money=money, markets=(market,)) as frontend:
            poor = frontend.vm(1.0, frontend.user("ann"), MERKAT_MIN_MEMORY=1024)
            while frontend.state(poor) != "RUNNING":
                frontend.periods(1, each_s)
            began_s = frontend.clock.seconds()
            while frontend.state(poor) == "RUNNING":
                frontend.periods(1, each_s)
                assert frontend.clock.seconds() < began_s + 3600.0
            waited.append(frontend.clock.seconds() - began_s)
    assert 270.0 <= waited[0] <= 420.0
    assert waited[1] == pytest.approx(waited[0], abs=90.0)


def run_paced(frontend: Frontend, seconds: int, step_s: float = 1.0) -> None:
    """Let the timer run, and wake it after each step of time."""
    for _ in range(int(seconds / step_s)):
        frontend.clock.advance(step_s)
        frontend.scheduler.wake()


def migrations(frontend: Frontend) -> list[tuple[float, int]]:
    """Return the time and the VM of each planned migration, oldest first."""
    rows = frontend.read(lambda c: journal.recent(c, journal.StepFilter(), 100_000))
    return sorted((row.planned_s, row.step.vm) for row in rows if isinstance(row.step, Migrate))


def crowded(**world: Any) -> Frontend:
    """Return a frontend with all VMs on the first of four hosts."""
    frontend = Frontend(hosts=4, size=HostSize(1600, 65_536), **world)
    for other in (1, 2, 3):
        frontend.bench.ok("one.host.status", other, 1)
    for _ in range(40):
        frontend.vm(5.0, MEMORY=512)
    frontend.periods(4)
    for other in (1, 2, 3):
        frontend.bench.ok("one.host.status", other, 0)
    return frontend


def test_early_periods_migrate_no_more_vms() -> None:
    """At most one period of an interval migrates VMs, as many as a period may."""
    frontend = crowded()
    try:
        frontend.scheduler.start()
        run_paced(frontend, 300, PACE_S)
        times = np.array([at_s for at_s, _ in migrations(frontend)])
        assert len(times) >= 10
        waves = [times[0]]
        for at_s in times.tolist():
            if at_s - waves[-1] > 5.0:
                waves.append(at_s)
        assert min(np.diff(waves)) >= 0.9 * INTERVAL_S
        assert len(waves) >= 3
        most = max(sum(abs(times - wave) <= 5.0) for wave in waves)
        assert most <= 8
        frontend.result(frontend.stopped())
    finally:
        frontend.close()


def test_quiet_periods_last_as_many_intervals() -> None:
    """Early periods count for nothing: three quiet periods last two intervals at least."""
    acting = ActingSettings(quiet_periods=3, quiet_migrations=1)
    frontend = crowded()
    try:
        frontend.world_settings = {"acting": acting}
        frontend.start_daemon()
        began_s = frontend.clock.seconds()
        frontend.scheduler.start()
        run_paced(frontend, 300, PACE_S)
        times = [at_s for at_s, _ in migrations(frontend) if at_s >= began_s]
        quiet = [at_s for at_s in times if at_s < began_s + 2 * 0.9 * INTERVAL_S]
        assert 1 <= len(quiet) <= 2
        assert len(times) > 8
        frontend.result(frontend.stopped())
    finally:
        frontend.close()


@pytest.mark.parametrize(("after_s", "part"), [(15.0, 0.25), (57.0, 1.0), (60.0, 1.0), (90.0, 1.0)])
def test_balloons_change_at_the_same_speed(after_s: float, part: float) -> None:
    """A period after a quarter of an interval changes a balloon by a quarter of the most."""
    with frontend_of() as frontend:
        world, pace = frontend.scheduler.world, PeriodPace(frontend.clock)
        pace.begin()
        assert pace.paced(world, Permission()) == (world, Permission())
        done = frontend.period()
        pace.end(PeriodResult(done.seen, done.decided, done.acted))
        frontend.clock.advance(after_s)
        pace.begin()
        memory = pace.paced(world, Permission())[0].limits.memory
        assert memory.most_step_mib == world.limits.memory.most_step_mib * part
        assert memory.most_step_part == world.limits.memory.most_step_part * part


def test_samples_of_use_last_an_interval() -> None:
    """Twelve samples cover twelve intervals, also with a period in each second."""
    recent, at = RecentUse(), {7: 1}
    for second in range(1000):
        seen = look(float(second), [1], at)
        recent.met(seen, use({7: second * 0.5}, {7: 300.0}), INTERVAL_S)
    history = recent.history(seen, RESOURCES)
    assert history is not None
    assert history.at_s[-1] - history.at_s[0] >= 11 * INTERVAL_S
    np.testing.assert_allclose(history.vms[:, 0, 0], 50.0)


def test_regular_samples_are_kept_as_they_are() -> None:
    """An interval that is a little shorter or longer makes no difference."""
    recent, at, now_s = RecentUse(), {7: 1}, 0.0
    for step_s in (60.0, 60.1, 59.9, 58.0, 62.0):
        now_s += step_s
        recent.met(look(now_s, [1], at), use({7: now_s}, {7: 300.0}), INTERVAL_S)
    history = recent.history(look(now_s, [1], at), RESOURCES)
    assert history is not None
    assert len(history.at_s) == 5


def test_the_timer_uses_the_rhythm_of_the_scheduler() -> None:
    """A scheduler with another least interval keeps it."""
    with frontend_of(rhythm=Rhythm(least_interval_s=7.0)) as frontend:
        starts: list[float] = []
        frontend.scheduler.listen(lambda told: starts.append(told.seen.started_s))
        frontend.scheduler.start()
        run_paced(frontend, 30)
        assert isinstance(frontend.scheduler, Scheduler)
        assert min(np.diff(starts)) >= 7.0
        frontend.result(frontend.stopped())
