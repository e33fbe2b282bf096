"""Steps that were sent but not yet confirmed, and hosts that do not answer."""

from types import SimpleNamespace
from typing import Any

import numpy as np

from merkatd.cluster import Balloon, Deploy, Limit, Plan, VmState
from merkatd.limits.limit_plan import LimitPlan
from merkatd.placement.changes.plan_changes import ready_steps
from merkatd.scheduler.phases.decide import _on_hosts_that_answer
from tests.scheduler.frontend import Frontend


def test_a_vm_with_a_deployment_under_way_is_busy_on_its_host(frontend: Frontend) -> None:
    """Whatever OpenNebula shows, it is not placed again and its room is taken."""
    vm = frontend.vm()
    frontend.bench.ok("embedded.fault.lie", "vm", vm, 400)
    frontend.period()
    frontend.clock.advance(1)
    host = frontend.host_of(vm)
    seen = frontend.period().seen
    row = seen.snapshot.vm_row(vm)
    assert VmState(int(seen.observation.vm_state[row])) is VmState.PENDING
    assert VmState(int(seen.snapshot.vms.state[row])) is VmState.BUSY
    assert seen.snapshot.hosts.id[seen.snapshot.vms.host[row]] == host


def test_hosts_that_answer_get_their_steps() -> None:
    """Steps are left out for VMs that are on, or move to, a host without an answer."""

    def limit(vm: int, *after: str) -> Limit:
        return Limit(
            period=1,
            vm=vm,
            reason="",
            after=after,
            vcpu_quota_us=1,
            global_quota_us=None,
            quota_period_us=1,
            shares=1,
        )

    comes = [Deploy(period=1, vm=vm, host=host, reason="") for vm, host in ((2, 0), (3, 1))]
    balloon = Balloon(period=1, vm=0, reason="", memory_mib=64)
    behind = [limit(step.vm, step.id) for step in comes]
    plan = Plan((balloon, limit(0), limit(1), *comes, *behind, limit(4, balloon.id)))
    seen: Any = SimpleNamespace(
        use=SimpleNamespace(away={1}),
        observation=SimpleNamespace(vm_host=np.array([0, 1, -1, -1, 0]), vm_id=np.arange(5)),
    )
    limits = LimitPlan(plan=plan, postponed={}, overfull={}, holding_mib={})
    kept = [step.id for step in _on_hosts_that_answer(limits, seen).plan]
    gone = {limit(1).id, behind[1].id}
    assert kept == [step.id for step in plan if step.id not in gone]
    seen.use.away = set()
    assert _on_hosts_that_answer(limits, seen).plan == plan


def test_opennebula_gets_only_steps_without_an_open_predecessor() -> None:
    """Steps on hosts are not sent to it; a step behind an undone one waits."""
    room, other = (Balloon(period=1, vm=vm, reason="", memory_mib=64) for vm in (0, 1))
    first = Deploy(period=1, vm=2, host=0, reason="")
    behind = Deploy(period=1, vm=3, host=0, reason="", after=(room.id,))
    late = Deploy(period=1, vm=4, host=1, reason="", after=(room.id, other.id))
    steps = {step.id: step for step in (room, other, first, behind, late)}
    ready, waiting = ready_steps(steps.values(), {room.id}, {other.id})
    assert set(ready) == {first.id, behind.id}
    assert set(waiting) == {late.id}
