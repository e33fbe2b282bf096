"""VMs of patient platforms that are saved, and leave their platform or were stopped by hand."""

from collections.abc import Iterator

import pytest

from tests.platforms.queues import Queues


@pytest.fixture
def site() -> Iterator[Queues]:
    """Return a cloud with one host."""
    place = Queues()
    yield place
    place.placed_again = set(place.cloud.world.vms.rows)
    place.agree()
    place.close()


def running(site: Queues) -> int:
    """Return a platform whose VMs run."""
    platform = site.patient()
    site.until(platform, "running")
    site.periods(2)
    return platform


def test_a_saved_vm_that_its_platform_loses_waits_for_a_host(site: Queues) -> None:
    """Its new owner can't know that its platform's order was displaced."""
    platform = running(site)
    first = site.vms(platform)[0]
    site.patient(60_000.0, "2h", owner=site.bob)
    for _ in range(20):
        site.periods(1)
        if site.state(first) == "STOPPED":
            break
    site.bench.ok("one.vm.chown", first, site.bob, -1)
    site.periods(3)
    assert site.state(first) in {"PENDING", "RUNNING"}
    assert first not in site.vms(platform)


@pytest.mark.parametrize("action", ["stop", "suspend"])
def test_a_platform_goes_on_with_a_vm_that_its_tenant_has_stopped(
    site: Queues, action: str
) -> None:
    """As a platform whose VMs bid does: its tenant suspends the platform instead."""
    platform = running(site)
    vms = site.vms(platform)
    site.bench.ok("one.vm.action", action, vms[0])
    site.periods(6)
    assert site.vms(platform) == vms
    assert site.states(platform) == {"RUNNING"}
