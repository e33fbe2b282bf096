"""The charge: each period's allocations, charged at the start of the next period.

A VM is charged for its running time between two observations, from OpenNebula's history records
(`running_time.py`), for at most two periods. The reference of a charge contains the period and the
account, so a retried charge is posted once. The same transaction opens accounts for new tenants. It
also changes the supply, pays renewals and replenishes budgets if they are due.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import sqlalchemy as sa
from twisted.logger import Logger

from merkatd import ledger
from merkatd.cluster import Floats, Ints
from merkatd.cluster.columns import is_one_of
from merkatd.currency import MICRO
from merkatd.database.base.transactions import LostRaceError, is_of_data
from merkatd.database.fleets import fleet_store
from merkatd.database.ledger import account_store, charge_store, reservation_store
from merkatd.database.scheduler import period_store, price_store
from merkatd.database.scheduler.period_store import PeriodRow, PeriodState
from merkatd.ledger import Bill, Person
from merkatd.scheduler.base.ports import Observation
from merkatd.scheduler.base.settings import ALL_GOODS
from merkatd.scheduler.charging import held_memory
from merkatd.scheduler.charging.charged_records import ChargeInput
from merkatd.scheduler.charging.charged_span import ChargedSpan
from merkatd.scheduler.charging.charged_time import (
    begun_anew_by,
    columns_of,
    passed_s,
    running,
    running_at_end,
    seconds_charged,
)
from merkatd.scheduler.charging.continued_periods import go_on
from merkatd.scheduler.charging.owed_amounts import (
    costs,
    idle,
    in_a_market,
    most_owed,
    resting_costs,
    with_use,
)
from merkatd.scheduler.charging.unlimited_time import owed_before_limits
from merkatd.scheduler.charging.used_cpu import (
    CPU,
    NOTHING_LIMITED,
    CpuCounters,
    NewlyLimited,
    core_periods,
    most_cores,
)
from merkatd.scheduler.clearing.cleared_room import ClearedRoom
from merkatd.scheduler.context import PeriodContext
from merkatd.scheduler.observation.looks import missing_guests
from merkatd.scheduler.observation.observed import Observed

NO_APPLICATION = -1
"""The application of a VM without one, and the payer of a VM whose owner has no account yet."""

_log = Logger()


@dataclass(frozen=True, slots=True, eq=False)
class PayerFunds:
    """The payers' funds at the start of a decision."""

    payer: Mapping[int, int] = field(default_factory=dict)
    """By VM id: the paying account."""
    free: Mapping[int, int] = field(default_factory=dict)
    """By account: micro-credits that are not reserved for other charges."""
    cost: Mapping[int, float] = field(default_factory=dict)
    """By account: the cost of a period in credits, from the newest decision and its running VMs."""
    debt: Mapping[int, int] = field(default_factory=dict)
    """By owner: the unpaid micro-credits of earlier periods."""
    arrears: Mapping[int, float] = field(default_factory=dict)
    """By owner: the number of intervals it has not paid in full."""
    unpaid: frozenset[int] = frozenset()
    """Owners in arrears that did not pay for the newest period either; others get another
    chance."""
    last: Mapping[str, Any] | None = None
    """The stored columns of the previous period, if they are known."""


async def charge(
    context: PeriodContext,
    observed: Observed,
    limited: NewlyLimited = NOTHING_LIMITED,
    *,
    goes_on: bool = True,
) -> PayerFunds:
    """Charge all earlier periods that are not charged yet; return the payers' funds.

    `goes_on`: whether the last allocations continue, and are charged, until the next decision.
    """
    at_s = context.now()
    taken, purse = await context.database.run(
        lambda connection: _charge(
            ChargeInput(connection, context, observed, limited, at_s), goes_on=goes_on
        )
    )
    if taken:
        _log.info("Charged {credits:.6f} credits", credits=taken / MICRO)
    return purse


def _charge(books: ChargeInput, *, goes_on: bool) -> tuple[int, PayerFunds]:
    connection, world, seen, _, at_s = books
    account_store.lock_books(connection)
    owners = seen.observation.vm_owner.tolist()
    ledger.update_tenants(connection, owners, world.money, at_s, _people(seen.observation))
    change = ledger.keep_supply(connection, world.money, at_s)
    if change is not None:
        _log.info("The supply of credits changed: {reason}", reason=change.reason)
    due = period_store.to_charge(connection, seen.period)
    ends = [*due[1:], None][: len(due)]
    taken = sum(_guarded(books, period, end) for period, end in zip(due, ends, strict=True))
    paid = ledger.renew_if_due(connection, world.money, at_s)
    if paid:
        _log.info("A renewal paid out {credits:.6f} credits", credits=paid / MICRO)
    ledger.replenish(connection, world.money.replenishment_s, at_s)
    purse = payer_funds(connection, world, seen.observation, deciding=seen.period)
    if goes_on and due:
        _go_on(books, due[-1].number)
    short = ledger.short_at(connection, at_s)
    return taken, replace(purse, unpaid=purse.unpaid & short)


def _go_on(books: ChargeInput, newest: int) -> None:
    """Continue the newest period's allocations if the period was charged up to now."""
    present = period_store.get(books.connection, newest)
    if present is None or present.state is not PeriodState.CHARGED:
        return  # the columns are unknown or damaged
    arrays = price_store.load_allocations(books.connection, newest)
    if arrays is not None:
        go_on(books, arrays)


def _guarded(books: ChargeInput, period: PeriodRow, end: PeriodRow | None) -> int:
    """Charge one period; a period that can't be charged is quarantined, and others continue."""
    connection = books.connection
    attempt = connection.begin_nested()
    try:
        taken = _charge_one(books, period, end)
    except Exception as error:
        if isinstance(error, sa.exc.SQLAlchemyError | LostRaceError) and not is_of_data(error):
            raise  # the database failed, not the period: the whole transaction is retried
        # An error in one period must not affect the others.
        attempt.rollback()
        why = f"it can't be charged: {type(error).__name__}: {error}"
        period_store.quarantine(connection, period.number, books.at_s, why)
        ledger.release(connection, period.number, books.at_s)
        _log.error(
            "Period {period} is in quarantine, {why}. Later periods are charged."
            " `merkatd tenant refund {period}` closes it.",
            period=period.number,
            why=why,
        )
        return 0
    attempt.commit()
    return taken


def _people(seen: Observation) -> dict[int, Person]:
    """Return the known data of users.

    The groups of their VMs don't count: tenants choose them, and a group can have a larger weight.
    """
    return {
        owner: Person(name, seen.owner_group.get(owner)) for owner, name in seen.owner_name.items()
    }


def payer_funds(
    connection: sa.Connection,
    context: PeriodContext,
    seen: Observation,
    *,
    charged: bool = True,
    deciding: int | None = None,
) -> PayerFunds:
    """Return the payers of the observed VMs and their funds.

    `charged`: whether the newest period is already charged; otherwise its cost is subtracted. The
    reservation of the period `deciding` is available to its own decision.
    """
    vms = seen.vm_id.tolist()
    of_platforms = fleet_store.applications(connection)
    applications = [of_platforms.get(vm, NO_APPLICATION) for vm in vms]
    payer = ledger.payers(connection, seen.vm_owner.tolist(), applications)
    newest = period_store.newest_decided(connection)
    last = None if newest is None else columns_of(connection, newest)
    cost = _cost(last, context, seen)
    concerned = account_store.get(connection, payer).values()
    own = {} if deciding is None else reservation_store.of_period(connection, deciding)
    held = {account.id: account.free + own.get(account.id, 0) for account in concerned}
    if not charged:
        held = {
            account.id: max(account.balance - round(cost.get(account.id, 0.0) * MICRO), 0)
            for account in concerned
        }
    owing = charge_store.load(connection)
    return PayerFunds(
        payer=dict(zip(vms, payer, strict=True)),
        free={account: held[account] for account in set(payer) if account in held},
        cost=cost,
        debt=ledger.debts_of(connection),
        arrears=owing,
        unpaid=frozenset(owing),
        last=last,
    )


def _cost(
    arrays: Mapping[str, Any] | None, context: PeriodContext, seen: Observation
) -> Mapping[int, float]:
    """Return, by account, the cost of a period for decided VMs that run now."""
    if arrays is None or "account" not in arrays:
        return {}
    runs = is_one_of(arrays["vm"], running(seen))
    alone = {**arrays, "runs": arrays["runs"] & runs, "placed": arrays["placed"] & runs}
    costs = most_owed(alone, context.markets, 1.0)
    return {account: amount / MICRO for account, amount in costs.items()}


def _charge_one(books: ChargeInput, period: PeriodRow, end: PeriodRow | None) -> int:
    """Charge one period up to the next decided one, or up to now."""
    connection, world, seen, _, at_s = books
    histories = seen.histories
    arrays = price_store.load_allocations(connection, period.number)
    if arrays is None:
        period_store.failed(connection, period.number, at_s, "its allocations are no longer stored")
        ledger.release(connection, period.number, at_s)
        return 0
    after = None if end is None else price_store.load_allocations(connection, end.number)
    seconds = seconds_charged(world, seen, period, arrays, (end, after), histories)
    rested, longest = seconds.rested, seconds.longest
    rows = np.flatnonzero(in_a_market(arrays, world.markets) & (longest + rested > 0))
    elapsed = seconds.ran[rows] / world.rhythm.interval_s
    by_good = seconds.by_good[rows] / world.rhythm.interval_s
    rhythm, length_s = world.rhythm, passed_s(world, seen, period, end)
    span = ChargedSpan(period.observed_s, rhythm.interval_s, rhythm.most_periods_charged)
    owed = span.owed(costs(arrays, rows, world.markets), seconds.by_good[rows])
    given = held_memory.amounts_given(arrays)[rows]
    if "rate" in arrays:
        now = _computed(seen, after)
        over = ~is_one_of(arrays["vm"][rows], running_at_end(seen, after))
        anew = begun_anew_by(seen, period, arrays, (end, after), histories)
        cores = most_cores(seen)
        interval_s = world.rhythm.interval_s
        unread_s = np.clip(
            period.observed_s - arrays["read_s"][rows] if "read_s" in arrays else 0.0 * elapsed,
            0.0,
            world.rhythm.most_periods_charged * interval_s,
        )
        limited = books.limited if end is None else NOTHING_LIMITED
        gone = (
            is_one_of(arrays["vm"][rows], missing_guests(seen.observation, seen.use))
            if end is None
            else None
        )
        used = core_periods(
            arrays, rows, now, elapsed, interval_s, over, anew, cores, unread_s, limited, gone
        )
        owed, given = with_use(
            arrays, rows, owed, given, used, elapsed, partial(span.owed_for_all, seconds=length_s)
        )
        owed = owed + idle(arrays, rows, by_good[:, CPU] - elapsed)
    owed = owed + owed_before_limits(books, period, (end, after), arrays, rows, elapsed)
    if rested.any():
        off_s = rested[rows][:, np.newaxis]
        owed = owed + span.owed(resting_costs(arrays, rows, world.markets), off_s)
        never = (longest[rows] <= 0)[:, np.newaxis]
        given = np.where(never, held_memory.kept_at_rest(arrays)[rows], given)
    names = dict(zip(seen.observation.vm_id.tolist(), seen.observation.vm_name, strict=True))
    bill = Bill(
        period=period.number,
        vm=arrays["vm"][rows],
        account=_payers(connection, world, arrays, rows),
        owed=_in_order(owed, arrays),
        allocation=_in_order(given, arrays),
        seconds=longest[rows],
        names=[names.get(vm, "") for vm in arrays["vm"][rows].tolist()],
        intervals=length_s / rhythm.interval_s,
    )
    if "room_vm" in arrays:
        bill = _with_cleared_room(bill, arrays, span, length_s, longest + rested, names)
    result = ledger.settle_bill(connection, bill, at_s)
    period_store.charged(connection, period.number, at_s)
    return result.taken


def _with_cleared_room(
    bill: Bill,
    arrays: Mapping[str, Any],
    span: ChargedSpan,
    length_s: float,
    paid_s: Floats,
    names: Mapping[int, str],
) -> Bill:
    """Return the bill with what limit orders owe for the room that was cleared for them."""
    room = ClearedRoom.stored(arrays, arrays["price"].shape[1])
    seconds = room.owed_s(length_s, span.interval_s, arrays["vm"], paid_s)
    owed = _in_order(span.owed(room.cost, seconds[:, np.newaxis]), arrays)
    return bill.plus(room.vm, room.account, owed, seconds, names)


def _payers(
    connection: sa.Connection, context: PeriodContext, arrays: Mapping[str, Any], rows: Ints
) -> Ints:
    """[rows]: the payer at the time of the decision, since that account has the reservation."""
    if "account" in arrays:
        account: Ints = arrays["account"][rows]
        return account
    owners = arrays["owner"][rows].tolist()
    there = "application" in arrays
    applications = arrays["application"][rows].tolist() if there else [NO_APPLICATION] * len(rows)
    ledger.update_tenants(connection, owners, context.money, context.now())
    return np.array(ledger.payers(connection, owners, applications), dtype=np.int64)


def _computed(observed: Observed, after: Mapping[str, Any] | None) -> CpuCounters:
    """Return the CPU counters at the end of the period: as stored then, or as read now."""
    if after is not None and "cpu_s" in after:
        return CpuCounters(after["vm"], after["cpu_s"])
    return CpuCounters(observed.use.vm_id, observed.use.cpu_s)


def _in_order(values: Any, arrays: Mapping[str, Any]) -> Any:
    """[vms, resources]: columns for all goods in their order, if optional goods were sold."""
    if "goods" not in arrays:
        return values
    columns = np.zeros((len(values), len(ALL_GOODS)), dtype=values.dtype)
    columns[:, arrays["goods"]] = values
    return columns


async def roll_up_books(context: PeriodContext, before: int) -> None:
    """Roll details up to days, and so the charges of periods before this one."""
    while await context.database.run(ledger.fold_details):
        pass
    at_s = context.now()
    while await context.database.run(lambda c: ledger.forget(c, before, at_s)):
        pass
