"""Affordability: bids lowered to their payers' funds, early warnings, and unpaid charges.

Only the possible charge of the coming period counts. Running VMs come first; waiting VMs divide the
rest. So a waiting VM never lowers the bid of a running one.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from merkatd.cluster import ACTIVE, Bools, Floats, Ints, Snapshot, Suspend, VmState
from merkatd.cluster.columns import NO_MARKET, NO_ROW, is_one_of
from merkatd.currency import MICRO, credits_of
from merkatd.currency.solvency import (
    affordable_parts,
    due_for_suspension,
    refusal,
    time_until_empty,
    warning,
    warning_stage,
    warning_text,
)
from merkatd.limits.cpu_limits import UNITS_PER_CORE
from merkatd.scheduler.charging.charge import PayerFunds
from merkatd.scheduler.charging.held_memory import CLOSE, has_floor_at_rest
from merkatd.scheduler.charging.used_cpu import CPU, full_rates, is_charged_by_use
from merkatd.scheduler.context import PeriodContext
from merkatd.scheduler.observation.observed import Observed
from merkatd.scheduler.observation.snapshot_builder import MEMORY, needed_memory
from merkatd.scheduler.terms.ordered_vms import funded_periods


@dataclass(frozen=True, slots=True, eq=False)
class Afforded:
    """A cloud in which no VM bids more than its payer can pay."""

    seen: Observed
    messages: Mapping[int, str] = field(default_factory=dict)
    """By VM id: a message about credits for its owner, which decides nothing about the VM."""
    reasons: Mapping[int, str] = field(default_factory=dict)
    """By VM id: why it gets no host now, or leaves its host."""
    unpaid: frozenset[int] = frozenset()
    """VMs whose owners have not paid for too long."""


def afford_bids(context: PeriodContext, observed: Observed, purse: PayerFunds) -> Afforded:
    """Return the cloud with affordable bids, and without new VMs of owners in debt."""
    vms = observed.snapshot.vms
    if not len(vms):
        return Afforded(observed)
    inside = vms.market != NO_MARKET
    runs = is_one_of(vms.state, ACTIVE) & inside
    keeps = has_floor_at_rest(vms)
    owes = is_one_of(vms.owner, purse.debt)
    waits = vms.waiting & inside & ~owes
    refused = vms.waiting & inside & owes
    bids = vms.bid * _parts(context, observed, purse, runs | keeps, waits)
    late = due_for_suspension(purse.arrears, context.money.unpaid_periods) & purse.unpaid
    unpaid = runs & is_one_of(vms.owner, late) & (vms.floor > 0).any(axis=1)
    messages = _ahead(context, observed.snapshot, purse, runs)
    lowered = vms.id[(bids < vms.bid).any(axis=1)].tolist()
    messages |= dict.fromkeys(lowered, "bids less than requested: its credits are running out")
    messages |= _warnings(context, observed.snapshot, purse, runs)
    # Migrating a VM that is about to be suspended is a waste.
    changed = replace(
        vms,
        bid=bids,
        movable=vms.movable & ~unpaid,
        placeable=vms.placeable & ~refused,
    )
    snapshot = replace(observed.snapshot, vms=changed)
    return Afforded(
        replace(observed, snapshot=snapshot),
        messages,
        _refusals(observed.snapshot, purse, refused),
        frozenset(vms.id[unpaid].tolist()),
    )


def _parts(
    context: PeriodContext, observed: Observed, purse: PayerFunds, there: Bools, waits: Bools
) -> Floats:
    """[vms, 1]: the part of its bids that each VM can pay for the longest charged time.

    A VM that waits in a limit order must be able to pay for the order's least run.
    """
    payer, balance = _payers(context, observed.snapshot, purse)
    rhythm = context.rhythm
    times = funded_periods(observed.snapshot, rhythm.interval_s, rhythm.most_periods_charged)
    most = _most(context, observed)
    most[waits] *= times[waits, np.newaxis]
    price = reserve_prices(context, observed.snapshot)
    floors = observed.snapshot.vms.floor
    return affordable_parts(most, floors, price, payer, balance, there, waits)


def _payers(context: PeriodContext, snapshot: Snapshot, purse: PayerFunds) -> tuple[Ints, Floats]:
    """[vms]: the row of each payer, NO_HOST for none; and each row's credits for a period."""
    accounts = sorted(purse.free)
    row_of = {account: row for row, account in enumerate(accounts)}
    payer = np.array(
        [row_of.get(purse.payer.get(vm, NO_ROW), NO_ROW) for vm in snapshot.vms.id.tolist()],
        dtype=np.int64,
    )
    free = np.array([max(purse.free[account], 0) for account in accounts], dtype=np.float64)
    return payer, free / MICRO / context.rhythm.most_periods_charged


def _most(context: PeriodContext, observed: Observed) -> Floats:
    """[vms, resources]: the highest cost of a bid in a period: the bid itself, or the full use."""
    vms = observed.snapshot.vms
    used = is_charged_by_use(context.markets, vms.market)
    most = np.where(used[:, np.newaxis], 0.0, vms.bid)
    # A VM that is off or failed bids nothing; it pays the price of a floor for what it keeps.
    off = has_floor_at_rest(vms) & ~vms.starts
    most[off & ~_claims_at_rest(context, observed)] = 0.0
    used &= ~off
    most[used, CPU] = (full_rates(observed) * vms.cap[:, CPU] / UNITS_PER_CORE)[used]
    return most


def _claims_at_rest(context: PeriodContext, observed: Observed) -> Bools:
    """[vms]: whether the VM claims more memory than it needs; its bid must pay for that.

    See Note [Claims without a guest] in `held_memory.py`.
    """
    vms = observed.snapshot.vms
    needed = needed_memory(observed.observation, observed.use, context.markets, vms.market)
    claims: Bools = vms.floor[:, MEMORY] > needed * (1 + CLOSE)
    return claims


def messages_after_reasons(
    reasons: Mapping[int, str], messages: Mapping[int, str]
) -> dict[int, str]:
    """Return the messages, each appended to the VM's other reason if there is one."""
    return {
        vm: f"{reasons[vm]}; {message}" if vm in reasons else message
        for vm, message in messages.items()
    }


def suspensions(snapshot: Snapshot, unpaid: Collection[int], patience: int) -> list[Suspend]:
    """Return a step for each of these VMs that runs."""
    wanted = is_one_of(snapshot.vms.id, unpaid) & (snapshot.vms.state == VmState.RUNNING)
    return [
        Suspend(
            period=snapshot.period,
            vm=vm,
            reason=f"its owner has not paid in full for {patience} periods in a row",
        )
        for vm in snapshot.vms.id[wanted].tolist()
    ]


def reserve_prices(context: PeriodContext, snapshot: Snapshot) -> Floats:
    """[vms, resources]: the reserve prices of each VM's market, which are the prices of floors."""
    names = snapshot.resources
    table = [market.pricing.reserve_prices(names) for market in context.markets]
    prices: Floats = np.array([*table, np.zeros(len(names))])[snapshot.vms.market]
    return prices


def _ahead(
    context: PeriodContext, snapshot: Snapshot, purse: PayerFunds, runs: Bools
) -> dict[int, str]:
    """Return warnings by VM id, for running VMs whose payer is about to run out of credits."""
    stages = {
        account: warning_stage(
            time_until_empty(free, purse.cost.get(account, 0.0) * MICRO, context.rhythm.interval_s)
        )
        for account, free in purse.free.items()
    }
    return {
        vm: warning_text(limit)
        for vm in snapshot.vms.id[runs].tolist()
        if (limit := stages.get(purse.payer.get(vm, NO_ROW))) is not None
    }


def _warnings(
    context: PeriodContext, snapshot: Snapshot, purse: PayerFunds, runs: Bools
) -> dict[int, str]:
    """Return warnings by VM id, for running VMs whose owners are in debt."""
    vms, patience = snapshot.vms, context.money.unpaid_periods
    warned = runs & is_one_of(vms.owner, [owner for owner in purse.arrears if owner in purse.debt])
    return {
        vm: warning(purse.arrears[owner], credits_of(purse.debt[owner]), patience)
        for vm, owner in _with_owners(snapshot, warned)
    }


def _refusals(snapshot: Snapshot, purse: PayerFunds, refused: Bools) -> dict[int, str]:
    """Return, by VM id, why new VMs of owners in debt get no host."""
    return {
        vm: refusal(credits_of(purse.debt[owner])) for vm, owner in _with_owners(snapshot, refused)
    }


def _with_owners(snapshot: Snapshot, rows: Bools) -> Iterator[tuple[int, int]]:
    """Yield the id and the owner of each of these VMs."""
    return zip(snapshot.vms.id[rows].tolist(), snapshot.vms.owner[rows].tolist(), strict=True)
