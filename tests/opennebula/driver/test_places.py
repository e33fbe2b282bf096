"""OpenNebula in charge: it asks, Merkat decides, OpenNebula deploys and migrates."""

from collections.abc import Iterator

import pytest

from merkatd.database.scheduler import journal, period_store
from merkatd.database.scheduler.order_store import Order
from merkatd.embedded.model.settings import HostSize
from merkatd.opennebula.driver.driver_answer import EMPTY
from tests.opennebula.driver.oned import PENDING, Oned
from tests.scheduler.frontend import Frontend


@pytest.fixture
def oned() -> Iterator[Oned]:
    """Yield three hosts and a daemon that lets OpenNebula execute its steps."""
    frontend = Frontend(handing=True)
    yield Oned(frontend)
    frontend.close()


def steps(frontend: Frontend, kind: str) -> list[tuple[int, str]]:
    """Return VMs and states of all steps of a kind, oldest first."""
    rows = frontend.read(lambda c: journal.recent(c, journal.StepFilter(kind=kind), 100))
    return [(row.step.vm, str(row.state)) for row in reversed(rows)]


def test_periods_leave_placement_to_oned(oned: Oned) -> None:
    """VMs wait for oned's request; then they are placed, limited, charged and confirmed."""
    frontend = oned.frontend
    ann = frontend.user("ann")
    vms = [frontend.vm(1.0 + at, owner=ann) for at in range(4)]
    announcement = frontend.periods(2)
    assert {frontend.state(vm) for vm in vms} == {"PENDING"}
    assert announcement.decided.steps == ()
    plan = oned.place()
    assert plan.findtext("ID") == "-1"
    assert len(plan.findall("ACTION")) == 4
    assert oned.refused == []
    frontend.clock.advance(50)
    frontend.periods(3)
    assert {frontend.state(vm) for vm in vms} == {"RUNNING"}
    assert steps(frontend, "deploy") == [(vm, "confirmed") for vm in vms]
    assert all(frontend.limits(vm).vcpu_quota > 0 for vm in vms)
    before = frontend.balances()[2]
    latest = frontend.period()
    price = latest.prices["default"]
    given = latest.decided.decision.allocations.sum(axis=0)
    assert before - frontend.balances()[2] == pytest.approx(
        price["cpu"] * given[0] + price["memory"] * given[1], rel=1e-3
    )
    frontend.agree()


def test_a_request_between_two_periods_charges_nothing_twice(oned: Oned) -> None:
    """Charges are for the passed time, however often oned asks."""
    asked, left_alone = oned, Oned(Frontend(handing=True))
    for each in (asked, left_alone):
        frontend = each.frontend
        frontend.vm(4.0, owner=frontend.user("ann"))
        each.place()
        frontend.clock.advance(57)
        frontend.periods(2)
    for _ in range(6):
        asked.frontend.vm(MEMORY=999_999, owner="oneadmin:secret")
        asked.ask(None, asked.question(PENDING))
        asked.frontend.clock.advance(9)
    left_alone.frontend.clock.advance(60)
    paid = []
    for each in (asked, left_alone):
        each.frontend.periods(2)
        paid.append(1e6 - each.frontend.balances()[2])
    assert paid[0] == pytest.approx(paid[1], rel=0.02)
    left_alone.frontend.close()
    asked.frontend.agree()


def test_only_hosts_matched_by_oned_are_chosen(oned: Oned) -> None:
    """Oned checks requirements and rights, and strategies choose among the rest."""
    vms = [oned.frontend.vm() for _ in range(3)]
    oned.place({vm: [2] for vm in vms})
    oned.frontend.clock.advance(60)
    oned.frontend.period()
    assert [oned.frontend.host_of(vm) for vm in vms] == [2, 2, 2]


def test_a_vm_without_a_host_gets_a_message(oned: Oned) -> None:
    """It is in a line for oned, and the other VMs are placed."""
    small, large = oned.frontend.vm(), oned.frontend.vm(MEMORY=100_000, MERKAT_MIN_MEMORY=50_000)
    answer = oned.ask(None, oned.question(PENDING))
    errors = [line for line in answer.splitlines() if line.startswith("ERROR: ")]
    assert [error.split()[1] for error in errors] == [str(large)]
    assert f"<VM_ID>{small}</VM_ID>" in answer


def test_a_vm_that_reserves_too_much_gets_the_available_amounts(oned: Oned) -> None:
    """They are OpenNebula's; a VM that matches no host gets a message too."""
    large = oned.frontend.vm(MEMORY=100_000, MERKAT_MIN_MEMORY=500)
    lost = oned.frontend.vm()
    answer = oned.ask(None, oned.question(PENDING, {lost: []}))
    reasons = dict(
        line.split(" ", 2)[1:] for line in answer.splitlines() if line.startswith("ERROR: ")
    )
    assert reasons[str(large)] == (
        "reserves 100 % of CPU and 100,000 MiB; none of the 3 hosts that meet its requirements has"
        " that left in OpenNebula's account: host 0 has 400 % and 8,192 MiB"
    )
    assert reasons[str(lost)] == "OpenNebula finds no host that meets all its requirements"


def test_plans_contain_nothing_that_oned_would_reject() -> None:
    """Oned deploys up to the full size of VMs, even if shares would fit more."""
    frontend = Frontend(hosts=2, size=HostSize(200, 8192), handing=True)
    oned = Oned(frontend)
    vms = [frontend.vm(VCPU=1) for _ in range(6)]
    plan = oned.place()
    assert len(plan.findall("ACTION")) == 4
    assert oned.refused == []
    frontend.clock.advance(60)
    frontend.period()
    running = [vm for vm in vms if frontend.state(vm) == "RUNNING"]
    assert len(running) == 4
    frontend.agree()
    frontend.close()


def test_a_lost_plan_is_given_again(oned: Oned) -> None:
    """It has the same places, and no second step in the journal."""
    vms = [oned.frontend.vm() for _ in range(2)]
    lost = oned.place(lost=True)
    oned.frontend.clock.advance(60)
    oned.frontend.periods(1)
    again = oned.place()

    def places(plan: object) -> set[tuple[str, str]]:
        actions = plan.findall("ACTION")  # type: ignore[attr-defined]
        return {(action.findtext("VM_ID"), action.findtext("HOST_ID")) for action in actions}

    assert places(lost) == places(again)
    assert len(places(again)) == 2
    oned.frontend.clock.advance(60)
    oned.frontend.period()
    assert steps(oned.frontend, "deploy") == [(vm, "confirmed") for vm in vms]
    oned.frontend.agree()


def test_a_vm_that_ends_while_oned_asks_again_delays_no_other(oned: Oned) -> None:
    """The request still names it, and its step is too young to be judged."""
    vms = [oned.frontend.vm() for _ in range(2)]
    oned.place(lost=True)
    question = oned.question(PENDING)
    oned.frontend.bench.ok("one.vm.action", "terminate-hard", vms[0])
    plan = oned.plan(oned.ask(None, question))
    assert [int(action.findtext("VM_ID")) for action in plan.findall("ACTION")] == vms[1:]


def test_an_abandoned_request_leaves_no_steps(oned: Oned) -> None:
    """If the driver has given up, no step counts as sent."""
    oned.frontend.vm()
    question = oned.question(PENDING)
    oned.waits = False
    assert oned.plan(oned.ask(None, question)).findall("ACTION") == []
    assert oned.frontend.outstanding() == 0


def test_a_cluster_is_optimized_within_itself() -> None:
    """Crowded VMs migrate only in the cluster that oned asks about."""
    frontend = Frontend(hosts=4, handing=True)
    oned = Oned(frontend)
    other = frontend.bench.ok("one.cluster.allocate", "other")
    frontend.bench.ok("one.cluster.adddatastore", other, 0)
    for host in (2, 3):
        frontend.bench.ok("one.cluster.addhost", other, host)
    vms = [frontend.vm(1.0, VCPU=4, MEMORY=1024, CPU=0.5) for _ in range(6)]
    for at, vm in enumerate(vms):
        frontend.bench.ok("one.vm.deploy", vm, 0 if at < 3 else 2)
    frontend.clock.advance(60)
    frontend.periods(2)
    assert steps(frontend, "migrate") == []
    plan = oned.optimize(other)
    assert plan.findtext("ID") == str(other)
    actions = plan.findall("ACTION")
    assert {action.findtext("OPERATION") for action in actions} == {"migrate"}
    assert {action.findtext("HOST_ID") for action in actions} == {"3"}
    frontend.clock.advance(60)
    frontend.periods(2)
    assert {frontend.host_of(vm) for vm in vms[:3]} == {0}
    assert {frontend.host_of(vm) for vm in vms[3:]} == {2, 3}
    assert {state for _, state in steps(frontend, "migrate")} == {"confirmed"}
    frontend.agree()
    frontend.close()


def test_a_paused_daemon_answers_with_an_empty_plan(oned: Oned) -> None:
    """It starts no period for the request."""
    oned.frontend.vm()
    oned.frontend.order(Order.PAUSE)
    answer = oned.ask(None, oned.question(PENDING))
    assert answer == f"INFO: merkatd does nothing: it is paused\n{EMPTY}"
    assert oned.frontend.read(period_store.newest) is None


def test_garbage_is_answered_with_the_empty_plan(oned: Oned) -> None:
    """The answer has the reason."""
    message, plan = oned.ask(None, b"????").splitlines()
    assert message.startswith("WARN: merkatd can't read the question")
    assert plan == EMPTY


def test_an_unreachable_cloud_gives_the_empty_plan(oned: Oned) -> None:
    """Nothing is placed until it is readable."""
    oned.frontend.vm()
    question = oned.question(PENDING)
    oned.frontend.bench.ok("embedded.fault.add", {"kind": "hang", "method": "one.*pool*"})
    message, plan = oned.ask(None, question).splitlines()
    assert message.startswith("WARN: merkatd can't read the cloud")
    assert plan == EMPTY


def test_in_daemon_mode_the_driver_does_nothing() -> None:
    """So the same driver can replace the scheduler that must not run."""
    frontend = Frontend()
    frontend.vm()
    oned = Oned(frontend)
    assert oned.ask(None, oned.question(PENDING)) == EMPTY
    assert frontend.read(period_store.newest) is None
    frontend.close()
