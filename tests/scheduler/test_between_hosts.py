"""During a long migration both hosts keep room for the VM."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest

from merkatd.cluster import HostState, VmState
from merkatd.embedded.model.settings import Delays, HostSize
from merkatd.scheduler.base.settings import Rhythm
from merkatd.scheduler.observation.under_way import under_way
from tests.scheduler.frontend import Frontend

SIZE = 8192
HOST = 2 * SIZE
USED = 512


@pytest.fixture
def slow() -> Iterator[Frontend]:
    """Return three hosts with room for two VMs each; a migration takes 4.5 minutes."""
    frontend = Frontend(hosts=3, size=HostSize(1600, HOST))
    world = frontend.cloud.world
    world.settings = replace(world.settings, delays=Delays(memory_mib_s=30.0))
    yield frontend
    frontend.close()


def guest(frontend: Frontend, hosts: Sequence[int], more: str = "") -> int:
    """Create a VM of 8,192 MiB that uses little and is restricted to these hosts."""
    may = " | ".join(f"ID={host}" for host in hosts)
    return frontend.bench.new(
        f'CPU="1"\nVCPU="2"\nMEMORY="{SIZE}"\nMERKAT_BID_CPU="1"\nMERKAT_BID_MEMORY="10"\n'
        f'SCHED_REQUIREMENTS="{may}"\n{more}\n'
        f'EMBEDDED=[WORK="100000000",DEMAND="1",MEMORY_USE="{USED}"]'
    )


def held(frontend: Frontend, vms: Sequence[int], host: int) -> float:
    """Return the MiB that the guests on the host hold."""
    guests = frontend.cloud.guests.read(vms).values()
    return sum(guest.balloon_mib for guest in guests if guest.host == host)


def watched(frontend: Frontend, vms: Sequence[int], host: int, periods: int) -> list[float]:
    """Run several periods; return the MiB held on the host after each."""
    amounts = []
    for _ in range(periods):
        frontend.period()
        frontend.clock.pump([10.0] * 6)
        amounts.append(held(frontend, vms, host))
    return amounts


def is_migrating(frontend: Frontend, vm: int) -> bool:
    """Return whether the cloud is migrating the VM."""
    return frontend.state(vm) == "MIGRATE"


def test_vms_do_not_grow_into_the_memory_of_a_vm_that_leaves(slow: Frontend) -> None:
    """Three VMs share a host and one leaves; the others get its memory once it has left."""
    vms = [guest(slow, may) for may in ([0, 1], [0], [0])]
    slow.bench.ok("one.host.status", 1, 1)
    slow.periods(8)
    assert held(slow, vms, 0) > HOST - 10
    slow.bench.ok("one.host.status", 1, 0)
    slow.bench.ok("one.vm.action", "resched", vms[0])
    during = watched(slow, vms, 0, 3)
    assert is_migrating(slow, vms[0])
    assert max(during) <= HOST
    watched(slow, vms, 0, 6)
    assert held(slow, vms[1:], 0) == HOST
    assert slow.host_of(vms[0]) == 1


def test_a_new_vm_gets_no_memory_that_a_failed_migration_needs_again(slow: Frontend) -> None:
    """The host that the first VM leaves is the only one for the new VM."""
    vms = [guest(slow, [0, 1]), guest(slow, [0])]
    slow.bench.ok("one.host.status", 1, 1)
    slow.periods(6)
    slow.bench.ok("one.host.status", 1, 0)
    slow.bench.ok("embedded.fault.add", {"kind": "fail", "lcm": "MIGRATE", "count": 1})
    slow.bench.ok("one.vm.action", "resched", vms[0])
    slow.period()
    slow.clock.advance(10)
    assert is_migrating(slow, vms[0])
    vms.append(guest(slow, [0]))
    assert max(watched(slow, vms, 0, 8)) <= HOST
    assert slow.state(vms[2]) == "RUNNING"


@pytest.mark.parametrize("given_up", [False, True])
def test_the_target_of_a_foreign_migration_keeps_room(slow: Frontend, given_up: bool) -> None:
    """An administrator ordered the migration, or Merkat's own one exceeded its limit."""
    if given_up:
        slow.world_settings = {"rhythm": Rhythm(migration_limit_s=30.0)}
        slow.start_daemon()
    vms = [guest(slow, [0, 1])]
    slow.bench.ok("one.host.status", 1, 1)
    slow.periods(6)
    slow.bench.ok("one.host.status", 1, 0)
    if given_up:
        slow.bench.ok("one.vm.action", "resched", vms[0])
        slow.periods(2)
        assert not slow.period().seen.verdicts.waiting
    else:
        slow.bench.ok("one.vm.migrate", vms[0], 1, True)
    slow.clock.advance(5)
    assert is_migrating(slow, vms[0])
    vms += [guest(slow, [1]), guest(slow, [1])]
    during = [0.0]
    while is_migrating(slow, vms[0]):
        during += watched(slow, vms, 1, 1)
    assert held(slow, vms[:1], 1) == SIZE
    assert [slow.state(vm) for vm in vms] == ["RUNNING"] * 3
    assert max(during) <= HOST


@pytest.mark.parametrize("ours", [False, True])
def test_a_vm_avoids_both_hosts_of_a_migrating_vm_it_must_be_apart_from(
    slow: Frontend, ours: bool
) -> None:
    """The VM waits until the first member has arrived, then takes the host it left."""
    group = slow.bench.ok("one.vmgroup.allocate", 'NAME="g"\nROLE=[NAME="w",POLICY="ANTI_AFFINED"]')
    member = f'VMGROUP=[VMGROUP_ID="{group}",ROLE="w"]'
    first = guest(slow, [0, 1], member)
    slow.periods(3)
    left = slow.host_of(first)
    if ours:
        slow.bench.ok("one.vm.action", "resched", first)
        slow.period()
    else:
        slow.bench.ok("one.vm.migrate", first, 1 - left, True)
    slow.clock.advance(5)
    second = guest(slow, [0, 1], member)
    while is_migrating(slow, first):
        slow.period()
        assert slow.state(second) == "PENDING"
        slow.clock.advance(60)
    slow.periods(2)
    assert [slow.host_of(vm) for vm in (first, second)] == [1 - left, left]


def test_a_vm_under_a_foreign_migration_counts_on_both_hosts(slow: Frontend) -> None:
    """As with Merkat's own migrations, the VM is left alone and both hosts keep its floor."""
    vm = guest(slow, [0, 1], 'MERKAT_MIN_MEMORY="4096"')
    slow.bench.ok("one.host.status", 1, 1)
    slow.periods(4)
    slow.bench.ok("one.host.status", 1, 0)
    slow.bench.ok("one.vm.migrate", vm, 1, True)
    slow.clock.advance(5)
    snapshot = slow.period().seen.snapshot
    assert (snapshot.vms.host.tolist(), snapshot.vms.source.tolist()) == ([1], [0])
    assert VmState(int(snapshot.vms.state[0])) is VmState.BUSY
    assert snapshot.hosts.capacity[:, 1].tolist() == [HOST - 4096, HOST, HOST]
    assert snapshot.hosts.reserved[:, 1].tolist() == [4096, 0, 0]


def test_a_vm_that_migrates_to_an_unreachable_host_counts_on_its_source(slow: Frontend) -> None:
    """It runs and is charged on its source, because such a migration usually fails."""
    vm = guest(slow, [0])
    slow.periods(3)
    slow.bench.ok("one.vm.migrate", vm, 1, True)
    slow.clock.advance(5)
    seen = slow.period().seen.observation
    assert seen.vm_coming is not None
    assert (seen.vm_host.tolist(), seen.vm_coming.tolist()) == ([0], [1])
    host = np.array([0])
    assert under_way(seen, host, ())[1:] == (np.array([1]), np.array([0]))
    state = np.array([HostState.ON, HostState.OFF, HostState.ON])
    off = under_way(replace(seen, host_state=state), host, ())
    assert off[1:] == (np.array([0]), np.array([-1]))
