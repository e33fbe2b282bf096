"""The contract of the cloud port, for every endpoint."""

import numpy as np
import pytest

from merkatd.cluster import HostState, Limit, Resume, Stop, Suspend, Terminate, VmState
from merkatd.scheduler.base.ports import Observation, ReplyKind
from tests.opennebula.worlds import SMALL, World, create, deploy, migrate, simple


def row(seen: Observation, vm: int) -> int:
    """Return the row of a VM."""
    return int(np.searchsorted(seen.vm_id, vm))


def state(seen: Observation, vm: int) -> tuple[VmState, int]:
    """Return a VM's state and host."""
    at = row(seen, vm)
    return VmState(int(seen.vm_state[at])), int(seen.vm_host[at])


def test_hosts_are_observed(world: World) -> None:
    """They are sorted by id, with capacities in Merkat's units."""
    seen = world.observe()
    assert seen.host_id.tolist() == [0, 1, 2]
    assert seen.host_name == ("host000", "host001", "host002")
    assert seen.host_cluster.tolist() == [0, 0, 0]
    assert seen.host_state.tolist() == [HostState.ON] * 3
    assert seen.host_capacity.tolist() == [[800.0, 16384.0]] * 3
    assert seen.vm_id.tolist() == []
    assert seen.vm_size.shape == seen.vm_reserved.shape == (0, 2)
    assert seen.at_s <= world.clock.seconds()


def test_reserved_capacity_is_excluded(world: World) -> None:
    """MAX_CPU and MAX_MEM exclude the administrator's reservations."""
    world.call("one.host.update", 1, 'RESERVED_CPU="200"\nRESERVED_MEM="1048576"', 1)
    assert world.observe().host_capacity.tolist()[1] == [600.0, 15360.0]


def test_states_of_hosts_are_observed(world: World) -> None:
    """Disabled hosts are reachable; offline hosts and hosts in error are off."""
    world.call("one.host.status", 0, 1)
    world.call("one.host.status", 1, 2)
    assert world.observe().host_state.tolist() == [
        HostState.DISABLED,
        HostState.OFF,
        HostState.ON,
    ]
    world.call("embedded.host.down", 2)
    assert world.observe().host_state.tolist()[2] == HostState.OFF


def test_load_is_the_monitored_one(world: World) -> None:
    """It is in percent of a core and MiB."""
    world.running(1, "CPU=2\nVCPU=2\nMEMORY=1024\n")
    used = world.observe().host_used
    assert used[1, 0] == pytest.approx(200, abs=5)
    assert 0 < used[1, 1] < 16384
    assert used[0].tolist() == [0.0, 0.0]


def test_a_vm_is_observed(world: World) -> None:
    """It has its size (VCPU, or CPU rounded up), oned's allocation, and its attributes."""
    plain = world.new('NAME="web 1 (ü)"\nCPU=1.5\nMEMORY=512')
    wide = world.new('CPU=0.5\nVCPU=4\nMEMORY=1024\nMERKAT=[CPU="3", MEMORY="0.1", MIN_CPU="20"]')
    seen = world.observe()
    assert seen.vm_id.tolist() == [plain, wide]
    assert seen.vm_name == ("web 1 (ü)", f"one-{wide}")
    assert seen.vm_size.tolist() == [[200.0, 512.0], [400.0, 1024.0]]
    assert seen.vm_reserved.tolist() == [[150.0, 512.0], [50.0, 1024.0]]
    assert seen.vm_vcpus.tolist() == [1, 4]
    assert seen.vm_owner.tolist() == seen.vm_group.tolist() == [0, 0]
    assert seen.vm_words == ("PENDING", "PENDING")
    assert seen.attributes == {
        wide: {"MERKAT_BID_CPU": "3", "MERKAT_BID_MEMORY": "0.1", "MERKAT_MIN_CPU": "20"}
    }
    assert list(seen.vm_movable) == [True, True]
    assert seen.ailing == {}


def test_attributes_follow_the_owner(world: World) -> None:
    """A changed user template applies at once, and a full name precedes a part."""
    vm = world.new(SMALL + 'MERKAT_BID_CPU="1"')
    world.run(world.client.append(vm, 'MERKAT_BID_CPU="2"\nMERKAT=[CPU="9", PINNED="YES"]'))
    seen = world.observe()
    assert seen.attributes[vm]["MERKAT_BID_CPU"] == "2"
    assert list(seen.vm_movable) == [False]


@pytest.mark.parametrize(
    ("words", "movable"),
    [
        ('TOPOLOGY=[PIN_POLICY="CORE"]', False),
        ('TOPOLOGY=[PIN_POLICY="NONE"]', True),
        ('ONEDRS_BLOCKED="yes"', False),
        ('MERKAT_PINNED="no"', True),
    ],
)
def test_unmovable_vms_are_observed(world: World, words: str, *, movable: bool) -> None:
    """These are VMs that oned pins to cores, or whose owner forbids moves."""
    world.new(SMALL + words)
    assert list(world.observe().vm_movable) == [movable]


@pytest.mark.parametrize("level", [1, 2, 4])
def test_a_locked_vm_is_unmovable(world: World, level: int) -> None:
    """OpenNebula rejects its migration even for administrators."""
    vm = world.new(SMALL)
    world.run(world.client.call("one.vm.lock", vm, level, True))
    assert list(world.observe().vm_movable) == [False]


def test_the_life_of_a_vm_is_confirmed_by_observations(world: World) -> None:
    """Each step is accepted in its state, and the next observation confirms it."""
    reply = world.send(create("life"))
    assert reply.answer is ReplyKind.ACCEPTED
    vm = reply.vm
    assert vm is not None
    seen = world.observe()
    assert seen.keys == {("life", 0): vm}
    assert state(seen, vm) == (VmState.PENDING, -1)
    world.accepted(deploy(vm, 1))
    assert state(world.observe(), vm)[0] is VmState.BUSY
    world.wait()
    assert state(world.observe(), vm) == (VmState.RUNNING, 1)
    world.accepted(migrate(vm, 1, 2))
    assert state(world.observe(), vm) == (VmState.BUSY, 1)
    world.wait()
    assert state(world.observe(), vm) == (VmState.RUNNING, 2)
    world.accepted(simple(Suspend, vm))
    world.wait()
    assert state(world.observe(), vm) == (VmState.SUSPENDED, 2)
    world.accepted(simple(Resume, vm))
    world.wait()
    assert state(world.observe(), vm) == (VmState.RUNNING, 2)
    world.accepted(simple(Stop, vm))
    world.wait()
    assert state(world.observe(), vm) == (VmState.ABSENT, -1)
    assert world.words(vm) == "STOPPED"
    world.accepted(simple(Resume, vm))
    assert state(world.observe(), vm) == (VmState.PENDING, -1)
    world.accepted(deploy(vm, 0))
    world.wait()
    assert state(world.observe(), vm) == (VmState.RUNNING, 0)
    world.accepted(simple(Terminate, vm))
    world.wait()
    seen = world.observe()
    assert seen.vm_id.tolist() == []
    assert seen.keys == {("life", 0): vm}


def test_a_failed_migration_is_observed(world: World) -> None:
    """The VM is busy on its source, and then runs there."""
    vm = world.running(0)
    world.fault("fail", lcm="MIGRATE")
    world.accepted(migrate(vm, 0, 1))
    assert state(world.observe(), vm) == (VmState.BUSY, 0)
    world.wait()
    assert state(world.observe(), vm) == (VmState.RUNNING, 0)


def test_the_move_of_a_suspended_vm_is_observed(world: World) -> None:
    """Another program moves it: it is busy, and then suspended on the new host."""
    vm = world.running(0)
    world.accepted(simple(Suspend, vm))
    world.until(lambda: world.words(vm) == "SUSPENDED")
    world.dispatch_after(24.0)  # VMs and hosts are read one after the other before it moves
    world.call("one.vm.migrate", vm, 2, False)
    assert state(world.observe(), vm) == (VmState.BUSY, 0)
    world.until(lambda: state(world.observe(), vm) == (VmState.SUSPENDED, 2))


def test_vms_with_and_without_an_allocation_are_observed(world: World) -> None:
    """Powered-off and unknown VMs keep their host; held and failed ones keep nothing."""
    off, lost, held, failed = world.running(1), world.running(2), world.new(), world.new()
    world.call("one.vm.action", "poweroff", off)
    world.call("one.vm.action", "hold", held)
    world.fault("fail", lcm="BOOT")
    world.accepted(deploy(failed, 0))
    world.call("embedded.host.down", 2)
    world.wait()
    seen = world.observe()
    assert state(seen, off) == (VmState.POWERED_OFF, 1)
    assert state(seen, lost) == (VmState.POWERED_OFF, 2)
    assert seen.vm_words[row(seen, lost)] == "UNKNOWN"
    assert state(seen, held) == (VmState.ABSENT, -1)
    assert state(seen, failed) == (VmState.ABSENT, 0)
    assert seen.vm_words[row(seen, failed)] == "BOOT_FAILURE"


def test_oneds_own_capacity_check_is_not_used(world: World) -> None:
    """Sixteen cores fit on a host of eight, several times."""
    large = "CPU=16\nMEMORY=32768\n"
    first, second = world.running(0, large), world.running(1, large)
    world.accepted(migrate(first, 0, 1))
    world.wait()
    seen = world.observe()
    assert state(seen, first) == state(seen, second) == (VmState.RUNNING, 1)


def test_a_powered_off_vm_releases_its_host_too(world: World) -> None:
    """OpenNebula undeploys it, because there is no memory to save."""
    vm = world.running(0)
    world.call("one.vm.action", "poweroff-hard", vm)
    world.wait()
    world.accepted(simple(Stop, vm))
    world.wait()
    assert state(world.observe(), vm) == (VmState.ABSENT, -1)
    assert world.words(vm) == "UNDEPLOYED"
    world.accepted(simple(Resume, vm))
    assert state(world.observe(), vm) == (VmState.PENDING, -1)


def test_no_step_is_sent_in_a_wrong_state(world: World) -> None:
    """The VM is read first; the answer has its state, and no call follows."""
    vm = world.new()
    pending = [
        migrate(vm, 0, 1),
        simple(Suspend, vm),
        simple(Resume, vm),
        simple(Stop, vm),
    ]
    world.transport.forget()
    for step in pending:
        reply = world.send(step)
        assert (reply.answer, reply.why) == (ReplyKind.LOOK_AGAIN, "it is PENDING")
    world.accepted(deploy(vm, 0))
    world.wait()
    assert "RUNNING" in world.send(deploy(vm, 1)).why
    elsewhere = world.send(migrate(vm, 1, 2))
    assert elsewhere.answer is ReplyKind.LOOK_AGAIN
    assert elsewhere.why == "it is on host 0, not on host 1"
    world.accepted(simple(Terminate, vm))
    world.wait()
    assert world.send(simple(Terminate, vm)).why == "it is DONE"
    called = world.transport.count()
    assert called["one.vm.migrate"] == 0
    assert called["one.vm.deploy"] == called["one.vm.action"] == 1


def test_an_unknown_vm_is_not_resumed(world: World) -> None:
    """It would be started again while it may still run; it may be terminated."""
    vm = world.running(0)
    world.call("embedded.host.down", 0, False)
    assert world.send(simple(Resume, vm)).answer is ReplyKind.LOOK_AGAIN
    world.accepted(simple(Terminate, vm))


def test_rejections_have_oneds_text(world: World) -> None:
    """Missing hosts and VMs, hosts that accept nothing, and other steps are covered."""
    vm = world.new()
    nowhere = world.send(deploy(vm, 77))
    assert nowhere.answer is ReplyKind.REFUSED
    assert nowhere.why == (
        f"one.vm.deploy of VM {vm} on host 77: Error getting host [77]. (code 1024)"
    )
    assert world.send(deploy(99, 0)).answer is ReplyKind.REFUSED
    world.call("one.host.status", 1, 2)
    offline = world.send(deploy(vm, 1))
    assert offline.answer is ReplyKind.LOOK_AGAIN
    assert "offline" in offline.why
    limit = Limit(
        period=1,
        reason="",
        vm=vm,
        vcpu_quota_us=None,
        global_quota_us=None,
        quota_period_us=100_000,
        shares=2,
    )
    assert world.send(limit).answer is ReplyKind.REFUSED


# -- creations ----------------------------------------------------------------------------------


# -- messages -----------------------------------------------------------------------------------
