"""Limit orders of tenants: stated, changed, withdrawn, listed, and the order book of a market."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import sqlalchemy as sa

from merkatd.base.quantities import finite, quoted_value
from merkatd.cluster import Floats
from merkatd.cluster.columns import NO_MARKET, NO_ROW, rows_of
from merkatd.cluster.orders import LimitOrder
from merkatd.database.fleets import fleet_store, group_vm_store
from merkatd.database.scheduler import limit_order_store
from merkatd.scheduler.period import Scheduler
from merkatd.scheduler.terms.ordered_vms import takes_orders
from merkatd.service.base.callers import MANAGE, Caller, CallerRights, no_vm
from merkatd.service.base.errors import ConflictError, InvalidRequestError, UnknownObjectError
from merkatd.service.base.limit_terms import StatedTerms, order_vms, reason_of, stated_terms
from merkatd.service.base.period_view import PeriodView

MOST_ORDERS = 1_000
"""The most limit orders of an owner."""


@dataclass(frozen=True, slots=True)
class ListedOrder:
    """A limit order."""

    id: int
    owner: int
    owner_name: str | None
    market: str | None
    vms: Sequence[int]
    limit: float
    """The most credits a period for all its VMs together."""
    limit_now: float
    """The limit in force: after a start, the limit times the factor."""
    least_run_s: float
    factor: float
    runs: bool
    since_s: float | None
    """The time of its last start or stop; None if it never ran."""
    cost: float | None
    """The credits a period that it pays, 0 while it waits; None if it took part in no market."""
    why: str
    stated_s: float
    platform: int | None
    """The platform that states it, if any; only this platform can change it."""


@dataclass(frozen=True, slots=True)
class BookedOrder:
    """A limit order as all tenants see it."""

    height: float | None
    """The multiple of slow prices that it can pay for its bundle; None without prices."""
    limit: float
    """The limit in force."""
    runs: bool
    bundle: Mapping[str, float | None]
    """The sum of its VMs' full sizes by resource; None if unlimited."""


class LimitOrderService:
    """The limit orders, and changes of them."""

    def __init__(self, scheduler: Scheduler, rights: CallerRights) -> None:
        self._scheduler = scheduler
        self._rights = rights

    async def state(
        self,
        caller: Caller,
        view: PeriodView,
        vms: Sequence[Any],
        limit: Any,
        least_run_s: Any = 0.0,
        factor: Any = 1.0,
    ) -> ListedOrder:
        """State a limit order of these VMs and return it; a repeated call changes nothing."""
        terms, wanted = stated_terms(limit, least_run_s, factor), order_vms(vms)
        rows = [_row(view, vm) for vm in wanted]
        owners = view.snapshot.vms.owner[rows].tolist()
        for vm, owner in zip(wanted, owners, strict=True):
            await self._rights.require_vm(caller, vm, owner, MANAGE)
        owner = self._require_together(view, wanted, rows)

        def write(connection: sa.Connection) -> tuple[LimitOrder, bool]:
            # The lock comes first: another call for this owner waits here, then reads the result.
            # If the VM's owner just changed, only one of the two owners can store it.
            number = limit_order_store.lock_owner(connection, owner)
            _require_no_fleet(connection, wanted, owner)
            before = limit_order_store.of_vms(connection, wanted)
            for vm, order in before.items():
                if order.owner == owner and order.vms == wanted and _terms_of(order) == terms:
                    return order, False
                raise ConflictError(f"VM {vm} is already in limit order {order.id}", vm)
            if number >= MOST_ORDERS:
                raise ConflictError(
                    f"User {owner} has {number} limit orders (at most {MOST_ORDERS}): delete one"
                )
            stated = limit_order_store.add(
                connection,
                owner=owner,
                vms=wanted,
                limit=terms.limit,
                least_run_s=terms.least_run_s,
                factor=terms.factor,
                stated_s=self._scheduler.world.now(),
            )
            return stated, True

        order, is_new = await self._scheduler.world.database.run(write)
        return self._acted(caller.uid, view, order, changed=is_new)

    async def change(
        self,
        caller: Caller,
        view: PeriodView,
        id_: int,
        limit: Any = None,
        least_run_s: Any = None,
        factor: Any = None,
    ) -> ListedOrder:
        """Change the terms of a limit order and return it; a term of None stays."""
        if limit is None and least_run_s is None and factor is None:
            raise InvalidRequestError("limit, least_run_s, factor: at least one must be given")
        permitted = await self._permitted(caller, id_)

        def write(connection: sa.Connection) -> tuple[LimitOrder, bool]:
            order = _locked(connection, permitted)
            terms = stated_terms(limit, least_run_s, factor, _terms_of(order))
            if _terms_of(order) == terms:
                return order, False
            changed = replace(
                order, limit=terms.limit, least_run_s=terms.least_run_s, factor=terms.factor
            )
            limit_order_store.change(connection, changed)
            return changed, True

        order, is_changed = await self._scheduler.world.database.run(write)
        return self._acted(caller.uid, view, order, changed=is_changed)

    async def withdraw(self, caller: Caller, view: PeriodView, id_: int) -> ListedOrder:
        """Delete a limit order and return it; its VMs' own bids count again."""
        permitted = await self._permitted(caller, id_)

        def write(connection: sa.Connection) -> LimitOrder:
            order = _locked(connection, permitted)
            limit_order_store.withdraw(connection, [order.id])
            return order

        order = await self._scheduler.world.database.run(write)
        return self._acted(caller.uid, view, order, changed=True)

    async def orders(self, caller: Caller, view: PeriodView) -> list[ListedOrder]:
        """Return the limit orders that the caller may see: all, or those of its own VMs."""
        owner = None if caller.is_admin else caller.uid
        world = self._scheduler.world
        stored = await world.database.read(lambda c: limit_order_store.living(c, owner))
        now_s = world.now()
        return await world.executor.run(lambda: [_listed(view, order, now_s) for order in stored])

    async def book(
        self, _caller: Caller, view: PeriodView, market: str | None
    ) -> list[BookedOrder]:
        """Return all limit orders of a market, by default the first, from the largest height.

        All tenants may see them: they have no ids, no VMs and no owners.
        """
        names = list(view.snapshot.markets.name)
        if market is not None and market not in names:
            raise InvalidRequestError(
                f"market: must be one of {', '.join(names)} (got {quoted_value(market)})"
            )
        row = 0 if market is None else names.index(market)
        world = self._scheduler.world
        reserve = world.markets[row].pricing.reserve_prices(view.snapshot.resources)
        stored = await world.database.read(limit_order_store.living)
        now_s = world.now()
        return await world.executor.run(lambda: _booked(view, row, stored, reserve, now_s))

    def _require_together(self, view: PeriodView, vms: Sequence[int], rows: Sequence[int]) -> int:
        """Return the owner of the VMs. Raise InvalidRequestError if they can't be in one order."""
        table = view.snapshot.vms
        first = rows[0]
        for vm, row in zip(vms, rows, strict=True):
            for same, what in (
                (table.owner[row] == table.owner[first], "owners"),
                (table.application[row] == table.application[first], "payers"),
                (table.market[row] == table.market[first], "markets"),
            ):
                if not same:
                    raise InvalidRequestError(
                        f"vms: VM {vms[0]} and VM {vm} have different {what}; the VMs of a limit"
                        " order must have the same owner, payer and market",
                        vm,
                    )
        market = int(table.market[first])
        if market == NO_MARKET:
            raise InvalidRequestError(
                f"VM {vms[0]} belongs to no market, so it can't be in a limit order", vms[0]
            )
        if not takes_orders(self._scheduler.world.markets[market]):
            raise InvalidRequestError(
                f"VM {vms[0]} is in market {view.market_name(market)}, which has no limit orders:"
                " they need the price rule clearing, and no charge for use",
                vms[0],
            )
        return int(table.owner[first])

    async def _permitted(self, caller: Caller, id_: int) -> LimitOrder:
        """Return a stored limit order that the caller may change.

        The owner needs no answer of OpenNebula: a VM that it gave away leaves the order when the
        next period observes it, before anything is decided.
        """
        order = await self._scheduler.world.database.read(
            lambda c: next(limit_order_store.of_ids(c, {id_}), None)
        )
        if order is None:
            raise _no_order(id_)
        if caller.uid != order.owner:
            for vm in order.vms:
                await self._rights.require_vm(caller, vm, order.owner, MANAGE)
        if order.platform is not None:
            whose = f"Limit order {id_} belongs to platform {order.platform}"
            raise ConflictError(f"{whose}: it follows the platform's budget and deadline")
        return order

    def _acted(
        self, uid: int, view: PeriodView, order: LimitOrder, *, changed: bool
    ) -> ListedOrder:
        """Return an order after a user's call; a change starts the next period early."""
        if changed:
            self._scheduler.wake_for(uid)
        return _listed(view, order, self._scheduler.world.now())


def _row(view: PeriodView, vm: int) -> int:
    try:
        return view.snapshot.vm_row(vm)
    except KeyError:
        raise no_vm(vm) from None


def _terms_of(order: LimitOrder) -> StatedTerms:
    return StatedTerms(order.limit, order.least_run_s, order.factor)


def _require_no_fleet(connection: sa.Connection, vms: Sequence[int], owner: int) -> None:
    """Raise InvalidRequestError if a VM is in a platform, or in a group with a spending rate."""
    for vm, platform in fleet_store.platforms_of(connection, vms, owner).items():
        raise InvalidRequestError(
            f"VM {vm} belongs to platform {platform}: only its controller decides when it runs", vm
        )
    for vm, group in group_vm_store.groups_of(connection, vms, owner).items():
        raise InvalidRequestError(
            f"VM {vm} bids its part of a group's spending rate, so it can't be in a limit order;"
            f" change the rate with `onegroup edit {group} -s RATE`",
            vm,
        )


def _locked(connection: sa.Connection, permitted: LimitOrder) -> LimitOrder:
    """Return the order as it is now, locked. Raise RequestError if it is gone.

    An id is never used again, so its VMs are those to which the caller has rights, or fewer.
    """
    order = next(limit_order_store.of_ids(connection, {permitted.id}, lock=True), None)
    if order is None:
        raise _no_order(permitted.id)
    return order


def _no_order(id_: int) -> UnknownObjectError:
    return UnknownObjectError(f"Error getting limit order [{id_}].", id_)


def _listed(view: PeriodView, order: LimitOrder, now_s: float) -> ListedOrder:
    return ListedOrder(
        id=order.id,
        owner=order.owner,
        owner_name=view.owner_names.get(order.owner),
        market=_market_of(view, order),
        vms=order.vms,
        limit=order.limit,
        limit_now=order.limit_at(now_s),
        least_run_s=order.least_run_s,
        factor=order.factor,
        runs=order.runs,
        since_s=order.since_s,
        cost=order.cost,
        why=reason_of(order),
        stated_s=order.stated_s,
        platform=order.platform,
    )


def _rows_of(view: PeriodView, order: LimitOrder) -> list[int]:
    """Return the rows of those VMs of an order that the period saw."""
    rows = rows_of(view.snapshot.vms.id, np.array(order.vms, dtype=np.int64))
    known: list[int] = rows[rows != NO_ROW].tolist()
    return known


def _market_of(view: PeriodView, order: LimitOrder) -> str | None:
    rows = _rows_of(view, order)
    return view.market_name(int(view.snapshot.vms.market[rows[0]])) if rows else None


def _booked(
    view: PeriodView,
    market: int,
    orders: Sequence[LimitOrder],
    reserve: Floats,
    now_s: float,
) -> list[BookedOrder]:
    """Return the limit orders of a market, from the largest height; equal ones by age."""
    table, names = view.snapshot.vms, view.snapshot.resources
    weights = _weights(view, market, reserve)
    booked = []
    for order in orders:
        rows = [row for row in _rows_of(view, order) if table.market[row] == market]
        if not rows:
            continue
        bundle = table.cap[rows].sum(axis=0)
        cost = float(np.where(np.isfinite(bundle), bundle, 0.0) @ weights)
        limit = order.limit_at(now_s)
        booked.append(
            BookedOrder(
                height=finite(limit / cost) if cost > 0 else None,
                limit=limit,
                runs=order.runs,
                bundle={name: finite(float(bundle[at])) for at, name in enumerate(names)},
            )
        )
    return sorted(booked, key=lambda order: np.inf if order.height is None else -order.height)


def _weights(view: PeriodView, market: int, reserve: Floats) -> Floats:
    """Return the weights of a market's goods; before the first, its prices or reserve prices."""
    offers = view.decision.goods_offers
    prices = view.decision.prices[market] if offers is None else offers.weights[market]
    return np.where(np.isfinite(prices) & (prices > 0), prices, np.asarray(reserve, float))
