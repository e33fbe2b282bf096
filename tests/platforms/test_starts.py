"""When platforms start: prices, times and deadlines."""

from merkatd.platforms.declarations.template_time import TemplateTime
from merkatd.platforms.tenant_orders import Update
from tests.platforms.site import BOB, Site


def test_a_platform_is_postponed_while_prices_are_too_high(site: Site) -> None:
    """It has the reason and its needs, and starts once prices fall."""
    dear = [site.vm(50.0, BOB) for _ in range(6)]
    site.periods(3)
    platform = site.submit(start="[start.price_ceiling]\ncpu = 0.05")
    site.periods(2)
    waits = site.platform(platform)
    assert waits.state == "postponed"
    assert "cpu costs 0.25" in waits.why
    assert waits.needs == "cpu at 0.05 or less"
    assert site.vms(platform) == []
    for vm in dear:
        site.bench.ok("one.vm.action", "terminate-hard", vm)
    site.until(platform, "running")


def test_a_hopeless_platform_is_cancelled(site: Site) -> None:
    """With less time than its ideal run, its budget returns at once."""
    before = site.balances()[site.ann]
    platform = site.submit(slo='[slo]\ndeadline = "1h"\nideal_run = "2h"')
    site.periods(1)
    row = site.platform(platform)
    assert row.state == "cancelled"
    assert "the least deadline that could be met is 1970-01-12T15:46:40Z" in row.needs
    assert site.balances()[site.ann] == before


def test_start_times_are_respected(site: Site) -> None:
    """One platform waits for `not_before`, the other is cancelled after `latest`."""
    later = site.submit(start='[start]\nnot_before = "5m"')
    never = site.submit(start='[start]\nlatest = "3m"\n[start.price_ceiling]\ncpu = 0.0')
    site.vm(10.0, BOB)
    site.periods(4)
    assert site.platform(later).state == "postponed"
    site.until(later, "running", 6)
    assert site.clock.seconds() >= 1_000_300
    assert site.platform(never).state == "cancelled"


def test_a_passed_deadline_ends_a_platform(site: Site) -> None:
    """A new deadline set in time lets it continue."""
    slo = '[slo]\ndeadline = "10m"\nideal_run = "5m"'
    own, other = site.submit(slo=slo), site.submit(slo=slo)
    site.until(own, "running")
    new = Update(deadline=TemplateTime(after_s=3600.0))
    site.update(other, new)
    site.periods(12)
    assert site.platform(own).state == "failed"
    assert "has passed" in site.platform(own).why
    assert site.platform(other).state == "running"
    assert site.notes.news[-1].deadline_s == site.platform(other).deadline_s
