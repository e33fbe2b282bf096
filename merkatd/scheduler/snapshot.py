"""From what was seen to a snapshot: markets, bids, floors, and the steps still under way.

A VM with a step under way is left alone by the strategies: it is BUSY, and stands where the
step takes it. While a migration is under way the host it leaves keeps its floor too.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from merkatd.cluster import (
    Bools,
    Deploy,
    Floats,
    Hosts,
    Ints,
    Markets,
    Migrate,
    Snapshot,
    VmKind,
    Vms,
    VmState,
)
from merkatd.cluster.check import checked
from merkatd.database.steps import StoredStep
from merkatd.limits import UNSET, InForce
from merkatd.scheduler.ports import Observation, Use
from merkatd.scheduler.settings import RESOURCES, Market
from merkatd.scheduler.wishes import Wishes

NOWHERE = -1
MEMORY = RESOURCES.index("memory")


@dataclass(frozen=True, slots=True, eq=False)
class Known:
    """What is known of the VMs besides what the cloud shows."""

    bids: Mapping[int, Mapping[str, float]]
    """By VM id: the newest word."""
    wishes: Mapping[int, Wishes]
    """By VM id: what templates say."""
    waiting: Sequence[StoredStep]
    """Steps under way."""


def snapshot_of(
    period: int, seen: Observation, use: Use, known: Known, markets: Sequence[Market]
) -> Snapshot:
    """The snapshot of a period; rows are those of the observation."""
    host_market = _markets_of_clusters(seen.host_cluster, markets)
    host = _rows_of(seen.host_id, seen.vm_host)
    state, host, leaving = _under_way(seen, host, known.waiting)
    market = np.where(host != NOWHERE, host_market[host], _market_of_pending(seen, markets))
    cap, floor = _caps_and_floors(seen, use, known, markets, market)
    capacity = seen.host_capacity.copy()
    for row, source in leaving:
        capacity[source] = np.maximum(capacity[source] - floor[row], 0.0)
    return checked(
        Snapshot(
            now_s=seen.at_s,
            period=period,
            resources=RESOURCES,
            markets=Markets(name=tuple(market.name for market in markets)),
            hosts=_hosts(seen, host_market, capacity),
            vms=_vms(seen, use, known, markets, market, host, state, cap, floor),
        )
    )


def in_force_of(seen: Observation, use: Use) -> InForce:
    """The limits in force, row by row of the observation."""
    rows = _rows_of(use.vm_id, seen.vm_id)
    there = rows != NOWHERE
    read = use.in_force

    def column(values: Ints) -> Ints:
        return np.where(there, _at(values, rows), UNSET)

    return InForce(
        vcpu_quota_us=column(read.vcpu_quota_us),
        global_quota_us=column(read.global_quota_us),
        shares=column(read.shares),
        memory_mib=column(read.memory_mib),
        used_mib=np.where(there, _at(read.used_mib, rows), np.nan),
        balloon=np.where(there, _at(read.balloon, rows), False),
        pin_policy=np.where(there, _at(read.pin_policy, rows), False),
        pins=read.pins,
    )


def _at(values: Any, rows: Ints) -> Any:
    """The values of these rows; anything at all where there is none."""
    return values[rows] if len(values) else np.zeros(len(rows), dtype=values.dtype)


def _rows_of(ids: Ints, wanted: Ints) -> Ints:
    """The row of each wanted id, NOWHERE for those that are not there."""
    if len(ids) == 0:
        return np.full(len(wanted), NOWHERE)
    rows = np.searchsorted(ids, wanted)
    rows = np.minimum(rows, len(ids) - 1)
    return np.where(ids[rows] == wanted, rows, NOWHERE)


def _markets_of_clusters(cluster: Ints, markets: Sequence[Market]) -> Ints:
    """[hosts + 1]: the market of each host; one more so that NOWHERE has none."""
    found = np.full(len(cluster) + 1, NOWHERE)
    for row, market in enumerate(markets):
        if market.clusters is None:
            found[:-1][found[:-1] == NOWHERE] = row
    for row, market in enumerate(markets):
        if market.clusters is not None:
            found[:-1][np.isin(cluster, sorted(market.clusters))] = row
    return found


def _market_of_pending(seen: Observation, markets: Sequence[Market]) -> Ints:
    """A VM that has no host yet goes to the market it names, else to the first."""
    names = {market.name: row for row, market in enumerate(markets)}
    found = np.zeros(len(seen.vm_id), dtype=np.int64)
    for vm, attributes in seen.attributes.items():
        named = names.get(attributes.get("MERKAT_MARKET", ""))
        if named is not None:
            found[int(np.searchsorted(seen.vm_id, vm))] = named
    return found


def _under_way(
    seen: Observation, host: Ints, waiting: Sequence[StoredStep]
) -> tuple[Ints, Ints, list[tuple[int, int]]]:
    """States and hosts with the steps under way; and who still holds a floor where it leaves."""
    state, host = seen.vm_state.copy(), host.copy()
    leaving = []
    for stored in waiting:
        step = stored.step
        row = int(_rows_of(seen.vm_id, np.array([step.vm]))[0])
        if row == NOWHERE:
            continue
        if isinstance(step, Deploy | Migrate):
            target = int(_rows_of(seen.host_id, np.array([step.host]))[0])
            if target != NOWHERE:
                host[row] = target
        if isinstance(step, Migrate):
            source = int(_rows_of(seen.host_id, np.array([step.source]))[0])
            if source not in {NOWHERE, int(host[row])}:
                leaving.append((row, source))
        if state[row] in {VmState.PENDING, VmState.RUNNING} and host[row] != NOWHERE:
            state[row] = VmState.BUSY
    return state, host, leaving


def _caps_and_floors(
    seen: Observation, use: Use, known: Known, markets: Sequence[Market], market: Ints
) -> tuple[Floats, Floats]:
    """What each VM can use at most, and what it can't live without."""
    cap = seen.vm_size.copy()
    floor = np.zeros_like(cap)
    part = np.array([one.floor_part for one in markets] + [0.0])[market]
    margin = np.array([one.floor_margin for one in markets] + [0.0])[market]
    floor[:, MEMORY] = cap[:, MEMORY] * part
    rows = _rows_of(seen.vm_id, use.vm_id)
    used = rows[(rows != NOWHERE) & ~np.isnan(use.used_mib)]
    amount = use.used_mib[(rows != NOWHERE) & ~np.isnan(use.used_mib)]
    floor[used, MEMORY] = amount * (1.0 + margin[used])
    bounded = {vm: wish for vm, wish in known.wishes.items() if wish.most or wish.least}
    for row, wish in zip(np.searchsorted(seen.vm_id, list(bounded)), bounded.values(), strict=True):
        for at, resource in enumerate(RESOURCES):
            cap[row, at] = min(cap[row, at], wish.most.get(resource, np.inf))
            floor[row, at] = max(floor[row, at], wish.least.get(resource, 0.0))
    outside = market == NOWHERE
    cap[outside] = seen.vm_reserved[outside]
    return cap, np.minimum(floor, cap)


def _hosts(seen: Observation, market: Ints, capacity: Floats) -> Hosts:
    count = len(seen.host_id)
    return Hosts(
        id=seen.host_id,
        name=seen.host_name,
        state=seen.host_state,
        market=market[:-1],
        capacity=capacity,
        used=seen.host_used,
        domains={},
        topology=np.zeros((count, 0), dtype=np.int64),
        link_mbps=np.full(count, np.nan),
    )


def _vms(
    seen: Observation,
    use: Use,
    known: Known,
    markets: Sequence[Market],
    market: Ints,
    host: Ints,
    state: Ints,
    cap: Floats,
    floor: Floats,
) -> Vms:
    count = len(seen.vm_id)
    held = np.full((count, len(RESOURCES)), np.nan)
    rows = _rows_of(seen.vm_id, use.vm_id)
    held[rows[rows != NOWHERE], MEMORY] = use.held_mib[rows != NOWHERE]
    return Vms(
        id=seen.vm_id,
        name=seen.vm_name,
        state=state,
        host=host,
        market=market,
        bid=_bids(seen.vm_id, known.bids, markets, market),
        floor=floor,
        cap=cap,
        held=held,
        application=np.full(count, NOWHERE),
        owner=seen.vm_owner,
        vcpus=seen.vm_vcpus,
        moved_at_s=np.full(count, np.nan),
        movable=_bools(seen.vm_movable),
        requirement=np.full(count, NOWHERE),
        role=np.full(count, NOWHERE),
        dirty_mib_s=np.full(count, np.nan),
        kind=np.full(count, int(VmKind.SERVICE)),
    )


def _bools(values: Sequence[bool]) -> Bools:
    return np.array(values, dtype=bool)


def _bids(
    vm_id: Ints,
    said: Mapping[int, Mapping[str, float]],
    markets: Sequence[Market],
    market: Ints,
) -> Floats:
    """What each VM bids: the newest word, the market's default for what nobody spoke of."""
    defaults = [[one.default_bid.get(name, 0.0) for name in RESOURCES] for one in markets]
    table = np.array([*defaults, [0.0] * len(RESOURCES)])
    bid = table[market]
    for row, vm in enumerate(vm_id.tolist()):
        word = said.get(vm)
        if word is not None:
            bid[row] = [word.get(name, bid[row, at]) for at, name in enumerate(RESOURCES)]
    bid[market == NOWHERE] = 0.0
    return bid
