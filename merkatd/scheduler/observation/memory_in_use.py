"""Memory in use: kept as far as it is paid for, and the rest until another VM bids for it.

This applies only in markets in which a bid is the most that its VM pays. See Note [Memory in use]
in `merkatd/market/floors.py`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from merkatd.base.quantities import credits_text
from merkatd.cluster import ACTIVE, Bools, Floats, Ints, Snapshot
from merkatd.cluster.columns import NO_HOST, NO_ROW, is_one_of, rows_of
from merkatd.market.floors import bids_that_buy, bids_that_buy_there, kept_in_use
from merkatd.market.market_view import MarketView, market_view
from merkatd.placement.base.hard_constraints import HardConstraints
from merkatd.scheduler.observation.snapshot_builder import MEMORY

LEAST_MIB = 256.0
"""The used memory that a guest keeps regardless of its bid, up to `floor_part` of its size."""
STEP_PART = 0.9
"""The part of its earlier memory that a VM keeps after an interval."""
STEP_MIB = 64.0
"""The least decrease of its memory in an interval."""
_MOST_WAITING = 100
"""The number of waiting VMs that are considered, those with the highest bids."""
_CLOSE = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class MemoryInUse:
    """[vms], in MiB: the memory that VMs use, and the part they keep."""

    use: Floats
    """The use with a margin; all held memory if a guest does not report its use; NaN if this rule
    does not apply to the VM."""
    paid: Floats
    """The memory that its bid pays for."""
    least: Floats
    """The memory that it keeps in any case."""
    keeps: Floats
    """The most that it keeps in this period, NaN if it keeps all."""
    bid: Floats
    """The memory bid with which it keeps all; infinite if no such bid is known."""


@dataclass(frozen=True, slots=True, eq=False)
class UseBasis:
    """[vms], in MiB, except for the flags, `most_part` and `interval_s`."""

    needed: Floats
    """The use with a margin, or a part of the size if the use is unknown."""
    measured: Bools
    """Whether the guest reports its use."""
    paid: Floats
    """The part of its claim or need that the bid pays for."""
    bought: Floats
    """All the memory that the bid would pay for."""
    sold: Bools
    """Whether this rule applies to the VM."""
    scarce: Bools
    """Whether the price of a MiB is above the reserve price."""
    most_part: Floats
    """The highest part of its size that a guest keeps regardless of its bid."""
    interval_s: float
    """The time in which unpaid memory shrinks by a tenth; not a period, as tenants can start
    those."""


def floors_in_use(
    snapshot: Snapshot, floor: Floats, basis: UseBasis, last: Mapping[str, Any] | None
) -> tuple[Floats, MemoryInUse]:
    """Return the floors, [vms, resources], and their basis.

    `floor` contains the paid claims and all use. `last` are the stored columns of the last period.
    """
    vms = snapshot.vms
    size = vms.cap[:, MEMORY]
    held = np.where(np.isnan(vms.held[:, MEMORY]), basis.needed, vms.held[:, MEMORY])
    use = np.minimum(np.where(basis.measured, basis.needed, np.fmax(held, basis.needed)), size)
    every = np.minimum(basis.most_part * size, LEAST_MIB)
    least = np.minimum(use, every)
    paid = np.maximum(np.minimum(basis.paid, size), np.minimum(basis.bought, use))
    runs = basis.sold & is_one_of(vms.state, ACTIVE)
    waits = basis.sold & vms.waiting & basis.scarce
    floors = floor.copy()
    floors[waits, MEMORY] = np.maximum(paid, np.minimum(least, basis.needed))[waits]
    keeps = np.full(len(vms), np.nan)
    bid = np.full(len(vms), np.inf)
    for_now = _for_now(snapshot, last, held, basis.interval_s)
    for market in np.unique(vms.market[runs]).tolist():
        view = market_view(snapshot, market)
        here = np.flatnonzero(view.place != NO_HOST)
        rows, host = view.vms[here], view.place[here]
        mine = runs[rows]
        sure = np.where(mine, np.maximum(paid, least)[rows], floors[rows, MEMORY])
        uses = np.where(mine, np.maximum(use[rows], sure), sure)
        room = view.capacity[:, MEMORY] - _for_waiting(snapshot, view, floors, uses, sure)
        asks = _wish(view)[here]
        amount, contended = kept_in_use(uses, sure, for_now[rows], asks, host, room)
        # A guest that does not tell keeps what it holds on its host; its floor is what it needs.
        needed = np.maximum(np.minimum(use, basis.needed)[rows], sure)
        floors[rows, MEMORY] = np.where(mine, np.minimum(amount, needed), floors[rows, MEMORY])
        bought = np.maximum(basis.bought, every)[rows]
        unpaid = mine & contended & (bought < np.maximum(use, held)[rows] - 1.0)
        keeps[rows[unpaid]] = np.maximum(amount, every[rows])[unpaid]
        short = mine & (np.maximum(paid, least) < use)[rows]
        bid[rows[short]] = _keeping(view, here, short, use[rows])
    known = np.where(runs, use, np.nan)
    return floors, MemoryInUse(known, paid, np.maximum(paid, least), keeps, bid)


def _keeping(view: MarketView, here: Ints, short: Bools, use: Floats) -> Floats:
    """[short]: the bids with which VMs keep all their used memory; `here` are rows of the view."""
    rows, least = np.flatnonzero(short), float(view.reserve[MEMORY])
    bid, cap = view.bid[here, MEMORY], view.cap[here, MEMORY]
    in_market = bids_that_buy(rows, use[short], bid, cap, float(view.total[MEMORY]), least)
    room = view.capacity[:, MEMORY]
    there = bids_that_buy_there(rows, use[short], bid, cap, view.place[here], room, least)
    return np.maximum(in_market, there)


def _wish(view: MarketView) -> Floats:
    """[vms]: the memory each asks for: its size, as far as its bid pays the reserve price."""
    bid, size, least = view.bid[:, MEMORY], view.size[:, MEMORY], float(view.reserve[MEMORY])
    with np.errstate(over="ignore"):
        most = np.minimum(size, bid / least) if least > 0 else size
    return np.where(bid > 0, most, 0.0)


def _for_now(
    snapshot: Snapshot, last: Mapping[str, Any] | None, held: Floats, interval_s: float
) -> Floats:
    """[vms]: the memory each keeps for this period, regardless of other bids."""
    before, part = held, 1.0
    if last is not None:
        had = np.where(_ran(last), last["allocation"][:, MEMORY], 0.0)
        vms = snapshot.vms
        row = rows_of(last["vm"], vms.id)
        there = row != NO_ROW
        bid = np.where(there, last["bid"][row, MEMORY], np.inf) if len(had) else np.inf
        steady = there & (vms.bid[:, MEMORY] >= bid * (1 - _CLOSE))
        before = np.where(steady, had[row], 0.0) if len(had) else np.zeros(len(vms))
        if "seen_s" in last:
            passed_s = snapshot.now_s - float(last["seen_s"][0])
            part = min(max(passed_s / interval_s, 0.0), 1.0)
    kept: Floats = np.maximum(np.minimum(before * STEP_PART**part, before - STEP_MIB * part), 0.0)
    return kept


def _ran(last: Mapping[str, Any]) -> Bools:
    ran: Bools = last["runs"] | last["placed"] if "placed" in last else last["runs"]
    return ran


def _for_waiting(
    snapshot: Snapshot, view: MarketView, floor: Floats, uses: Floats, sure: Floats
) -> Floats:
    """[hosts]: the memory for waiting VMs that pay for it and find no host with room.

    Each such VM needs one host on which it fits once the VMs there keep only their paid memory. One
    in a limit order fits with its full size. `uses` and `sure` are for the VMs that have a place.
    """
    asked = np.zeros(len(view.hosts))
    ordered = (snapshot.vms.order != NO_ROW)[:, np.newaxis]
    floor = np.where(ordered, snapshot.vms.cap, floor)
    pending = view.vms[view.place == NO_HOST]
    bid = snapshot.vms.bid[pending, MEMORY]
    able = pending[(bid > 0) & _paid_for(snapshot, view, floor, pending)]
    if not len(able) or not len(view.hosts):
        return asked
    here = np.flatnonzero(view.place != NO_HOST)
    host, rows = view.place[here], view.vms[here]
    room = view.capacity.copy()
    for column in range(room.shape[1]):
        amount = uses if column == MEMORY else floor[rows, column]
        room[:, column] -= np.bincount(host, amount, len(room))
    gives = np.bincount(host, uses - sure, len(room))
    order = np.argsort(-snapshot.vms.bid[able, MEMORY], kind="stable")[:_MOST_WAITING]
    rules = HardConstraints(snapshot, view)
    for row in able[order].tolist():
        may = rules.allowed(int(np.searchsorted(view.vms, row)), view.place)
        least = floor[row]
        most = room.copy()
        most[:, MEMORY] += gives
        fits = may & (most >= least).all(axis=1)
        if not fits.any():
            continue
        best = int(np.argmax(np.where(fits, room[:, MEMORY], -np.inf)))
        asked[best] += least[MEMORY]
        room[best] -= least
    return asked


def _paid_for(snapshot: Snapshot, view: MarketView, floor: Floats, rows: Ints) -> Bools:
    """[rows]: whether the bid pays at least the reserve price for the VM's floor.

    A VM in a limit order must pay the announced prices for all that it needs. Below them its order
    would not start, and the memory would lie idle.
    """
    vms = snapshot.vms
    pays: Bools = vms.bid[rows, MEMORY] >= floor[rows, MEMORY] * float(view.reserve[MEMORY])
    ordered = vms.order[rows] != NO_ROW
    if ordered.any():
        prices = np.fmax(snapshot.markets.announced[view.market], view.reserve)
        pays &= ~ordered | (vms.bid[rows].sum(axis=1) >= floor[rows] @ prices)
    return pays


def owner_messages(ids: Ints, in_use: MemoryInUse, share: Floats) -> dict[int, str]:
    """Return messages, by VM id, for owners of VMs that use more memory than they pay for.

    `share` is [vms]: the allocated memory.
    """
    has = np.maximum(share, np.nan_to_num(in_use.keeps, nan=np.inf))
    short = in_use.least < in_use.use * (1 - 1e-3) - 1.0
    shrinks = short & (has < in_use.use - 1.0)
    alone = short & np.isnan(in_use.keeps)
    return {
        int(ids[row]): _words(in_use, row, float(has[row]), shrinks=bool(shrinks[row]))
        for row in np.flatnonzero(shrinks | alone).tolist()
    }


def _words(in_use: MemoryInUse, row: int, has: float, *, shrinks: bool) -> str:
    use, paid, least = (float(of[row]) for of in (in_use.use, in_use.paid, in_use.least))
    bid = float(in_use.bid[row])
    keeps = f". A memory bid of {credits_text(bid)} keeps all of it" if np.isfinite(bid) else ""
    begin = f"it uses {use:,.0f} MiB of memory, and its bid pays for {min(paid, use):,.0f}: "
    if not shrinks:
        return f"{begin}it keeps the rest until another VM on its host bids for it{keeps}"
    on = f", and then step by step to {least:,.0f}" if least < has - 1.0 else ""
    return f"{begin}other VMs there bid for the rest, so it shrinks to {has:,.0f} MiB{on}{keeps}"
