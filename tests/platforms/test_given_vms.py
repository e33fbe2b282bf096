"""VMs of platforms that an administrator gives to another user."""

from merkatd.database.scheduler import bid_store
from merkatd.protocol.platform_messages import SetBids
from tests.platforms.site import Site


def test_a_given_vm_leaves_its_platform(site: Site) -> None:
    """Its controller can't bid what another user pays, and its end leaves the VM alone."""
    platform = site.submit()
    site.until(platform, "running")
    given = site.vms(platform)[0]
    before = site.read(lambda c: bid_store.newest_bids(c, [given]))[given].bid
    assert site.act(platform, SetBids(bids={given: {"cpu": 9000.0}}), "high").accepted
    site.bench.ok("one.vm.chown", given, site.bob, -1)
    site.periods(3)
    assert given not in site.vms(platform)
    assert len(site.vms(platform)) == 2  # another VM replaces it
    assert not site.act(platform, SetBids(bids={given: {"cpu": 9000.0}})).accepted
    assert site.read(lambda c: bid_store.newest_bids(c, [given]))[given].bid == before
    site.wait(site.manager.stop(platform, "ann"))
    site.until(platform, "cancelled")
    assert site.alive() == [given]
