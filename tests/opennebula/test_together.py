"""Many VMs and hosts are checked together, and no answer is older than its request."""

from collections.abc import Iterator

import pytest

from merkatd.base.clock import Inline
from merkatd.base.deferreds import in_parallel
from merkatd.opennebula.current_state import HostChecks, VmCheck, VmChecks
from merkatd.opennebula.pools.one_states import PENDING
from merkatd.opennebula.rpc.errors import LongAnswerError, OneMissingError
from merkatd.opennebula.rpc.xml_elements import BrokenError
from merkatd.scheduler.base.ports import CloudUnreachableError
from tests.opennebula.worlds import RealTime, World, over_http

HOSTS = 12
NO_VMS: frozenset[int] = frozenset()


@pytest.fixture
def wide(real_time: RealTime) -> Iterator[World]:
    """Yield a cloud with a dozen hosts."""
    yield from over_http(real_time, HOSTS)


def test_vms_are_checked_together(wide: World) -> None:
    """The first one is checked alone, and all others by a few calls."""
    vms = [wide.new() for _ in range(20)]
    wide.transport.forget()
    glances = VmChecks(wide.client, wide.clock)
    checks = wide.run(in_parallel(glances.at(vm) for vm in vms))
    assert checks == [VmCheck(*PENDING, -1)] * 20
    count = wide.transport.count()
    assert count["one.vm.info"] == 1
    assert 1 <= count["one.vmpool.infoset"] <= 3


def test_single_vms_are_checked_soon(wide: World) -> None:
    """However few they are, each is checked after a moment."""
    vms = [wide.new() for _ in range(3)]
    glances = VmChecks(wide.client, wide.clock)
    for vm in vms:
        assert wide.run(glances.at(vm)).state == PENDING[0]


def test_a_missing_vm_affects_no_other(wide: World) -> None:
    """Its own call has the reason."""
    vms = [wide.new() for _ in range(9)]
    glances = VmChecks(wide.client, wide.clock)

    async def all_of_them() -> list[VmCheck]:
        asked = [glances.at(vm) for vm in vms]
        missing = in_parallel([glances.at(999)])
        checks: list[VmCheck] = await in_parallel(asked)
        with pytest.raises(OneMissingError):
            await missing
        return checks

    assert len(wide.run(all_of_them())) == 9


def test_hosts_are_checked_by_one_call(wide: World) -> None:
    """The answer is reused while it is fresh, and never for a later request."""
    hosts = HostChecks(wide.client, Inline(), wide.clock.seconds, lambda: HOSTS)
    for _ in range(2):
        why = wide.run(in_parallel(hosts.why_not(host, NO_VMS, 0.0) for host in range(HOSTS)))
        assert why == [None] * HOSTS
    count = wide.transport.count()
    assert (count["one.host.info"], count["one.hostpool.info"]) == (1, 1)
    since_s = wide.clock.seconds()
    wide.run(hosts.why_not(3, NO_VMS, since_s))
    assert wide.transport.count()["one.host.info"] == 2


def test_few_hosts_of_a_large_cloud_are_checked_alone(wide: World) -> None:
    """Reading all others would be wasted."""
    hosts = HostChecks(wide.client, Inline(), wide.clock.seconds, lambda: 10_000)
    wide.run(in_parallel(hosts.why_not(host, NO_VMS, 0.0) for host in range(HOSTS)))
    count = wide.transport.count()
    assert (count["one.host.info"], count["one.hostpool.info"]) == (HOSTS, 0)


def test_each_host_has_its_own_reason(wide: World) -> None:
    """A missing host, one with a foreign VM, and accepting ones are covered."""
    vm = wide.running(5)
    hosts = HostChecks(wide.client, Inline(), wide.clock.seconds, lambda: HOSTS)
    asked = [*range(HOSTS), 999]
    why = wide.run(in_parallel(hosts.why_not(host, NO_VMS, 0.0) for host in asked))
    assert why[5] == f"VM {vm} has arrived on host 5 in the meantime"
    assert "host 999 can't be read" in why[-1]
    assert [reason for reason in why if reason is None] == [None] * (HOSTS - 1)


def test_a_failed_check_ends(wide: World) -> None:
    """Its callers get the error, and the next check succeeds."""
    hosts = HostChecks(wide.client, Inline(), wide.clock.seconds, lambda: HOSTS)
    wide.fault("garbage", "one.host*")
    with pytest.raises(CloudUnreachableError):
        wide.run(in_parallel(hosts.why_not(host, NO_VMS, 0.0) for host in range(HOSTS)))
    wide.clear_faults()
    why = wide.run(in_parallel(hosts.why_not(host, NO_VMS, 0.0) for host in range(HOSTS)))
    assert why == [None] * HOSTS


@pytest.mark.parametrize("error", [BrokenError("no XML"), LongAnswerError("infoset", "", 9, "")])
def test_an_unreadable_vm_affects_no_other(
    wide: World, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """VMs are then read one by one, because an owner may have caused it."""
    vms = [wide.new() for _ in range(9)]

    async def vm_set(_: list[int]) -> str:
        raise error

    monkeypatch.setattr(wide.client, "vm_set", vm_set)
    glances = VmChecks(wide.client, wide.clock)
    checks = wide.run(in_parallel(glances.at(vm) for vm in vms))
    assert checks == [VmCheck(*PENDING, -1)] * 9
