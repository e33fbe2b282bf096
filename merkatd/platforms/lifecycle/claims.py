"""The book of a market: the CPU claimed at each price, without the names of the claimants.

Patient platforms claim all they need, at the price that their controllers name. All other VMs claim
what they have, at the market's price: a higher price could buy it.

# Note [Claims without allocations]

A claim costs nothing, and keeps other platforms from starting. So a claim counts only up to the CPU
that the platform's VMs got in the newest period, which they pay for. And it counts only if that is
more than half of the claim. Otherwise a platform could keep an empty market from all patient
platforms: its VM may fit on no host, be powered off, or bid almost nothing.

For example, a platform claims 400 units. If its VMs got 300 units, its claim counts as 300 units
at its own price. If they got 150 units, it has no claim, and the 150 units count at the market's
price like those of any other VM.

A platform that starts needs some periods to place its VMs; until then its claim counts in full.
An owner gets this grace for a few platforms an hour only: otherwise one platform after the other
could claim without paying. `claims_of` applies the rule.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import sqlalchemy as sa

from merkatd.cluster import Snapshot
from merkatd.cluster.columns import is_one_of
from merkatd.database.base.savepoints import SeparateWork
from merkatd.database.fleets import platform_store
from merkatd.database.fleets.fleet_store import PLATFORM_VMS
from merkatd.database.fleets.platform_store import PlatformRow
from merkatd.market.market_view import market_view
from merkatd.platforms.lifecycle.platform_template import PATIENT
from merkatd.platforms.lifecycle.start_conditions import CPU, TEMPER, MarketOffer, Terms, limit_of
from merkatd.platforms.lifecycle.template_reader import market_of, parsed
from merkatd.platforms.lifecycle.transitions import UP_OR_COMING, PlatformState
from merkatd.policies.patience import ClaimBook, claim_while_running
from merkatd.protocol.platform_messages import Amounts, Claim, MarketNow
from merkatd.scheduler.base.settings import MarketRules
from merkatd.scheduler.context import PeriodContext
from merkatd.scheduler.phases.announce import Announcement

GRACE_PERIODS = 3.0
"""The periods after its start in which a platform's claim counts in full: its VMs are created in
one period, seen in the next, and placed by then."""
LEAST_PART = 0.5
"""The part of a claim that the platform's VMs must get for the claim to count. A patient platform
bids for all of its claim, or yields."""
GRACES = 3
"""The number of platforms of an owner that get the grace within `GRACES_S`."""
GRACES_S = 3600.0


def claims_of(
    connection: sa.Connection,
    living: Sequence[PlatformRow],
    announcement: Announcement,
    context: PeriodContext,
    apart_from: int | None = None,
    apart: SeparateWork | None = None,
) -> dict[str, tuple[Claim, ...]]:
    """Return the claims of the living platforms on each market, ascending by price.

    The claims of the platform `apart_from`, and of platforms that fail, are left out.
    """
    markets, each = context.markets, apart or SeparateWork(connection)
    claims: dict[str, list[Claim]] = {market.name: [] for market in markets}
    claiming = [
        platform
        for platform in living
        if each.look(platform.id, partial(claim_of, platform), None) is not None
    ]
    ids = {platform.id for platform in claiming}
    members = PLATFORM_VMS.living(connection) if ids else ()
    vms = {
        member.vm: member.platform
        for member in members
        if member.platform in ids and member.vm is not None
    }
    had = _allocated_cpu(announcement, vms)
    started = platform_store.claimed_since(connection, announcement.at_s - GRACES_S)
    for platform in claiming:
        graces = started[platform.owner] <= GRACES
        work = partial(_counted, platform, announcement, context, had.get(platform.id, 0.0), graces)
        counted = each.look(platform.id, work, None)
        if counted is None:
            ids.remove(platform.id)
        elif platform.id != apart_from:
            name, claim = counted
            claims[name].append(claim)
    own = [vm for vm, platform in vms.items() if platform in ids]
    for row, market in enumerate(markets):
        rest = _others_have(announcement, row, own)
        price = announcement.prices.get(market.name, {}).get(CPU, 0.0)
        if rest > 0 and np.isfinite(price):
            claims[market.name].append(Claim(price=price, units=rest))
    return {name: tuple(sorted(listed, key=_by_price)) for name, listed in claims.items()}


def _counted(
    platform: PlatformRow,
    announcement: Announcement,
    context: PeriodContext,
    had: float,
    graces: bool,
) -> tuple[str, Claim] | None:
    """Return a platform's market, and its claim as far as it counts.

    `graces` says whether its owner's platforms still get the grace.
    """
    lately = announcement.at_s - platform.since_s < GRACE_PERIODS * context.rhythm.interval_s
    coming = PlatformState(platform.state) is PlatformState.STARTING and lately and graces
    claim = claim_of(platform) if coming else _backed_claim(platform, had)
    if claim is None:
        return None
    return market_of(parsed(platform.template), context.markets).name, claim


def book_without(
    connection: sa.Connection,
    platform: PlatformRow,
    announcement: Announcement | None,
    context: PeriodContext,
) -> ClaimBook | None:
    """Return the book that a patient platform reads, without its own claim.

    It is None before the first period, and for platforms that are not patient.
    """
    template = parsed(platform.template)
    if announcement is None or template.controller != PATIENT:
        return None
    markets = context.markets
    market = market_of(template, markets)
    snapshot = announcement.seen.snapshot
    total = market_view(snapshot, markets.index(market)).total
    living = platform_store.living(connection)
    claims = claims_of(connection, living, announcement, context, apart_from=platform.id)
    listed = claims[market.name]
    capacity = float(total[snapshot.resources.index(CPU)])
    return ClaimBook(capacity, ((each.price, each.units) for each in listed))


def books_of(published: Sequence[MarketNow]) -> dict[str, ClaimBook]:
    """Return the last published book of each market."""
    return {
        market.name: ClaimBook(
            market.capacity.get(CPU, 0.0), ((claim.price, claim.units) for claim in market.claims)
        )
        for market in published
    }


def capacities(snapshot: Snapshot, markets: Sequence[MarketRules]) -> dict[str, Amounts]:
    """Return the total capacity of each market's hosts, by resource."""
    return {
        market.name: dict(
            zip(snapshot.resources, market_view(snapshot, row).total.tolist(), strict=True)
        )
        for row, market in enumerate(markets)
    }


def claimed_at_start(
    connection: sa.Connection,
    platform: PlatformRow,
    before: PlatformState,
    terms: Terms,
    offer: MarketOffer,
) -> tuple[PlatformRow, Claim | None]:
    """Record the claim of a patient platform that starts or resumes; return platform and claim."""
    state = PlatformState(platform.state)
    begins = state is not before and state in {PlatformState.STARTING, PlatformState.RESUMING}
    if not terms.patient or not begins or offer.book is None:
        return platform, None
    units = terms.full.get(CPU, 0.0)
    price = claim_while_running(limit_of(terms, offer), terms.purse, units, TEMPER)
    platform_store.change(connection, platform.id, claim_price=price, claim_units=units)
    claim = Claim(price=price, units=units)
    return replace(platform, claim_price=price, claim_units=units), claim


def claim_of(platform: PlatformRow) -> Claim | None:
    """Return a platform's own claim while it runs or starts; None otherwise."""
    price, units = platform.claim_price, platform.claim_units
    if PlatformState(platform.state) not in UP_OR_COMING or price is None or units is None:
        return None
    return Claim(price=price, units=units)


def _allocated_cpu(announcement: Announcement, vms: Mapping[int, int]) -> Mapping[int, float]:
    """Return the CPU allocated to each platform's VMs; `vms` has the platform of each VM id."""
    snapshot = announcement.seen.snapshot
    cpu = announcement.decided.decision.allocations[:, snapshot.resources.index(CPU)]
    rows = np.flatnonzero(is_one_of(snapshot.vms.id, vms))
    cpu_of_platform: dict[int, float] = {}
    for vm, units in zip(snapshot.vms.id[rows].tolist(), cpu[rows].tolist(), strict=True):
        cpu_of_platform[vms[vm]] = cpu_of_platform.get(vms[vm], 0.0) + (
            units if np.isfinite(units) else 0.0
        )
    return cpu_of_platform


def _backed_claim(platform: PlatformRow, had: float) -> Claim | None:
    """Return a claim up to the CPU that the VMs had; None if that is at most half of it."""
    claim = claim_of(platform)
    if claim is None or had <= LEAST_PART * claim.units:
        return None
    return replace(claim, units=min(claim.units, had))


def _others_have(announcement: Announcement, market: int, own: Iterable[int]) -> float:
    """Return the CPU that other VMs of a market have, without a counted claim."""
    snapshot = announcement.seen.snapshot
    cpu = announcement.decided.decision.allocations[:, snapshot.resources.index(CPU)]
    claimed = is_one_of(snapshot.vms.id, np.fromiter(own, dtype=np.int64))
    return float(np.nansum(cpu[(snapshot.vms.market == market) & ~claimed]))


def _by_price(claim: Claim) -> tuple[float, float]:
    return claim.price, claim.units
