"""Leaving a host: a disabled host keeps its VMs, and only an order to empty it moves them."""

import pytest

from merkatd.api.questions.lists import HOST_STATES
from merkatd.cluster import HostState
from merkatd.database.orders import Order
from tests.scheduler.frontend import Frontend


def placed(frontend: Frontend, count: int = 6) -> list[int]:
    """So many VMs, all running."""
    vms = [frontend.vm() for _ in range(count)]
    frontend.periods(3)
    assert {frontend.state(vm) for vm in vms} == {"RUNNING"}
    return vms


def on(frontend: Frontend, host: int, vms: list[int]) -> list[int]:
    """Those of the VMs that are on the host."""
    return [vm for vm in vms if frontend.host_of(vm) == host]


def disable(frontend: Frontend, host: int) -> None:
    """`onehost disable`."""
    frontend.bench.ok("one.host.status", host, 1)


class TestDisabled:
    def test_a_disabled_host_keeps_its_vms_and_gets_no_more(self, frontend: Frontend) -> None:
        """`onehost disable` stops new deployments; running VMs stay."""
        vms = placed(frontend)
        there = on(frontend, 0, vms)
        assert there
        disable(frontend, 0)
        frontend.periods(4)
        assert on(frontend, 0, vms) == there
        new = placed(frontend, 4)
        assert not on(frontend, 0, new)
        assert on(frontend, 0, vms) == there
        frontend.agree()

    def test_not_even_for_gain_is_a_vm_moved_off_a_disabled_host(self, frontend: Frontend) -> None:
        """However crowded it is: an administrator who disables a host wants it left alone."""
        vms = [frontend.vm(cpu_bid=5.0, VCPU=4) for _ in range(3)]
        for vm in vms:
            frontend.bench.ok("one.vm.deploy", vm, 0)
        frontend.clock.advance(60)
        disable(frontend, 0)
        frontend.periods(4)
        assert on(frontend, 0, vms) == vms
        frontend.bench.ok("one.host.status", 0, 0)
        frontend.periods(4)
        assert on(frontend, 0, vms) != vms

    def test_an_order_to_drain_empties_a_disabled_host(self, frontend: Frontend) -> None:
        """`merkatd host drain`, on top of `onehost disable`."""
        vms = placed(frontend)
        disable(frontend, 0)
        frontend.period()
        frontend.order(Order.DRAIN, 0)
        frontend.periods(4)
        assert on(frontend, 0, vms) == []

    def test_a_flush_empties_a_disabled_host(self, frontend: Frontend) -> None:
        """`onehost flush` disables the host and sets RESCHED on each of its VMs."""
        vms = placed(frontend)
        there = on(frontend, 0, vms)
        disable(frontend, 0)
        for vm in there[:-1]:
            frontend.bench.ok("one.vm.action", "resched", vm)
        frontend.periods(4)
        assert on(frontend, 0, vms) == there[-1:]


@pytest.mark.parametrize("state", HostState)
def test_each_state_of_a_host_has_a_name_of_its_own(state: HostState) -> None:
    """In `merkatd list hosts`."""
    assert len({HOST_STATES[one] for one in HostState}) == len(HostState)
    assert HOST_STATES[state]
