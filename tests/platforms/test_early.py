"""Periods start early because of platforms: changes, controllers' actions, prices and times."""

from collections.abc import Iterator
from itertools import pairwise

import pytest
from twisted.internet.defer import ensureDeferred

from merkatd.platforms.declarations.template_time import TemplateTime
from merkatd.platforms.tenant_orders import Update
from merkatd.protocol.platform_messages import (
    Action,
    Kinds,
    ProgressReport,
    SetBids,
    SetSize,
    SuspendPlatform,
    WorkDone,
)
from merkatd.scheduler.base.early_periods import AT_ONCE, PER_HOUR
from merkatd.scheduler.phases.announce import Announcement
from merkatd.service.base.callers import LOCAL
from merkatd.service.base.period_view import prepare
from tests.lengths import shorten
from tests.platforms.queues import MARKET
from tests.platforms.site import BOB, Site, platforms_at, template
from tests.served import services_at

SOON_S = 1.6
"""The least interval, and half a second for the ticks of the test."""
SECONDS = shorten(900, 300)
"""The time in which a tenant changes a bid each second."""


class RunningSite(Site):
    """A site whose timer starts periods."""

    offset_s = 0.0
    """The lead of the wall clock."""

    def wall_s(self) -> float:
        """Return the wall clock's time."""
        return self.clock.seconds() + self.offset_s

    def begin(self) -> None:
        """Start the timer."""
        self.steady: list[float] = []
        self.scheduler.count(lambda _, took_s: self.steady.append(self.clock.seconds() - took_s))
        self.starts: list[float] = []
        self.scheduler.listen(lambda told: self.starts.append(told.seen.started_s))
        self.scheduler.start()

    def run(self, seconds: float) -> int:
        """Let time pass; return the number of periods that began."""
        before = len(self.starts)
        for _ in range(round(seconds * 2)):
            self.clock.advance(0.5)
        return len(self.starts) - before

    def settle(self, most_s: float = 400.0) -> None:
        """Let time pass until only regular periods begin, and five seconds after one of them."""
        while most_s > 0 and self.run(50.0) > 0:
            most_s -= 50.0
        while not self.run(0.5):
            most_s -= 0.5
        self.run(5.0)

    def announced(self) -> Announcement:
        """Return the announcement of the last period."""
        assert self.scheduler.latest is not None
        return self.scheduler.latest

    def state_of(self, platform: int) -> str:
        """Return a platform's state."""
        return self.platform(platform).state


@pytest.fixture
def site() -> Iterator[RunningSite]:
    """Yield a site whose first period has ended."""
    made = RunningSite()
    made.begin()
    made.run(5.0)
    yield made
    made.result(made.stopped())
    made.agree()
    made.close()


def test_a_tenants_orders_start_periods(site: RunningSite) -> None:
    """A platform starts a second after its submission, and so do its suspension and its end."""
    service = platforms_at(site)
    platform = site.wait(service.submit(LOCAL, site.ann, template())).id
    site.run(SOON_S)
    assert site.state_of(platform) == "starting"
    site.run(120.0)
    site.settle()
    assert site.state_of(platform) == "running"
    for order, state in ((service.suspend, "suspending"), (service.resume, "resuming")):
        site.wait(order(LOCAL, platform))
        assert site.run(SOON_S) == 1
        assert site.state_of(platform) == state
        site.run(120.0)
        site.settle()
    site.wait(service.update(LOCAL, platform, Update(deadline=TemplateTime(after_s=9000.0))))
    assert site.run(SOON_S) == 1
    site.settle()
    site.wait(service.stop(LOCAL, platform))
    site.run(SOON_S)
    assert all(member.leaving for member in site.members(platform))
    assert site.run(SOON_S) <= 1


def test_a_bid_starts_a_period(site: RunningSite) -> None:
    """The same bid again changes nothing, and starts none."""
    vm = site.vm(4.0, BOB)
    site.run(60.0)
    services = services_at(site.scheduler)
    site.settle()
    for bid, count in ((2.0, 1), (2.0, 0), (3.0, 1)):
        view = prepare(site.announced(), site.scheduler.world.markets)
        site.wait(services.bids.set_bid(LOCAL, view, vm, {"cpu": bid}))
        assert site.run(SOON_S) == count
        site.settle()


def test_a_controllers_actions_start_periods(site: RunningSite) -> None:
    """Repeated bids, and reports wait for the next period."""
    platform = site.submit()
    site.run(120.0)
    site.settle()
    first, second = site.vms(platform)
    news = SetBids(bids={first: {"cpu": 2.0}, second: {"cpu": 2.0}})
    actions: list[tuple[Action, int]] = [
        (news, 1),
        (news, 0),
        (SetBids(bids={first: {"cpu": 3.0}}), 1),
        (ProgressReport(done=0.5), 0),
        (SetSize(cluster="nodes", count=3), 1),
        (SuspendPlatform(), 1),
    ]
    for number, (action, count) in enumerate(actions):
        assert site.act(platform, action, str(number)).accepted
        assert site.run(SOON_S) == count, action
        site.settle()
    site.wait(site.manager.resume(platform, "ann"))
    site.run(120.0)
    site.settle()
    assert site.act(platform, WorkDone(), "done").accepted
    assert site.run(SOON_S) == 1


def test_a_patient_platform_takes_part_within_seconds() -> None:
    """Its VMs are created, its order is stated, and its VMs are deployed, a second apart."""
    site = RunningSite(markets=(MARKET,))
    site.notes.offered = Kinds(("patient",), ("steps",))
    site.begin()
    site.settle()
    platform = site.submit(
        controller='[controller]\nkind = "patient"',
        slo='[slo]\ndeadline = "4h"\nideal_run = "1h"',
    )
    site.scheduler.wake()
    site.run(3 * SOON_S)
    assert site.state_of(platform) == "queued"
    assert {site.state(vm) for vm in site.vms(platform)} == {"RUNNING"}
    site.settle()
    assert site.state_of(platform) == "running"
    assert site.run(300.0) == 5
    site.result(site.stopped())
    site.close()


def test_a_failing_controller_starts_a_period(site: RunningSite) -> None:
    """The bids of its VMs are 0 from then on."""
    platform = site.submit()
    site.run(120.0)
    site.settle()
    site.wait(site.manager.ended(platform, "it ended with code 1", final=False))
    assert site.run(SOON_S) == 1


def test_a_new_price_starts_a_waiting_platform(site: RunningSite) -> None:
    """The period that lowers the price is followed by one that starts the platform."""
    dear = [site.vm(50.0, BOB) for _ in range(6)]
    site.run(180.0)
    platform = site.submit(start="[start.price_ceiling]\ncpu = 0.05")
    site.run(120.0)
    assert site.state_of(platform) == "postponed"
    site.settle()
    for vm in dear:
        site.bench.ok("one.vm.action", "terminate-hard", vm)
    site.run(8.0)  # the VMs end
    before = len(site.starts)
    site.scheduler.wake()
    site.run(2.0 * SOON_S)
    assert len(site.starts) == before + 2
    assert site.state_of(platform) == "starting"


def test_the_end_of_vms_starts_a_period_if_others_wait(site: RunningSite) -> None:
    """Their room is free."""
    platform = site.submit()
    site.run(120.0)
    site.settle()
    for vm in site.vms(platform):
        site.bench.ok("one.vm.action", "terminate-hard", vm)
    site.run(8.0)
    before = len(site.starts)
    site.scheduler.wake()
    site.run(2.0 * SOON_S)
    assert len(site.starts) == before + 1
    site.submit(start='[start]\nnot_before = "5h"')
    site.run(120.0)
    site.settle()
    for vm in site.vms(platform):
        site.bench.ok("one.vm.action", "terminate-hard", vm)
    site.run(8.0)
    before = len(site.starts)
    site.scheduler.wake()
    site.run(2.0 * SOON_S)
    assert len(site.starts) == before + 2


@pytest.mark.parametrize(
    ("changes", "after_s", "state"),
    [
        ({"start": '[start]\nnot_before = "287s"'}, 287.0, "starting"),
        (
            {"start": '[start]\nlatest = "287s"\n[start.price_ceiling]\ncpu = 0.0'},
            287.0,
            "cancelled",
        ),
        (
            {
                "slo": '[slo]\ndeadline = "387s"\nideal_run = "100s"',
                "start": "[start.price_ceiling]\ncpu = 0.0",
            },
            287.0,
            "cancelled",
        ),
        ({"slo": '[slo]\ndeadline = "287s"\nideal_run = "10s"'}, 287.0, "stopping"),
    ],
)
def test_awaited_times_start_periods(
    site: RunningSite, changes: dict[str, str], after_s: float, state: str
) -> None:
    """The period begins at that time, and not up to a minute later."""
    site.vm(50.0, BOB)  # gives CPU a price
    site.run(60.0)
    submitted_s = site.clock.seconds()
    platform = site.take(site.ann, template(**changes))
    while site.clock.seconds() < submitted_s + after_s - 0.5:
        site.run(0.5)
        assert site.state_of(platform) != state
    site.run(2.0)
    assert site.state_of(platform) == state


def test_the_end_of_a_rest_starts_a_period(site: RunningSite) -> None:
    """A suspended platform rests for ten intervals."""
    platform = site.submit()
    site.run(120.0)
    site.settle()
    site.act(platform, SuspendPlatform())
    while site.state_of(platform) != "suspended":
        site.run(0.5)
    since_s = site.platform(platform).since_s
    site.run(since_s + 599.0 - site.clock.seconds())
    assert site.state_of(platform) == "suspended"
    site.run(3.0)
    assert site.state_of(platform) == "resuming"


def test_a_jumping_clock_starts_no_storm(site: RunningSite) -> None:
    """It jumps ahead and is set back, right before the times of platforms or over them."""
    site.submit(start='[start]\nnot_before = "1h"')
    site.submit(start='[start]\nnot_before = "2h"')
    site.run(120.0)
    for jump_s in (3470.0, -3470.0, 7100.0, -7200.0, 3479.0, -100.0):
        site.offset_s += jump_s
        assert 4 <= site.run(240.0) <= 4 + 3
    assert all(late - soon <= 61.0 for soon, late in pairwise(site.steady))


def test_changes_of_bids_in_each_second_are_bounded(site: RunningSite) -> None:
    """An account causes 30 early periods at once, and one in two minutes after that."""
    vm = site.vm(4.0, BOB)
    site.run(60.0)
    services = services_at(site.scheduler)
    before = len(site.starts)
    for number in range(SECONDS):
        view = prepare(site.announced(), site.scheduler.world.markets)
        bid = {"cpu": 2.0 + number % 2}
        ensureDeferred(services.bids.set_bid(LOCAL, view, vm, bid))
        site.clock.advance(1.0)
    count = len(site.starts) - before
    hours, minutes = SECONDS / 3600, SECONDS / 60
    assert AT_ONCE <= count <= AT_ONCE + PER_HOUR * hours + minutes + 2
