"""Limits of embedded guests are set and read back; a failing step affects no other step."""

from typing import Any

import numpy as np
import pytest

from merkatd.cluster import Balloon, Limit, Pin
from merkatd.hypervisor import EmbeddedHypervisors
from merkatd.hypervisor.simulated_hosts import HostStep
from merkatd.limits import UNSET, Topology
from merkatd.scheduler.base.ports import CloudUnreachableError, GuestUse
from tests.opennebula.worlds import ADMIN, SMALL, World, in_memory, migrate

HERE = {0: 0, 1: 1}


def limit(vm: int, vcpu: int | None, shares: int = 100, **more: Any) -> Limit:
    """Return a quota and a weight."""
    values = {"global_quota_us": None, "quota_period_us": 100_000} | more
    return Limit(period=1, reason="", vm=vm, vcpu_quota_us=vcpu, shares=shares, **values)


def pin(vm: int, *cores: tuple[int, ...]) -> Pin:
    """Return the cores of each virtual CPU; none remove the pins."""
    return Pin(period=1, reason="", vm=vm, cores=cores)


def balloon(vm: int, memory_mib: int) -> Balloon:
    """Return a balloon step."""
    return Balloon(period=1, reason="", vm=vm, memory_mib=memory_mib)


def hosts(world: World, **options: Any) -> EmbeddedHypervisors:
    """Return the adapter to the world's hosts."""
    return EmbeddedHypervisors(world.client, **options)


def read(world: World, vms: dict[int, int] | None = None) -> GuestUse:
    """Return the hosts' report on these VMs."""
    return world.run(hosts(world).read(HERE if vms is None else vms))


def test_new_guests_have_no_limits(guests: World) -> None:
    """A new guest has no quota, oned's own weight, all its memory and no pins."""
    seen = read(guests)
    assert seen.vm_id.tolist() == [0, 1]
    assert seen.held_mib.tolist() == [512.0, 512.0]
    assert np.all(seen.cpu_s >= 0)
    assert np.all((seen.used_mib > 0) & (seen.used_mib <= 512))
    there = seen.in_force
    assert there.vcpu_quota_us.tolist() == there.global_quota_us.tolist() == [UNSET, UNSET]
    assert there.shares.tolist() == [1024, 1024]
    assert there.memory_mib.tolist() == [512, 512]
    assert there.used_mib.tolist() == seen.used_mib.tolist()
    assert there.balloon.tolist() == [True, True]
    assert there.pins == {}


def test_limits_are_read_back(guests: World) -> None:
    """Each limit has its own unit, and those of the other VM stay."""
    steps: list[HostStep] = [limit(0, 25_000, 77), pin(0, (1,), (2, 3)), balloon(0, 400)]
    assert guests.run(hosts(guests).apply(steps)) == {}
    there = read(guests).in_force
    assert there.vcpu_quota_us.tolist() == [25_000, UNSET]
    assert there.global_quota_us.tolist() == [UNSET, UNSET]
    assert there.shares.tolist() == [77, 1024]
    assert there.memory_mib.tolist() == [400, 512]
    assert there.pins == {0: ((1,), (2, 3))}
    steps = [limit(0, None, 78, global_quota_us=60_000), pin(0)]
    assert guests.run(hosts(guests).apply(steps)) == {}
    there = read(guests).in_force
    assert there.vcpu_quota_us.tolist() == [UNSET, UNSET]
    assert there.global_quota_us.tolist() == [60_000, UNSET]
    assert there.pins == {}


def test_limits_take_effect(guests: World) -> None:
    """A quarter of a core for each of two virtual CPUs is half a core in all."""
    guests.run(hosts(guests).apply([limit(0, 25_000), balloon(0, 300)]))
    before = read(guests)
    guests.wait(20)
    after = read(guests)
    spent = after.cpu_s - before.cpu_s
    assert spent[0] == pytest.approx(spent[1] / 2, rel=0.2)
    assert after.held_mib[0] < 512


def test_quotas_of_other_periods_are_converted(guests: World) -> None:
    """Embedded hosts have one quota period and a least quota; the fraction counts."""
    steps = [
        limit(0, 10_000, quota_period_us=20_000),
        limit(1, 1, quota_period_us=1_000_000),
    ]
    assert guests.run(hosts(guests).apply(steps)) == {}
    assert read(guests).in_force.vcpu_quota_us.tolist() == [50_000, 1_000]


def test_a_wrong_step_does_not_affect_other_steps(guests: World) -> None:
    """The refusal names the accepted values, also for steps of the same VM."""
    wrong: list[HostStep] = [balloon(0, 4096), pin(1, (99,)), limit(9, 5_000)]
    good: list[HostStep] = [limit(0, 5_000), limit(1, 6_000), pin(0, (1,), (1,))]
    refused = guests.run(hosts(guests).apply([*wrong, *good]))
    assert sorted(refused) == sorted(step.id for step in wrong)
    assert "1 to 512" in refused[wrong[0].id]
    assert "it has 0 to 7" in refused[wrong[1].id]
    assert "runs on no host" in refused[wrong[2].id]
    there = read(guests).in_force
    assert there.vcpu_quota_us.tolist() == [5_000, 6_000]
    assert there.pins == {0: ((1,), (1,))}


def test_of_two_steps_the_later_applies(guests: World) -> None:
    """This holds also if another step is refused and the steps are tried one by one."""
    free, again, wrong = pin(0), pin(0, (3,)), balloon(0, 9_999)
    assert guests.run(hosts(guests).apply([free, again])) == {}
    assert read(guests).in_force.pins == {0: ((3,),)}
    assert list(guests.run(hosts(guests).apply([again, wrong, free]))) == [wrong.id]
    assert read(guests).in_force.pins == {}


def test_guests_on_other_hosts_are_left_out(guests: World) -> None:
    """A host reports only its own guests."""
    assert read(guests, {0: 1, 1: 1, 7: 0}).vm_id.tolist() == [1]
    assert read(guests, {}).vm_id.tolist() == []
    guests.accepted(migrate(0, 0, 2))
    guests.wait()
    assert read(guests, {0: 2}).vm_id.tolist() == [0]


def test_no_steps_need_no_call(world: World) -> None:
    """Empty lists of steps and VMs cause no call."""
    world.transport.forget()
    assert world.run(hosts(world).apply([])) == {}
    assert read(world, {}).in_force.pins == {}
    assert not world.transport.calls


def test_an_unreachable_host_refuses_every_step(guests: World) -> None:
    """Reading fails, and each step gets the reason why it may not be in force."""
    guests.fault("lose", "embedded.limits.*")
    with pytest.raises(CloudUnreachableError):
        read(guests)
    steps = [limit(0, 5_000), limit(1, 5_000)]
    refused = guests.run(hosts(guests, vms_per_call=1).apply(steps))
    assert sorted(refused) == sorted(step.id for step in steps)
    guests.clear_faults()
    assert guests.run(hosts(guests).apply(steps)) == {}


def test_only_administrators_reach_the_hosts(guests: World) -> None:
    """Steps and readings of other users are refused."""
    guests.call("one.user.allocate", "ann", "pw")
    mine = EmbeddedHypervisors(guests.login("ann:pw"))
    step = limit(0, 5_000)
    assert "(code 512)" in guests.run(mine.apply([step]))[step.id]
    with pytest.raises(CloudUnreachableError, match=r"\(code 512\)"):
        guests.run(mine.read(HERE))


def test_many_guests_need_few_calls() -> None:
    """Six hundred guests take three calls to set and three to read."""
    world = in_memory(100)
    count = 600
    for vm in range(count):
        assert world.embedded.call("one.vm.allocate", [ADMIN, SMALL]).success
        assert world.embedded.call("one.vm.deploy", [ADMIN, vm, vm % 100]).success
    world.wait()
    world.transport.forget()
    steps = [limit(vm, 1_000 + vm) for vm in range(count)]
    steps_of_memory = [balloon(vm, 400) for vm in range(count)]
    assert world.run(hosts(world).apply([*steps, *steps_of_memory])) == {}
    seen = read(world, {vm: vm % 100 for vm in range(count)})
    assert seen.vm_id.tolist() == list(range(count))
    assert seen.in_force.vcpu_quota_us.tolist() == [1_000 + vm for vm in range(count)]
    assert set(seen.in_force.memory_mib.tolist()) == {400}
    assert world.transport.count() == {"embedded.limits.set": 3, "embedded.limits.table": 3}


def test_topologies_are_the_configured_ones(world: World) -> None:
    """Without a configuration there are none."""
    assert hosts(world).topologies() == {}
    known = {1: Topology({0: 0, 1: 0})}
    assert hosts(world, topologies=known).topologies() == known
