"""Changes of bids: the most recent bid applies from the next period on, whatever its source."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import sqlalchemy as sa

from merkatd.base.quantities import finite
from merkatd.cluster.columns import NO_MARKET
from merkatd.database.fleets import group_vm_store
from merkatd.database.fleets.group_vm_store import Rate
from merkatd.database.scheduler import bid_store, limit_order_store
from merkatd.database.scheduler.bid_store import Bid, BidSource
from merkatd.scheduler.observation.observed import CloudReading
from merkatd.scheduler.period import Scheduler
from merkatd.scheduler.phases.observe import changed_templates
from merkatd.scheduler.traits.template_values import MAX_AMOUNT
from merkatd.service.base.arguments import checked_amount
from merkatd.service.base.callers import MANAGE, USE, Caller, CallerRights
from merkatd.service.base.errors import InvalidRequestError
from merkatd.service.base.period_view import PeriodView, QuotedView
from merkatd.service.base.visibility import permitted_vm_row
from merkatd.service.market.quotes import Amounts, bidder_place, require_sold


@dataclass(frozen=True, slots=True)
class BidResource:
    """The old and the new bid for one resource, with their shares and costs now."""

    resource: str
    old: float
    new: float
    share: float
    """The share with the old bid."""
    new_share: float
    cost: float | None
    """The cost of a whole period with the old bid; None if no price clears the market."""
    new_cost: float | None


@dataclass(frozen=True, slots=True)
class BidOutcome:
    """The bid of a VM, and what a change makes of it."""

    vm: int
    name: str
    changed: bool
    """Whether the call gave a bid for any resource."""
    stored: AbstractSet[str]
    """The resources for which a bid was ever given; the others have the default."""
    resources: Sequence[BidResource]
    limit_order: int | None = None
    """The limit order of the VM: while the VM is in it, the bid does not count."""


class BidService:
    """The bids in force, and changes of them."""

    def __init__(self, scheduler: Scheduler, rights: CallerRights) -> None:
        self._scheduler = scheduler
        self._rights = rights

    async def read_bid(self, caller: Caller, view: QuotedView, vm: int) -> BidOutcome:
        """Return the bid in force, which may not have applied in any period yet."""
        row = await permitted_vm_row(self._rights, caller, view.now, vm, USE)

        def read(connection: sa.Connection) -> _BidChange:
            newest_bid = bid_store.newest_bids(connection, [vm]).get(vm)
            return _bid_change(view.now, row, {}, newest_bid, _order_of(connection, vm))

        change = await self._scheduler.world.database.read(read)
        return _outcome(view, row, change)

    async def set_bid(self, caller: Caller, view: QuotedView, vm: int, bids: Amounts) -> BidOutcome:
        """Change the bid from the next period on; a resource that is not given keeps its bid."""
        row = await permitted_vm_row(self._rights, caller, view.now, vm, MANAGE)
        world = self._scheduler.world

        def write(connection: sa.Connection) -> _BidChange:
            newest_bid = bid_store.locked_bid(connection, vm)
            change = _bid_change(view.now, row, bids, newest_bid, _order_of(connection, vm))
            if change.changes:
                bid = Bid(vm=vm, bid=change.stored, source=BidSource.XMLRPC, at_s=world.now())
                bid_store.record_bids(connection, [bid])
            return change

        change = await world.database.run(write)
        if change.new != change.old:
            self._scheduler.wake_for(caller.uid)
        return _outcome(view, row, change)


@dataclass(frozen=True, slots=True)
class _BidChange:
    """The old and the new bid of a VM."""

    old: Mapping[str, float]
    """The bid in force, by resource."""
    new: Mapping[str, float]
    """The new bid; a resource that was not given keeps its old bid."""
    stored: Mapping[str, float]
    """The new bid without resources for which no bid was ever given: these have the default, and
    `new` may have less of it, if credits are short."""
    changes: bool
    """Whether any resource was given."""
    limit_order: int | None


def _order_of(connection: sa.Connection, vm: int) -> int | None:
    order = limit_order_store.of_vms(connection, [vm]).get(vm)
    return None if order is None else order.id


def _bid_change(
    view: PeriodView, row: int, bids: Amounts, newest_bid: Bid | None, limit_order: int | None
) -> _BidChange:
    """Return the change of the bid in force. Raise InvalidRequestError."""
    snapshot = view.snapshot
    vm = int(snapshot.vms.id[row])
    require_sold(snapshot.resources, {"": bids})
    changed = {
        name: amount
        for name in snapshot.resources
        if (amount := checked_amount(name, bids.get(name), MAX_AMOUNT)) is not None
    }
    if changed and vm in view.rates:
        group = view.rates[vm].group
        raise InvalidRequestError(
            f"VM {vm} bids its part of a group's spending rate; change the rate with"
            f" `onegroup edit {group} -s RATE`"
        )
    if snapshot.vms.market[row] == NO_MARKET:
        raise InvalidRequestError(f"VM {vm} belongs to no market, so it can't bid")
    seen = dict(zip(snapshot.resources, snapshot.vms.bid[row].tolist(), strict=True))
    known = dict(newest_bid.bid if newest_bid is not None else {})
    old = seen | known
    return _BidChange(old, old | changed, known | changed, bool(changed), limit_order)


def _outcome(view: QuotedView, row: int, change: _BidChange) -> BidOutcome:
    """Return the shares and costs of the old and the new bid, other bids unchanged."""
    vms, names = view.now.snapshot.vms, view.now.snapshot.resources
    before = _shares_and_costs(view, row, [change.old[name] for name in names])
    after = _shares_and_costs(view, row, [change.new[name] for name in names])
    rows = [
        BidResource(
            resource=name,
            old=change.old[name],
            new=change.new[name],
            share=was[0],
            new_share=will[0],
            cost=was[1],
            new_cost=will[1],
        )
        for name, was, will in zip(names, before, after, strict=True)
    ]
    stored = frozenset(change.stored)
    return BidOutcome(
        int(vms.id[row]), vms.name[row], change.changes, stored, rows, change.limit_order
    )


def _shares_and_costs(
    view: QuotedView, row: int, bid: Sequence[float]
) -> list[tuple[float, float | None]]:
    """Return the share and the cost of a period with this bid, by resource."""
    try:
        bidder = bidder_place(view, row)
    except InvalidRequestError:
        return [(0.0, 0.0)] * len(bid)
    if bidder.place.now is None:
        return [(0.0, 0.0)] * len(bid)
    return [(quote.share, finite(quote.cost)) for quote in bidder.quote(bid)]


def known_bids(connection: sa.Connection, looked: CloudReading) -> dict[int, Mapping[str, float]]:
    """Return the bids in force, including new bids in changed templates."""
    changed = {change.vm: change.bid for change in changed_templates(connection, looked)}
    return {**bid_store.amounts(connection), **changed}


def known_rates(connection: sa.Connection, looked: CloudReading) -> dict[int, Rate]:
    """Return the VMs' parts of spending rates, including VMs seen for the first time."""
    seen = looked.observation
    owners = dict(zip(seen.vm_id.tolist(), seen.vm_owner.tolist(), strict=True))
    new = group_vm_store.rates_of_new(connection, seen.keys, owners)
    return group_vm_store.rates(connection, owners) | new
