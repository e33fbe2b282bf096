"""Quotes of limit orders: the limit that runs VMs now, and what limits did in the recorded past."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import sqlalchemy as sa

from merkatd.base.quantities import duration_text, finite, quoted_value
from merkatd.cluster import Floats
from merkatd.cluster.orders import LimitOrder
from merkatd.database.room_price_store import RecordedRooms, load_rooms
from merkatd.database.scheduler import limit_order_store
from merkatd.market.odds.limit_odds import (
    BEYOND,
    LEAST_HISTORY_S,
    LEAST_WINDOWS,
    LimitOdds,
    NeededLimits,
    limits_around,
    odds_of,
    past_of,
    rounded_up,
)
from merkatd.platforms.order_quotes import limit_to_start
from merkatd.scheduler.period import Scheduler
from merkatd.scheduler.terms.ordered_vms import takes_orders
from merkatd.scheduler.traits.template_values import MAX_AMOUNT
from merkatd.service.base.arguments import checked_amount, one_of
from merkatd.service.base.callers import USE, Caller, CallerRights
from merkatd.service.base.errors import InvalidRequestError
from merkatd.service.base.limit_terms import order_vms
from merkatd.service.base.period_view import QuotedView
from merkatd.service.base.visibility import permitted_vm_row
from merkatd.service.market.quotes import Amounts, require_sold
from merkatd.service.room_recorder import space_s

MOST_RECORDS = 10_000
"""The most records of the past that a quote reads: five weeks, if one is made in five minutes."""
MOST_LIMITS = 20
LONGEST_S = 366 * 86_400.0


@dataclass(frozen=True, slots=True)
class Bundle:
    """The goods that an order's VMs use together."""

    market: str | None = None
    """The market; None means the first."""
    amounts: Amounts | None = None
    """The amounts by resource; None if `vms` are given."""
    vms: Sequence[int] = ()
    """The VMs whose full sizes are the bundle."""


@dataclass(frozen=True, slots=True)
class QuotedTerms:
    """The terms that a quote is asked for; the service checks them."""

    limits: Sequence[Any] | None = None
    """The limits to show; None for some around the present need."""
    work_s: Any = None
    """The time that the VMs must run."""
    within_s: Any = None
    """The time until the deadline."""


@dataclass(frozen=True, slots=True)
class QuotedLimit:
    """The quote of a limit order."""

    market: str
    vms: Sequence[int]
    bundle: Mapping[str, float | None]
    """What the order's VMs use together by resource; None if unlimited."""
    limit_to_start: float | None
    """The least limit that would start the order now; None if no limit would be enough."""
    history_s: float
    """The time that the recorded past covers."""
    windows: float | None
    """How many times the recorded past is as long as the time until the deadline."""
    work_s: float | None
    within_s: float | None
    odds: Sequence[LimitOdds]
    """What limits did in the recorded past; empty if it is too short."""
    why: str
    """Why odds or chances are missing; empty if they are not."""


@dataclass(frozen=True, slots=True)
class _Subject:
    """A checked bundle."""

    row: int
    market: str
    vms: tuple[int, ...]
    bundle: Floats


class LimitQuoteService:
    """The quotes of limit orders."""

    def __init__(self, scheduler: Scheduler, rights: CallerRights) -> None:
        self._scheduler = scheduler
        self._rights = rights

    async def quote(
        self, caller: Caller, view: QuotedView, bundle: Bundle, terms: QuotedTerms
    ) -> QuotedLimit:
        """Return what limit would start a bundle now, and its odds. Raise RequestError."""
        limits = _limits(terms.limits)
        work_s, within_s = _times(terms)
        subject = await self._subject(caller, view, bundle)
        return await self._quote(view, subject, limits, None, work_s, within_s)

    async def quote_planned(
        self,
        view: QuotedView,
        market: str,
        amounts: Amounts,
        stated: float | None,
        times: tuple[float | None, float | None],
    ) -> QuotedLimit:
        """Return the quote of checked amounts, which includes the odds of the `stated` limit.

        `times` are the work and the time until the deadline; both are None without one of them.
        """
        row = [each.name for each in view.markets].index(market)
        names = view.now.snapshot.resources
        bundle = np.array([amounts.get(name, 0.0) for name in names])
        return await self._quote(view, _Subject(row, market, (), bundle), None, stated, *times)

    async def _quote(
        self,
        view: QuotedView,
        subject: _Subject,
        limits: Sequence[float] | None,
        stated: float | None,
        work_s: float | None,
        within_s: float | None,
    ) -> QuotedLimit:
        world = self._scheduler.world
        names = view.now.snapshot.resources

        def read(connection: sa.Connection) -> tuple[Sequence[LimitOrder], RecordedRooms]:
            orders = limit_order_store.living(connection)
            return orders, load_rooms(connection, subject.market, names, MOST_RECORDS)

        orders, recorded = await world.database.read(read)
        now_s, most_s = world.now(), 2.0 * space_s(world.rhythm.interval_s)

        def compute() -> QuotedLimit:
            needed = _needed_now(view, subject, orders)
            past = _past(subject, recorded, now_s, most_s)
            chosen = limits_around(needed, past) if limits is None else limits
            if stated is not None:
                chosen = sorted({*chosen, stated})
            return _quoted(view, subject, needed, past, chosen, work_s, within_s)

        return await world.executor.run(compute)

    async def _subject(self, caller: Caller, view: QuotedView, bundle: Bundle) -> _Subject:
        if bundle.amounts is not None:
            return _planned(view, bundle.market, bundle.amounts)
        vms, snapshot = order_vms(bundle.vms), view.now.snapshot
        rows = [await permitted_vm_row(self._rights, caller, view.now, vm, USE) for vm in vms]
        markets = {int(market) for market in snapshot.vms.market[rows]}
        if len(markets) > 1:
            raise InvalidRequestError(
                "vms: all must be in the same market, as the VMs of an order must be"
            )
        row = markets.pop()
        name = view.now.market_name(row)
        if name is None:
            raise InvalidRequestError(
                f"VM {vms[0]} belongs to no market, so it can't be in a limit order", vms[0]
            )
        _require_orders(view, row)
        return _Subject(row, name, vms, snapshot.vms.cap[rows].sum(axis=0))


def _planned(view: QuotedView, market: str | None, amounts: Amounts) -> _Subject:
    """Return the bundle of amounts. Raise InvalidRequestError."""
    names = [each.name for each in view.markets]
    chosen = one_of({"market": market}, "market", names) or names[0]
    resources = view.now.snapshot.resources
    require_sold(resources, {"": amounts})
    bundle = [checked_amount(name, amounts.get(name), MAX_AMOUNT) or 0.0 for name in resources]
    if not any(bundle):
        raise InvalidRequestError(f"the amount of at least one of {', '.join(resources)} is needed")
    row = names.index(chosen)
    _require_orders(view, row)
    return _Subject(row, chosen, (), np.array(bundle))


def _require_orders(view: QuotedView, row: int) -> None:
    """Raise InvalidRequestError if a market has no limit orders."""
    if not takes_orders(view.markets[row]):
        raise InvalidRequestError(
            f"market {view.markets[row].name} has no limit orders: they need the price rule"
            " clearing, and no charge for use"
        )


def _limits(given: Sequence[Any] | None) -> list[float] | None:
    if given is None:
        return None
    if not isinstance(given, list | tuple) or not 1 <= len(given) <= MOST_LIMITS:
        raise InvalidRequestError(
            f"limits: must be a list of 1 to {MOST_LIMITS} numbers (got {quoted_value(given)})"
        )
    limits = [checked_amount("limits", limit, MAX_AMOUNT) for limit in given]
    return [limit for limit in limits if limit is not None]


def _times(terms: QuotedTerms) -> tuple[float | None, float | None]:
    """Return the work and the time until the deadline. Raise InvalidRequestError."""
    work_s = checked_amount("work_s", terms.work_s, LONGEST_S)
    within_s = checked_amount("within_s", terms.within_s, LONGEST_S)
    for name, other, missing in (
        ("work_s", "within_s", within_s is not None and not work_s),
        ("within_s", "work_s", work_s is not None and not within_s),
    ):
        if missing:
            raise InvalidRequestError(f"{name}: must be a number above 0 if {other} is given")
    return work_s, within_s


def _needed_now(view: QuotedView, subject: _Subject, orders: Sequence[LimitOrder]) -> float | None:
    """Return the limit that would start the bundle now, without what its own VMs bid."""
    snapshot = view.latest.seen.snapshot
    if not np.isfinite(subject.bundle).all():
        return None
    own = set(subject.vms)
    least = limit_to_start(
        snapshot,
        subject.row,
        view.markets[subject.row],
        view.latest.prices[subject.market],
        dict(zip(snapshot.resources, subject.bundle.tolist(), strict=True)),
        [order for order in orders if own.isdisjoint(order.vms)],
        own,
    )
    return None if least is None or least > BEYOND else rounded_up(least)


def _past(subject: _Subject, recorded: RecordedRooms, now_s: float, most_s: float) -> NeededLimits:
    needed = recorded.rooms.needed(subject.bundle)
    needed = np.where(needed > BEYOND, np.inf, needed)
    return past_of(recorded.started_s, needed, now_s, most_s)


def _quoted(
    view: QuotedView,
    subject: _Subject,
    needed: float | None,
    past: NeededLimits,
    limits: Sequence[float],
    work_s: float | None,
    within_s: float | None,
) -> QuotedLimit:
    why = _too_short(past, within_s)
    known = past.length_s >= LEAST_HISTORY_S
    chances = known and not why
    return QuotedLimit(
        market=subject.market,
        vms=subject.vms,
        bundle={
            name: finite(units)
            for name, units in zip(
                view.now.snapshot.resources, subject.bundle.tolist(), strict=True
            )
        },
        limit_to_start=needed,
        history_s=past.length_s,
        windows=None if within_s is None else past.windows(within_s),
        work_s=work_s,
        within_s=within_s,
        odds=[
            odds_of(past, limit, work_s or 0.0, within_s if chances else None) for limit in limits
        ]
        if known
        else [],
        why=why,
    )


def _too_short(past: NeededLimits, within_s: float | None) -> str:
    """Return why the recorded past says too little, or "" if it says enough."""
    covers = f"the recorded past covers {duration_text(past.length_s)}"
    if past.length_s < LEAST_HISTORY_S:
        return f"{covers}, and odds need at least {duration_text(LEAST_HISTORY_S)}"
    if within_s is not None and past.length_s < LEAST_WINDOWS * within_s:
        return (
            f"{covers}, and the chance for a deadline in {duration_text(within_s)} needs at least"
            f" {LEAST_WINDOWS:g} times as much, {duration_text(LEAST_WINDOWS * within_s)}"
        )
    return ""
