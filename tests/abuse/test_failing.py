"""A VM that fails to boot keeps memory for its next start only, at the reserve price."""

import pytest

from merkatd.currency.settings import MoneySettings
from merkatd.embedded.model.settings import HostSize
from merkatd.market.price import PriceRule
from merkatd.placement.contract import Pricing
from merkatd.scheduler.base.settings import MarketRules
from tests.abuse.arena import PERIOD_S
from tests.abuse.test_resting import RESERVE, memory_vm
from tests.lengths import SOAK
from tests.platforms.site import Site
from tests.scheduler.test_acting import careful_settings

HOST_MIB = 16 * 1024
CLAIM_MIB = 8000
SETTLED = 6
"""The number of periods after which all attempts have been made."""


def make_site(rule: PriceRule = PriceRule.CLEARING) -> Site:
    """Return a host whose memory two VMs fill, and a daemon that retries failed VMs."""
    site = Site(
        hosts=1,
        size=HostSize(800, HOST_MIB),
        markets=(MarketRules(pricing=Pricing(rule=rule, reserve=RESERVE)),),
        money=MoneySettings(supply=100_000_000, renewal_s=1e9),
    )
    rhythm = site.scheduler.world.rhythm
    site.world_settings = {**site.world_settings, **careful_settings(site, rhythm)}
    site.start_daemon()
    return site


def fail_boots(site: Site, vm: int, count: int) -> None:
    """Let the next boots of this VM fail."""
    site.bench.ok("embedded.fault.add", {"kind": "fail", "lcm": "BOOT", "vm": vm, "count": count})


def test_a_finally_failed_vm_frees_its_memory() -> None:
    """Two always failing VMs claim a whole host, and VMs that bid are placed there."""
    site = make_site()
    try:
        eve = site.tenant("eve")
        failing = [memory_vm(site, "eve", 5, MERKAT_MIN_MEMORY=CLAIM_MIB) for _ in range(2)]
        for vm in failing:
            fail_boots(site, vm, 99)
        site.periods(SETTLED)
        assert [site.state(vm) for vm in failing] == ["BOOT_FAILURE"] * 2
        comers = [memory_vm(site, "ann", 500) for _ in range(2)]
        before = site.balances()[eve]
        site.periods(4)
        assert [site.state(vm) for vm in comers] == ["RUNNING"] * 2
        assert site.balances()[eve] == before
        site.agree()
    finally:
        site.close()


@pytest.mark.parametrize("rule", tuple(PriceRule) if SOAK else (PriceRule.CLEARING,))
def test_the_memory_for_another_attempt_costs_the_reserve_price(rule: PriceRule) -> None:
    """A waiting attempt keeps its claim, and its owner pays for each period."""
    site = make_site(rule)
    try:
        eve = site.tenant("eve")
        vm = memory_vm(site, "eve", 5, MERKAT_MIN_MEMORY=CLAIM_MIB)
        fail_boots(site, vm, 1)
        site.period()
        site.clock.advance(PERIOD_S)
        assert site.state(vm) == "BOOT_FAILURE"
        # An administrator deploys another VM into the free memory, so the attempt waits.
        other = memory_vm(site, "ann", 5, MEMORY=12_000, MERKAT_MIN_MEMORY=12_000)
        site.bench.ok("one.vm.deploy", other, 0)
        site.clock.advance(PERIOD_S)
        site.periods(2)
        assert site.state(vm) == "BOOT_FAILURE"
        before = site.balances()[eve]
        site.periods(3)
        assert site.state(vm) == "BOOT_FAILURE"
        paid = before - site.balances()[eve]
        assert paid >= 3 * CLAIM_MIB * RESERVE["memory"] - 1e-5
        if rule is PriceRule.CLEARING:
            assert paid == pytest.approx(3 * CLAIM_MIB * RESERVE["memory"], abs=1e-5)
        site.agree()
    finally:
        site.close()
