"""The explanation of a VM's share and place."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np

from merkatd.base.quantities import finite
from merkatd.cluster import VmState
from merkatd.cluster.orders import LimitOrder
from merkatd.database.scheduler import bid_store, journal, limit_order_store
from merkatd.database.scheduler.bid_store import Bid
from merkatd.database.scheduler.step_store import StepState, StoredStep
from merkatd.market.explanation import Explanation, LimitedBy, explain, without_bids
from merkatd.placement.contract import Standing
from merkatd.scheduler.period import Scheduler
from merkatd.service.base.callers import USE, Caller, CallerRights, permits_tenant
from merkatd.service.base.payer_balances import payer_credits
from merkatd.service.base.period_view import PeriodView
from merkatd.service.base.read_runner import ReadRunner, run_at_once
from merkatd.service.base.visibility import permitted_vm_row
from merkatd.service.market.explanation_text import ordered_sentence, sentence, why_not_more
from merkatd.service.reasons.application_standings import ApplicationStandings
from merkatd.service.reasons.queue_ahead import QueueAhead, queue_ahead

_PLACING = ("deploy", "migrate")
_FAILED = (StepState.REFUSED, StepState.EXPIRED)


@dataclass(frozen=True, slots=True)
class PlacingStep:
    """The newest step that placed a VM on its host, or is about to."""

    kind: str
    state: str
    period: int
    at_s: float
    reason: str


@dataclass(frozen=True, slots=True)
class ExplainedResource:
    """The explanation of the share of one resource; None stands for unknown and infinite values."""

    resource: str
    bid: float | None
    bids: float | None
    """The sum of all bids on its host."""
    bidders: int
    capacity: float | None
    """The capacity that its host divides."""
    by_bid: float | None
    others: float | None
    floor: float | None
    cap: float | None
    rest: float | None
    share: float
    """The sum of the five parts before."""
    least: float | None
    """Its floor."""
    most: float
    """Its cap."""
    first: float | None
    """Its share if its market were a single host."""
    error: float | None
    """The allocation error."""
    limited_by: LimitedBy
    bid_for_all: float | None
    """The bid that would get its cap; None if no bid would."""
    used: float | None
    """Its use since the previous period."""
    used_lately: float | None
    """Its average use over all known samples."""
    price: float | None
    cost: float | None
    why_not_more: str
    """The limit of its share, as a text."""


@dataclass(frozen=True, slots=True)
class ExplainedVm:
    """All explanations of a VM's share and place."""

    vm: int
    name: str
    owner: int | None
    owner_name: str | None
    state: str
    host: str | None
    """Its host, or the target of its migration."""
    market: str | None
    period: int
    at_s: float
    sentence: str
    """Its share and the reason for it, in a sentence."""
    application: int | None
    standing: str | None
    """Its application's utility, what it predicts, and what its goal takes, in a sentence; None if
    its strategy knows no utility."""
    message: str | None
    """The daemon's message to its owner."""
    why_here: PlacingStep | None
    bid_source: str
    bid_at_s: float | None
    limit_order: int | None
    """The limit order of the VM: while the VM is in it, the bid does not count."""
    rate: float | None
    """The credits per core used for a period, if the market charges for use."""
    cost: float
    """The cost of a whole period; the most if the market charges for use."""
    balance: float | None
    """The balance of its payer; None for callers that may use the VM, but not see the account."""
    queue: QueueAhead | None
    """For a VM that waits: the VMs that are placed before it."""
    resources: Sequence[ExplainedResource]
    """Its resources; none for a VM of no market."""


class ExplanationService:
    """The explanations of VMs."""

    def __init__(
        self, scheduler: Scheduler, rights: CallerRights, standings: ApplicationStandings
    ) -> None:
        self._scheduler = scheduler
        self._rights = rights
        self._standings = standings

    async def explain(
        self, caller: Caller, view: PeriodView, vm: int, run: ReadRunner = run_at_once
    ) -> ExplainedVm:
        """Return all explanations of a VM. Raise RequestError."""
        row = await permitted_vm_row(self._rights, caller, view, vm, USE)
        sees_money = permits_tenant(caller, int(view.snapshot.vms.owner[row]))
        return await run(lambda: self._explained(view, row, caller.is_admin, sees_money=sees_money))

    async def _explained(
        self, view: PeriodView, row: int, is_admin: bool, *, sees_money: bool
    ) -> ExplainedVm:
        vms, world = view.snapshot.vms, self._scheduler.world
        vm, owner, application = int(vms.id[row]), int(vms.owner[row]), int(vms.application[row])
        newest_bid, order, steps, balance = await world.database.read(
            lambda connection: (
                bid_store.newest_bids(connection, [vm]).get(vm),
                limit_order_store.of_vms(connection, [vm]).get(vm),
                journal.history(connection, vm),
                payer_credits(connection, owner, application) if sees_money else None,
            )
        )
        standing = await self._standings.of_vm(view, row)
        work = partial(explained_vm, view, row, newest_bid, steps, balance, order, standing)
        return await world.executor.run(partial(work, names=is_admin))


def explained_vm(
    view: PeriodView,
    row: int,
    newest_bid: Bid | None,
    steps: Sequence[StoredStep],
    balance: float | None,
    order: LimitOrder | None = None,
    standing: Standing | None = None,
    *,
    names: bool = False,
) -> ExplainedVm:
    """Return all explanations of the VM in this row.

    `newest_bid` is its most recent bid, `steps` are its steps, newest first, `balance` is the
    balance of its payer, None if it is not shown, and `order` is its limit order. `standing` is
    that of its application. `names`: name the VMs ahead of it.
    """
    table = view.snapshot.vms
    vm = int(table.id[row])
    explanation = explain(view.snapshot, view.decision, row)
    if explanation is not None and view.has_own_amounts(row):
        explanation = without_bids(explanation)
    name = table.name[row]
    who = f"VM {vm} ({name})" if name else f"VM {vm}"
    owner, application = int(table.owner[row]), int(table.application[row])
    return ExplainedVm(
        vm=vm,
        name=name,
        owner=None if owner < 0 else owner,
        owner_name=view.owner_names.get(owner),
        state=view.states[row],
        host=view.host_name(row),
        market=view.market_name(int(table.market[row])),
        period=view.snapshot.period,
        at_s=view.at_s,
        sentence=_sentence(view, row, who, explanation, order),
        application=None if application < 0 else application,
        standing=None if standing is None else f"Its application {standing.words}.",
        message=view.messages.get(vm),
        why_here=_why_here(steps),
        bid_source=_bid_source(view, vm, newest_bid),
        bid_at_s=None if newest_bid is None else newest_bid.at_s,
        limit_order=None if order is None else order.id,
        rate=finite(view.rate[row]),
        cost=float(view.cost[row].sum()),
        balance=balance,
        queue=queue_ahead(view, row, names=names),
        resources=[] if explanation is None else _resources(view, row, explanation),
    )


def _sentence(
    view: PeriodView,
    row: int,
    who: str,
    explanation: Explanation | None,
    order: LimitOrder | None,
) -> str:
    table, where = view.snapshot.vms, view.host_name(row)
    outcome = None if order is None else view.decision.orders.get(order.id)
    trouble = view.trouble.get(where or "")
    if order is not None and outcome is not None and trouble is None:
        return ordered_sentence(who, where, view.states[row], order, outcome, explanation)
    return sentence(
        who,
        where,
        VmState(int(table.state[row])),
        view.states[row],
        explanation,
        view.reasons.get(int(table.id[row])),
        trouble,
    )


def _bid_source(view: PeriodView, vm: int, newest_bid: Bid | None) -> str:
    """Return the source of the bid in force: the VM's group, if it has any, or the latest bid's."""
    if vm in view.rates:
        return f"group {view.rates[vm].group}"
    return "default" if newest_bid is None else str(newest_bid.source)


def _resources(view: PeriodView, row: int, explanation: Explanation) -> list[ExplainedResource]:
    market = int(view.snapshot.vms.market[row])
    nowhere = view.host_name(row) is None
    resources = []
    for column, part in enumerate(explanation.parts):
        used, used_lately = _used(view, row, column)
        has_all = part.limited_by is LimitedBy.CAP
        resources.append(
            ExplainedResource(
                **_numbers(asdict(part) | ({"error": 0.0} if has_all else {})),
                used=used,
                used_lately=used_lately,
                price=finite(view.decision.prices[market, column]),
                cost=finite(view.cost[row, column]),
                why_not_more="it has no host" if nowhere else why_not_more(part),
            )
        )
    return resources


def _used(view: PeriodView, row: int, column: int) -> tuple[float | None, float | None]:
    """Return the last observed use of the resource, and the average of all known samples."""
    history = view.snapshot.history
    if history is None:
        return None, None
    samples = history.vms[:, row, column]
    known = samples[~np.isnan(samples)]
    return finite(float(samples[-1])), float(known.mean()) if len(known) else None


def _numbers(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values with None for infinity and NaN."""
    return {
        name: finite(value) if isinstance(value, float) else value for name, value in values.items()
    }


def _why_here(steps: Sequence[StoredStep]) -> PlacingStep | None:
    """Return the newest step that placed the VM on its host, or is about to."""
    for stored in steps:
        if stored.step.kind in _PLACING and stored.state not in _FAILED:
            return PlacingStep(
                kind=stored.step.kind,
                state=str(stored.state),
                period=stored.step.period,
                at_s=stored.planned_s,
                reason=stored.step.reason,
            )
    return None
