"""OpenNebula carries out a part of a plan of migrations, and no part does harm."""

from dataclasses import replace

import numpy as np
import pytest

from merkatd.cluster import Migrate
from merkatd.database.scheduler import journal, plan_store
from merkatd.database.scheduler.order_store import Order
from merkatd.database.scheduler.plan_store import PlanState
from merkatd.embedded.machines.faults import Fault, FaultKind
from merkatd.market.market_view import market_view
from merkatd.placement import strategy_named
from merkatd.placement.changes.migration_waves import of_market
from merkatd.scheduler.phases.announce import Announcement
from tests.clouds import flavoured
from tests.opennebula.driver.oned import RUNNING, Oned
from tests.scheduler.test_waves import SEEDS, check_no_harm, crowd


@pytest.mark.parametrize("seed", SEEDS)
def test_a_partly_refused_plan_of_oned_does_no_harm(seed: int) -> None:
    """The plan has only migrations that do no harm without the others."""
    frontend = crowd(seed)
    frontend.world_settings = {"handing": True}
    frontend.start_daemon()
    oned, rng = Oned(frontend), np.random.default_rng(seed)
    for vm in [vm for vm in range(9) if rng.random() < 0.5]:
        frontend.cloud.faults.add(Fault(FaultKind.REFUSE, "one.vm.migrate", vm=vm, code=2048))
    latest: list[Announcement] = []
    frontend.scheduler.listen(latest.append)
    oned.optimize(0)
    check_no_harm(frontend, latest[0])
    frontend.agree()
    frontend.close()


@pytest.mark.parametrize("seed", [17, 49])
def test_no_plan_takes_back_what_oned_got_of_the_plan_before(seed: int) -> None:
    """Strategy `paper` holds no VM: a VM that only made room moved to and fro for ever."""
    snapshot, entry = flavoured(3, seed), strategy_named("paper")
    for _ in range(20):
        moves = entry.decide(snapshot).plan.of(Migrate)
        ready = [step for step in moves if not step.after]
        waves = of_market(market_view(snapshot, 0), snapshot, entry.harm(None), ready, ())
        begun = waves.begin() if len(moves) > 1 else {step.vm for step in moves}
        if not begun:
            break
        host = snapshot.vms.host.copy()
        for step in moves:
            if step.vm in begun:
                host[snapshot.vm_row(step.vm)] = snapshot.host_row(step.host)
        snapshot = replace(snapshot, vms=replace(snapshot.vms, host=host))
    assert not begun


def test_a_migration_that_oned_begins_late_has_not_failed() -> None:
    """Oned asks for places before it begins the migration; the VM then stays on its new host."""
    frontend = crowd(SEEDS[0])
    frontend.world_settings = {"handing": True}
    frontend.start_daemon()
    oned = Oned(frontend)
    plan = oned.plan(oned.ask(0, oned.question(RUNNING)))
    assert plan.findall("ACTION")
    frontend.clock.advance(8)
    oned.place()
    oned.carry_out(plan)
    frontend.clock.advance(60)
    frontend.periods(2)
    rows = frontend.read(lambda c: journal.recent(c, journal.StepFilter(kind="migrate")))
    assert {str(row.state) for row in rows if row.sent_s is not None} == {"confirmed"}
    frontend.close()


def test_an_approved_plan_is_handed_over_wave_by_wave() -> None:
    """One approval is enough."""
    frontend = crowd(158)
    frontend.world_settings = {"handing": True}
    frontend.start_daemon()
    frontend.order(Order.MODE_ASK)
    oned = Oned(frontend)
    frontend.periods(2)
    plan = frontend.read(plan_store.newest)
    frontend.read(lambda c: plan_store.approve(c, plan, frozenset(), "root", frontend.wall_s()))
    for _ in plan.steps:
        oned.optimize(0)
        frontend.clock.advance(60)
        frontend.periods(1)
    done = frontend.read(plan_store.newest)
    assert (done.id, done.state) == (plan.id, PlanState.DONE)
    results = frontend.read(lambda c: plan_store.results_by_step(c, done))
    assert [results.get(step.key) for step in plan.steps] == ["confirmed"] * 3
    frontend.close()
