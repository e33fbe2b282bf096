"""A new bid: the newest word wins, so it holds from the next period on until somebody says more."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import sqlalchemy as sa

from merkatd.api.questions.present import PAYS, Present
from merkatd.api.questions.words import Arguments, QuestionError, number
from merkatd.cluster import Floats, Snapshot
from merkatd.database import bids
from merkatd.database.bids import Bid, BidSource
from merkatd.market.charge import charges
from merkatd.market.price import price
from merkatd.market.view import NOWHERE, view_of
from merkatd.scheduler.settings import Market
from merkatd.scheduler.wishes import MOST


@dataclass(frozen=True, slots=True)
class Offer:
    """What was said, completed by what held before."""

    vm: int
    old: Mapping[str, float]
    new: Mapping[str, float]
    changes: bool


def offered(now: Present, row: int, arguments: Arguments, word: Bid | None) -> Offer:
    """The bid that `cpu`, `memory` ... make of the one in force. Raises QuestionError."""
    snapshot = now.snapshot
    vm = int(snapshot.vms.id[row])
    said = {
        name: amount
        for name in snapshot.resources
        if (amount := number(arguments, name, MOST)) is not None
    }
    if snapshot.vms.market[row] == NOWHERE:
        raise QuestionError(f"VM {vm} belongs to no market: nobody asks for its bid")
    seen = dict(zip(snapshot.resources, snapshot.vms.bid[row].tolist(), strict=True))
    old = seen | dict(word.bid if word is not None else {})
    return Offer(vm, old, old | said, bool(said))


def keep(connection: sa.Connection, offer: Offer, at_s: float) -> bool:
    """Store the new word; false where somebody has said a newer one meanwhile."""
    word = Bid(vm=offer.vm, bid=offer.new, source=BidSource.XMLRPC, at_s=at_s)
    return offer.vm in bids.say(connection, [word])


def expected(now: Present, row: int, market: Market, offer: Offer) -> list[dict[str, Any]]:
    """By resource, what the old and the new bid get and cost while all others stay as they are."""
    snapshot = now.snapshot
    before = _outcome(now, snapshot, row, market, offer.old)
    after = _outcome(now, snapshot, row, market, offer.new)
    return [
        {
            "resource": name,
            "old": offer.old[name],
            "new": offer.new[name],
            "share": float(before[0][column]),
            "new_share": float(after[0][column]),
            "cost": float(before[1][column]),
            "new_cost": float(after[1][column]),
        }
        for column, name in enumerate(snapshot.resources)
    ]


def _outcome(
    now: Present, snapshot: Snapshot, row: int, market: Market, bid: Mapping[str, float]
) -> tuple[Floats, Floats]:
    """[resources]: the share on its host, and what a period costs, with this bid."""
    bid_column = snapshot.vms.bid.copy()
    bid_column[row] = [bid[name] for name in snapshot.resources]
    changed = replace(snapshot, vms=replace(snapshot.vms, bid=bid_column))
    view = view_of(changed, int(snapshot.vms.market[row]))
    local = np.full(len(snapshot.hosts) + 1, NOWHERE)
    local[view.hosts] = np.arange(len(view.hosts))
    place = local[now.host[view.vms]]
    at = np.flatnonzero(view.vms == row)
    nothing = np.zeros(len(snapshot.resources))
    if len(at) == 0 or place[at[0]] == NOWHERE:
        return nothing, nothing
    share = view.on_hosts(place).allocation[at[0]]
    if snapshot.vms.state[row] not in PAYS:
        return share, nothing
    prices = price(
        market.pricing.rule,
        view.bid[place != NOWHERE],
        view.total,
        view.first(place != NOWHERE).level[0],
        market.pricing.reserve_prices(snapshot.resources),
    )
    owed = charges(
        market.pricing.rule,
        bid_column[row][np.newaxis],
        share[np.newaxis],
        prices[np.newaxis],
        1.0,
    )
    return share, owed[0]
