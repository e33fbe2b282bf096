"""The builder of snapshots from observations: markets, bids, floors, and outstanding steps.

The strategies leave a VM with an outstanding step alone: it is BUSY, on the target host of the
step. During any migration, the source host keeps the VM's floor too. No balloon gives away the
further memory that the VM holds there (`limits/memory_targets.py`). A failed VM keeps its floor on
the host that OpenNebula charges for it, while the daemon restarts it there. A failed VM that waits
for an administrator keeps none.
"""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from merkatd.cluster import (
    RESTING,
    Bools,
    Deploy,
    FailureRates,
    Floats,
    Hosts,
    Ints,
    Markets,
    Requirements,
    Roles,
    Snapshot,
    UsageHistory,
    Vms,
    VmState,
)
from merkatd.cluster.applications import NO_APPLICATIONS, ApplicationTables
from merkatd.cluster.columns import NO_MARKET, NO_ROW, is_one_of, no_rows, rows_of
from merkatd.cluster.hosts import kept_from, less
from merkatd.cluster.snapshot import checked_snapshot
from merkatd.cluster.vms import RolePairs
from merkatd.database.scheduler.step_store import StoredStep
from merkatd.limits import UNSET, EnforcedLimits
from merkatd.scheduler.base.ports import Constraints, GuestUse, Observation
from merkatd.scheduler.base.settings import RESOURCES, GoodsSettings, MarketRules
from merkatd.scheduler.observation.bidders import (
    TemplateBids,
    bids,
    markets_of_hosts,
    markets_of_vms,
)
from merkatd.scheduler.observation.goods import bids_with_goods, with_goods
from merkatd.scheduler.observation.under_way import failed_on_hosts, on_sources, under_way
from merkatd.scheduler.traits.trait_columns import host_columns, vm_columns
from merkatd.scheduler.traits.vm_traits import NO_TRAITS, VmTraits

MEMORY = RESOURCES.index("memory")


@dataclass(frozen=True, slots=True, eq=False)
class StoredInputs:
    """The stored data on VMs, besides the observation of the cloud."""

    bids: Mapping[int, Mapping[str, float]]
    """The most recent bids, by VM id."""
    wishes: Mapping[int, TemplateBids]
    """The bids in templates, by VM id."""
    waiting: Sequence[StoredStep]
    """The outstanding steps."""
    applications: Mapping[int, int] = field(default_factory=dict)
    """By VM id: the application of the VM, if it belongs to one."""
    declared: ApplicationTables = NO_APPLICATIONS
    """What applications declare, of all platforms."""
    moved_at_s: Mapping[int, float] = field(default_factory=dict)
    """By VM id: the time when its last confirmed migration ended."""
    resting: AbstractSet[int] = frozenset()
    """The ids of VMs that are not moved for a while because their last migration failed."""
    lost: AbstractSet[int] = frozenset()
    """The ids of failed VMs that wait for an administrator and keep no room on their hosts."""
    handing: bool = False
    """Whether OpenNebula carries out deployments itself, at a time of its choice."""


def snapshot_of(
    period: int,
    seen: Observation,
    use: GuestUse,
    known: StoredInputs,
    markets: Sequence[MarketRules],
    goods: GoodsSettings | None = None,
    history: UsageHistory | None = None,
) -> Snapshot:
    """Return the snapshot of a period, with the rows of the observation."""
    goods = goods or GoodsSettings()
    host_market = markets_of_hosts(seen, markets)
    host = rows_of(seen.host_id, seen.vm_host)
    state, host, source = under_way(seen, host, known.waiting)
    idle = _idle(seen, state, known)
    state[idle] = VmState.POWERED_OFF
    market = markets_of_vms(seen, host, host_market, markets)
    if goods.further:
        seen = with_goods(seen, goods, known.wishes, host_market, market)
        known = replace(known, bids=bids_with_goods(known.bids, known.wishes, goods))
    failed = failed_on_hosts(state, host)
    holds = np.repeat(~is_one_of(state, RESTING)[:, np.newaxis], len(goods.resources), axis=1)
    begins = [*(row for row, _ in failed), *np.flatnonzero(idle).tolist()]
    holds[begins, :] = np.arange(len(goods.resources)) == MEMORY
    cap, floor = _caps_and_floors(seen, use, known, markets, market, holds, goods.resources)
    lost = [row for row, _ in failed if market[row] != NO_MARKET and seen.vm_id[row] in known.lost]
    floor[lost] = 0.0
    reserved = [*on_sources(source), *failed]
    capacity = less(
        seen.host_capacity, reserved, np.where((market == NO_MARKET)[:, np.newaxis], cap, floor)
    )
    vms = _vms(seen, use, known, markets, market, host, state, cap, floor, goods.resources)
    declared = known.declared.only(vms.application)
    return checked_snapshot(
        Snapshot(
            now_s=seen.at_s,
            period=period,
            resources=goods.resources,
            markets=_markets(markets, goods.resources),
            hosts=_hosts(seen, goods, host_market, capacity),
            vms=replace(vms, source=source, kind=declared.kinds(vms.application, vms.kind)),
            jobs=declared.jobs,
            stages=declared.stages,
            services=declared.services,
            replicated=declared.replicated,
            history=history,
            failure_rates=seen.failure_rates or no_rows(FailureRates),
            **_rules(seen.constraints),
        )
    )


def in_force_of(seen: Observation, use: GuestUse) -> EnforcedLimits:
    """Return the limits in force, with the rows of the observation."""
    rows = rows_of(use.vm_id, seen.vm_id)
    there = rows != NO_ROW
    read = use.in_force

    def column(values: Ints) -> Ints:
        return np.where(there, _at(values, rows), UNSET)

    return EnforcedLimits(
        vcpu_quota_us=column(read.vcpu_quota_us),
        global_quota_us=column(read.global_quota_us),
        shares=column(read.shares),
        memory_mib=column(read.memory_mib),
        used_mib=np.where(there, _at(read.used_mib, rows), np.nan),
        balloon=np.where(there, _at(read.balloon, rows), False),
        pin_policy=np.where(there, _at(read.pin_policy, rows), False),
        pins=read.pins,
        emulators_off=read.emulators_off,
        further={name: column(values) for name, values in read.further.items()},
        size_mib=seen.vm_size[:, MEMORY],
    )


def _at(values: Any, rows: Ints) -> Any:
    """Return the values of these rows; any value for a missing row."""
    return values[rows] if len(values) else np.zeros(len(rows), dtype=values.dtype)


def _stays(seen: Observation, waiting: Sequence[StoredStep]) -> Bools:
    """[vms]: whether the VM is busy but stays on its host, and no step of ours moves it."""
    if seen.vm_stays is None:
        return np.zeros(len(seen.vm_id), dtype=bool)
    ours = is_one_of(seen.vm_id, [stored.step.vm for stored in waiting])
    stays: Bools = seen.vm_stays & ~ours
    return stays


def _idle(seen: Observation, state: Ints, known: StoredInputs) -> Bools:
    """[vms]: whether the VM is on a host without a guest, or OpenNebula is still to deploy it.

    See Note [VMs without a guest] in `held_memory.py`.
    """
    coming = [
        step.step.vm for step in known.waiting if isinstance(step.step, Deploy) and known.handing
    ]
    idle = is_one_of(seen.vm_id, coming) & (seen.vm_state == VmState.PENDING)
    if seen.vm_idle is not None:
        idle |= seen.vm_idle
    without_guest: Bools = idle & (state == VmState.BUSY)
    return without_guest


def _caps_and_floors(
    seen: Observation,
    use: GuestUse,
    known: StoredInputs,
    markets: Sequence[MarketRules],
    market: Ints,
    holds: Bools,
    resources: Sequence[str],
) -> tuple[Floats, Floats]:
    """Return the caps and the floors of VMs.

    A VM that does not run keeps room for the memory that it needs when it runs again. A larger
    claim counts only where `holds` is true. A VM that rests bids nothing, so such a claim would
    keep memory from others for free. A failed VM, or one whose disks are being copied, starts soon
    and then needs the memory that it claims.
    """
    cap = seen.vm_size.copy()
    floor = np.zeros_like(cap)
    floor[:, MEMORY] = needed_memory(seen, use, markets, market)
    bounded = {vm: wish for vm, wish in known.wishes.items() if wish.most or wish.least}
    rows = rows_of(seen.vm_id, np.array(list(bounded), dtype=np.int64)).tolist()
    for row, wish in zip(rows, bounded.values(), strict=True):
        if row == NO_ROW:
            continue
        for at, resource in enumerate(resources):
            cap[row, at] = min(cap[row, at], wish.most.get(resource, np.inf))
            least = wish.least.get(resource, 0.0) if holds[row, at] else 0.0
            floor[row, at] = max(floor[row, at], least)
    outside = market == NO_MARKET
    cap[outside] = seen.vm_reserved[outside]
    # OpenNebula checks these against its own account, and rejects amounts without room.
    pinned, own = is_one_of(seen.vm_id, seen.pin_policy), slice(len(RESOURCES))
    cap[pinned, own] = floor[pinned, own] = seen.vm_reserved[pinned, own]
    # With a spending rate alone, VMs do not bid for memory and keep all of it. A claim to any other
    # good is not paid for there, so it would take that from others for nothing.
    by_use = np.array([*(market.by_use for market in markets), False])[market]
    floor[np.ix_(by_use & ~pinned, np.arange(floor.shape[1]) != MEMORY)] = 0.0
    floor[by_use, MEMORY] = cap[by_use, MEMORY]
    return cap, np.minimum(floor, cap)


def needed_memory(
    seen: Observation, use: GuestUse, markets: Sequence[MarketRules], market: Ints
) -> Floats:
    """[vms]: MiB that each VM needs: its use and a margin, or a part of its size."""
    part = np.array([market.floor_part for market in markets] + [0.0])[market]
    margin = np.array([market.floor_margin for market in markets] + [0.0])[market]
    needed: Floats = seen.vm_size[:, MEMORY] * part
    rows = rows_of(seen.vm_id, use.vm_id)
    known = (rows != NO_ROW) & ~np.isnan(use.used_mib)
    used = rows[known]
    needed[used] = use.used_mib[known] * (1.0 + margin[used])
    return needed


def _markets(markets: Sequence[MarketRules], resources: Sequence[str]) -> Markets:
    """Return the markets; reserve prices only where a bid is the most that a VM pays."""
    names = tuple(resources)
    reserve = [
        market.pricing.reserve_prices(names) if market.bids_bound else np.full(len(names), np.nan)
        for market in markets
    ]
    return Markets(
        name=tuple(market.name for market in markets),
        reserve=np.array(reserve).reshape(len(markets), len(names)),
    )


def _hosts(seen: Observation, goods: GoodsSettings, market: Ints, capacity: Floats) -> Hosts:
    return Hosts(
        id=seen.host_id,
        name=seen.host_name,
        state=seen.host_state,
        market=market[:-1],
        capacity=capacity,
        used=seen.host_used,
        reserved=kept_from(seen.host_capacity, capacity),
        **host_columns(seen, goods),
    )


def _vms(
    seen: Observation,
    use: GuestUse,
    known: StoredInputs,
    markets: Sequence[MarketRules],
    market: Ints,
    host: Ints,
    state: Ints,
    cap: Floats,
    floor: Floats,
    resources: Sequence[str],
) -> Vms:
    count, rules = len(seen.vm_id), seen.constraints
    none = np.full(count, NO_ROW)
    held = np.full((count, len(resources)), np.nan)
    rows = rows_of(seen.vm_id, use.vm_id)
    held[rows[rows != NO_ROW], MEMORY] = use.held_mib[rows != NO_ROW]
    return Vms(
        id=seen.vm_id,
        name=seen.vm_name,
        state=state,
        host=host,
        market=market,
        bid=bids(seen, known.bids, markets, market, resources),
        floor=floor,
        cap=cap,
        held=held,
        application=_applications(seen, known),
        owner=seen.vm_owner,
        vcpus=seen.vm_vcpus,
        moved_at_s=_moved_at_s(seen, known.moved_at_s),
        movable=movable(seen) & ~is_one_of(seen.vm_id, known.resting),
        requirement=none if rules is None else rules.vm_class,
        role=none if rules is None else rules.vm_role,
        priority=np.zeros(count) if seen.vm_priority is None else seen.vm_priority,
        leaves=np.zeros(count, dtype=bool) if seen.vm_leaves is None else seen.vm_leaves,
        stays=_stays(seen, known.waiting),
        **vm_columns(seen, use, _stated_traits(known.wishes)),
    )


def _stated_traits(wishes: Mapping[int, TemplateBids]) -> Mapping[int, VmTraits]:
    return {vm: wish.traits for vm, wish in wishes.items() if wish.traits is not NO_TRAITS}


def _applications(seen: Observation, known: StoredInputs) -> Ints:
    if not known.applications:
        return np.full(len(seen.vm_id), NO_ROW)
    return np.array([known.applications.get(vm, NO_ROW) for vm in seen.vm_id.tolist()])


def _moved_at_s(seen: Observation, moved_at_s: Mapping[int, float]) -> Floats:
    times_s = np.full(len(seen.vm_id), np.nan)
    rows = rows_of(seen.vm_id, np.array(list(moved_at_s), dtype=np.int64))
    there = rows != NO_ROW
    times_s[rows[there]] = np.array(list(moved_at_s.values()))[there]
    return times_s


def movable(seen: Observation) -> Bools:
    """[vms]: whether OpenNebula can move the VM while it runs, and its owner allows it."""
    may = np.array(seen.vm_movable, dtype=bool)
    return may if seen.constraints is None else may & ~seen.constraints.fixed


def _rules(given: Constraints | None) -> dict[str, Any]:
    """Return the tables of placement rules."""
    if given is None:
        return {}
    pairs = np.array(given.role_pairs, dtype=np.int64).reshape(-1, 3)
    return {
        "requirements": Requirements(name=given.class_name, allowed=given.allowed, rank=given.rank),
        "roles": Roles(name=given.role_name, policy=given.role_policy),
        "role_pairs": RolePairs(first=pairs[:, 0], second=pairs[:, 1], policy=pairs[:, 2]),
    }
