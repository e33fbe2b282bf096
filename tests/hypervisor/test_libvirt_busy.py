"""Guests in migration, saving or backup: no call waits for them, and they wait for no call."""

import libvirt
import pytest

from tests.hypervisor.bed import Bed, limit
from tests.hypervisor.double import DoubleHost

SAVED = {"type": 2, "operation": libvirt.VIR_DOMAIN_JOB_OPERATION_SAVE}
BACKED_UP = {"type": 2, "operation": libvirt.VIR_DOMAIN_JOB_OPERATION_BACKUP}


def two() -> tuple[Bed, DoubleHost]:
    """Return a host with two guests that were read."""
    host = DoubleHost()
    host.start(0)
    host.start(1)
    bed = Bed({0: host})
    bed.read()
    host.calls.clear()
    return bed, host


def test_a_guest_in_incoming_migration_gets_no_calls() -> None:
    """Its balloon statistics and its limits are set and read only after its arrival."""
    host = DoubleHost()
    host.start(0, comes_in=True)
    bed = Bed({0: host})
    assert bed.read().vm_id.tolist() == []
    assert not host.changes()
    host.domains["one-0"].comes_in = False
    assert bed.read().vm_id.tolist() == [0]
    assert bed.apply(limit(0, vcpu=20_000)) == {}


def test_a_guest_being_saved_gets_no_limits() -> None:
    """Its step is refused with the reason, the guest beside it is served, and it is later."""
    bed, host = two()
    host.domains["one-0"].job = SAVED
    bed.read()
    steps = limit(0, vcpu=20_000), limit(1, vcpu=20_000)
    assert bed.apply(*steps) == {steps[0].id: "0: VM 0 is being moved, saved or copied on its host"}
    assert host.domains["one-1"].scheduler["vcpu_quota"] == 20_000
    host.domains["one-0"].job = {"type": 0}
    bed.read()
    assert bed.apply(*steps) == {}


def test_a_backup_is_no_reason_to_wait() -> None:
    """A backup takes hours and allows changes of the guest."""
    bed, host = two()
    host.domains["one-0"].job = BACKED_UP
    bed.read()
    assert bed.apply(limit(0, vcpu=20_000)) == {}


def test_a_guest_with_a_timed_out_call_is_checked_first() -> None:
    """After one timeout the guest's job is read first, so that timeouts do not repeat."""
    bed, host = two()
    host.refuse = lambda call, _: (
        libvirt.VIR_ERR_OPERATION_TIMEOUT if call == "setSchedulerParametersFlags" else None
    )
    assert len(bed.apply(limit(0, vcpu=20_000))) == 1
    host.domains["one-0"].job = SAVED
    assert len(bed.apply(limit(0, vcpu=20_000))) == 1
    assert host.calls["setSchedulerParametersFlags"] == 1
    host.refuse = lambda _call, _domain: None
    host.domains["one-0"].job = {"type": 0}
    assert bed.apply(limit(0, vcpu=20_000)) == {}


@pytest.mark.parametrize("kind", ["qemu", "lxc"])
def test_guests_are_checked_only_for_a_reason(kind: str) -> None:
    """Only guests that may be blocked cost the extra call."""
    host = DoubleHost(kind=kind)
    host.start(0)
    bed = Bed({0: host})
    bed.read()
    assert bed.apply(limit(0, vcpu=20_000)) == {}
    assert host.calls["jobStats"] == 0
