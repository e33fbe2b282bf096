"""A dry run: what the next period would do if it began now, and nothing of it done or stored."""

import copy
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import sqlalchemy as sa

from merkatd.api.questions.plans import Costs, plan_value
from merkatd.api.questions.present import costs
from merkatd.api.questions.words import QuestionError
from merkatd.database.base.transactions import Trying
from merkatd.database.fleets import fleet_store, group_vm_store
from merkatd.database.fleets.group_vm_store import Rate
from merkatd.database.scheduler import bid_store, journal, migration_history, period_store
from merkatd.database.scheduler.step_store import StoredStep
from merkatd.market.explanation import hosts_after
from merkatd.scheduler.base.ports import UnreachableError
from merkatd.scheduler.charging.charge import purse_of
from merkatd.scheduler.charging.used_cpu import charged_rates
from merkatd.scheduler.context import World
from merkatd.scheduler.observation.failed_boots import given_up
from merkatd.scheduler.observation.observed import Look
from merkatd.scheduler.observation.step_outcomes import judge
from merkatd.scheduler.phases.decide import left_alone, with_leave
from merkatd.scheduler.phases.observe import look, new_words, seen_from
from merkatd.scheduler.phases.permission import ALL, Leave
from merkatd.scheduler.terms.affordability import Afforded, beside
from merkatd.scheduler.terms.failed_migrations import window_s
from merkatd.scheduler.terms.paid_claims import affordable_cloud


async def rehearsed(world: World, leave: Leave = ALL) -> dict[str, Any]:
    """The plan of a period that begins now with no more moves than it may make, as JSON has it.

    Raises QuestionError.
    """
    try:
        looked = await look(world)
    except UnreachableError as error:
        raise QuestionError(f"the cloud can't be reached: {error}") from error
    label = "+".join(market.strategy for market in world.markets)
    stored = await world.database.read(
        lambda connection: (
            _known_bids(connection, looked),
            journal.outstanding(connection),
            period_store.memory(connection, label),
            period_store.newest(connection),
            purse_of(connection, world, looked.observation, charged=False),
            fleet_store.applications(connection),
            _rates(connection, looked),
            migration_history.recent(connection, looked.observation.at_s, window_s(world)),
            given_up(connection, looked.observation, world.rhythm.boot_retries),
        )
    )
    present, outstanding, memory, newest, purse, applications, rates, known_moves, lost = stored
    number = 1 if newest is None else newest.number + 1
    own = replace(world, rng=copy.deepcopy(world.rng))  # the real period draws the same again

    def could() -> Afforded:
        verdicts = judge(outstanding, looked.observation, own.rhythm, handing=own.handing)
        look_from = seen_from(
            own, number, looked, verdicts, present, applications, rates, known_moves, lost
        )
        return affordable_cloud(own, look_from, purse)

    affordable = await world.executor.run(could)
    proposed = await world.proposals(Trying(world.database), affordable.seen)

    def work() -> dict[str, Any]:
        seen = left_alone(affordable.seen, proposed)
        begin = time.perf_counter()
        decision, limits = with_leave(own, seen, memory, affordable.unpaid, proposed, leave)
        took_ms = (time.perf_counter() - begin) * 1e3
        reasons = {**decision.reasons, **beside(decision.reasons, affordable.messages)}
        reasons |= limits.postponed
        host = hosts_after(seen.snapshot, decision.plan)
        rate = charged_rates(seen, own.markets)
        cost = costs(seen.snapshot, decision, limits, host, own.markets, rate).sum(axis=1)
        value = plan_value(
            seen.snapshot, decision, limits.plan, label, took_ms, reasons, Costs(cost, rate)
        )
        return value | {
            "under_way": [_under_way(one) for one in seen.verdicts.waiting],
            "overfull": {str(host): why for host, why in limits.overfull.items()},
        }

    return await world.executor.run(work)


def _known_bids(connection: sa.Connection, looked: Look) -> dict[int, Mapping[str, float]]:
    """The bids in force, with what templates say anew."""
    said = {word.vm: word.bid for word in new_words(connection, looked)}
    return {**bid_store.amounts(connection), **said}


def _rates(connection: sa.Connection, looked: Look) -> dict[int, Rate]:
    """What VMs have of spending rates, those among them that were seen for the first time."""
    seen = looked.observation
    owners = dict(zip(seen.vm_id.tolist(), seen.vm_owner.tolist(), strict=True))
    new = group_vm_store.rates_of_new(connection, seen.keys, owners)
    return group_vm_store.rates(connection) | new


def _under_way(stored: StoredStep) -> dict[str, Any]:
    return {
        "id": stored.id,
        "kind": stored.step.kind,
        "vm": stored.step.vm,
        "state": str(stored.state),
    }
