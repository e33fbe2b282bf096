"""Orders that lack a lease do not use up the rounds in which other owners' VMs get their hosts."""

from merkatd.opennebula.pools.constraint_facts import NicWant, SiteFacts, VmRequirements
from tests.opennebula.constraints.clouds import network
from tests.scheduler.constrained import ConstrainedCloud
from tests.scheduler.frontend import PASSWORD
from tests.scheduler.test_ordered_vms import Site


def test_orders_without_leases_keep_no_other_order_out() -> None:
    """Each of ten has two VMs that need the last lease, and takes most of the host."""
    site = Site()
    cloud = ConstrainedCloud(site.scheduler.world.cloud)
    site.world_settings["cloud"] = cloud
    site.start_daemon()
    cloud.estate = SiteFacts(networks=[network(0, "red", free=1)])
    size = {"CPU": 1.5, "VCPU": 2, "MEMORY": 1024, "MERKAT_MAX_CPU": 170}
    for number in range(10):
        vms = [site.vm(1.0, f"bob:{PASSWORD}", **size) for _ in range(2)]
        cloud.wants |= dict.fromkeys(vms, VmRequirements(nics=(NicWant(0),)))
        site.state_order(vms, 90.0 - number)
    vms = site.vms("ann", 1)
    order = site.state_order(vms, 3.0)
    site.periods(3)
    assert site.states(vms) == ["RUNNING"]
    assert site.limit_order(order).runs
    site.close()
