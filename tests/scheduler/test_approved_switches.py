"""In mode ask, the steps of two hosts are two steps: each is proposed, approved and done alone."""

from collections.abc import Iterator

import pytest

from merkatd.cluster import Sleep, Wake
from merkatd.database.scheduler import plan_store
from merkatd.database.scheduler.order_store import Order
from merkatd.database.scheduler.plan_store import PlanState, StoredPlan
from tests.scheduler.scripted_strategy import Script
from tests.scheduler.test_sleeping_hosts import always
from tests.scheduler.test_slow_switches import SlowHosts


@pytest.fixture
def site(script: Script) -> Iterator[SlowHosts]:
    """Yield three hosts in mode ask, of which two can sleep."""
    made = SlowHosts(3)
    made.periods(1)
    made.order(Order.MODE_ASK)
    yield made
    made.order(Order.MODE_ON)
    script.steps = lambda _seen: ()
    for running in made.slow.running.values():
        if not running.called:
            running.callback("")
    made.periods(2)
    made.agree()
    made.close()


def want(script: Script, *hosts: int) -> None:
    """Let the strategy want these hosts to sleep, in every period."""
    script.steps = lambda seen: [
        Sleep(period=seen.period, host=host, reason="to save power") for host in hosts
    ]


def standing(site: SlowHosts) -> StoredPlan:
    """Return the newest plan."""
    plan: StoredPlan = site.read(plan_store.newest)
    return plan


def approve(site: SlowHosts, *skipped: int) -> None:
    """Approve the plan that waits, without the steps of these numbers."""
    plan = standing(site)
    assert plan.state is PlanState.WAITING
    now = site.wall_s()
    site.read(lambda c: plan_store.approve(c, plan, frozenset(skipped), "root", now))


def test_an_approved_step_is_of_one_host(script: Script, site: SlowHosts) -> None:
    """The other host is not switched off."""
    want(script, 1, 2)
    site.periods(2)
    assert [(step.kind, step.host) for step in standing(site).steps] == [("sleep", 1), ("sleep", 2)]
    approve(site, 2)
    site.periods(4)
    assert site.switches.did == [("sleep", "host001")]


def test_a_step_under_way_hides_no_other_host(script: Script, site: SlowHosts) -> None:
    """While the first host is switched off, the second is proposed."""
    want(script, 1)
    site.periods(2)
    approve(site)
    site.periods(2)
    assert standing(site).state is PlanState.DONE
    want(script, 1, 2)
    site.periods(2)
    assert not site.slow.running["host001"].called
    assert [(step.kind, step.host) for step in standing(site).steps] == [("sleep", 2)]


def test_a_step_of_another_host_keeps_no_plan_open(script: Script, site: SlowHosts) -> None:
    """Only steps of the plan's own hosts do: the second host's step is no longer possible."""
    site.order(Order.MODE_ON)
    want(script, 1)
    site.periods(1)
    site.order(Order.MODE_ASK)
    want(script, 2)
    site.periods(1)
    want(script)
    approve(site)
    site.bench.ok("one.host.status", 2, 1)
    site.periods(2)
    assert not site.slow.running["host001"].called
    plan = standing(site)
    assert plan.state is PlanState.DONE
    assert plan.steps[0].became == "not done: its strategy no longer wants it"


def test_the_reason_why_a_host_is_not_switched_is_shown(script: Script, site: SlowHosts) -> None:
    """An administrator has disabled the host since the approval."""
    want(script, 2)
    site.periods(2)
    approve(site)
    site.bench.ok("one.host.status", 2, 1)
    site.periods(2)
    why = "not done: an administrator keeps VMs away from it"
    assert [step.became for step in standing(site).steps] == [why]


def test_results_are_those_of_each_host(script: Script, site: SlowHosts) -> None:
    """One host sleeps; the command of the other fails."""
    want(script, 1, 2)
    site.periods(2)
    approve(site)
    site.periods(1)
    site.slow.running["host001"].callback("")
    site.slow.running["host002"].callback("exit code 1")
    want(script)
    site.periods(2)
    plan = standing(site)
    plan = site.read(lambda c: plan_store.with_results(c, plan))
    results = {step.host: str(step.became) for step in plan.steps}
    assert results[1] == "confirmed"
    assert results[2].endswith("exit code 1")


def test_an_approved_host_sleeps_and_wakes(script: Script, site: SlowHosts) -> None:
    """Each step has its own approval."""
    want(script, 1)
    site.periods(2)
    approve(site)
    site.periods(1)
    site.slow.running["host001"].callback("")
    site.periods(2)
    script.steps = always(Wake)
    site.periods(2)
    assert [(step.kind, step.host) for step in standing(site).steps] == [("wake", 1)]
    approve(site)
    site.periods(2)
    assert site.switches.did == [("sleep", "host001"), ("wake", "host001")]
