"""The lines of a plan: steps on hosts, wishes, omitted steps, and VMs that may not be placed."""

from dataclasses import replace

import numpy as np

from merkatd.api.values.plan_rows import plan_row
from merkatd.cluster import Decision, Plan, Scale, Sleep, Snapshot, Wake
from merkatd.commands.texts.plan_text import _steps_and_reasons
from merkatd.placement.changes.plan_changes import with_hosts_at_rest
from merkatd.service.market.plans import PlanCosts, preview_of
from tests.clouds import cloud, hosts_table, vms_table

NOWHERE = -1


def lines(snapshot: Snapshot, decision: Decision) -> list[str]:
    """Return the lines of steps and reasons."""
    nothing = np.zeros(len(snapshot.vms))
    costs = PlanCosts(nothing, nothing)
    row = plan_row(preview_of(snapshot, decision, decision.plan, "tabu", 1.0, {}, costs))
    return list(_steps_and_reasons(row, row["steps"]))


def test_a_plan_shows_what_a_strategy_decides_besides_places() -> None:
    """Host 0 has a VM, host 1 may sleep, host 2 does not sleep."""
    vms = vms_table(np.array([0, NOWHERE]), np.ones((2, 1)), np.ones((2, 1)))
    hosts = hosts_table(np.full((3, 1), 400.0))
    hosts = replace(hosts, can_sleep=np.array([True, True, False]))
    vms = replace(vms, placeable=np.array([True, False]))
    snapshot = cloud(hosts, vms)
    steps = (
        Sleep(period=1, host=0, reason="to save power"),
        Sleep(period=1, host=1, reason="to save power"),
        Wake(period=1, host=2, reason="to have room"),
    )
    changed = with_hosts_at_rest(snapshot, Plan(steps))
    decision = Decision(
        plan=changed.plan,
        allocations=np.zeros((2, 1)),
        prices=np.zeros((1, 1)),
        wishes=(Scale(application=7, replicas=3, reason="its queue grows"),),
        left_hosts=changed.reasons,
    )
    name = snapshot.hosts.name[1]
    assert lines(snapshot, decision) == [
        f"sleep    host {name}: to save power [{steps[1].id}]",
        f"pending  VM {snapshot.vms.id[1]}: it may get no host in this period",
        "wish     3 VMs of application 7: its queue grows",
        "left out a step on host 0: VM 0 is on it",
        "left out a step on host 2: it does not sleep",
    ]
