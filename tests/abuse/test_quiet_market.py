"""Without contention, a tiny bid buys a tiny share."""

import pytest

from merkatd.currency.settings import MoneySettings
from merkatd.embedded.model.settings import HostSize
from merkatd.market.price import PriceRule
from merkatd.placement.contract import Pricing
from merkatd.scheduler.base.settings import MarketRules
from tests.abuse.test_resting import memory_vm
from tests.platforms.site import Site

PERIODS = 3
RESERVE = {"cpu": 0.001, "memory": 0.0001}
CPU = 0
LEAST = 0.95


def alone(bid: float, **attributes: object) -> tuple[float, float]:
    """Return the charge relative to the reserve price, and the cores of four.

    The VM has half of a host of eight cores; a neighbour with a high bid has a quarter.
    """
    site = Site(
        hosts=1,
        size=HostSize(800, 16 * 1024),
        markets=(MarketRules(pricing=Pricing(rule=PriceRule.CLEARING, reserve=RESERVE)),),
        money=MoneySettings(supply=100_000_000, renewal_s=1e9),
    )
    try:
        eve = site.tenant("eve")
        memory_vm(site, "ann", 20)
        size = {"VCPU": 4, "CPU": 4, "MERKAT_BID_CPU": bid, "MERKAT_MAX_CPU": 400} | attributes
        vm = memory_vm(site, "eve", bid, **size)
        site.periods(3)
        before, worth, cores = site.balances()[eve], 0.0, 0.0
        for _ in range(PERIODS):
            last = site.periods(1)
            row = last.seen.snapshot.vms.id.tolist().index(vm)
            given = last.decided.decision.allocations[row]
            worth += float(given @ [RESERVE["cpu"], RESERVE["memory"]])
            cores += float(given[CPU]) / 100 / PERIODS
        paid = before - site.balances()[eve]
    finally:
        site.close()
    return paid / worth, cores


@pytest.mark.parametrize("bid", [1e-6, 0.01])
def test_a_low_bid_buys_its_worth_at_the_reserve_price(bid: float) -> None:
    """It gets no more than it pays for."""
    part, cores = alone(bid)
    assert part >= LEAST, part
    assert cores <= bid / RESERVE["cpu"] / 100 + 1e-9


def test_a_claim_without_a_bid_gets_no_cpu() -> None:
    """This holds even if no other VM wants the CPU."""
    part, cores = alone(0.0, MERKAT_MIN_CPU=400)
    assert part >= LEAST, part
    assert cores == 0.0


def test_a_sufficient_bid_gets_the_whole_demand() -> None:
    """It pays the reserve price and no more."""
    part, cores = alone(1.0)
    assert part == pytest.approx(1.0, rel=0.02)
    assert cores == pytest.approx(4.0)
