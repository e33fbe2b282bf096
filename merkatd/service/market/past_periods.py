"""Earlier periods as the database keeps them: their prices, and what each VM had."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import sqlalchemy as sa

from merkatd.base.quantities import finite
from merkatd.cluster import Floats, Ints
from merkatd.cluster.columns import NO_HOST
from merkatd.currency import MICRO
from merkatd.database.scheduler import period_store, price_store
from merkatd.database.scheduler.period_store import PeriodRow
from merkatd.scheduler.base.settings import MarketRules
from merkatd.scheduler.charging.owed_amounts import owed_by_vm
from merkatd.scheduler.charging.used_cpu import is_charged_by_use
from merkatd.scheduler.context import PeriodContext
from merkatd.scheduler.period import Scheduler
from merkatd.service.base.callers import Caller
from merkatd.service.base.errors import UnknownObjectError
from merkatd.service.base.read_runner import ReadRunner, run_at_once

_Arrays = Mapping[str, npt.NDArray[Any]]
"""The stored arrays of a period by name."""


@dataclass(frozen=True, slots=True)
class PastPeriod:
    """A period and its prices."""

    period: int
    at_s: float
    """The time of its start."""
    prices: Mapping[str, Mapping[str, float | None]]
    """The prices by market and resource; None if no price cleared the market."""
    failure: str | None
    """The reason why it failed, which only administrators see."""


@dataclass(frozen=True, slots=True, eq=False)
class PastShares:
    """The VMs of a period, without their hosts and their use."""

    period: int
    at_s: float
    vm: Ints
    """[vms]: ids, sorted."""
    owner: Ints
    application: Ints
    bid: Floats
    """[vms, resources]"""
    given: Floats
    """[vms, resources]: allocations."""
    cost: Floats
    """[vms]: credits for a whole period; NaN where use is charged."""


class PastPeriods:
    """The earlier periods."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    async def period(
        self, caller: Caller, number: int, run: ReadRunner = run_at_once
    ) -> PastPeriod:
        """Return the period of this number. Raise UnknownObjectError."""

        def read(connection: sa.Connection) -> PastPeriod | None:
            return _past_period(connection, number)

        period_shown = await run(lambda: self._scheduler.world.database.read(read))
        if period_shown is None:
            raise no_period(number)
        return period_shown if caller.is_admin else replace(period_shown, failure=None)

    async def shares(
        self, caller: Caller, number: int, run: ReadRunner = run_at_once
    ) -> PastShares | None:
        """Return what the VMs that the caller may see had in a period: all VMs, or its own.

        Return None if the shares are no longer stored, or were of other goods. The read itself
        returns only the caller's VMs: the interface may keep its result.
        """
        world = self._scheduler.world

        def read(connection: sa.Connection) -> PastShares | None:
            period = period_store.get(connection, number)
            arrays = None if period is None else price_store.load_allocations(connection, number)
            if period is None or arrays is None or not _of_same_goods(world, arrays):
                return None
            shares = shares_of(period, arrays, world.markets)
            return shares if caller.is_admin else _selected(shares, shares.owner == caller.uid)

        return await run(lambda: world.database.read(read))

    async def shares_before(self, period: int, periods: int, rows: int) -> list[PastShares]:
        """Return what all VMs had in the periods before this one, the newest first.

        The list ends after so many periods, after so many rows, and where other goods were sold.
        """
        world = self._scheduler.world

        def read(connection: sa.Connection) -> list[PastShares]:
            newest = period_store.recent(connection, periods + 1)
            earlier = (stored for stored in newest if stored.number < period)
            return _shares_until(connection, world, earlier, rows)

        return await world.database.read(read)

    async def spaced_shares(
        self, period: int, since_s: float, slot_s: int, rows: int
    ) -> list[PastShares]:
        """Return what all VMs had in one period of each slot of time before this period.

        The newest is first. The list ends after so many rows, and where other goods were sold.
        """
        world = self._scheduler.world

        def read(connection: sa.Connection) -> list[PastShares]:
            numbers = period_store.spaced(connection, since_s, slot_s)
            stored = (
                period_store.get(connection, number)
                for number in reversed(numbers)
                if number < period
            )
            return _shares_until(connection, world, stored, rows)

        return await world.database.read(read)


def _shares_until(
    connection: sa.Connection,
    world: PeriodContext,
    periods: Iterable[PeriodRow | None],
    rows: int,
) -> list[PastShares]:
    """Return the stored shares of these periods, until so many rows or other goods."""
    past: list[PastShares] = []
    count = 0
    for stored in periods:
        arrays = None if stored is None else price_store.load_allocations(connection, stored.number)
        if stored is None or arrays is None:
            continue
        count += len(arrays["vm"])
        if not _of_same_goods(world, arrays) or count > rows:
            break
        past.append(shares_of(stored, arrays, world.markets))
    return past


def no_period(number: int) -> UnknownObjectError:
    """Return the error for a period that does not exist."""
    return UnknownObjectError(f"Period {number} does not exist.", number)


def _past_period(connection: sa.Connection, number: int) -> PastPeriod | None:
    row = period_store.get(connection, number)
    if row is None:
        return None
    prices = {
        market: {resource: finite(price) for resource, price in by_resource.items()}
        for market, by_resource in price_store.load_prices(connection, number).items()
    }
    return PastPeriod(row.number, row.started_s, prices, row.failure)


def _of_same_goods(context: PeriodContext, arrays: _Arrays) -> bool:
    return bool(arrays["allocation"].shape[1] == len(context.goods.resources))


def _selected(shares: PastShares, which: npt.NDArray[np.bool_]) -> PastShares:
    """Return the rows of these VMs."""
    columns = (field.name for field in fields(shares) if field.name not in {"period", "at_s"})
    return replace(shares, **{name: getattr(shares, name)[which] for name in columns})


def shares_of(period: PeriodRow, arrays: _Arrays, markets: Sequence[MarketRules]) -> PastShares:
    """Return what the VMs of a period had, from its stored arrays."""
    order = np.argsort(arrays["vm"])
    count = len(order)
    cost = np.zeros(count)
    rows, owed = owed_by_vm(arrays, arrays["vm"], 1.0, markets)
    cost[rows] = np.where(
        is_charged_by_use(markets, arrays["market"][rows]), np.nan, owed.sum(axis=1) / MICRO
    )
    return PastShares(
        period=period.number,
        at_s=period.started_s,
        vm=arrays["vm"][order],
        owner=arrays["owner"][order],
        application=arrays.get("application", np.full(count, NO_HOST))[order],
        bid=arrays["bid"][order],
        given=arrays["allocation"][order],
        cost=cost[order],
    )
