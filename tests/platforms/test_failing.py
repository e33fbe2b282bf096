"""A failing controller: its tenant gets the reason, and the budget is not spent meanwhile."""

from collections.abc import Iterator

import pytest

from merkatd.api.values.plain_values import members
from merkatd.commands.terminal.platform_text import platform_lines
from merkatd.platforms.platform_views import PlatformDetails, platform_view
from merkatd.protocol.platform_messages import ProgressReport, SetBids
from tests.platforms.site import Site

WHY = "ended with code 1: ValueError: no such cluster (log: /state/platforms/1/controller.log)"


@pytest.fixture
def site() -> Iterator[Site]:
    """Yield a site for platforms that bid."""
    new_site = Site()
    yield new_site
    new_site.close()


def start_platform(site: Site) -> int:
    """Return a platform whose VMs run."""
    platform = site.submit(budget="[budget]\ncredits = 300")
    site.until(platform, "running")
    site.periods(2)
    return platform


def row_of(site: Site, platform: int) -> PlatformDetails:
    """Return the answer of `platform show`."""
    stored, world, announcement = site.platform(platform), site.scheduler.world, site.period()
    row: PlatformDetails = site.read(lambda c: platform_view(c, stored, world, announcement))
    return row


def fail(site: Site, platform: int, *, final: bool = False) -> None:
    """Report a controller's end as the bus does."""
    site.wait(site.manager.ended(platform, WHY, final=final))


def test_its_vms_bid_nothing_and_its_tenant_gets_the_reason(site: Site) -> None:
    """Exception and log path are in the row and in the command's text."""
    platform = start_platform(site)
    assert row_of(site, platform).bids > 0
    fail(site, platform)
    site.periods(2)
    row = row_of(site, platform)
    assert row.trouble == WHY
    assert row.bids == 0
    text = " ".join(platform_lines(members(row), None))
    assert f"Its controller fails: {WHY}. Its VMs bid nothing until it works again." in text


def test_a_monitors_end_is_in_the_history(site: Site) -> None:
    """Only its newest end is shown."""
    platform = start_platform(site)
    for at in (1, 2):
        site.wait(site.manager.monitor_ended(platform, 0, f"ended with code {at}"))
    ends = [row for row in row_of(site, platform).actions if row.what == "monitor 0"]
    assert [row.text for row in ends] == ["the monitor of cluster nodes ended with code 2"]


def test_the_budget_is_not_spent_while_a_controller_fails(site: Site) -> None:
    """New VMs bid nothing either."""
    platform = start_platform(site)
    fail(site, platform)
    site.periods(2)
    before = row_of(site, platform).balance
    for vm in site.vms(platform):
        site.bench.ok("one.vm.action", "terminate-hard", vm)
    site.periods(8)
    row = row_of(site, platform)
    assert len(site.vms(platform)) == 2
    assert row.bids == 0
    assert before - row.balance < 1.0


def test_a_vm_created_while_the_controller_fails_bids_nothing(site: Site) -> None:
    """Its template had a bid, and it appeared after the failure."""
    platform = site.submit(budget="[budget]\ncredits = 300")
    real = site.cut_off_after(1)
    while not site.alive():
        site.try_period()
    assert site.vms(platform) == []
    fail(site, platform)
    site.restore(real)
    site.periods(4)
    assert site.vms(platform)
    assert row_of(site, platform).bids == 0


def test_a_controller_that_acts_again_ends_the_trouble(site: Site) -> None:
    """Bids or a report count, and its earlier report is kept."""
    platform = start_platform(site)
    assert site.act(platform, ProgressReport(done=0.5, text="half of it"), "1").accepted
    fail(site, platform)
    assert row_of(site, platform).done == 0.5
    bids = {vm: {"cpu": 1.0, "memory": 1.0} for vm in site.vms(platform)}
    assert site.act(platform, SetBids(bids=bids), "2").accepted
    row = row_of(site, platform)
    assert (row.trouble, row.done) == (None, 0.5)
    assert row.bids == pytest.approx(4.0)
    fail(site, platform)
    assert site.act(platform, ProgressReport(text="on its way"), "3").accepted
    assert row_of(site, platform).trouble is None


def test_a_controller_that_is_given_up_has_a_reason(site: Site) -> None:
    """The platform's own text contains it."""
    platform = start_platform(site)
    fail(site, platform, final=True)
    site.until(platform, "failed")
    row = row_of(site, platform)
    assert row.why == f"its controller can't be kept running: {WHY}"
