"""A daemon killed while it undoes a plan moves no VM twice and leaves no VM behind."""

import time

import pytest

from merkatd.database.scheduler import plan_store
from merkatd.database.scheduler.plan_store import PlanState, ProposedStep, StoredPlan
from tests.daemon.agreement import agree, cloud_vms
from tests.daemon.harness import INTERVAL_S, Site
from tests.daemon.processes import until
from tests.daemon.settling import settle
from tests.daemon.soak import KILLS_PER_SITE, SITES
from tests.daemon.test_kill_approved import order

EACH_SITE = pytest.mark.parametrize("site", SITES, indirect=True, ids=lambda seed: f"seed{seed}")
OF_ANN = 4
MOST_KILLS = 60
"""The most kills until a reversal ends; a few are usual."""
ROUNDS = KILLS_PER_SITE // 10


def running(site: Site) -> dict[int, tuple[int, ...]]:
    """Return the hosts that each running VM was sent to, in order."""
    return {vm.id: vm.asked for vm in cloud_vms(site) if vm.state == ("3", "3")}


def plan_of(site: Site, number: int) -> StoredPlan:
    """Return the plan of this number, with its results."""
    plan = site.read(lambda connection: plan_store.get(connection, number))
    assert plan is not None
    return site.read(lambda connection: plan_store.with_results(connection, plan))


def quiet_vms(site: Site) -> tuple[int, ...]:
    """Create VMs that run for as long as the test, wait until they run, and return their ids."""
    text = 'CPU="0.25"\nVCPU="1"\nMEMORY="256"\nMERKAT_MIN_MEMORY="256"\nEMBEDDED=[WORK="1e9"]\n'
    vms = tuple(site.call("one.vm.allocate", text, session="ann:secret") for _ in range(OF_ANN))
    until(lambda: {*vms} <= running(site).keys(), "running VMs")
    return vms


def moved_by(site: Site, number: int) -> list[ProposedStep]:
    """Return the steps of a plan that the daemon has observed to be done, once no other is sent."""
    steps = [step for step in plan_of(site, number).steps if not step.skipped]
    if any((step.became or "").startswith(("planned", "sent")) for step in steps):
        return []
    return [step for step in steps if (step.became or "").startswith("confirmed")]


def approved_drain(site: Site) -> int | None:
    """Approve a waiting plan that migrates VMs, and return its number; None if none waits."""
    plan = site.read(plan_store.newest)
    if plan is None or not any(step.kind == "migrate" for step in plan.steps):
        return None
    answer = order(site, "approve_plan", plan=plan.id, who="root")
    return None if answer is None else int(answer["plan"])


def carried_out(site: Site, vm: int) -> StoredPlan:
    """Drain the VM's host, and return the plan that emptied it."""
    host = str(running(site)[vm][-1])
    until(lambda: order(site, "drain", host=host, who="root"), "a drained host")
    number = until(lambda: approved_drain(site), "a plan that empties it") or 0
    until(lambda: plan_of(site, number).state is PlanState.DONE, "its end")
    until(lambda: moved_by(site, number), "its migrations")
    until(lambda: order(site, "undrain", host=host, who="root"), "the host in use")
    return plan_of(site, number)


def reversal(site: Site, done: StoredPlan) -> int:
    """Propose the reversal of a plan, approve it, and return its number."""
    until(lambda: order(site, "reverse_plan", plan=done.id, who="root"), "a reversal")
    answer = until(lambda: order(site, "approve_plan", who="root"), "its approval")
    return int(answer["plan"])


@EACH_SITE
def test_a_kill_during_a_reversal_moves_no_vm_twice(site: Site) -> None:
    """The next daemon goes on, and every VM is where it was before the plan."""
    vms = quiet_vms(site)
    until(lambda: order(site, "mode", to="ask", who="root"), "mode ask")
    site.after_good_periods(2)
    for _ in range(ROUNDS):
        done, before = carried_out(site, vms[0]), running(site)
        moved = moved_by(site, done.id)
        number = reversal(site, done)
        kills = 0
        while plan_of(site, number).state is PlanState.APPROVED:
            kills += 1
            assert kills <= MOST_KILLS, plan_of(site, number)
            time.sleep(float(site.rng.uniform(0.0, 3 * INTERVAL_S)))
            site.kill_daemon()
            site.heal()
            agree(site)
            site.start_daemon()
            until(lambda: order(site, "status"), "the next daemon")
        until(lambda: {*vms} <= running(site).keys(), "all VMs run")
        after, back = running(site), {step.vm: step.source for step in moved}
        for vm, hosts in ((vm, before[vm]) for vm in vms):
            assert after[vm] == (*hosts, back[vm]) if vm in back else after[vm] == hosts, vm
    until(lambda: order(site, "mode", to="on", who="root"), "mode on")
    settle(site)
    agree(site)
