"""The reversal of an executed plan: its VMs go back, after an approval."""

from typing import Any, get_args

import pytest

from merkatd.cluster import Migrate, OnHost, Step
from merkatd.cluster.plan import Create, Terminate
from merkatd.database.scheduler import plan_store
from merkatd.database.scheduler.order_store import Mode
from merkatd.scheduler.execution import plan_reversal
from merkatd.service.base.errors import ConflictError
from tests.modes.site import Site
from tests.modes.test_ask import placements


def states(site: Site) -> list[str]:
    """Return the states of all plans, the oldest first."""
    query = plan_store.PLANS.select().order_by(plan_store.PLANS.c.id)
    return [row.state for row in site.read(lambda c: c.execute(query).all())]


@pytest.fixture
def moved(site: Site) -> Site:
    """Return a site in mode ask after a plan that moved two VMs from host 0."""
    site.mode(Mode.ASK)
    for _ in range(3):
        site.bench.ok("one.vm.deploy", site.vm(3.0, VCPU=4), 0)
    site.minutes(3)
    site.ask("approve_plan")
    site.minutes(4)
    assert site.ask("standing_plan")["state"] == "done"
    return site


def moves(site: Site) -> list[int]:
    """Return the VMs that moved, the oldest first."""
    return [vm for kind, vm in placements(site) if kind == "migrate"]


def test_a_waiting_plan_names_gains_costs_and_shortfalls(site: Site) -> None:
    """A VM that starts has a cost, a migration has a gain."""
    site.mode(Mode.ASK)
    for _ in range(3):
        site.bench.ok("one.vm.deploy", site.vm(3.0, VCPU=4), 0)
    site.minutes(3)
    plan = site.ask("standing_plan")
    assert all(step["gain"] > 0 and step["cost"] is None for step in plan["steps"])
    assert plan["shortfalls"]
    assert all(market["after"] < market["before"] for market in plan["shortfalls"])
    site.vm(3.0, NAME="new")
    site.minutes(1)
    new = next(s for s in site.ask("standing_plan")["steps"] if s["kind"] == "deploy")
    assert new["cost"] > 0
    assert new["gain"] is None


def test_the_vms_go_back_once_after_an_approval(moved: Site) -> None:
    """Nothing moves before it, and each VM moves once."""
    there = moves(moved)
    proposed = moved.ask("reverse_plan", who="root")
    assert proposed["reverses"] == 1
    assert {step["vm"] for step in proposed["steps"]} == {*there}
    moved.minutes(3)
    assert moves(moved) == there
    assert moved.ask("standing_plan")["plan"] == proposed["plan"]
    moved.ask("approve_plan", who="root")
    moved.minutes(5)
    assert sorted(moves(moved)) == sorted(there * 2)
    assert {moved.host_of(vm) for vm in there} == {0}
    moved.agree()


def test_a_vm_that_moved_or_is_gone_is_left_out(moved: Site) -> None:
    """The answer says why; the others go back."""
    first, *others = moves(moved)
    moved.bench.ok("one.vm.action", "terminate-hard", first)
    moved.minutes(2)
    if not others:
        with pytest.raises(ConflictError, match="the VM is gone"):
            moved.ask("reverse_plan")
        return
    proposed = moved.ask("reverse_plan")
    assert [(left["vm"], left["reason"]) for left in proposed["left_out"]] == [
        (first, "the VM is gone")
    ]


def test_a_host_that_takes_no_vms_is_left_out(moved: Site) -> None:
    """Here it is drained."""
    moved.ask("drain", host="0", who="root")
    moved.minutes(1)
    with pytest.raises(ConflictError, match=r"no step of plan 1 can be reversed: .* is drained"):
        moved.ask("reverse_plan", plan=1)


def test_a_vm_that_moves_after_the_proposal_stays(moved: Site) -> None:
    """The plan ends, and says that the VM is elsewhere."""
    vm, *others = moves(moved)
    moved.ask("reverse_plan")
    at = moved.host_of(vm)
    elsewhere = next(host for host in (1, 2) if host != at)
    moved.bench.ok("one.vm.migrate", vm, elsewhere, True, False, 0, 0)
    moved.ask("drain", host=str(at), who="root")  # so host 0 would be the only one for the VM
    moved.minutes(2)  # a VM that still migrates would stay in any case
    assert moved.ask("standing_plan")["reverses"] == 1
    moved.ask("approve_plan", who="root")
    moved.minutes(5)
    assert moved.host_of(vm) == elsewhere
    assert all(moved.host_of(other) == 0 for other in others)


def test_a_reversal_without_possible_steps_waits_no_longer(moved: Site) -> None:
    """All of its VMs are elsewhere."""
    proposed = moved.ask("reverse_plan")
    for vm in moves(moved):
        elsewhere = next(host for host in (1, 2) if host != moved.host_of(vm))
        moved.bench.ok("one.vm.migrate", vm, elsewhere, True, False, 0, 0)
    moved.minutes(4)
    state = states(moved)[proposed["plan"] - 1]
    assert state not in {"waiting", "approved"}


def test_only_one_plan_stands(moved: Site) -> None:
    """A second reversal and an approved plan are refused, and a waiting plan is replaced."""
    moved.ask("reverse_plan")
    with pytest.raises(ConflictError, match="which reverses plan 1, waits"):
        moved.ask("reverse_plan")
    moved.ask("approve_plan")
    with pytest.raises(ConflictError, match="is under way"):
        moved.ask("reverse_plan", plan=1)
    assert states(moved) == ["done", "approved"]


def test_a_reversal_and_an_approval_at_once_leave_one_plan(moved: Site, monkeypatch: Any) -> None:
    """The approval comes while the reversal is worked out."""
    moved.vm(3.0)
    moved.minutes(2)
    assert states(moved)[-1] == "waiting"
    found = plan_reversal.reversal_of

    def meanwhile(*arguments: Any) -> Any:
        moved.ask("approve_plan")
        return found(*arguments)

    monkeypatch.setattr("merkatd.service.modes.reversal_of", meanwhile)
    with pytest.raises(ConflictError, match="is under way"):
        moved.ask("reverse_plan")
    assert sum(state in {"waiting", "approved"} for state in states(moved)) == 1


def test_a_reversal_needs_the_mode_ask_and_an_executed_plan(site: Site) -> None:
    """Each error says so."""
    with pytest.raises(ConflictError, match="only in mode ask"):
        site.ask("reverse_plan")
    site.mode(Mode.ASK)
    site.vm()
    site.minutes(2)
    with pytest.raises(ConflictError, match="no plan has been executed yet"):
        site.ask("reverse_plan")
    with pytest.raises(ConflictError, match="plan 1 was not executed: it is waiting"):
        site.ask("reverse_plan", plan=1)
    with pytest.raises(ConflictError, match="there is no plan 7"):
        site.ask("reverse_plan", plan=7)


def test_each_step_that_stays_is_named(site: Site) -> None:
    """A plan that only starts VMs has nothing to undo."""
    site.mode(Mode.ASK)
    vms = [site.vm(3.0), site.vm(3.0)]
    site.minutes(2)
    site.ask("approve_plan")
    site.minutes(3)
    with pytest.raises(ConflictError) as refused:
        site.ask("reverse_plan")
    for step, vm in enumerate(vms, start=1):
        assert f"deploy of VM {vm} (step {step}): a VM that the plan started goes on" in str(
            refused.value
        )


def test_all_steps_that_need_an_approval_have_a_reason_to_stay() -> None:
    """Except for migrations, which are reversed."""
    free = {kind.kind for kind in (Create, Terminate, Migrate, *get_args(OnHost))}
    assert kinds_below(Step) - free == plan_reversal.STAYS.keys()


def kinds_below(step: type[Any]) -> set[str]:
    """Return the kinds of all steps below a class of steps."""
    own = {step.kind} if hasattr(step, "kind") else set()
    return own.union(*map(kinds_below, step.__subclasses__()))


def test_results_survive_a_clock_that_is_set_back(moved: Site) -> None:
    """The steps were planned at an earlier time than the approval has."""
    site = moved
    site.ask("reverse_plan")
    site.ask("approve_plan", who="root")
    change = plan_store.PLANS.update().where(plan_store.PLANS.c.state == "approved")
    later_s = site.clock.seconds() + 86_400.0
    site.read(lambda c: c.execute(change.values(approved_s=later_s)).rowcount)
    site.minutes(5)

    def read(connection: Any) -> Any:
        plan = plan_store.newest_done(connection)
        return None if plan is None else plan_store.with_results(connection, plan)

    done = site.read(read)
    assert done.reverses == 1
    assert all(step.became.startswith("confirmed") for step in done.steps)
