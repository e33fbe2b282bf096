"""Best effort never exceeds the budget and spends all of it where it is useful."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controllers.applications.best_effort import BestEffort, part, wish
from controllers.applications.market_position import market_without
from merkatd.policies.horizontal import Prices, bids_for
from merkatd.protocol.bus_messages import Remember, Stored
from merkatd.protocol.platform_messages import ActionOutcome, News, SetBids, SetSize, VmNow
from tests.bus.rig import assignment, news
from tests.lengths import shorten

(TERMS,) = assignment().clusters
PRICES = {"cpu": 0.01, "memory": 0.001}
FULL = {"cpu": 100.0, "memory": 512.0}
NAMES = tuple(PRICES)


def test_a_market_without_a_host_takes_no_vm_away() -> None:
    """All hosts may be out of OpenNebula's sight for a moment, while their guests run on."""
    asked: list[Any] = []

    class Hand:
        async def ask(self, body: Any, _: str = "") -> Any:
            asked.append(body)
            return Stored() if isinstance(body, Remember) else ActionOutcome(accepted=True)

    latest = news()
    vms = tuple(replace(latest.vms[0], vm=vm) for vm in range(1, 4))
    away = replace(latest.market, capacity=dict.fromkeys(PRICES, 0.0))
    away_now = replace(latest, vms=vms, sizes={"workers": 3}, market=away)
    asyncio.run(BestEffort(assignment(), Hand()).take(away_now))
    assert asked == []


class Market:
    """A cloud with ample room and no other bids, at its reserve price."""

    capacity = dict.fromkeys(PRICES, 1e9)
    reserve = PRICES

    def __init__(self, balance: float, **assigned: Any) -> None:
        self.balance = balance
        self.period = 0
        self.bids: dict[int, dict[str, float]] = {1: dict.fromkeys(PRICES, 1e-6)}
        self.size = 1
        self.controller = BestEffort(replace(assignment(), **assigned), self)
        self.memory: Any = None

    async def ask(self, body: Any, action_id: str = "") -> Any:
        """Carry out the request from the next period on."""
        assert not action_id
        if isinstance(body, Remember):
            self.memory = body.memory
            return Stored()
        if isinstance(body, SetBids):
            for vm, bid in body.bids.items():
                self.bids[vm] = dict(bid)
        elif isinstance(body, SetSize):
            assert body.count is not None
            self.size = body.count
        return ActionOutcome(accepted=True)

    @property
    def prices(self) -> dict[str, float]:
        """Return the prices: all bids divide a resource, above its reserve price."""
        bids = {name: sum(bid[name] for bid in self.bids.values()) for name in NAMES}
        return {name: max(self.reserve[name], bids[name] / self.capacity[name]) for name in NAMES}

    def allocation(self, vm: int) -> dict[str, float]:
        """Return the allocation that the VM's bid buys."""
        bid = self.bids[vm]
        return {name: min(FULL[name], bid[name] / price) for name, price in self.prices.items()}

    def pass_a_period(self, deadline_s: float | None = None) -> float:
        """Charge and report a period; return the amount paid."""
        allocations = {vm: self.allocation(vm) for vm in self.bids}
        paid = sum(
            self.prices[name] * given
            for allocation in allocations.values()
            for name, given in allocation.items()
        )
        self.balance -= paid
        self.period += 1
        vms = tuple(
            VmNow(vm=vm, cluster="workers", state="running", bid=bid, allocation=allocations[vm])
            for vm, bid in self.bids.items()
        )
        latest: News = news(
            period=self.period,
            vms=vms,
            balance=self.balance,
            deadline_s=deadline_s,
            sizes={"workers": self.size},
            prices=self.prices,
            capacity=self.capacity,
            reserve=self.reserve,
        )
        asyncio.run(self.controller.take(latest))
        while len(self.bids) < self.size:
            self.bids[max(self.bids) + 1] = dict.fromkeys(PRICES, 1e-6)
        for vm in sorted(self.bids)[self.size :]:
            del self.bids[vm]
        return paid


def test_in_an_empty_market_all_vms_get_their_full_size_at_the_least_cost() -> None:
    """Four VMs pay 1 + 0.512 credits a period each."""
    market = Market(1e7)
    for _ in range(60):
        paid = market.pass_a_period()
    assert market.size == 4
    assert all(market.allocation(vm) == FULL for vm in market.bids)
    assert paid == pytest.approx(4 * 1.512)
    assert all(sum(bid.values()) < 1.1 * 1.512 for bid in market.bids.values())


@settings(max_examples=30, deadline=None)
@given(st.floats(110.0, 2_000.0), st.floats(1e-4, 0.1))
def test_in_a_small_market_a_platform_does_not_outbid_itself(room: float, price: float) -> None:
    """It recognizes its own effect on the price and gets all it can use."""
    market = Market(1e7)
    market.capacity = {"cpu": room, "memory": 6 * room}
    market.reserve = {"cpu": price, "memory": price / 10}
    for _ in range(40):
        market.pass_a_period()
    size = market.size
    assert size * FULL["cpu"] <= room
    wanted = Prices(others=tuple(market.reserve.values()), capacity=tuple(market.capacity.values()))
    most = sum(bids_for(size, tuple(FULL.values()), wanted))
    for _ in range(5):
        market.pass_a_period()
        assert market.size == size
        assert all(market.allocation(vm) == FULL for vm in market.bids)
        assert sum(sum(bid.values()) for bid in market.bids.values()) <= 1.1 * most


def test_a_budget_lasts_until_the_deadline_and_is_used() -> None:
    """It pays for part of one VM: nearly all is spent, and never more."""
    market = Market(50.0)
    end_s = 1_000.0 + 60.0 * 100
    for _ in range(99):
        market.pass_a_period(end_s)
        assert market.balance >= 0
    assert market.size == 1
    assert market.balance < 5.0


@settings(max_examples=shorten(100, 30), deadline=None)
@given(
    st.floats(0, 1e6),
    st.lists(st.tuples(st.floats(0, 100), st.floats(0, 100)), max_size=6),
    st.floats(0, 10),
    st.floats(0, 1e4),
    st.sampled_from(["running", "pending", "suspended"]),
)
def test_bids_never_exceed_the_spending(
    spending: float,
    held: list[tuple[float, float]],
    price: float,
    capacity: float,
    state: str,
) -> None:
    """Earlier bids don't matter; sizes stay within their bounds."""
    vms = [
        VmNow(
            vm=row,
            cluster="workers",
            state=state,
            bid={"cpu": bid, "memory": bid},
            allocation={"cpu": given, "memory": given},
        )
        for row, (bid, given) in enumerate(held)
    ]
    market = Prices(others=(price, price / 10), capacity=(capacity, 10 * capacity))
    wished = wish(TERMS, vms, NAMES, market, spending, {})
    total = sum(sum(bid.values()) for bid in wished.bids.values())
    assert total <= spending * (1 + 1e-9)
    assert TERMS.least <= wished.size <= TERMS.most
    assert set(wished.bids) == (set() if state == "suspended" else set(range(len(held))))


def test_after_the_deadline_and_without_credits_all_bids_are_zero() -> None:
    """The same holds with debts."""
    assert part(assignment(), news(deadline_s=1.0), 86_400.0) == 0.0
    assert part(assignment(), news(balance=-5.0), 86_400.0) == 0.0
    market = market_without(news())
    assert wish(TERMS, news().vms, NAMES, market, 0.0, {}).bids == {
        101: {"cpu": 0.0, "memory": 0.0}
    }


def test_the_memory_is_json_and_continues_the_controller() -> None:
    """A restarted controller makes the same requests."""
    market, other = Market(40.0), Market(40.0)
    for daemon in (market, other):
        for _ in range(5):
            daemon.pass_a_period(20_000.0)
    other.controller = BestEffort(replace(assignment(), memory=other.memory), other)
    for daemon in (market, other):
        daemon.pass_a_period(20_000.0)
    assert market.bids == other.bids
