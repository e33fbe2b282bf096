"""VMs of platforms that an administrator gives to another user."""

from merkatd.database.scheduler import bid_store
from merkatd.database.scheduler.bid_store import Bid, BidSource
from merkatd.protocol.platform_messages import SetBids
from tests.platforms.site import Site


def give_after_a_high_bid(site: Site) -> tuple[int, int, dict[str, float]]:
    """Return a platform, its VM for which it bids much and that is given away, and the old bid."""
    platform = site.submit()
    site.until(platform, "running")
    given = site.vms(platform)[0]
    before = dict(site.read(lambda c: bid_store.newest_bids(c, [given]))[given].bid)
    assert site.act(platform, SetBids(bids={given: {"cpu": 9000.0}}), "high").accepted
    site.bench.ok("one.vm.chown", given, site.bob, -1)
    return platform, given, before


def test_a_given_vm_leaves_its_platform(site: Site) -> None:
    """Its controller can't bid what another user pays, and its end leaves the VM alone."""
    platform, given, before = give_after_a_high_bid(site)
    site.periods(3)
    assert given not in site.vms(platform)
    assert len(site.vms(platform)) == 2  # another VM replaces it
    assert not site.act(platform, SetBids(bids={given: {"cpu": 9000.0}})).accepted
    assert site.read(lambda c: bid_store.newest_bids(c, [given]))[given].bid == before
    site.wait(site.manager.stop(platform, "ann"))
    site.until(platform, "cancelled")
    assert site.alive() == [given]


def test_the_new_owner_s_bid_outlives_the_platform_s(site: Site) -> None:
    """The new owner bids before the period in which the VM leaves its platform."""
    platform = site.submit()
    site.until(platform, "running")
    given = site.vms(platform)[0]
    site.bench.ok("one.vm.chown", given, site.bob, -1)
    own = Bid(vm=given, bid={"cpu": 3.0, "memory": 4.0}, source=BidSource.XMLRPC, at_s=0.0)
    site.wait(site.scheduler.world.database.run(lambda c: bid_store.record_bids(c, [own])))
    site.periods(3)
    assert given not in site.vms(platform)
    assert site.read(lambda c: bid_store.newest_bids(c, [given]))[given].bid == own.bid


def test_the_new_owner_pays_no_bid_of_the_controller(site: Site) -> None:
    """Not even for the first period: the controller could raise the bid right before."""
    _, given, before = give_after_a_high_bid(site)
    vms = site.period().seen.snapshot.vms
    assert vms.bid[vms.id.tolist().index(given)].tolist() == [before["cpu"], before["memory"]]
