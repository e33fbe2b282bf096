"""The plan of a period that would start now: the daemon's own decision, never stored or sent.

The decision can begin with changed inputs, for example with a host less.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from merkatd.cluster.orders import StatedOrders
from merkatd.database.base.transactions import DryRunTransactions
from merkatd.database.fleets import fleet_store
from merkatd.database.fleets.group_vm_store import Rate
from merkatd.database.fleets.order_reading import read_orders
from merkatd.database.scheduler import journal, migration_history, period_store
from merkatd.database.scheduler.step_store import StoredStep
from merkatd.database.vm_history_store import read_histories
from merkatd.market.explanation import hosts_after
from merkatd.scheduler.base.ports import CloudUnreachableError
from merkatd.scheduler.charging.charge import PayerFunds, payer_funds
from merkatd.scheduler.charging.used_cpu import charged_rates
from merkatd.scheduler.context import PeriodContext
from merkatd.scheduler.observation.failed_boots import waiting_for_administrator
from merkatd.scheduler.observation.observed import CloudReading
from merkatd.scheduler.observation.step_outcomes import judge_steps
from merkatd.scheduler.period import Scheduler
from merkatd.scheduler.phases.decide import within_permission, without_moving_proposed
from merkatd.scheduler.phases.market_decisions import read_start
from merkatd.scheduler.phases.observe import observed_from, read_cloud
from merkatd.scheduler.phases.period_costs import costs_of_period
from merkatd.scheduler.phases.permission import EVERYTHING_PERMITTED, Permission
from merkatd.scheduler.terms.affordability import Afforded, messages_after_reasons
from merkatd.scheduler.terms.paid_claims import affordable_cloud
from merkatd.service.base.callers import Caller, require_admin
from merkatd.service.base.errors import InvalidRequestError
from merkatd.service.market.bids import known_bids, known_rates
from merkatd.service.market.plans import PlanCosts, PlanPreview, UnfinishedStep, preview_of


@dataclass(frozen=True, slots=True, eq=False)
class DryRunInputs:
    """The inputs of a dry run that a question may change."""

    looked: CloudReading
    bids: Mapping[int, Mapping[str, float]]
    """The bids in force, by VM id."""
    rates: Mapping[int, Rate]
    """The spending rates of VMs in groups, by VM id."""
    purse: PayerFunds
    orders: StatedOrders


InputChange = Callable[[DryRunInputs], DryRunInputs]


class PlanService:
    """The plan of the next period."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    async def dry_run(self, caller: Caller) -> PlanPreview:
        """Return the plan of a period that would start now. Raise RequestError."""
        require_admin(caller, "ADMIN PLAN")
        return await dry_run(self._scheduler.world, self._scheduler.leave)


async def dry_run(
    context: PeriodContext,
    leave: Permission = EVERYTHING_PERMITTED,
    change: InputChange = lambda inputs: inputs,
) -> PlanPreview:
    """Return the plan of a period that would start now, within its permission.

    `change` returns the inputs that the decision begins with, in place of the present ones.

    Raise InvalidRequestError if the cloud can't be reached.
    """
    try:
        looked = await read_cloud(context)
    except CloudUnreachableError as error:
        raise InvalidRequestError(f"the cloud can't be reached: {error}") from error
    label = "+".join(market.strategy for market in context.markets)
    stored = await context.database.read(
        lambda connection: (
            known_bids(connection, looked),
            journal.outstanding(connection),
            read_start(connection, context.markets, leave.mode),
            period_store.newest(connection),
            payer_funds(connection, context, looked.observation, charged=False),
            fleet_store.applications(connection),
            known_rates(connection, looked),
            migration_history.recent(connection, looked.observation.at_s),
            waiting_for_administrator(connection, looked.observation, context.rhythm.boot_retries),
            read_orders(connection),
            read_histories(connection),
        )
    )
    (
        present,
        outstanding,
        start,
        newest,
        purse,
        applications,
        rates,
        moves,
        lost,
        orders,
        histories,
    ) = stored
    inputs = change(DryRunInputs(looked, present, rates, purse, orders))
    number = 1 if newest is None else newest.number + 1
    declared = await context.applications(context.database)

    def could() -> Afforded:
        verdicts = judge_steps(
            outstanding,
            inputs.looked.observation,
            context.rhythm,
            handing=context.handing,
            in_flight=frozenset(context.in_flight),
        )
        look_from = observed_from(
            context,
            number,
            inputs.looked,
            verdicts,
            inputs.bids,
            applications,
            inputs.rates,
            moves,
            lost,
            inputs.orders,
            declared,
            histories,
        )
        return affordable_cloud(context, look_from, inputs.purse)

    affordable = await context.executor.run(could)
    proposed = await context.proposals(DryRunTransactions(context.database), affordable.seen)

    def work() -> PlanPreview:
        seen = without_moving_proposed(affordable.seen, proposed)
        begin = time.perf_counter()
        decision, limits = within_permission(
            context, seen, start, affordable.unpaid, proposed, leave
        )
        took_ms = (time.perf_counter() - begin) * 1e3
        reasons = {
            **decision.reasons,
            **messages_after_reasons(decision.reasons, affordable.reasons),
        }
        reasons |= limits.postponed
        host = hosts_after(seen.snapshot, decision.plan)
        rate = charged_rates(seen, context.markets)
        cost = costs_of_period(seen.snapshot, decision, limits, host, context.markets, rate).sum(
            axis=1
        )
        preview = preview_of(
            seen.snapshot, decision, limits.plan, label, took_ms, reasons, PlanCosts(cost, rate)
        )
        return replace(
            preview,
            under_way=[_unfinished(step) for step in seen.verdicts.waiting],
            overfull=dict(limits.overfull),
            messages=affordable.messages,
        )

    return await context.executor.run(work)


def _unfinished(stored: StoredStep) -> UnfinishedStep:
    return UnfinishedStep(stored.id, stored.step.kind, stored.step.vm, str(stored.state))
