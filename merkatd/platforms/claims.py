"""The book of a market: up to which price how much CPU is claimed, by nobody in particular.

Platforms that run by it claim all they need at the price their controllers name. Everybody else
claims what they have, at the price there is: who would pay more could have it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import sqlalchemy as sa

from controllers.policies.patience import Book, clung
from merkatd.cluster import Snapshot
from merkatd.database import fleets, platforms
from merkatd.database.platforms import Platform
from merkatd.market.view import view_of
from merkatd.platforms.conditions import CPU, TEMPER, Offer, Terms, limit_of
from merkatd.platforms.life import UP_OR_COMING, State
from merkatd.platforms.ports import Amounts, Claim
from merkatd.platforms.stored import market_of, parsed
from merkatd.platforms.template import PATIENT
from merkatd.scheduler.settings import Market
from merkatd.scheduler.tell import Announcement


def claims_of(
    connection: sa.Connection,
    announcement: Announcement,
    markets: Sequence[Market],
    apart_from: int | None = None,
) -> dict[str, tuple[Claim, ...]]:
    """By market, ascending by price; all but those of one platform."""
    found: dict[str, list[Claim]] = {one.name: [] for one in markets}
    claiming = set()
    for platform in platforms.living(connection):
        claim = claim_of(platform)
        if claim is not None:
            claiming.add(platform.id)
            if platform.id != apart_from:
                found[market_of(parsed(platform.template), markets).name].append(claim)
    members = fleets.present(connection) if claiming else ()
    own = [one.vm for one in members if one.platform in claiming and one.vm is not None]
    for row, market in enumerate(markets):
        rest = _others_have(announcement, row, own)
        price = announcement.prices.get(market.name, {}).get(CPU, 0.0)
        if rest > 0 and np.isfinite(price):
            found[market.name].append(Claim(price=price, units=rest))
    return {name: tuple(sorted(said, key=_by_price)) for name, said in found.items()}


def book_without(
    connection: sa.Connection,
    one: Platform,
    announcement: Announcement | None,
    markets: Sequence[Market],
) -> Book | None:
    """What a platform reads that runs by the book, of its market; None before the first period."""
    template = parsed(one.template)
    if announcement is None or template.controller != PATIENT:
        return None
    market = market_of(template, markets)
    snapshot = announcement.seen.snapshot
    total = view_of(snapshot, markets.index(market)).total
    said = claims_of(connection, announcement, markets, apart_from=one.id)[market.name]
    capacity = float(total[snapshot.resources.index(CPU)])
    return Book(capacity, ((each.price, each.units) for each in said))


def capacities(snapshot: Snapshot, markets: Sequence[Market]) -> dict[str, Amounts]:
    """By market, all that its hosts have, by resource."""
    return {
        one.name: dict(zip(snapshot.resources, view_of(snapshot, row).total.tolist(), strict=True))
        for row, one in enumerate(markets)
    }


def claimed_at_start(
    connection: sa.Connection, platform: Platform, before: State, terms: Terms, offer: Offer
) -> Platform:
    """The platform with its claim, where it has just begun to run by the book."""
    state = State(platform.state)
    begins = state is not before and state in {State.STARTING, State.RESUMING}
    if not terms.patient or not begins or offer.book is None:
        return platform
    units = terms.full.get(CPU, 0.0)
    price = clung(limit_of(terms, offer), terms.purse, units, TEMPER)
    offer.book.claim(price, units)
    platforms.change(connection, platform.id, claim_price=price, claim_units=units)
    return replace(platform, claim_price=price, claim_units=units)


def claim_of(platform: Platform) -> Claim | None:
    """Its own, while it runs or is about to."""
    price, units = platform.claim_price, platform.claim_units
    if State(platform.state) not in UP_OR_COMING or price is None or units is None:
        return None
    return Claim(price=price, units=units)


def _others_have(announcement: Announcement, market: int, own: Iterable[int]) -> float:
    """CPU that VMs of a market have which nobody has claimed."""
    snapshot = announcement.seen.snapshot
    cpu = announcement.decided.decision.allocations[:, snapshot.resources.index(CPU)]
    claimed = np.isin(snapshot.vms.id, np.fromiter(own, dtype=np.int64))
    return float(np.nansum(cpu[(snapshot.vms.market == market) & ~claimed]))


def _by_price(claim: Claim) -> tuple[float, float]:
    return claim.price, claim.units
