"""Changes of bids: the most recent bid applies from the next period on, whatever its source."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from merkatd.base.quantities import finite
from merkatd.cluster.columns import NOWHERE
from merkatd.database.scheduler import bid_store
from merkatd.database.scheduler.bid_store import Bid, BidSource
from merkatd.scheduler.observation.bidders import MAX_AMOUNT
from merkatd.service.base.arguments import Arguments, number
from merkatd.service.base.errors import InvalidRequestError
from merkatd.service.base.period_view import PeriodView, QuotedView
from merkatd.service.market.quotes import only_sold, vm_subject


@dataclass(frozen=True, slots=True)
class BidChange:
    """The old and the new bid of a VM."""

    vm: int
    old: Mapping[str, float]
    """The bid in force, by resource."""
    new: Mapping[str, float]
    """The new bid; a resource that was not given keeps its old bid."""
    changes: bool
    """Whether any resource was given."""


def bid_change(
    now: PeriodView, row: int, arguments: Arguments, newest_bid: Bid | None
) -> BidChange:
    """Return the change of the bid in force by `cpu`, `memory` ... Raise InvalidRequestError."""
    snapshot = now.snapshot
    vm = int(snapshot.vms.id[row])
    only_sold(snapshot.resources, arguments)
    said = {
        name: amount
        for name in snapshot.resources
        if (amount := number(arguments, name, MAX_AMOUNT)) is not None
    }
    if said and vm in now.rates:
        group = now.rates[vm].group
        raise InvalidRequestError(
            f"VM {vm} bids its part of a group's spending rate; change the rate with"
            f" `onegroup edit {group} -s RATE`"
        )
    if snapshot.vms.market[row] == NOWHERE:
        raise InvalidRequestError(f"VM {vm} belongs to no market, so it can't bid")
    seen = dict(zip(snapshot.resources, snapshot.vms.bid[row].tolist(), strict=True))
    old = seen | dict(newest_bid.bid if newest_bid is not None else {})
    return BidChange(vm, old, old | said, bool(said))


def store_bid(connection: sa.Connection, offer: BidChange, at_s: float) -> None:
    """Store the new bid as the most recent."""
    bid_store.record_bids(
        connection, [Bid(vm=offer.vm, bid=offer.new, source=BidSource.XMLRPC, at_s=at_s)]
    )


def expected_outcome(prepared: QuotedView, row: int, offer: BidChange) -> list[dict[str, Any]]:
    """Return the shares and costs of the old and the new bid by resource, other bids unchanged."""
    names = prepared.now.snapshot.resources
    before = _outcome(prepared, row, [offer.old[name] for name in names])
    after = _outcome(prepared, row, [offer.new[name] for name in names])
    return [
        {
            "resource": name,
            "old": offer.old[name],
            "new": offer.new[name],
            "share": was[0],
            "new_share": will[0],
            "cost": was[1],
            "new_cost": will[1],
        }
        for name, was, will in zip(names, before, after, strict=True)
    ]


def _outcome(
    prepared: QuotedView, row: int, bid: Sequence[float]
) -> list[tuple[float, float | None]]:
    """Return the share and the cost of a period with this bid, by resource."""
    try:
        subject = vm_subject(prepared, row)
    except InvalidRequestError:
        return [(0.0, 0.0)] * len(bid)
    if subject.place.now is None:
        return [(0.0, 0.0)] * len(bid)
    return [(one.share, finite(one.cost)) for one in subject.quote(bid)]
