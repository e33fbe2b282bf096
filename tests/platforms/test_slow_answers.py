"""OpenNebula answers each call in time, but slowly: a creation goes on in the next period."""

from merkatd.embedded.machines.faults import Fault, FaultKind
from tests.platforms.site import Site

SLOW_S = 25.0


def test_a_vm_whose_creation_takes_longer_than_a_period_is_created_once(site: Site) -> None:
    """Its owner would pay for the second one, which belongs to no platform."""
    platform = site.submit()
    for method, count in (("one.user.info", 4), ("one.user.login", 1)):
        site.cloud.faults.add(Fault(FaultKind.DELAY, method, count=count, seconds=SLOW_S))
    site.periods(2)  # the first attempt takes 75 s, and the other ones are fast
    assert site.alive() == []
    site.periods(4)
    assert len(site.alive()) == 2
    assert sorted(site.vms(platform)) == sorted(site.alive())
    assert site.outstanding() == 0
