"""Real guests follow the cloud's VMs: the necessary changes are computed as values."""

from merkatd.demo.demo_options import SIMULATED, GuestKind, of_this_machine
from merkatd.demo.demo_script import CAST, errand, vm_template
from merkatd.demo.guest_domains import (
    End,
    MoveGuest,
    StartGuest,
    changes,
    described,
    disk,
)
from merkatd.embedded.model.vm_states import Lcm, OneVmState
from merkatd.opennebula.pools.vm_pool import VmRow


def row(
    vm: int, host: int, state: OneVmState = OneVmState.ACTIVE, life: Lcm = Lcm.RUNNING
) -> VmRow:
    """Return a VM with two virtual CPUs."""
    return VmRow(
        id=vm,
        name="vm",
        owner=0,
        group=0,
        state=state,
        life=life,
        host=host,
        cpu=1.0,
        vcpus=2,
        size_cores=2,
        memory_mib=64,
        movable=True,
        pinned=False,
        attributes={},
        message="",
    )


def test_guests_start_move_and_end_with_their_vms() -> None:
    """Ended guests come first, because they free capacity."""
    vms = [
        row(1, 0),
        row(2, 1),
        row(3, 0, life=Lcm.BOOT),
        row(4, 0, OneVmState.POWEROFF, Lcm.LCM_INIT),
    ]
    assert changes(vms, {1: 0, 2: 0, 4: 0, 5: 1}) == (
        End(4, 0),
        End(5, 1),
        MoveGuest(2, 0, 1),
        StartGuest(3, 0, 2, 64),
    )


def test_guests_in_place_need_no_change() -> None:
    """Pending, failed and ended VMs have no guest."""
    vms = [
        row(1, 0),
        row(2, 0, OneVmState.PENDING, Lcm.LCM_INIT),
        row(3, 0, life=Lcm.BOOT_FAILURE),
        row(4, 0, OneVmState.DONE, Lcm.LCM_INIT),
    ]
    assert changes(vms, {1: 0}) == ()


def test_a_guest_boots_from_the_first_sector() -> None:
    """The disk suits any BIOS, and the domain has a name that OpenNebula could give."""
    assert disk()[510:512] == b"\x55\xaa"
    assert len(disk()) % 512 == 0
    assert "<name>one-7</name>" in described(GuestKind.KVM, 7, 2, 64, "/x")
    assert described(GuestKind.LXC, 7, 2, 64, "/x").count("while :") == 2


def test_the_script_fits_the_machine() -> None:
    """A quarter of the cores gets a quarter of the work, in real time and without simulation."""
    scale = of_this_machine(GuestKind.QEMU, 2, 1.0)
    usual, here = errand(CAST[0], 0, 1, 4), errand(CAST[0], 0, 1, 4, scale)
    assert here.work == round(usual.work / 4, 1)
    template = vm_template("ana-1", here.work, here.bid, scale)
    assert 'VCPU="1"' in template
    assert "EMBEDDED" not in template
    assert "EMBEDDED" in vm_template("ana-1", usual.work, usual.bid, SIMULATED)
