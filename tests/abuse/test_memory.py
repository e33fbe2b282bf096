"""A claim to unused memory costs the neighbours' price, or holds no more than its bid buys."""

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
MEMORY = 1


def beside_neighbours(rule: PriceRule, bid: float, claim: int) -> tuple[float, float]:
    """Return a VM's price of a MiB relative to three others' price, and its part of the host.

    The others bid 20 each for up to half of the host's memory.
    """
    site = Site(
        hosts=1,
        size=HostSize(800, 16 * 1024),
        markets=(MarketRules(pricing=Pricing(rule=rule, reserve=RESERVE)),),
        money=MoneySettings(supply=100_000_000, renewal_s=1e9),
    )
    try:
        eve = site.tenant("eve")
        fair = [memory_vm(site, name, 20) for name in ("ann", "bob", "ann")]
        other = memory_vm(site, "eve", bid, MERKAT_MIN_MEMORY=claim)
        site.periods(5)
        before, had = site.balances(), dict.fromkeys([*fair, other], 0.0)
        for _ in range(PERIODS):
            last = site.periods(1)
            rows = last.seen.snapshot.vms.id.tolist()
            given = last.decided.decision.allocations[:, MEMORY]
            had = {vm: amount + given[rows.index(vm)] for vm, amount in had.items()}
        after = site.balances()
    finally:
        site.close()
    paid = {owner: before[owner] - after[owner] for owner in (site.ann, site.bob, eve)}
    fair_mib = sum(had[vm] for vm in fair)
    each = (paid[site.ann] + paid[site.bob]) / fair_mib
    return paid[eve] / had[other] / each, had[other] / (fair_mib + had[other])


@pytest.mark.parametrize("rule", list(PriceRule))
def test_a_claim_to_memory_does_not_lower_its_price(rule: PriceRule) -> None:
    """Without a bid a VM keeps its minimum; the rest is divided by the bids."""
    _, part = beside_neighbours(rule, 0.0, 8192)
    assert part < 0.15, part


def test_a_claim_covered_by_its_bid_is_met() -> None:
    """Its MiB cost the neighbours' price."""
    cost, part = beside_neighbours(PriceRule.CLEARING, 60.0, 6144)
    assert part >= 6144 / 16384 * 0.98, part
    assert cost == pytest.approx(1.0, rel=0.1)
