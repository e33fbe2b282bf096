"""VMs that OpenNebula rejects are requested again, at growing intervals, and never given up."""

from itertools import pairwise

import pytest

from merkatd.embedded.machines.faults import Fault, FaultKind
from merkatd.protocol.platform_messages import SetSize
from tests.lengths import SOAK, shorten
from tests.platforms.site import VM, Site
from tests.scheduler.frontend import SESSION

FULL = "limit of 2 reached for VMS quota"


def cluster(least: int, initial: int = 2) -> str:
    """Return the cluster of a platform."""
    return (
        f'[[cluster]]\nname = "nodes"\nleast = {least}\ninitial = {initial}\nmost = 4\n'
        f'template = """\n{VM}"""'
    )


def reject_creations(site: Site, count: int = -1) -> list[float]:
    """Reject all or `count` creations from now on; return the times of the requests."""
    site.cloud.faults.add(
        Fault(FaultKind.REFUSE, "one.vm.allocate", count=count, code=2048, text=FULL)
    )
    real, asked = site.transport.call, list[float]()

    async def call(method: str, session: str, *arguments: object) -> object:
        if method == "one.vm.allocate":
            asked.append(site.clock.seconds())
        return await real(method, session, *arguments)

    site.transport.call = call  # type: ignore[method-assign, assignment]
    return asked


def end(site: Site, vm: int) -> None:
    """End a VM without an order of its platform."""
    site.wait(site.transport.call("one.vm.action", SESSION, "terminate-hard", vm))


@pytest.mark.parametrize("least", [0, 2, *[1] * SOAK])
def test_a_platform_keeps_its_initial_size(site: Site, least: int) -> None:
    """Its VMs may be rejected for a long time, and are created afterwards."""
    platform = site.submit(cluster=cluster(least))
    site.until(platform, "running")
    asked = reject_creations(site)
    for vm in site.vms(platform):
        end(site, vm)
    site.periods(shorten(60, 9))
    found = site.platform(platform)
    assert (found.state, found.sizes, site.vms(platform)) == ("running", {"nodes": 2}, [])
    assert asked
    site.cloud.faults.clear()
    site.periods(shorten(14, 10))
    assert len(site.vms(platform)) == 2
    assert sorted(site.vms(platform)) == sorted(site.alive())


def test_requests_have_growing_intervals(site: Site) -> None:
    """They follow after one, two and four periods, and later every ten minutes.

    The tenant reads only the newest rejection, with the time until the next attempt.
    """
    platform = site.submit(cluster=cluster(1, 1))
    site.until(platform, "running")
    asked = reject_creations(site)
    end(site, site.vms(platform)[0])
    site.periods(12)
    (told,) = [one for one in site.doings(platform) if one.what == "refused"]
    assert FULL in told.text
    assert "refused 4 times" in told.text
    assert "next attempt" in told.text
    site.periods(shorten(48, 26))
    interval_s = site.scheduler.world.rhythm.interval_s
    waits = [round((after - before) / interval_s) for before, after in pairwise(asked)]
    longest = round(600.0 / interval_s)
    assert waits[:4] == [1, 2, 4, 8]
    assert len(waits) > 5
    assert set(waits[4:]) == {longest}


def test_a_growing_platform_keeps_its_size_while_an_old_vm_ends(site: Site) -> None:
    """A quota counts the old VM meanwhile, which is no reason to shrink."""
    platform = site.submit(cluster=cluster(1, 1))
    site.until(platform, "running")
    assert site.act(platform, SetSize(cluster="nodes", count=2)).accepted
    site.periods(5)
    old = max(site.vms(platform))
    order = SetSize(cluster="nodes", count=2, victims=(old,))
    busy = Fault(FaultKind.REFUSE, "one.vm.action", vm=old, code=2048, text="busy")
    fault = site.cloud.faults.add(busy)
    reject_creations(site)
    assert site.act(platform, order, "2").accepted
    site.periods(12)
    assert site.platform(platform).sizes == {"nodes": 2}
    site.cloud.faults.remove(fault)
    real = site.transport.call

    async def call(method: str, session: str, *arguments: object) -> object:
        if old not in site.alive():
            site.cloud.faults.clear()
        return await real(method, session, *arguments)

    site.transport.call = call  # type: ignore[method-assign, assignment]
    site.periods(6)
    vms = site.vms(platform)
    assert len(vms) == 2
    assert old not in vms


def test_intervals_between_requests_are_times(site: Site) -> None:
    """With a period in every five seconds they are as long as with one in a minute."""
    platform = site.submit(cluster=cluster(1, 1))
    site.until(platform, "running")
    asked = reject_creations(site)
    end(site, site.vms(platform)[0])
    site.periods(shorten(240, 100), 5.0)
    waits = [after - before for before, after in pairwise(asked)]
    assert waits[:3] == pytest.approx([60.0, 120.0, 240.0], rel=0.11)
