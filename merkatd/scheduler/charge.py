"""Charge: what was given in a period is paid for at the start of the next.

Only VMs that were seen running at both observations are charged, for the time that really
passed, at most two periods. A charge has the period and the account in its reference, so it
is posted once, however often this is tried.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import sqlalchemy as sa
from twisted.logger import Logger

from merkatd.cluster import Ints, VmState
from merkatd.database import accounts, allocations, charges, entries, periods
from merkatd.database.accounts import AccountKind
from merkatd.database.entries import Posting, TransactionKind
from merkatd.database.periods import Period, PeriodState
from merkatd.market.charge import charges as charges_of
from merkatd.scheduler.observe import Seen
from merkatd.scheduler.settings import Market, Money
from merkatd.scheduler.world import World

MICRO = 1_000_000

_log = Logger()


async def charge(world: World, seen: Seen) -> int:
    """Charge every period before this one that is still to be charged; micro-credits taken."""
    taken = await world.database.run(lambda connection: _charge(connection, world, seen))
    if taken:
        _log.info("{credits:.6f} credits were charged", credits=taken / MICRO)
    return taken


def _charge(connection: sa.Connection, world: World, seen: Seen) -> int:
    due = [
        period
        for state in (PeriodState.DECIDED, PeriodState.ACTED)
        for period in periods.recent(connection, 100, state)
        if period.number < seen.period
    ]
    due.sort(key=lambda period: period.number)
    ends = [*due[1:], None][: len(due)]
    return sum(
        _charge_one(connection, world, seen, period, end)
        for period, end in zip(due, ends, strict=True)
    )


def _charge_one(
    connection: sa.Connection, world: World, seen: Seen, period: Period, end: Period | None
) -> int:
    """Charge one period up to the next one that came as far, or up to now."""
    arrays = allocations.load(connection, period.number)
    at_s = world.now()
    if arrays is None:
        periods.failed(connection, period.number, at_s, "what was allocated is not known any more")
        return 0
    after = None if end is None else allocations.load(connection, end.number)
    running = _running_now(seen) if after is None else after["vm"][after["runs"]]
    until_s = seen.observation.at_s if end is None else end.observed_s
    elapsed = (until_s - period.observed_s) / world.rhythm.interval_s
    elapsed = min(elapsed, world.rhythm.most_periods_charged)
    owed = owed_by_owner(arrays, running, elapsed, world.markets)
    payers = {_account(connection, owner, world.money, at_s): due for owner, due in owed.items()}
    result = charges.charge(connection, period.number, payers, at_s)
    periods.charged(connection, period.number, at_s)
    return sum(result.taken.values())


def _running_now(seen: Seen) -> Ints:
    runs = np.isin(seen.observation.vm_state, (VmState.RUNNING, VmState.BUSY))
    running: Ints = seen.observation.vm_id[runs & (seen.observation.vm_host >= 0)]
    return running


def owed_by_owner(
    arrays: Mapping[str, Any], running: Ints, elapsed: float, markets: Sequence[Market]
) -> dict[int, int]:
    """Micro-credits by owner for a period of which these arrays were kept."""
    pays = arrays["runs"] & np.isin(arrays["vm"], running) & (arrays["market"] >= 0)
    owed: Counter[int] = Counter()
    for row, market in enumerate(markets[: len(arrays["price"])]):
        rows = np.flatnonzero(pays & (arrays["market"] == row))
        credits_ = charges_of(
            market.pricing.rule,
            arrays["bid"][rows],
            arrays["allocation"][rows],
            np.tile(arrays["price"][row], (len(rows), 1)),
            elapsed,
            most_periods=elapsed,
        ).sum(axis=1)
        owners, at = np.unique(arrays["owner"][rows], return_inverse=True)
        sums = np.bincount(at, credits_, len(owners))
        owed.update(
            {
                owner: round(min(amount * MICRO, float(entries.LARGEST)))
                for owner, amount in zip(owners.tolist(), sums.tolist(), strict=True)
            }
        )
    return dict(owed)


def _account(connection: sa.Connection, owner: int, money: Money, at_s: float) -> int:
    """The owner's account, opened with what everybody starts with."""
    found = accounts.find(connection, AccountKind.TENANT, owner)
    if found is not None:
        return found.id
    account = accounts.ensure(connection, AccountKind.TENANT, owner)
    treasury, issuance = accounts.treasury(connection), accounts.issuance(connection)
    supply = round(money.supply * MICRO)
    first = Posting(
        TransactionKind.ISSUE, "issue/first", {issuance.id: -supply, treasury.id: supply}
    )
    entries.post(connection, [first], at_s)
    start = min(round(money.starting_credits * MICRO), accounts.treasury(connection).balance)
    moves = {treasury.id: -start, account.id: start}
    entries.post(connection, [Posting(TransactionKind.INCOME, f"start/{owner}", moves)], at_s)
    return account.id
