"""Charge: what was given in a period is paid for at the start of the next.

Only VMs that were seen running at both observations are charged, for the time that really
passed, at most two periods. A charge has the period and the account in its reference, so it
is posted once, however often this is tried. In the same transaction new tenants are met, and
what is due to everybody is done: the supply, renewals, replenishment.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import sqlalchemy as sa
from twisted.logger import Logger

from merkatd import ledger
from merkatd.cluster import Floats, Ints, VmState
from merkatd.currency import MICRO
from merkatd.database import accounts, allocations, arrears, fleets, periods, prices
from merkatd.database.periods import Period, PeriodState
from merkatd.database.prices import Prices
from merkatd.ledger import Bill, Person
from merkatd.market.charge import charges as charges_of
from merkatd.scheduler import holding
from merkatd.scheduler.observe import Seen
from merkatd.scheduler.ports import Observation
from merkatd.scheduler.settings import ALL_GOODS, RESOURCES, Market
from merkatd.scheduler.using import CPU, Computed, by_use, core_periods, units
from merkatd.scheduler.world import World

NOBODY = -1
"""The application of a VM that belongs to none, and the payer where nobody has an account yet."""

_MOST = 2**61
"""Micro-credits that a VM can owe for a resource: two of them still fit a whole number."""

_log = Logger()


@dataclass(frozen=True, slots=True, eq=False)
class Purse:
    """What there is to pay with."""

    payer: Mapping[int, int] = field(default_factory=dict)
    """By VM id: the account that pays for it."""
    balance: Mapping[int, int] = field(default_factory=dict)
    """By account: micro-credits."""
    arrears: Mapping[int, int] = field(default_factory=dict)
    """By VM id: for how many periods on end it has not paid for its floor."""
    unpaid: frozenset[int] = frozenset()
    """Those that did not pay for the newest period either: who was resumed has yet to show it."""
    prices: Prices = field(default_factory=dict)
    """Of the period before, where it is known."""


async def charge(world: World, seen: Seen) -> Purse:
    """Charge every period before this one that is still to be charged; what everybody has left."""
    taken, purse = await world.database.run(lambda connection: _charge(connection, world, seen))
    if taken:
        _log.info("{credits:.6f} credits were charged", credits=taken / MICRO)
    return purse


def _charge(connection: sa.Connection, world: World, seen: Seen) -> tuple[int, Purse]:
    at_s = world.now()
    before = arrears.load(connection)
    owners = seen.observation.vm_owner.tolist()
    ledger.met(connection, owners, world.money, at_s, _people(seen.observation))
    change = ledger.keep_supply(connection, world.money, at_s)
    if change is not None:
        _log.info("The supply changes: {reason}", reason=change.reason)
    due = [
        period
        for state in (PeriodState.DECIDED, PeriodState.ACTED)
        for period in periods.recent(connection, 100, state)
        if period.number < seen.period
    ]
    due.sort(key=lambda period: period.number)
    ends = [*due[1:], None][: len(due)]
    taken = sum(
        _charge_one(connection, world, seen, period, end)
        for period, end in zip(due, ends, strict=True)
    )
    paid = ledger.renew_if_due(connection, world.money, at_s)
    if paid:
        _log.info("A renewal paid out {credits:.6f} credits", credits=paid / MICRO)
    ledger.replenish(connection, world.money.replenishment_s, at_s)
    purse = purse_of(connection, seen.observation)
    grown = frozenset(vm for vm, count in purse.arrears.items() if count > before.get(vm, 0))
    return taken, replace(purse, unpaid=grown)


def _people(seen: Observation) -> dict[int, Person]:
    """What is known of users; where they are not shown to us, the group of their VMs stands in."""
    by_vm = dict(zip(seen.vm_owner.tolist(), seen.vm_group.tolist(), strict=True))
    groups = {**by_vm, **seen.owner_group}
    return {
        owner: Person(seen.owner_name.get(owner), groups.get(owner))
        for owner in {*by_vm, *seen.owner_name}
    }


def purse_of(connection: sa.Connection, seen: Observation) -> Purse:
    """Who pays for the VMs that were seen, and with what."""
    vms = seen.vm_id.tolist()
    of_platforms = fleets.applications(connection)
    applications = [of_platforms.get(vm, NOBODY) for vm in vms]
    payer = ledger.payers(connection, seen.vm_owner.tolist(), applications)
    newest = periods.newest_decided(connection)
    held = {one.id: one.balance for one in accounts.every(connection)}
    owing = arrears.load(connection)
    return Purse(
        payer=dict(zip(vms, payer, strict=True)),
        balance={account: held[account] for account in set(payer) if account in held},
        arrears=owing,
        unpaid=frozenset(owing),
        prices={} if newest is None else prices.load(connection, newest),
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
    elapsed = min(max(elapsed, 0.0), world.rhythm.most_periods_charged)
    rows, owed, floor = owed_by_vm(arrays, running, elapsed, world.markets)
    given = holding.given(arrays)[rows]
    if "rate" in arrays:
        now = _computed(seen, after)
        used = core_periods(arrays, rows, now, elapsed, world.rhythm.interval_s)
        owed, given = _with_use(arrays, rows, owed, given, used, elapsed)
    owners = arrays["owner"][rows].tolist()
    there = "application" in arrays
    applications = arrays["application"][rows].tolist() if there else [NOBODY] * len(rows)
    ledger.met(connection, owners, world.money, at_s)
    payers = ledger.payers(connection, owners, applications)
    names = dict(zip(seen.observation.vm_id.tolist(), seen.observation.vm_name, strict=True))
    bill = Bill(
        period=period.number,
        vm=arrays["vm"][rows],
        account=np.array(payers, dtype=np.int64),
        owed=_in_order(owed, arrays),
        floor=floor,
        allocation=_in_order(given, arrays),
        seconds=elapsed * world.rhythm.interval_s,
        names=[names.get(vm, "") for vm in arrays["vm"][rows].tolist()],
    )
    result = ledger.settle(connection, bill, names.keys() | seen.observation.ailing.keys(), at_s)
    periods.charged(connection, period.number, at_s)
    return result.taken


def _computed(seen: Seen, after: Mapping[str, Any] | None) -> Computed:
    """How long VMs had computed when the period ended: as it was kept then, or as it is now."""
    if after is not None and "cpu_s" in after:
        return Computed(after["vm"], after["cpu_s"])
    return Computed(seen.use.vm_id, seen.use.cpu_s)


def _with_use(
    arrays: Mapping[str, Any], rows: Ints, owed: Ints, given: Floats, used: Floats, elapsed: float
) -> tuple[Ints, Floats]:
    """What is owed and was had, with the CPU that was used where use is charged."""
    rate = arrays["rate"][rows]
    charged = np.isfinite(rate)
    owed, given = owed.copy(), given.copy()
    cost = np.minimum(np.rint(rate[charged] * used[charged] * MICRO), _MOST)
    owed[charged, CPU] = cost.astype(np.int64)
    given[charged, CPU] = units(used[charged], elapsed)
    return owed, given


def sold(arrays: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the goods of a period's columns, in their order."""
    if "goods" not in arrays:
        return RESOURCES
    return tuple(ALL_GOODS[at] for at in arrays["goods"].tolist())


def _in_order(values: Any, arrays: Mapping[str, Any]) -> Any:
    """[vms, resources]: of all goods in their order, where others than CPU and memory were sold."""
    if "goods" not in arrays:
        return values
    found = np.zeros((len(values), len(ALL_GOODS)), dtype=values.dtype)
    found[:, arrays["goods"]] = values
    return found


def _running_now(seen: Seen) -> Ints:
    runs = np.isin(seen.observation.vm_state, (VmState.RUNNING, VmState.BUSY))
    running: Ints = seen.observation.vm_id[runs & (seen.observation.vm_host >= 0)]
    return running


def owed_by_vm(
    arrays: Mapping[str, Any], running: Ints, elapsed: float, markets: Sequence[Market]
) -> tuple[Ints, Ints, Ints]:
    """Rows of the VMs that pay for a period of which these arrays were kept, in their order.

    With them what each owes, [vms, resources], and what its floor alone costs, [vms], both in
    micro-credits. Where use is charged that is nothing: what was used is not known here.
    """
    known = arrays["market"] < min(len(markets), len(arrays["price"]))
    pays = arrays["runs"] & np.isin(arrays["vm"], running) & (arrays["market"] >= 0) & known
    rows = np.flatnonzero(pays)
    given = holding.given(arrays)
    owed = np.zeros((len(rows), arrays["price"].shape[1]))
    price = arrays["price"][arrays["market"][rows]]
    price[by_use(markets, arrays["market"][rows])] = 0.0
    least = arrays["floor"][rows] if "floor" in arrays else np.zeros_like(owed)
    for at, market in enumerate(markets):
        mine = arrays["market"][rows] == at
        owed[mine] = charges_of(
            market.pricing.rule,
            arrays["bid"][rows[mine]],
            given[rows[mine]],
            price[mine],
            elapsed,
            most_periods=elapsed,
            floors=least[mine],
            reserve=market.pricing.reserve_prices(sold(arrays)),
        )
    with np.errstate(invalid="ignore"):
        floor = np.where(least > 0, price * least * elapsed, 0.0).sum(axis=1)
    whole = np.minimum(np.rint(owed * MICRO), _MOST).astype(np.int64)
    return rows, whole, np.minimum(np.floor(floor * MICRO), _MOST).astype(np.int64)


async def keep_books(world: World, period: int) -> None:
    """Details become days at once, and charges that are older than allocations after that."""
    while await world.database.run(ledger.fold):
        pass
    before, at_s = period - world.rhythm.keep_allocations, world.now()
    while await world.database.run(lambda c: ledger.forget(c, before, at_s)):
        pass
