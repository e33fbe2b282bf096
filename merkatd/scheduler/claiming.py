"""Claims: a claimed floor of a good that can be divided holds as far as its bid pays for it."""

from dataclasses import replace

import numpy as np

from merkatd.cluster import Bools, Floats, Snapshot
from merkatd.database.prices import Prices
from merkatd.market.floors import paid_floors
from merkatd.market.view import NOWHERE
from merkatd.scheduler.afford import Afforded, afforded
from merkatd.scheduler.charge import Purse
from merkatd.scheduler.observe import Seen
from merkatd.scheduler.snapshot import MEMORY
from merkatd.scheduler.using import by_use
from merkatd.scheduler.world import World


def affordable_cloud(world: World, seen: Seen, purse: Purse) -> Afforded:
    """Return the same cloud in which no VM bids, or claims, more than can be paid."""
    found = afforded(world, seen, purse)
    return replace(found, seen=with_paid_claims(world, found.seen, purse.prices))


def with_paid_claims(world: World, seen: Seen, prices: Prices) -> Seen:
    """Return the same cloud with claims that are paid for, at the prices of the last period.

    Memory is left as it is, and so are the cores of VMs that OpenNebula pins: it reserves them by
    its own account. A market that charges for use sells no floors.
    """
    vms = seen.snapshot.vms
    if not (vms.floor[:, np.arange(vms.floor.shape[1]) != MEMORY] > 0).any():
        return seen
    least = _least(world, seen.snapshot)
    paid = paid_floors(vms.floor, vms.bid, _last(seen.snapshot, prices, least), least)
    floor = np.where(_claimed(world, seen), paid, vms.floor)
    return replace(seen, snapshot=replace(seen.snapshot, vms=replace(vms, floor=floor)))


def _claimed(world: World, seen: Seen) -> Bools:
    """[vms, resources]: the floor is a claim that a bid has to pay for."""
    vms = seen.snapshot.vms
    pinned = np.isin(vms.id, list(seen.observation.pin_policy))
    sold = (vms.market != NOWHERE) & ~pinned & ~by_use(world.markets, vms.market)
    found: Bools = np.repeat(sold[:, np.newaxis], vms.floor.shape[1], axis=1)
    found[:, MEMORY] = False
    return found


def _least(world: World, snapshot: Snapshot) -> Floats:
    """[vms, resources]: the reserve prices of each VM's market."""
    names = snapshot.resources
    table = [market.pricing.reserve_prices(names) for market in world.markets]
    found: Floats = np.array([*table, np.zeros(len(names))])[snapshot.vms.market]
    return found


def _last(snapshot: Snapshot, prices: Prices, least: Floats) -> Floats:
    """[vms, resources]: the last prices; infinite where none cleared, the least where unknown."""
    table = np.full((len(snapshot.markets) + 1, len(snapshot.resources)), np.nan)
    for row, market in enumerate(snapshot.markets.name):
        known = prices.get(market, {})
        table[row] = [known.get(name, np.nan) for name in snapshot.resources]
    found = table[snapshot.vms.market]
    return np.where(np.isnan(found), least, found)
