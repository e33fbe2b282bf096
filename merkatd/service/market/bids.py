"""A new bid: the newest word wins, so it holds from the next period on until somebody says more."""

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
from merkatd.service.base.errors import QuestionError
from merkatd.service.base.period_view import PeriodView, QuotedView
from merkatd.service.market.quotes import only_sold, vm_subject


@dataclass(frozen=True, slots=True)
class BidChange:
    """What was said, completed by what held before."""

    vm: int
    old: Mapping[str, float]
    new: Mapping[str, float]
    changes: bool


def bid_change(now: PeriodView, row: int, arguments: Arguments, word: Bid | None) -> BidChange:
    """The bid that `cpu`, `memory` ... make of the one in force. Raises QuestionError."""
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
        raise QuestionError(
            f"VM {vm} bids its part of a spending rate: onegroup edit {group} -s RATE changes that"
        )
    if snapshot.vms.market[row] == NOWHERE:
        raise QuestionError(f"VM {vm} belongs to no market: nobody asks for its bid")
    seen = dict(zip(snapshot.resources, snapshot.vms.bid[row].tolist(), strict=True))
    old = seen | dict(word.bid if word is not None else {})
    return BidChange(vm, old, old | said, bool(said))


def store_bid(connection: sa.Connection, offer: BidChange, at_s: float) -> None:
    """Store the new word: it is the newest."""
    bid_store.record_bids(
        connection, [Bid(vm=offer.vm, bid=offer.new, source=BidSource.XMLRPC, at_s=at_s)]
    )


def expected_outcome(prepared: QuotedView, row: int, offer: BidChange) -> list[dict[str, Any]]:
    """By resource, what the old and the new bid get and cost while all others stay as they are."""
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
    """By resource: the share on its host, and what a period costs, with this bid."""
    try:
        subject = vm_subject(prepared, row)
    except QuestionError:
        return [(0.0, 0.0)] * len(bid)
    if subject.place.now is None:
        return [(0.0, 0.0)] * len(bid)
    return [(one.share, finite(one.cost)) for one in subject.quote(bid)]
