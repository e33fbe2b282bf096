"""At constant prices the controller and the daemon don't undo each other's suspensions."""

from itertools import pairwise

import pytest

from merkatd.market.price import PriceRule
from merkatd.placement.contract import Pricing
from merkatd.protocol.platform_messages import SuspendPlatform
from merkatd.scheduler.base.settings import MarketRules
from tests.controllers.applications.live import VM, Live
from tests.lengths import SOAK, pair, shorten
from tests.platforms.site import BOB
from tests.scheduler.frontend import PAPER_MARKET

PERIODS, IDEAL_S = shorten(45, 15), 1_200.0
TIMES = {"deadline": 4.0, "patient": 4.0, "partial_deadline": 10.0, "full_performance": 10.0}
"""The time until the deadline in ideal run times."""
APART = 10
"""The periods in which there is at most one change."""


MARKETS = {
    PriceRule.PAPER: PAPER_MARKET,
    PriceRule.CLEARING: MarketRules(pricing=Pricing(rule=PriceRule.CLEARING)),
}


def submitted(site: Live, kind: str, budget: float, more: str) -> int:
    """Submit a platform of two VMs of one core."""
    vm = VM.format(work=IDEAL_S, steps=40)
    return site.submit(
        controller=f'[controller]\nkind = "{kind}"\nparameters = {{ steps = 40 }}',
        budget=f"[budget]\ncredits = {budget}",
        slo=f'[slo]\ndeadline = "{TIMES[kind] * IDEAL_S:g}s"\n{more}',
        cluster=f'[[cluster]]\nname = "ranks"\nleast = 2\ninitial = 2\ntemplate = """\n{vm}"""',
    )


def changes(site: Live, platform: int) -> list[tuple[int, str]]:
    """Return the periods in which a suspension or resumption began."""
    changes_seen, before = [], site.platform(platform).state
    for period in range(PERIODS):
        site.periods(1)
        state = site.platform(platform).state
        if state != before and state in {"suspending", "resuming"}:
            changes_seen.append((period, state))
        before = state
    return changes_seen


@pytest.mark.parametrize(
    ("terms", "market"),
    pair(
        [("deadline", 500.0), ("partial_deadline", 1_200.0), ("full_performance", 1_200.0)],
        [(True, PriceRule.CLEARING), (False, PriceRule.PAPER)],
    ),
)
def test_constant_prices_cause_at_most_one_change_in_ten_periods(
    terms: tuple[str, float], market: tuple[bool, PriceRule]
) -> None:
    """This holds for each kind and price rule, with or without an ideal run time."""
    (kind, budget), (ideal, rule) = terms, market
    site = Live(hosts=1, markets=(MARKETS[rule],))
    try:
        more = f'ideal_run = "{IDEAL_S:g}s"\n' if ideal else ""
        platform = submitted(site, kind, budget, more)
        site.until(platform, "running")
        site.periods(4)
        for _ in range(4):
            site.vm(20.0, BOB, VCPU=4, MEMORY=1024)
        when = [period for period, _ in changes(site, platform)]
        suspended = bool(site.requests(platform, SuspendPlatform))
    finally:
        site.close()
    assert all(later - before >= APART for before, later in pairwise(when)), when
    assert suspended


OFFLINE, ENABLED = 2, 0


def test_a_market_without_a_host_in_sight_suspends_no_platform() -> None:
    """OpenNebula sees no host for some periods, after a failure of its monitoring."""
    site = Live(hosts=2, markets=(MARKETS[PriceRule.CLEARING],))
    try:
        kinds = ("deadline", "full_performance", "patient")
        platforms = {kind: submitted(site, kind, 5_000.0, "") for kind in kinds}
        for platform in platforms.values():
            site.until(platform, "running")
        site.periods(4)
        hosts = list(site.cloud.world.hosts.rows)
        for host in hosts:
            site.bench.ok("one.host.status", host, OFFLINE)
        site.periods(6)
        for host in hosts:
            site.bench.ok("one.host.status", host, ENABLED)
        site.periods(3)
        for kind, platform in platforms.items():
            assert site.requests(platform, SuspendPlatform) == [], kind
            assert site.platform(platform).state == "running", kind
    finally:
        site.close()


@pytest.mark.parametrize("rule", list(PriceRule) if SOAK else [PriceRule.PAPER])
def test_a_suspended_platform_is_resumed_when_the_price_falls(rule: PriceRule) -> None:
    """Controller, platform manager and scheduler agree under each price rule."""
    site = Live(hosts=1, markets=(MARKETS[rule],))
    try:
        platform = submitted(site, "deadline", 500.0, "")
        site.until(platform, "running")
        site.periods(4)
        rivals = [site.vm(500.0, BOB, VCPU=4, MEMORY=1024) for _ in range(4)]
        site.until(platform, "suspended")
        assert len(site.requests(platform, SuspendPlatform)) == 1
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
        site.periods(4)
        assert len(site.requests(platform, SuspendPlatform)) == 1
    finally:
        site.close()
