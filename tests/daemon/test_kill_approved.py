"""In mode ask, killed in the middle of an approved plan: nothing is lost, nothing done twice."""

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
    """As an administrator orders it; None where the daemon does not answer yet, or would not."""
    try:
        return ask(site.directory / "state" / "control.sock", question, words)
    except ControlError:
        return None


def approved(site: Site) -> Any:
    """The plan that waits, once it is approved."""
    return order(site, "approve_plan", who="root")


@EACH_SITE
def test_killed_in_the_middle_of_an_approved_plan(site: Site) -> None:
    """Whatever was placed was approved, and the next daemon goes on where the last one ended."""
    until(lambda: order(site, "mode", to="ask", who="root"), "mode ask")
    # What was decided before the order counted is not what this is about.
    site.after_good_periods(2)
    before = len(placements(site))
    for _ in range(KILLS):
        until(lambda: approved(site), "a plan that waits", site.tenants.act)
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
    """All steps that placed or moved a VM, the oldest first."""
    rows = site.read(lambda c: journal.recent(c, journal.StepFilter(), 100_000))
    return [row.step for row in reversed(rows) if row.step.kind in {"deploy", "migrate"}]


def _approved_keys(connection: Any) -> set[Any]:
    """The steps of all plans that were approved of."""
    found = set()
    for (number,) in connection.execute(PLANS.select().with_only_columns(PLANS.c.id)):
        plan = plan_store.get(connection, number)
        if plan is not None and plan.approved_s is not None:
            assert plan.state is not PlanState.REFUSED
            found |= {step.key for step in plan.steps if not step.skipped}
    return found
