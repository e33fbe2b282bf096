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
from merkatd.protocol.platform_messages import ActionOutcome, Claim, SetBids, SuspendPlatform
from tests.bus.rig import assignment, news

INTERVAL_S = 60.0
LEFT_S = 6_000.0
PERIODS = LEFT_S / INTERVAL_S
FULL_COST = 100.0 * 0.01 + 512.0 * 0.001
"""The credits for a period with all that the VM can use."""
UNITS = 100.0
"""The CPU that the VM can use."""


class Platform:
    """A controller of one VM with half of its maximum; it records its requests."""

    def __init__(self, kind: type[Iterative], name: str, ideal_s: float, **parameters: Any) -> None:
        self.asked: list[Any] = []
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
        return ActionOutcome(accepted=True)

    def requests(self, kind: type) -> list[Any]:
        """Return the controller's requests of one kind."""
        return [message for message in self.asked if isinstance(message, kind)]

    async def take(self, latest: Any) -> None:
        """Send the controller one news."""
        await self._controller.take(latest)

    def periods(
        self, count: int, credits_: float, done: float = 0.0, first: int = 1, state: str = "running"
    ) -> None:
        """Send the same news in several periods, starting with `first`."""
        for period in range(first, first + count):
            latest = news(period=period, deadline_s=self._deadline_s, balance=credits_, state=state)
            seen = Measured(cluster="workers", at_s=latest.at_s, values={"done": done})
            asyncio.run(self._controller.take(seen))
            asyncio.run(self._controller.take(latest))

    def read(self, claims: list[Claim], own: Claim | None, capacity: float) -> None:
        """Send one period's news with the market's book of claims."""
        prices = {"cpu": 0.01, "memory": 0.001}
        latest = news(
            deadline_s=self._deadline_s,
            balance=1_000.0,
            claim=own,
            capacity={"cpu": capacity, "memory": 1e6},
            prices=prices,
        )
        latest = replace(latest, market=replace(latest.market, claims=tuple(claims)))
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


class TestPatience:
    CAPACITY = 150.0
    """Room for one of two VMs at full speed."""

    @pytest.fixture
    def platform(self) -> Platform:
        """Return a platform with time to spare."""
        return Platform(Patient, "patient", ideal_s=600.0)

    @property
    def offered(self) -> float:
        """Return the platform's offer for a unit of CPU while it waits."""
        purse = Funds(credits=1_000.0)
        need = need_of(purse, UNITS, self.CAPACITY, 600.0, LEFT_S)
        return limit_price(need, INTERVAL_S, PatienceSettings())

    def test_a_running_platform_keeps_its_room(self, platform: Platform) -> None:
        """An offer 1.5 times its own before the start does not suspend it."""
        platform.read([Claim(price=1.5 * self.offered, units=UNITS)], None, self.CAPACITY)
        assert not platform.requests(SuspendPlatform)
        (own,) = platform.requests(Claim)
        assert own.price == pytest.approx(2.0 * self.offered)
        platform.read([Claim(price=2.5 * self.offered, units=UNITS)], None, self.CAPACITY)
        assert platform.requests(SuspendPlatform)

    def test_its_claim_never_falls(self, platform: Platform) -> None:
        """It keeps its claim, so that no lower offer takes its room."""
        own = Claim(price=3.0 * self.offered, units=UNITS)
        other = Claim(price=2.5 * self.offered, units=UNITS)
        platform.read([own, other], own, self.CAPACITY)
        assert not platform.requests(SuspendPlatform)
        assert not platform.requests(Claim)

    def test_its_own_claim_takes_no_room_from_it(self, platform: Platform) -> None:
        """The book contains the claim of the previous period."""
        own = Claim(price=2.0 * self.offered, units=UNITS)
        platform.read([own], own, self.CAPACITY)
        assert not platform.requests(SuspendPlatform)


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
