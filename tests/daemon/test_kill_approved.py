"""In mode ask, a daemon killed during an approved plan loses and repeats nothing."""

from typing import Any

import pytest

from merkatd.api.control.control_client import ControlError, ask
from merkatd.database.scheduler import journal, plan_store
from merkatd.database.scheduler.plan_store import PLANS, PlanState
from tests.daemon.agreement import agree
from tests.daemon.harness import INTERVAL_S, Site
from tests.daemon.processes import until
from tests.daemon.settling import settle
from tests.daemon.soak import KILLS_PER_SITE, SITES

EACH_SITE = pytest.mark.parametrize("site", SITES, indirect=True, ids=lambda seed: f"seed{seed}")
KILLS = KILLS_PER_SITE // 5


def order(site: Site, question: str, **words: Any) -> Any:
    """Send an administrator's order; return None if the daemon does not answer or rejects it."""
    try:
        return ask(site.directory / "state" / "control.sock", question, words)
    except ControlError:
        return None


def approve_waiting_plan(site: Site) -> Any:
    """Approve the waiting plan."""
    return order(site, "approve_plan", who="root")


@EACH_SITE
def test_a_kill_during_an_approved_plan_loses_nothing(site: Site) -> None:
    """Only approved steps are made, and the next daemon continues the plan."""
    until(lambda: order(site, "mode", to="ask", who="root"), "mode ask")
    # Decisions made before the order applied are not part of this test.
    site.after_good_periods(2)
    before = len(placements(site))
    for _ in range(KILLS):
        until(lambda: approve_waiting_plan(site), "a plan that waits", site.tenants.act)
        site.busy_for(float(site.rng.uniform(0.0, 1.5 * INTERVAL_S)))
        site.kill_daemon()
        site.heal()
        agree(site)
        site.start_daemon()
        until(lambda: order(site, "status"), "the next daemon")
    allowed = site.read(_approved_keys)
    done = {(step.kind, step.vm, step.host) for step in placements(site)[before:]}
    assert done <= allowed
    until(lambda: order(site, "mode", to="on", who="root"), "mode on")
    settle(site)
    agree(site)


def placements(site: Site) -> list[Any]:
    """Return all steps that placed or moved a VM, the oldest first."""
    rows = site.read(lambda c: journal.recent(c, journal.StepFilter(), 100_000))
    return [row.step for row in reversed(rows) if row.step.kind in {"deploy", "migrate"}]


def _approved_keys(connection: Any) -> set[Any]:
    """Return the keys of the steps of all approved plans."""
    keys = set()
    for (number,) in connection.execute(PLANS.select().with_only_columns(PLANS.c.id)):
        plan = plan_store.get(connection, number)
        if plan is not None and plan.approved_s is not None:
            assert plan.state is not PlanState.REFUSED
            keys |= {step.key for step in plan.steps if not step.skipped}
    return keys
