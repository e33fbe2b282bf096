"""Claims: a claimed floor holds as far as its bid pays for it; memory in use holds anyway."""

from dataclasses import replace

import numpy as np

from merkatd.cluster import Bools, Floats, Snapshot, VmState
from merkatd.database.prices import Prices
from merkatd.market.floors import paid_floors
from merkatd.market.view import NOWHERE
from merkatd.scheduler.afford import Afforded, afforded
from merkatd.scheduler.charge import Purse
from merkatd.scheduler.observe import Seen
from merkatd.scheduler.snapshot import MEMORY, needed_memory
from merkatd.scheduler.using import by_use
from merkatd.scheduler.world import World


def affordable_cloud(world: World, seen: Seen, purse: Purse) -> Afforded:
    """Return the same cloud in which no VM bids, or claims, more than can be paid."""
    found = afforded(world, seen, purse)
    return replace(found, seen=with_paid_claims(world, found.seen, purse.prices))


def with_paid_claims(world: World, seen: Seen, prices: Prices) -> Seen:
    """Return the same cloud with claims that are paid for, at the prices of the last period.

    The memory that a VM can't live without is left to it, and so is all of VMs that OpenNebula
    pins: it reserves that by its own account. A market that charges for use sells no floors.
    """
    vms, needed = seen.snapshot.vms, np.zeros_like(seen.snapshot.vms.floor)
    needed[:, MEMORY] = needed_memory(seen.observation, seen.use, world.markets, vms.market)
    if not (vms.floor > needed).any():
        return seen
    least = _least(world, seen.snapshot)
    paid = paid_floors(vms.floor, vms.bid, _last(seen.snapshot, prices, least), least)
    held = np.maximum(paid, np.minimum(needed, vms.floor))
    floor = np.where(_claimed(world, seen)[:, np.newaxis], held, vms.floor)
    return replace(seen, snapshot=replace(seen.snapshot, vms=replace(vms, floor=floor)))


def _claimed(world: World, seen: Seen) -> Bools:
    """[vms]: its floor is a claim that a bid has to pay for, but for the memory that it needs."""
    vms = seen.snapshot.vms
    pinned = np.isin(vms.id, list(seen.observation.pin_policy))
    # The room of a failed VM is reserved already, and charged at the reserve price.
    failed = vms.state == VmState.ABSENT
    sold: Bools = (vms.market != NOWHERE) & ~pinned & ~failed & ~by_use(world.markets, vms.market)
    return sold


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
