"""New VMs whose texts don't show their creation key are not created again."""

from collections.abc import Iterator

import pytest

from tests.platforms.site import Site

SIZES = 'CPU="1"\nVCPU="1"\nMEMORY="256"\n'


@pytest.fixture
def site() -> Iterator[Site]:
    """Yield a site with three hosts."""
    made = Site()
    yield made
    made.close()


def two_vms(site: Site, vm: str) -> int:
    """Submit a platform of two VMs with this template."""
    cluster = f'[[cluster]]\nname = "nodes"\nleast = 1\ninitial = 2\ntemplate = """\n{vm}"""'
    return site.submit(cluster=cluster)


@pytest.mark.parametrize(
    "vm",
    [
        f'{SIZES}GRAPHICS=[TYPE="vnc",CPU="1"]\n',
        f'{SIZES}CONTEXT=[AUTOMATIC_REQUIREMENTS="x"]\n',
        'CPU="1000000000000000"\nVCPU="1"\nMEMORY="256"\n',
        'CPU="1"\nVCPU="1"\nMEMORY="1000000000000000"\n',
    ],
)
def test_a_vm_with_odd_texts_is_created_once(site: Site, vm: str) -> None:
    """Each period created all VMs of the platform again; they end with it."""
    platform = two_vms(site, vm)
    site.periods(8)
    assert len(site.alive()) == 2
    assert sorted(site.vms(platform)) == sorted(site.alive())
    site.wait(site.manager.stop(platform, "ann"))
    site.periods(8)
    assert site.alive() == []


def test_an_owner_that_deletes_the_key_of_a_new_vm_gets_no_other(site: Site) -> None:
    """OpenNebula has answered with the VM's id."""
    platform = two_vms(site, SIZES)
    for _ in range(6):
        site.period()
        for vm in site.alive():
            site.bench.ok("one.vm.update", vm, 'NOTE="mine"', 0)
        site.clock.advance(60)
    assert sorted(site.vms(platform)) == sorted(site.alive())
    assert len(site.alive()) == 2


def test_a_vm_that_its_owner_ended_at_once_is_replaced(site: Site) -> None:
    """An answer of OpenNebula proves nothing about a VM that is gone."""
    platform = two_vms(site, f'{SIZES}GRAPHICS=[TYPE="vnc",CPU="1"]\n')
    site.period()
    for vm in site.alive():
        site.bench.ok("one.vm.action", "terminate-hard", vm)
    site.clock.advance(60)
    site.periods(4)
    assert len(site.alive()) == 2
    assert sorted(site.vms(platform)) == sorted(site.alive())
