"""Many VMs and hosts are looked at together, and none of them is older than its question."""

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
NOBODY: frozenset[int] = frozenset()


@pytest.fixture
def wide(real_time: RealTime) -> Iterator[World]:
    """A cloud with a dozen hosts."""
    yield from over_http(real_time, HOSTS)


def test_vms_are_looked_at_many_at_a_time(wide: World) -> None:
    """One that is asked for first and alone, and all others by a few calls."""
    vms = [wide.new() for _ in range(20)]
    wide.transport.forget()
    glances = VmChecks(wide.client, wide.clock)
    found = wide.run(in_parallel(glances.at(vm) for vm in vms))
    assert found == [VmCheck(*PENDING, -1)] * 20
    count = wide.transport.count()
    assert count["one.vm.info"] == 1
    assert 1 <= count["one.vmpool.infoset"] <= 3


def test_vms_that_come_one_by_one_are_not_kept_waiting(wide: World) -> None:
    """However few they are, each is looked at after a moment."""
    vms = [wide.new() for _ in range(3)]
    glances = VmChecks(wide.client, wide.clock)
    for vm in vms:
        assert wide.run(glances.at(vm)).state == PENDING[0]


def test_a_vm_that_is_not_there_harms_no_other(wide: World) -> None:
    """Its own call says why."""
    vms = [wide.new() for _ in range(9)]
    glances = VmChecks(wide.client, wide.clock)

    async def all_of_them() -> list[VmCheck]:
        asked = [glances.at(vm) for vm in vms]
        missing = in_parallel([glances.at(999)])
        found: list[VmCheck] = await in_parallel(asked)
        with pytest.raises(OneMissingError):
            await missing
        return found

    assert len(wide.run(all_of_them())) == 9


def test_hosts_are_looked_at_by_one_call(wide: World) -> None:
    """And not again for as long as that is fresh; what came before a question is no answer."""
    hosts = HostChecks(wide.client, Inline(), wide.clock.seconds, lambda: HOSTS)
    for _ in range(2):
        why = wide.run(in_parallel(hosts.why_not(host, NOBODY, 0.0) for host in range(HOSTS)))
        assert why == [None] * HOSTS
    count = wide.transport.count()
    assert (count["one.host.info"], count["one.hostpool.info"]) == (1, 1)
    since_s = wide.clock.seconds()
    wide.run(hosts.why_not(3, NOBODY, since_s))
    assert wide.transport.count()["one.host.info"] == 2


def test_few_hosts_of_a_large_cloud_are_looked_at_alone(wide: World) -> None:
    """All others would be read for nothing."""
    hosts = HostChecks(wide.client, Inline(), wide.clock.seconds, lambda: 10_000)
    wide.run(in_parallel(hosts.why_not(host, NOBODY, 0.0) for host in range(HOSTS)))
    count = wide.transport.count()
    assert (count["one.host.info"], count["one.hostpool.info"]) == (HOSTS, 0)


def test_each_host_has_its_own_reason(wide: World) -> None:
    """One that is not there, one with a stranger, and those that take what comes."""
    vm = wide.running(5)
    hosts = HostChecks(wide.client, Inline(), wide.clock.seconds, lambda: HOSTS)
    asked = [*range(HOSTS), 999]
    why = wide.run(in_parallel(hosts.why_not(host, NOBODY, 0.0) for host in asked))
    assert why[5] == f"VM {vm} has arrived on host 5 in the meantime"
    assert "host 999 can't be read" in why[-1]
    assert [one for one in why if one is None] == [None] * (HOSTS - 1)


def test_a_look_that_fails_is_over(wide: World) -> None:
    """Whoever waited for it is told, and the next look is as good as any."""
    hosts = HostChecks(wide.client, Inline(), wide.clock.seconds, lambda: HOSTS)
    wide.fault("garbage", "one.host*")
    with pytest.raises(CloudUnreachableError):
        wide.run(in_parallel(hosts.why_not(host, NOBODY, 0.0) for host in range(HOSTS)))
    wide.mend()
    why = wide.run(in_parallel(hosts.why_not(host, NOBODY, 0.0) for host in range(HOSTS)))
    assert why == [None] * HOSTS


@pytest.mark.parametrize("error", [BrokenError("no XML"), LongAnswerError("infoset", "", 9, "")])
def test_a_vm_whose_outline_cant_be_read_harms_no_other(
    wide: World, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are asked for one by one then: its owner may have made it so."""
    vms = [wide.new() for _ in range(9)]

    async def vm_set(_: list[int]) -> str:
        raise error

    monkeypatch.setattr(wide.client, "vm_set", vm_set)
    glances = VmChecks(wide.client, wide.clock)
    found = wide.run(in_parallel(glances.at(vm) for vm in vms))
    assert found == [VmCheck(*PENDING, -1)] * 9
