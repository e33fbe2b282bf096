"""VMs that OpenNebula refuses to make: asked for again, ever more slowly, and never given up."""

from itertools import pairwise

import pytest

from merkatd.embedded.machines.faults import Fault, FaultKind
from merkatd.protocol.platform_messages import SetSize
from tests.platforms.site import VM, Site
from tests.scheduler.frontend import SESSION

FULL = "limit of 2 reached for VMS quota"


def cluster(least: int, initial: int = 2) -> str:
    """Of the VMs of a platform."""
    return (
        f'[[cluster]]\nname = "nodes"\nleast = {least}\ninitial = {initial}\nmost = 4\n'
        f'template = """\n{VM}"""'
    )


def refuse(site: Site, count: int = -1) -> list[float]:
    """From now on no VM is made, or so many are not; the moments in which one was asked for."""
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
    """It goes without having been asked to by its platform."""
    site.wait(site.transport.call("one.vm.action", SESSION, "terminate-hard", vm))


@pytest.mark.parametrize("least", [0, 1, 2])
def test_a_platform_keeps_the_size_with_which_it_began(site: Site, least: int) -> None:
    """However long its VMs are refused; it has them once they are not."""
    platform = site.submit(cluster=cluster(least))
    site.until(platform, "running")
    asked = refuse(site)
    for vm in site.vms(platform):
        end(site, vm)
    site.periods(60)
    found = site.platform(platform)
    assert (found.state, found.sizes, site.vms(platform)) == ("running", {"nodes": 2}, [])
    assert asked
    site.cloud.faults.clear()
    site.periods(14)
    assert len(site.vms(platform)) == 2
    assert sorted(site.vms(platform)) == sorted(site.alive())


def test_it_is_asked_for_at_growing_intervals(site: Site) -> None:
    """After one, two, four periods, and at the latest after ten minutes."""
    platform = site.submit(cluster=cluster(1, 1))
    site.until(platform, "running")
    asked = refuse(site)
    end(site, site.vms(platform)[0])
    site.periods(60)
    interval_s = site.scheduler.world.rhythm.interval_s
    waits = [round((after - before) / interval_s) for before, after in pairwise(asked)]
    longest = round(600.0 / interval_s)
    assert waits[:4] == [1, 2, 4, 8]
    assert len(waits) > 5
    assert set(waits[4:]) == {longest}


def test_its_tenant_reads_why(site: Site) -> None:
    """The newest refusal alone, and how long it may take until the next attempt."""
    platform = site.submit(cluster=cluster(1, 1))
    site.until(platform, "running")
    refuse(site)
    end(site, site.vms(platform)[0])
    site.periods(12)
    (told,) = [one for one in site.doings(platform) if one.what == "refused"]
    assert FULL in told.text
    assert "refused 4 times" in told.text
    assert "next attempt" in told.text


def test_one_that_grew_keeps_its_vms_while_an_old_one_ends(site: Site) -> None:
    """A quota counts the old one for as long: it is no reason to have fewer."""
    platform = site.submit(cluster=cluster(1, 1))
    site.until(platform, "running")
    assert site.act(platform, SetSize(cluster="nodes", count=2)).accepted
    site.periods(5)
    old = max(site.vms(platform))
    order = SetSize(cluster="nodes", count=2, victims=(old,))
    busy = Fault(FaultKind.REFUSE, "one.vm.action", vm=old, code=2048, text="busy")
    fault = site.cloud.faults.add(busy)
    refuse(site)
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
