"""Decisions of application controllers, each with one VM, artificial news and no cloud."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from controllers.applications.deadline_controllers import (
    FullDeadline,
    FullPerformance,
    PartialDeadline,
    Patient,
)
from controllers.applications.iterative import Iterative
from merkatd.policies.deadline import Funds
from merkatd.policies.patience import PatienceSettings, limit_price, need_of
from merkatd.policies.suspension import REST
from merkatd.protocol.bus_messages import Measured, Remember, Stored
from merkatd.protocol.platform_messages import (
    ActionOutcome,
    GiveUp,
    OrderStatus,
    ProgressReport,
    SetBids,
    SetLimit,
    SuspendPlatform,
    WorkDone,
)
from tests.bus.rig import assignment, news

INTERVAL_S = 60.0
LEFT_S = 6_000.0
PERIODS = LEFT_S / INTERVAL_S
FULL_COST = 100.0 * 0.01 + 512.0 * 0.001
"""The credits for a period with all that the VM can use."""
UNITS = 100.0
"""The CPU that the VM can use."""
CAPACITY = 150.0
"""The CPU of the market of a patient platform."""


class Platform:
    """A controller of one VM with half of its maximum; it records its requests."""

    def __init__(self, kind: type[Iterative], name: str, ideal_s: float, **parameters: Any) -> None:
        self.asked: list[Any] = []
        self.accepts = True
        plain = assignment(controller=name)
        given = replace(
            plain,
            clusters=tuple(replace(cluster, floor={"memory": 64.0}) for cluster in plain.clusters),
            parameters={"steps": 100} | parameters,
            ideal_s=ideal_s,
            deadline_s=1_000.0 + INTERVAL_S + LEFT_S,
        )
        self._deadline_s = given.deadline_s
        self._controller = kind(given, self)

    async def ask(self, body: Any, action_id: str = "") -> Any:
        """Answer as the daemon does."""
        assert not action_id
        if isinstance(body, Remember):
            return Stored()
        self.asked.append(body)
        return ActionOutcome(accepted=self.accepts)

    def requests(self, kind: type) -> list[Any]:
        """Return the controller's requests of one kind."""
        return [message for message in self.asked if isinstance(message, kind)]

    async def take(self, latest: Any) -> None:
        """Send the controller one news."""
        await self._controller.take(latest)

    def measure(self, at_s: float, **values: float) -> None:
        """Send measurements of its monitor."""
        seen = Measured(cluster="workers", at_s=at_s, values=values)
        asyncio.run(self._controller.take(seen))

    def periods(
        self, count: int, credits_: float, done: float = 0.0, first: int = 1, state: str = "running"
    ) -> None:
        """Send the same news in several periods, starting with `first`."""
        for period in range(first, first + count):
            latest = news(period=period, deadline_s=self._deadline_s, balance=credits_, state=state)
            seen = Measured(cluster="workers", at_s=latest.at_s, values={"done": done})
            asyncio.run(self._controller.take(seen))
            asyncio.run(self._controller.take(latest))

    def read(self, order: OrderStatus | None, period: int = 1, credits_: float = 1_000.0) -> None:
        """Send one period's news with the platform's limit order."""
        latest = news(
            period=period,
            deadline_s=self._deadline_s,
            balance=credits_,
            order=order,
            capacity={"cpu": CAPACITY, "memory": 1e6},
            prices={"cpu": 0.01, "memory": 0.001},
        )
        asyncio.run(self._controller.take(latest))


def credits_for(part: float) -> float:
    """Return a balance for this part of the VM's maximum until the deadline."""
    return part * FULL_COST * PERIODS


@pytest.mark.parametrize(
    ("kind", "name"),
    [(FullPerformance, "full_performance"), (PartialDeadline, "partial_deadline")],
)
class TestLeastPart:
    def test_a_platform_that_cannot_pay_for_its_least_part_is_suspended(
        self, kind: type[Iterative], name: str
    ) -> None:
        """By default that is 30 % of its VMs' maximum."""
        for part, suspended in ((0.2, True), (0.4, False)):
            platform = Platform(kind, name, ideal_s=600.0)
            platform.periods(2, credits_for(part))
            assert bool(platform.requests(SuspendPlatform)) is suspended

    def test_the_template_sets_the_least_part(self, kind: type[Iterative], name: str) -> None:
        """It may be above or below the default."""
        for least_part, suspended in ((0.6, True), (0.1, False)):
            platform = Platform(kind, name, ideal_s=600.0, least_part=least_part)
            platform.periods(2, credits_for(0.4 if suspended else 0.2))
            assert bool(platform.requests(SuspendPlatform)) is suspended

    def test_one_expensive_period_suspends_no_platform(
        self, kind: type[Iterative], name: str
    ) -> None:
        """Prices vary while others settle."""
        platform = Platform(kind, name, ideal_s=600.0)
        platform.periods(1, credits_for(0.25))
        platform.periods(1, credits_for(0.4))
        platform.periods(1, credits_for(0.25))
        assert not platform.requests(SuspendPlatform)

    def test_one_period_that_is_far_too_expensive_suspends(
        self, kind: type[Iterative], name: str
    ) -> None:
        """The VM has a half but can pay for a fiftieth."""
        platform = Platform(kind, name, ideal_s=600.0)
        platform.periods(1, credits_for(0.02))
        assert platform.requests(SuspendPlatform)

    def test_a_platform_that_was_just_resumed_keeps_running(
        self, kind: type[Iterative], name: str
    ) -> None:
        """It is suspended again only after the rest that follows each change."""
        platform = Platform(kind, name, ideal_s=600.0)
        platform.periods(1, credits_for(0.4), state="resuming")
        platform.periods(REST - 1, credits_for(0.01), first=2)
        assert not platform.requests(SuspendPlatform)
        platform.periods(2, credits_for(0.01), first=REST + 1)
        assert platform.requests(SuspendPlatform)


def test_completed_work_needs_no_pace() -> None:
    """At first two thirds of full speed are needed, after half of the work one third."""
    for done, suspended in ((0.0, True), (50.0, False)):
        platform = Platform(FullDeadline, "deadline", ideal_s=4_000.0)
        platform.periods(2, credits_for(0.5), done)
        assert bool(platform.requests(SuspendPlatform)) is suspended


class TestEnd:
    def test_the_end_of_the_work_is_reported_at_once(self) -> None:
        """A program that has made all iterations may still write its results."""
        platform = Platform(FullDeadline, "deadline", ideal_s=600.0)
        platform.periods(1, credits_for(1.0))
        platform.measure(at_s=1_070.0, done=100.0)
        assert not platform.requests(WorkDone)
        platform.measure(at_s=1_080.0, done=100.0, exit=0.0)
        platform.measure(at_s=1_090.0, done=100.0, exit=0.0)
        assert len(platform.requests(WorkDone)) == 1

    def test_a_report_that_the_daemon_refuses_is_repeated(self) -> None:
        """An accepted one is not."""
        for accepts in (False, True):
            platform = Platform(FullDeadline, "deadline", ideal_s=600.0)
            platform.periods(1, credits_for(1.0))
            platform.accepts = accepts
            platform.measure(at_s=1_080.0, done=100.0, exit=0.0)
            platform.periods(1, credits_for(1.0), done=100.0, first=2)
            assert len(platform.requests(WorkDone)) == (1 if accepts else 3)

    def test_a_failure_waits_for_the_next_decision(self) -> None:
        """Until then the VM may start the application again."""
        platform = Platform(FullDeadline, "deadline", ideal_s=600.0)
        platform.periods(1, credits_for(1.0))
        platform.measure(at_s=1_080.0, done=40.0, exit=1.0)
        assert not platform.requests(GiveUp)
        platform.measure(at_s=1_090.0, done=0.0)
        platform.periods(1, credits_for(1.0), done=1.0, first=2)
        assert not platform.requests(GiveUp)

    def test_work_that_was_done_before_any_news_ends_with_the_first(self) -> None:
        """Without news it is unknown which clusters have VMs."""
        platform = Platform(FullDeadline, "deadline", ideal_s=600.0)
        platform.measure(at_s=1_050.0, done=100.0, exit=0.0)
        assert not platform.requests(WorkDone)
        platform.periods(1, credits_for(1.0), done=100.0)
        assert platform.requests(WorkDone)


class TestPatience:
    @pytest.fixture
    def platform(self) -> Platform:
        """Return a platform with time to spare."""
        return Platform(Patient, "patient", ideal_s=600.0)

    @property
    def offered(self) -> float:
        """Return the limit of the first period: the policy's price for all units of CPU."""
        need = need_of(Funds(credits=1_000.0), UNITS, CAPACITY, 600.0, LEFT_S)
        return UNITS * limit_price(need, INTERVAL_S, PatienceSettings())

    def test_it_states_its_limit_and_bids_nothing(self, platform: Platform) -> None:
        """The first news of a process is always answered, as the daemon then knows it works."""
        platform.read(None)
        assert [request.limit for request in platform.requests(SetLimit)] == [
            pytest.approx(self.offered)
        ]
        stated = platform.requests(SetLimit)[-1].limit
        for period in (1, 1):
            platform.read(OrderStatus(limit=stated, runs=True, cost=0.1), period)
        assert len(platform.requests(SetLimit)) == 1
        assert not platform.requests(SetBids)
        assert not platform.requests(SuspendPlatform)

    def test_its_limit_rises_and_never_falls_while_it_runs(self, platform: Platform) -> None:
        """It keeps the limit with which it started, so that no lower order takes its room."""
        platform.read(OrderStatus(limit=3.0 * self.offered, runs=True, cost=0.1))
        assert platform.requests(SetLimit)[-1].limit == 3.0 * self.offered
        platform.read(OrderStatus(limit=3.0 * self.offered, runs=False, cost=None), 2)
        waits = platform.requests(SetLimit)[-1].limit
        assert self.offered < waits < 1.1 * self.offered

    def test_its_limit_is_at_most_its_balance(self, platform: Platform) -> None:
        """Without credits it states nothing."""
        running = OrderStatus(limit=50.0, runs=True, cost=0.1)
        platform.read(running, credits_=20.0)
        assert platform.requests(SetLimit)[-1].limit == 20.0
        platform.read(running, 2, credits_=0.0)
        assert len(platform.requests(SetLimit)) == 1

    def test_its_report_says_what_it_pays(self, platform: Platform) -> None:
        """And the most that it would pay."""
        platform.periods(3, 1_000.0, done=10.0)
        platform.read(OrderStatus(limit=12.5, runs=True, cost=3.25), 4)
        text = platform.requests(ProgressReport)[-1].text
        assert text.endswith("; runs for at most 12.5 credits a period, pays 3.25")


def test_a_vm_whose_bid_was_withdrawn_bids_again() -> None:
    """The daemon withdraws bids of failed controllers; a VM without CPU shows no pace."""
    platform = Platform(FullDeadline, "deadline", 1_000.0)
    latest = news(period=1, deadline_s=1_000.0 + INTERVAL_S + LEFT_S, balance=50_000.0)
    (vm,) = latest.vms
    bid, got = {"cpu": 0.0, "memory": 1.0}, {"cpu": 0.0, "memory": 512.0}
    latest = replace(latest, vms=(replace(vm, bid=bid, allocation=got),))
    asyncio.run(platform.take(latest))
    (bids,) = platform.requests(SetBids)[-1].bids.values()
    assert all(bids[name] > 0 for name in ("cpu", "memory")), bids
