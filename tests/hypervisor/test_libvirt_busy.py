"""Guests that are moved in, saved or copied: nobody waits for them, and nobody is kept waiting."""

import libvirt
import pytest

from tests.hypervisor.bed import Bed, limit
from tests.hypervisor.double import DoubleHost

SAVED = {"type": 2, "operation": libvirt.VIR_DOMAIN_JOB_OPERATION_SAVE}
BACKED_UP = {"type": 2, "operation": libvirt.VIR_DOMAIN_JOB_OPERATION_BACKUP}


def two() -> tuple[Bed, DoubleHost]:
    """A host with two guests that were read."""
    host = DoubleHost()
    host.start(0)
    host.start(1)
    bed = Bed({0: host})
    bed.read()
    host.calls.clear()
    return bed, host


def test_a_guest_that_comes_in_is_left_alone_until_it_is_there() -> None:
    """Neither its balloon is asked to tell its use nor its limits are looked at before."""
    host = DoubleHost()
    host.start(0, comes_in=True)
    bed = Bed({0: host})
    assert bed.read().vm_id.tolist() == []
    assert not host.changes()
    host.domains["one-0"].comes_in = False
    assert bed.read().vm_id.tolist() == [0]
    assert bed.apply(limit(0, vcpu=20_000)) == {}


def test_a_guest_that_is_saved_is_told_nothing() -> None:
    """The step is refused with the reason; the guest beside it is served, then it is too."""
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
    """It goes on for hours, and lets others change the guest."""
    bed, host = two()
    host.domains["one-0"].job = BACKED_UP
    bed.read()
    assert bed.apply(limit(0, vcpu=20_000)) == {}


def test_a_guest_for_which_a_call_waited_in_vain_is_asked_first() -> None:
    """It looked as if it were free; so it happens once, not in each period."""
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
def test_nobody_is_asked_without_a_reason(kind: str) -> None:
    """What costs a call is asked of guests that may be held up alone."""
    host = DoubleHost(kind=kind)
    host.start(0)
    bed = Bed({0: host})
    bed.read()
    assert bed.apply(limit(0, vcpu=20_000)) == {}
    assert host.calls["jobStats"] == 0
