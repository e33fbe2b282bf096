"""Suspensions: at constant prices the controller and the daemon do not undo each other's work."""

from itertools import pairwise

import pytest

from merkatd.market.price import PriceRule
from merkatd.placement.base.strategy import Pricing
from merkatd.protocol.platform_messages import SuspendPlatform
from merkatd.scheduler.base.settings import MarketRules
from tests.controllers.applications.live import VM, Live
from tests.lengths import shorten
from tests.platforms.site import BOB
from tests.scheduler.frontend import PAPER_MARKET

PERIODS, IDEAL_S = shorten(45, 24), 1_200.0
TIMES = {"deadline": 4.0, "partial_deadline": 10.0, "full_performance": 10.0}
"""Until the deadline, in ideal run times."""
APART = 10
"""Periods in which there is at most one change."""


MARKETS = {
    PriceRule.PAPER: PAPER_MARKET,
    PriceRule.CLEARING: MarketRules(pricing=Pricing(rule=PriceRule.CLEARING)),
}


def submitted(site: Live, kind: str, budget: float, more: str) -> int:
    """A platform of two VMs of one core."""
    vm = VM.format(work=IDEAL_S, steps=40)
    return site.submit(
        controller=f'[controller]\nkind = "{kind}"\nparameters = {{ steps = 40 }}',
        budget=f"[budget]\ncredits = {budget}",
        slo=f'[slo]\ndeadline = "{TIMES[kind] * IDEAL_S:g}s"\n{more}',
        cluster=f'[[cluster]]\nname = "ranks"\nleast = 2\ninitial = 2\ntemplate = """\n{vm}"""',
    )


def changes(site: Live, platform: int) -> list[tuple[int, str]]:
    """The periods in which it began to be suspended or resumed."""
    found, before = [], site.platform(platform).state
    for period in range(PERIODS):
        site.periods(1)
        state = site.platform(platform).state
        if state != before and state in {"suspending", "resuming"}:
            found.append((period, state))
        before = state
    return found


@pytest.mark.parametrize(("ideal", "rule"), [(True, PriceRule.CLEARING), (False, PriceRule.PAPER)])
@pytest.mark.parametrize(
    ("kind", "budget"),
    [("deadline", 500.0), ("partial_deadline", 1_200.0), ("full_performance", 1_200.0)],
)
def test_constant_prices_change_nothing_twice_in_ten_periods(
    kind: str, budget: float, ideal: bool, rule: PriceRule
) -> None:
    """Whatever the kind and the price rule, and whether or not the ideal run time is known."""
    site = Live(hosts=1, markets=(MARKETS[rule],))
    try:
        more = f'ideal_run = "{IDEAL_S:g}s"\n' if ideal else ""
        platform = submitted(site, kind, budget, more)
        site.until(platform, "running")
        site.periods(4)
        for _ in range(4):
            site.vm(20.0, BOB, VCPU=4, MEMORY=1024)
        when = [period for period, _ in changes(site, platform)]
        suspended = bool(site.said(platform, SuspendPlatform))
    finally:
        site.close()
    assert all(later - before >= APART for before, later in pairwise(when)), when
    assert suspended


@pytest.mark.parametrize("rule", list(PriceRule))
def test_a_platform_that_was_suspended_is_resumed_when_the_price_falls(rule: PriceRule) -> None:
    """Controller, platform manager and scheduler agree under each price rule; the work is done."""
    site = Live(hosts=1, markets=(MARKETS[rule],))
    try:
        platform = submitted(site, "deadline", 500.0, "")
        site.until(platform, "running")
        site.periods(4)
        rivals = [site.vm(500.0, BOB, VCPU=4, MEMORY=1024) for _ in range(4)]
        site.until(platform, "suspended")
        assert len(site.said(platform, SuspendPlatform)) == 1
        done = site.platform(platform).report or {}
        site.periods(APART + 2)
        waits = site.platform(platform)
        assert waits.state == "suspended"
        assert waits.why.startswith("at present prices the work takes")
        for vm in rivals:
            site.bench.ok("one.vm.action", "terminate-hard", vm)
        site.until(platform, "running")
        site.periods(2)
        assert (site.platform(platform).report or {})["done"] >= done["done"] > 0
        site.until(platform, "done", 60)
        assert len(site.said(platform, SuspendPlatform)) == 1
    finally:
        site.close()
