"""What controllers of applications decide: each with one VM, news made by hand, and no cloud."""

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
"""Credits for a period with all that the VM can use."""
UNITS = 100.0
"""CPU that the VM can use."""


class Platform:
    """A controller of one VM with half of what it can use; it remembers what it is asked."""

    def __init__(self, kind: type[Iterative], name: str, ideal_s: float, **parameters: Any) -> None:
        self.asked: list[Any] = []
        plain = assignment(controller=name)
        given = replace(
            plain,
            clusters=tuple(replace(one, floor={"memory": 64.0}) for one in plain.clusters),
            parameters={"steps": 100} | parameters,
            ideal_s=ideal_s,
            deadline_s=1_000.0 + INTERVAL_S + LEFT_S,
        )
        self._deadline_s = given.deadline_s
        self._one = kind(given, self)

    async def ask(self, body: Any, action_id: str = "") -> Any:
        """Answer as the daemon does."""
        assert not action_id
        if isinstance(body, Remember):
            return Stored()
        self.asked.append(body)
        return ActionOutcome(accepted=True)

    def said(self, kind: type) -> list[Any]:
        """Return what the controller asked for, of one kind."""
        return [one for one in self.asked if isinstance(one, kind)]

    async def take(self, latest: Any) -> None:
        """Tell the controller one news."""
        await self._one.take(latest)

    def periods(
        self, count: int, credits_: float, done: float = 0.0, first: int = 1, state: str = "running"
    ) -> None:
        """Tell the same news several times, in the periods from `first` on."""
        for period in range(first, first + count):
            latest = news(period=period, deadline_s=self._deadline_s, balance=credits_, state=state)
            seen = Measured(cluster="workers", at_s=latest.at_s, values={"done": done})
            asyncio.run(self._one.take(seen))
            asyncio.run(self._one.take(latest))

    def read(self, claims: list[Claim], own: Claim | None, capacity: float) -> None:
        """Tell one period's news, with the market's book of claims."""
        prices = {"cpu": 0.01, "memory": 0.001}
        latest = news(
            deadline_s=self._deadline_s,
            balance=1_000.0,
            claim=own,
            capacity={"cpu": capacity, "memory": 1e6},
            prices=prices,
        )
        latest = replace(latest, market=replace(latest.market, claims=tuple(claims)))
        asyncio.run(self._one.take(latest))


def credits_for(part: float) -> float:
    """Return a balance that pays for this part of all that the VM can use, until the deadline."""
    return part * FULL_COST * PERIODS


@pytest.mark.parametrize(
    ("kind", "name"),
    [(FullPerformance, "full_performance"), (PartialDeadline, "partial_deadline")],
)
class TestLeastPart:
    def test_a_platform_that_can_not_pay_for_its_least_part_is_suspended(
        self, kind: type[Iterative], name: str
    ) -> None:
        """By default that is 30 % of what its VMs can use."""
        for part, suspended in ((0.2, True), (0.4, False)):
            platform = Platform(kind, name, ideal_s=600.0)
            platform.periods(2, credits_for(part))
            assert bool(platform.said(SuspendPlatform)) is suspended

    def test_the_template_says_how_large_the_least_part_is(
        self, kind: type[Iterative], name: str
    ) -> None:
        """Both above and below the default."""
        for least_part, suspended in ((0.6, True), (0.1, False)):
            platform = Platform(kind, name, ideal_s=600.0, least_part=least_part)
            platform.periods(2, credits_for(0.4 if suspended else 0.2))
            assert bool(platform.said(SuspendPlatform)) is suspended

    def test_one_dear_period_suspends_nothing(self, kind: type[Iterative], name: str) -> None:
        """Prices swing while others settle."""
        platform = Platform(kind, name, ideal_s=600.0)
        platform.periods(1, credits_for(0.25))
        platform.periods(1, credits_for(0.4))
        platform.periods(1, credits_for(0.25))
        assert not platform.said(SuspendPlatform)

    def test_one_period_that_costs_many_times_too_much_suspends(
        self, kind: type[Iterative], name: str
    ) -> None:
        """The VM holds a half, and a fiftieth can be paid."""
        platform = Platform(kind, name, ideal_s=600.0)
        platform.periods(1, credits_for(0.02))
        assert platform.said(SuspendPlatform)

    def test_a_platform_that_was_just_resumed_is_left_alone(
        self, kind: type[Iterative], name: str
    ) -> None:
        """It is not suspended again before the rest that follows each change has passed."""
        platform = Platform(kind, name, ideal_s=600.0)
        platform.periods(1, credits_for(0.4), state="resuming")
        platform.periods(REST - 1, credits_for(0.01), first=2)
        assert not platform.said(SuspendPlatform)
        platform.periods(2, credits_for(0.01), first=REST + 1)
        assert platform.said(SuspendPlatform)


def test_work_that_is_done_needs_no_pace_any_more() -> None:
    """Two thirds of full speed are needed at first, a third when half of the work is done."""
    for done, suspended in ((0.0, True), (50.0, False)):
        platform = Platform(FullDeadline, "deadline", ideal_s=4_000.0)
        platform.periods(2, credits_for(0.5), done)
        assert bool(platform.said(SuspendPlatform)) is suspended


class TestPatience:
    CAPACITY = 150.0
    """Room for one of two VMs at full speed."""

    @pytest.fixture
    def platform(self) -> Platform:
        """One with time to spare."""
        return Platform(Patient, "patient", ideal_s=600.0)

    @property
    def offered(self) -> float:
        """What the same platform offers for a unit of CPU while it waits."""
        purse = Funds(credits=1_000.0)
        need = need_of(purse, UNITS, self.CAPACITY, 600.0, LEFT_S)
        return limit_price(need, INTERVAL_S, PatienceSettings())

    def test_a_platform_that_runs_clings_to_its_room(self, platform: Platform) -> None:
        """An offer half as high again as its own was before it ran does not suspend it."""
        platform.read([Claim(price=1.5 * self.offered, units=UNITS)], None, self.CAPACITY)
        assert not platform.said(SuspendPlatform)
        (own,) = platform.said(Claim)
        assert own.price == pytest.approx(2.0 * self.offered)
        platform.read([Claim(price=2.5 * self.offered, units=UNITS)], None, self.CAPACITY)
        assert platform.said(SuspendPlatform)

    def test_its_claim_does_not_fall(self, platform: Platform) -> None:
        """What it once claimed it goes on claiming, so that room is not lost to a lower offer."""
        own = Claim(price=3.0 * self.offered, units=UNITS)
        other = Claim(price=2.5 * self.offered, units=UNITS)
        platform.read([own, other], own, self.CAPACITY)
        assert not platform.said(SuspendPlatform)
        assert not platform.said(Claim)

    def test_its_own_claim_takes_no_room_from_it(self, platform: Platform) -> None:
        """The book holds the claim of the period before."""
        own = Claim(price=2.0 * self.offered, units=UNITS)
        platform.read([own], own, self.CAPACITY)
        assert not platform.said(SuspendPlatform)


def test_a_vm_whose_bid_was_taken_back_bids_again() -> None:
    """The daemon takes them back when a controller fails; a VM that gets nothing shows no pace."""
    platform = Platform(FullDeadline, "deadline", 1_000.0)
    latest = news(period=1, deadline_s=1_000.0 + INTERVAL_S + LEFT_S, balance=50_000.0)
    (vm,) = latest.vms
    bid, got = {"cpu": 0.0, "memory": 1.0}, {"cpu": 0.0, "memory": 512.0}
    latest = replace(latest, vms=(replace(vm, bid=bid, allocation=got),))
    asyncio.run(platform.take(latest))
    (bids,) = platform.said(SetBids)[-1].bids.values()
    assert all(bids[name] > 0 for name in ("cpu", "memory")), bids
