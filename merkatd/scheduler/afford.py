"""Afford: bids lowered to what can be paid, warnings ahead, and who has not paid for too long."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from merkatd.cluster import Floats, Ints, Snapshot, Suspend, VmState
from merkatd.currency import MICRO
from merkatd.currency.affordable import affordable_bids
from merkatd.currency.arrears import suspended, warning
from merkatd.currency.warning import stage, time_until_empty, words
from merkatd.database.prices import Prices
from merkatd.limits.cpu import UNITS_PER_CORE
from merkatd.market.explain import BIDDING
from merkatd.market.view import NOWHERE
from merkatd.scheduler.charge import Purse
from merkatd.scheduler.observe import Seen
from merkatd.scheduler.using import CPU, by_use, full_rates
from merkatd.scheduler.world import World


@dataclass(frozen=True, slots=True, eq=False)
class Afforded:
    """A cloud in which nobody bids more than it can pay."""

    seen: Seen
    messages: Mapping[int, str] = field(default_factory=dict)
    """By VM id: what its owner should know of its credits."""
    unpaid: frozenset[int] = frozenset()
    """VMs that have held their floor for too long without paying."""


def afforded(world: World, seen: Seen, purse: Purse) -> Afforded:
    """The same cloud with bids that can be paid."""
    snapshot = seen.snapshot
    accounts = sorted(purse.balance)
    row_of = {account: row for row, account in enumerate(accounts)}
    payer = np.array(
        [row_of.get(purse.payer.get(vm, NOWHERE), NOWHERE) for vm in snapshot.vms.id.tolist()],
        dtype=np.int64,
    )
    if not len(payer):
        return Afforded(seen)
    bidding = np.isin(snapshot.vms.state, BIDDING) & (snapshot.vms.market != NOWHERE)
    payer = np.where(bidding, payer, NOWHERE)
    balance = np.array([purse.balance[account] for account in accounts]) / MICRO
    runs = np.isin(snapshot.vms.state, (VmState.RUNNING, VmState.BUSY))
    price = _prices(snapshot, purse.prices)
    floors = np.where(runs[:, np.newaxis], snapshot.vms.floor, 0.0)
    most = _most(world, seen)
    part = _part(affordable_bids(most, floors, price, payer, balance), most)
    bids = snapshot.vms.bid * part
    unpaid = suspended(purse.arrears, world.money.unpaid_periods) & purse.unpaid
    # Whoever is about to be suspended is not worth a migration.
    movable = snapshot.vms.movable & ~np.isin(snapshot.vms.id, list(unpaid))
    lowered = np.flatnonzero((bids < snapshot.vms.bid).any(axis=1))
    cost = np.maximum(most, price * floors).sum(axis=1)
    told = _ahead(world, snapshot, payer, balance, cost)
    told |= {
        int(snapshot.vms.id[row]): "bids less than it was told to: its credits don't last"
        for row in lowered
    }
    told |= {vm: warning(count, world.money.unpaid_periods) for vm, count in purse.arrears.items()}
    vms = replace(snapshot.vms, bid=bids, movable=movable)
    return Afforded(replace(seen, snapshot=replace(snapshot, vms=vms)), told, unpaid)


def _most(world: World, seen: Seen) -> Floats:
    """[vms, resources]: what a bid can cost in a period: itself, or all that a VM can use."""
    vms = seen.snapshot.vms
    used = by_use(world.markets, vms.market)
    most = np.where(used[:, np.newaxis], 0.0, vms.bid)
    most[used, CPU] = (full_rates(seen) * vms.cap[:, CPU] / UNITS_PER_CORE)[used]
    return most


def _part(affordable: Floats, most: Floats) -> Floats:
    """[vms, 1]: the part of its bids that a VM can pay."""
    whole = most.sum(axis=1)
    part: Floats = np.divide(
        affordable.sum(axis=1), whole, out=np.ones(len(whole)), where=whole > 0
    )
    return part.reshape(-1, 1)


def beside(reasons: Mapping[int, str], messages: Mapping[int, str]) -> dict[int, str]:
    """The messages, each behind what a VM's owner is told anyway."""
    return {
        vm: f"{reasons[vm]}; {message}" if vm in reasons else message
        for vm, message in messages.items()
    }


def suspensions(snapshot: Snapshot, unpaid: Iterable[int], patience: int) -> list[Suspend]:
    """A step for each of these VMs that runs."""
    wanted = np.isin(snapshot.vms.id, list(unpaid)) & (snapshot.vms.state == VmState.RUNNING)
    return [
        Suspend(
            period=snapshot.period,
            vm=vm,
            reason=f"its floor was not paid for in {patience} periods on end",
        )
        for vm in snapshot.vms.id[wanted].tolist()
    ]


def _prices(snapshot: Snapshot, prices: Prices) -> Floats:
    """[vms, resources]: those of the period before, zero where they are not known."""
    table = np.zeros((len(snapshot.markets) + 1, len(snapshot.resources)))
    for row, market in enumerate(snapshot.markets.name):
        known = prices.get(market, {})
        table[row] = [known.get(name, 0.0) for name in snapshot.resources]
    found: Floats = np.where(np.isfinite(table), table, 0.0)[snapshot.vms.market]
    return found


def _ahead(
    world: World, snapshot: Snapshot, payer: Ints, balance: Sequence[float] | Floats, cost: Floats
) -> dict[int, str]:
    """By VM id: that its payer's credits don't last long, for those of whom that is so."""
    paying = payer != NOWHERE
    costs = np.bincount(payer[paying], cost[paying], len(balance))
    stages = [
        stage(time_until_empty(round(have * MICRO), spent * MICRO, world.rhythm.interval_s))
        for have, spent in zip(balance, costs.tolist(), strict=True)
    ]
    return {
        vm: words(limit)
        for vm, row in zip(snapshot.vms.id.tolist(), payer.tolist(), strict=True)
        if row != NOWHERE and (limit := stages[row]) is not None
    }
