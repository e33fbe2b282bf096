"""VMs unknown to OpenNebula continue to compute, so none is ended like one that is off."""

from collections.abc import Iterator

import pytest

from merkatd.embedded.model.vm_states import Lcm
from merkatd.protocol.platform_messages import SetSize
from tests.controllers.applications.batch_site import Site as BatchSite
from tests.controllers.applications.live import Live
from tests.controllers.applications.test_deadline import finished, submitted
from tests.controllers.applications.test_leaving import Platform


@pytest.fixture
def site() -> Iterator[Live]:
    """Return a site with one host of four cores."""
    live = Live(hosts=1)
    yield live
    live.close()


def lose_sight(site: Live, platform: int, periods: int) -> list[set[str]]:
    """Hide a platform's VMs for some periods; return the reported states."""
    rows = [site.cloud.world.vms.rows[vm] for vm in site.vms(platform)]
    states = []
    for _ in range(periods):
        for row in rows:
            row.lcm = Lcm.UNKNOWN
            site.cloud.world.changed("vm", row.id)
        site.periods(1)
        states.append({vm.state for news in site.notes.news for vm in news.vms})
    for row in rows:
        row.lcm = Lcm.RUNNING
        site.cloud.world.changed("vm", row.id)
    return states


def test_vms_out_of_sight_for_minutes_complete_their_work(site: Live) -> None:
    """The same VMs run until the end."""
    platform = submitted(site, 1_800.0)
    site.until(platform, "running")
    site.periods(5)
    vms = site.vms(platform)
    assert lose_sight(site, platform, 5) == [{"unknown"}] * 5
    assert site.vms(platform) == vms
    assert finished(site, platform)[0] == "done"
    assert not site.requests(platform, SetSize)


def test_a_vm_that_boots_for_long_is_not_off(site: Live) -> None:
    """Its disks may be copied: a replacement would start that again."""
    platform = submitted(site, 1_800.0)
    site.until(platform, "running")
    rows = [site.cloud.world.vms.rows[vm] for vm in site.vms(platform)]
    for _ in range(3):
        for row in rows:
            row.lcm = Lcm.PROLOG
            site.cloud.world.changed("vm", row.id)
        site.periods(1)
        assert {vm.state for news in site.notes.news for vm in news.vms} == {"busy"}
    assert not site.requests(platform, SetSize)


def test_a_vm_that_stays_out_of_sight_is_replaced_after_its_limit() -> None:
    """A powered-off VM has a shorter limit."""
    platform = Platform()
    platform.periods(2)
    platform.unknown = {101}
    platform.periods(15)
    assert platform.orders == []
    platform.off = {102}
    platform.periods(2)
    assert platform.orders == [(101,), (102,)]


def test_time_out_of_sight_is_no_time_off() -> None:
    """The limit of a VM found powered off begins then."""
    platform = Platform()
    platform.unknown = {101}
    platform.periods(5)
    platform.unknown, platform.off = set(), {101}
    platform.periods(1)
    assert platform.orders == []
    platform.periods(1)
    assert platform.orders == [(101,)]


@pytest.mark.parametrize("seen", [True, False])
def test_a_worker_shown_by_the_batch_system_stays(seen: bool) -> None:
    """OpenNebula's state doesn't matter; a worker that neither shows is released."""
    site = BatchSite(waiting=[200] * 4)
    for _ in range(12):
        site.pass_a_period()
    workers = {*site.workers}
    site.unseen = {*workers}
    site.mute = set() if seen else {*workers}
    for _ in range(10):
        site.pass_a_period()
    assert (workers <= {*site.workers}) == seen
    assert (site.lost == 0) == seen
