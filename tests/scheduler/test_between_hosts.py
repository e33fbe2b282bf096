"""Migrations that last: both hosts are kept for the VM until it is seen to have arrived."""

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
    """Three hosts with room for two VMs each. A migration takes four and a half minutes."""
    frontend = Frontend(hosts=3, size=HostSize(1600, HOST))
    world = frontend.cloud.world
    world.settings = replace(world.settings, delays=Delays(memory_mib_s=30.0))
    yield frontend
    frontend.close()


def guest(frontend: Frontend, hosts: Sequence[int], more: str = "") -> int:
    """A VM that holds 8,192 MiB where it can, uses little, and may be on these hosts."""
    may = " | ".join(f"ID={host}" for host in hosts)
    return frontend.bench.new(
        f'CPU="1"\nVCPU="2"\nMEMORY="{SIZE}"\nMERKAT_BID_CPU="1"\nMERKAT_BID_MEMORY="10"\n'
        f'SCHED_REQUIREMENTS="{may}"\n{more}\n'
        f'EMBEDDED=[WORK="100000000",DEMAND="1",MEMORY_USE="{USED}"]'
    )


def held(frontend: Frontend, vms: Sequence[int], host: int) -> float:
    """MiB that the guests on the host hold."""
    guests = frontend.cloud.guests.read(vms).values()
    return sum(one.balloon_mib for one in guests if one.host == host)


def watched(frontend: Frontend, vms: Sequence[int], host: int, periods: int) -> list[float]:
    """What the guests on the host hold at the end of each of so many periods."""
    found = []
    for _ in range(periods):
        frontend.period()
        frontend.clock.pump([10.0] * 6)
        found.append(held(frontend, vms, host))
    return found


def on_its_way(frontend: Frontend, vm: int) -> bool:
    """Whether the cloud is migrating it."""
    return frontend.state(vm) == "MIGRATE"


def test_others_do_not_grow_into_the_memory_of_a_vm_that_leaves(slow: Frontend) -> None:
    """Three VMs share a host, and one leaves it: the others get its memory once it has gone."""
    vms = [guest(slow, may) for may in ([0, 1], [0], [0])]
    slow.bench.ok("one.host.status", 1, 1)
    slow.periods(8)
    assert held(slow, vms, 0) > HOST - 10
    slow.bench.ok("one.host.status", 1, 0)
    slow.bench.ok("one.vm.action", "resched", vms[0])
    during = watched(slow, vms, 0, 3)
    assert on_its_way(slow, vms[0])
    assert max(during) <= HOST
    watched(slow, vms, 0, 6)
    assert held(slow, vms[1:], 0) == HOST
    assert slow.host_of(vms[0]) == 1


def test_a_new_vm_gets_no_memory_that_a_migration_that_fails_brings_back(slow: Frontend) -> None:
    """The host that the first VM leaves is the only one for the new VM."""
    vms = [guest(slow, [0, 1]), guest(slow, [0])]
    slow.bench.ok("one.host.status", 1, 1)
    slow.periods(6)
    slow.bench.ok("one.host.status", 1, 0)
    slow.bench.ok("embedded.fault.add", {"kind": "fail", "lcm": "MIGRATE", "count": 1})
    slow.bench.ok("one.vm.action", "resched", vms[0])
    slow.period()
    slow.clock.advance(10)
    assert on_its_way(slow, vms[0])
    vms.append(guest(slow, [0]))
    assert max(watched(slow, vms, 0, 8)) <= HOST
    assert slow.state(vms[2]) == "RUNNING"


@pytest.mark.parametrize("given_up", [False, True])
def test_the_target_of_a_migration_that_is_not_ours_keeps_room(
    slow: Frontend, given_up: bool
) -> None:
    """An administrator ordered it, or it was ours and took longer than its limit."""
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
    assert on_its_way(slow, vms[0])
    vms += [guest(slow, [1]), guest(slow, [1])]
    during = [0.0]
    while on_its_way(slow, vms[0]):
        during += watched(slow, vms, 1, 1)
    assert held(slow, vms[:1], 1) == SIZE
    assert [slow.state(vm) for vm in vms] == ["RUNNING"] * 3
    assert max(during) <= HOST


@pytest.mark.parametrize("ours", [False, True])
def test_a_vm_comes_to_neither_host_of_one_that_it_must_be_apart_from(
    slow: Frontend, ours: bool
) -> None:
    """It waits until the first member has arrived, and goes to the host that this one left."""
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
    while on_its_way(slow, first):
        slow.period()
        assert slow.state(second) == "PENDING"
        slow.clock.advance(60)
    slow.periods(2)
    assert [slow.host_of(vm) for vm in (first, second)] == [1 - left, left]


def test_a_vm_stands_where_a_migration_that_is_not_ours_takes_it(slow: Frontend) -> None:
    """As with our own ones: it is left alone, and both hosts keep its floor."""
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


def test_a_vm_that_goes_to_a_host_without_an_answer_stays_where_it_is(slow: Frontend) -> None:
    """It runs, and is charged, where it is; such a migration mostly fails."""
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
