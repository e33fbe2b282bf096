"""The project's adapter on each endpoint: its observations, steps and messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from merkatd.cluster import HostState, Migrate, Resume, Stop, Suspend, Terminate, VmState
from merkatd.opennebula import Client, OpenNebulaCloud
from merkatd.scheduler.base.ports import ReplyKind
from tests.contract.endpoint import HOST_CPU, HOST_MIB, SMALL
from tests.contract.ways import DONE, OFF, RUNNING, STOPPED, SUSPENDED
from tests.opennebula.worlds import create, deploy, migrate, simple

if TYPE_CHECKING:
    from merkatd.cluster import Step
    from merkatd.scheduler.base.ports import Observation
    from tests.contract.endpoint import Endpoint


@pytest.fixture
def cloud(endpoint: Endpoint) -> OpenNebulaCloud:
    """Return the adapter, as oneadmin."""
    client = Client(endpoint.transport, endpoint.admin, endpoint.clock)
    return OpenNebulaCloud(client, endpoint.clock, endpoint.executor, page_rows=3)


def observe(endpoint: Endpoint, cloud: OpenNebulaCloud) -> Observation:
    """Return the adapter's observation."""
    return endpoint.run(cloud.observe())


def seen(endpoint: Endpoint, cloud: OpenNebulaCloud, vm: int) -> tuple[VmState, int]:
    """Return a VM's state and the id of its host, -1 for none."""
    shown = observe(endpoint, cloud)
    row = int(np.searchsorted(shown.vm_id, vm))
    return VmState(int(shown.vm_state[row])), int(shown.vm_host[row])


def accepted(endpoint: Endpoint, cloud: OpenNebulaCloud, step: Step) -> None:
    """Send a step that must be accepted."""
    reply = endpoint.run(cloud.send(step))
    assert reply.answer is ReplyKind.ACCEPTED, reply


def test_hosts_are_observed(endpoint: Endpoint, cloud: OpenNebulaCloud) -> None:
    """They have ascending ids, capacity without reservations, state, cluster and load."""
    first, second, third = endpoint.hosts
    endpoint.ok("one.host.update", second, 'RESERVED_CPU="200"\nRESERVED_MEM="1048576"', 1)
    endpoint.ok("one.host.status", first, 1)
    endpoint.ok("one.host.status", third, 2)
    shown = observe(endpoint, cloud)
    assert shown.host_id.tolist() == endpoint.hosts
    assert shown.host_capacity.tolist()[:2] == [
        [HOST_CPU, HOST_MIB],
        [HOST_CPU - 200, HOST_MIB - 1024],
    ]
    assert shown.host_state.tolist() == [HostState.DISABLED, HostState.ON, HostState.OFF]
    assert shown.host_cluster.tolist() == [0, 0, 0]
    endpoint.until(
        lambda: np.isfinite(observe(endpoint, cloud).host_used[1]).all(), "a host's load"
    )


def test_vms_are_observed_in_pages(endpoint: Endpoint, cloud: OpenNebulaCloud) -> None:
    """They have ascending ids, sizes, charges and attributes."""
    vms = [
        endpoint.new(f'CPU=0.5\nVCPU=4\nMEMORY=1024\nMERKAT_BID_CPU="{bid}"\n') for bid in range(8)
    ]
    shown = observe(endpoint, cloud)
    assert shown.vm_id.tolist() == vms
    assert shown.vm_size.tolist() == [[400.0, 1024.0]] * 8
    assert shown.vm_reserved.tolist() == [[50.0, 1024.0]] * 8
    assert shown.vm_words == ("PENDING",) * 8
    assert [shown.attributes[vm]["MERKAT_BID_CPU"] for vm in vms] == list("01234567")
    assert shown.ailing == {}


def test_a_vm_passes_through_all_kinds_of_steps(endpoint: Endpoint, cloud: OpenNebulaCloud) -> None:
    """A later observation confirms each step."""
    first, second, _ = endpoint.hosts
    reply = endpoint.run(cloud.send(create(endpoint.name())))
    assert reply.answer is ReplyKind.ACCEPTED
    vm = reply.vm
    assert vm is not None
    assert seen(endpoint, cloud, vm) == (VmState.PENDING, -1)
    for step, end, state, host in (
        (deploy(vm, first), RUNNING, VmState.RUNNING, first),
        (migrate(vm, first, second), RUNNING, VmState.RUNNING, second),
        (simple(Suspend, vm), SUSPENDED, VmState.SUSPENDED, second),
        (simple(Resume, vm), RUNNING, VmState.RUNNING, second),
        (simple(Stop, vm), STOPPED, VmState.ABSENT, -1),
        (simple(Resume, vm), (1, 0), VmState.PENDING, -1),
        (deploy(vm, first), RUNNING, VmState.RUNNING, first),
    ):
        accepted(endpoint, cloud, step)
        if isinstance(step, Migrate):
            endpoint.until(lambda: endpoint.charged() == {1: (100, 512, 1)}, "migration")
        endpoint.reaches(vm, end)
        endpoint.until(lambda: seen(endpoint, cloud, vm) == (state, host), str(state))  # noqa: B023
    accepted(endpoint, cloud, simple(Terminate, vm))
    endpoint.reaches(vm, DONE)
    assert observe(endpoint, cloud).vm_id.tolist() == []


def test_powered_off_vms_keep_their_host(endpoint: Endpoint, cloud: OpenNebulaCloud) -> None:
    """They are resumed on it."""
    vm = endpoint.in_state(OFF)
    assert seen(endpoint, cloud, vm) == (VmState.POWERED_OFF, endpoint.hosts[0])
    accepted(endpoint, cloud, simple(Resume, vm))
    endpoint.reaches(vm, RUNNING)


def test_repeated_creations_make_one_vm(endpoint: Endpoint, cloud: OpenNebulaCloud) -> None:
    """This also holds after the VM has ended; it belongs to its owner."""
    user, _ = endpoint.user()
    key = endpoint.name()
    made = endpoint.run(cloud.send(create(key, owner=user)))
    assert endpoint.run(cloud.send(create(key, owner=user))).vm == made.vm
    shown = observe(endpoint, cloud)
    assert shown.vm_owner.tolist() == [user]
    assert shown.keys[key, user] == made.vm
    assert endpoint.run(cloud.send(create(key, owner=user))).vm == made.vm
    assert made.vm is not None
    endpoint.act(made.vm, "terminate", DONE)
    assert endpoint.run(cloud.send(create(key, owner=user))).vm == made.vm


def test_no_step_is_sent_in_a_wrong_state(endpoint: Endpoint, cloud: OpenNebulaCloud) -> None:
    """The answer requests another look; a missing host is refused."""
    vm = endpoint.new()
    for kind in (Suspend, Resume, Stop):
        assert endpoint.run(cloud.send(simple(kind, vm))).answer is ReplyKind.LOOK_AGAIN
    refused = endpoint.run(cloud.send(deploy(vm, 98765)))
    assert refused.answer is ReplyKind.REFUSED
    assert "98765" in refused.why


def test_messages_reach_the_owner(endpoint: Endpoint, cloud: OpenNebulaCloud) -> None:
    """They may contain letters that the server can't read; an empty text removes them."""
    vm = endpoint.new()
    observe(endpoint, cloud)
    for message in ('no host has "4 cores" & <8 GiB> [free]\\ = ünïcödé ☃', ""):
        endpoint.run(cloud.tell(vm, message))
        shown = endpoint.xml("one.vm.info", vm).findtext("USER_TEMPLATE/SCHED_MESSAGE")
        assert (shown or "") == message


def test_an_ordinary_login_sees_its_own_vms_and_deploys_none(endpoint: Endpoint) -> None:
    """The refusal contains the code."""
    _, session = endpoint.user()
    client = Client(endpoint.transport, session, endpoint.clock)
    own = OpenNebulaCloud(client, endpoint.clock, endpoint.executor)
    endpoint.new()
    mine = endpoint.new(SMALL, session)
    assert observe(endpoint, own).vm_id.tolist() == [mine]
    reply = endpoint.run(own.send(deploy(mine, endpoint.hosts[0])))
    assert reply.answer is ReplyKind.REFUSED
    assert "512" in reply.why
