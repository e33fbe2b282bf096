"""From what was seen to a snapshot: markets, bids, floors, and the steps still under way.

A VM with a step under way is left alone by the strategies: it is BUSY, and stands where the step
takes it. While a migration is under way, our own or another, the host it leaves keeps its floor
too; what it holds there beyond that is given to no balloon (`limits/memory_targets.py`). A VM that
failed keeps its floor on the host that OpenNebula charges for it while the daemon starts it again
there; one that waits for an administrator keeps none.
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
    Floats,
    Hosts,
    Ints,
    Markets,
    Requirements,
    Roles,
    Snapshot,
    UsageHistory,
    VmKind,
    Vms,
    VmState,
)
from merkatd.cluster.columns import NOWHERE
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
from merkatd.scheduler.observation.under_way import (
    failed_on_hosts,
    kept_from,
    less,
    on_sources,
    rows_of,
    under_way,
)

MEMORY = RESOURCES.index("memory")


@dataclass(frozen=True, slots=True, eq=False)
class StoredInputs:
    """What is known of the VMs besides what the cloud shows."""

    bids: Mapping[int, Mapping[str, float]]
    """By VM id: the newest word."""
    wishes: Mapping[int, TemplateBids]
    """By VM id: what templates say."""
    waiting: Sequence[StoredStep]
    """Steps under way."""
    applications: Mapping[int, int] = field(default_factory=dict)
    """By VM id: the application that it belongs to, of those that belong to one."""
    moved_at_s: Mapping[int, float] = field(default_factory=dict)
    """By VM id: when its last confirmed migration ended."""
    resting: AbstractSet[int] = frozenset()
    """Ids of the VMs whose last migration failed: they are not moved for a while."""
    lost: AbstractSet[int] = frozenset()
    """Ids of the failed VMs that wait for an administrator: they keep no room on their hosts."""
    handing: bool = False
    """OpenNebula carries out deployments itself, when it likes."""


def snapshot_of(
    period: int,
    seen: Observation,
    use: GuestUse,
    known: StoredInputs,
    markets: Sequence[MarketRules],
    goods: GoodsSettings | None = None,
    history: UsageHistory | None = None,
) -> Snapshot:
    """The snapshot of a period; rows are those of the observation."""
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
    holds = np.repeat(~np.isin(state, RESTING)[:, np.newaxis], len(goods.resources), axis=1)
    begins = [*(row for row, _ in failed), *np.flatnonzero(idle).tolist()]
    holds[begins, :] = np.arange(len(goods.resources)) == MEMORY
    cap, floor = _caps_and_floors(seen, use, known, markets, market, holds, goods.resources)
    lost = [row for row, _ in failed if market[row] != NOWHERE and seen.vm_id[row] in known.lost]
    floor[lost] = 0.0
    reserved = [*on_sources(source), *failed]
    capacity = less(
        seen.host_capacity, reserved, np.where((market == NOWHERE)[:, np.newaxis], cap, floor)
    )
    return checked_snapshot(
        Snapshot(
            now_s=seen.at_s,
            period=period,
            resources=goods.resources,
            markets=_markets(markets, goods.resources),
            hosts=_hosts(seen, host_market, capacity),
            vms=replace(
                _vms(seen, use, known, markets, market, host, state, cap, floor, goods.resources),
                source=source,
            ),
            history=history,
            **_rules(seen.constraints),
        )
    )


def in_force_of(seen: Observation, use: GuestUse) -> EnforcedLimits:
    """The limits in force, row by row of the observation."""
    rows = rows_of(use.vm_id, seen.vm_id)
    there = rows != NOWHERE
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
    """The values of these rows; anything at all where there is none."""
    return values[rows] if len(values) else np.zeros(len(rows), dtype=values.dtype)


def _stays(seen: Observation, waiting: Sequence[StoredStep]) -> Bools:
    """[vms]: busy with what leaves it running on its host; no step of ours takes it elsewhere."""
    if seen.vm_stays is None:
        return np.zeros(len(seen.vm_id), dtype=bool)
    ours = np.isin(seen.vm_id, [stored.step.vm for stored in waiting])
    stays: Bools = seen.vm_stays & ~ours
    return stays


def _idle(seen: Observation, state: Ints, known: StoredInputs) -> Bools:
    """[vms]: on a host without a guest, or still to be deployed there by OpenNebula.

    See Note [VMs without a guest] in `held_memory.py`.
    """
    coming = [
        one.step.vm for one in known.waiting if isinstance(one.step, Deploy) and known.handing
    ]
    idle = np.isin(seen.vm_id, coming) & (seen.vm_state == VmState.PENDING)
    if seen.vm_idle is not None:
        idle |= seen.vm_idle
    found: Bools = idle & (state == VmState.BUSY)
    return found


def _caps_and_floors(
    seen: Observation,
    use: GuestUse,
    known: StoredInputs,
    markets: Sequence[MarketRules],
    market: Ints,
    holds: Bools,
    resources: Sequence[str],
) -> tuple[Floats, Floats]:
    """What each VM can use at most, and what it can't live without.

    A VM that does not run keeps room for the memory that it needs when it runs again. A claim
    beyond that is counted where it `holds`: a VM that rests bids nothing, and would keep others
    from it. One that failed is started again soon, as one whose disks are copied is, and then must
    find the memory that it claims.
    """
    cap = seen.vm_size.copy()
    floor = np.zeros_like(cap)
    floor[:, MEMORY] = needed_memory(seen, use, markets, market)
    bounded = {vm: wish for vm, wish in known.wishes.items() if wish.most or wish.least}
    for row, wish in zip(np.searchsorted(seen.vm_id, list(bounded)), bounded.values(), strict=True):
        for at, resource in enumerate(resources):
            cap[row, at] = min(cap[row, at], wish.most.get(resource, np.inf))
            least = wish.least.get(resource, 0.0) if holds[row, at] else 0.0
            floor[row, at] = max(floor[row, at], least)
    outside = market == NOWHERE
    cap[outside] = seen.vm_reserved[outside]
    # OpenNebula checks these by its own account, and refuses what that has no room for.
    pinned, own = np.isin(seen.vm_id, list(seen.pin_policy)), slice(len(RESOURCES))
    cap[pinned, own] = floor[pinned, own] = seen.vm_reserved[pinned, own]
    # Nobody bids for memory where a spending rate is all that is said: everybody has it all. And
    # nobody pays for a claim to anything else there: it would take that from others for nothing.
    whole = np.array([*(one.by_use for one in markets), False])[market]
    floor[np.ix_(whole & ~pinned, np.arange(floor.shape[1]) != MEMORY)] = 0.0
    floor[whole, MEMORY] = cap[whole, MEMORY]
    return cap, np.minimum(floor, cap)


def needed_memory(
    seen: Observation, use: GuestUse, markets: Sequence[MarketRules], market: Ints
) -> Floats:
    """[vms]: MiB that each can't live without: what it uses and a margin, or a part of its size."""
    part = np.array([one.floor_part for one in markets] + [0.0])[market]
    margin = np.array([one.floor_margin for one in markets] + [0.0])[market]
    needed: Floats = seen.vm_size[:, MEMORY] * part
    rows = rows_of(seen.vm_id, use.vm_id)
    known = (rows != NOWHERE) & ~np.isnan(use.used_mib)
    used = rows[known]
    needed[used] = use.used_mib[known] * (1.0 + margin[used])
    return needed


def _markets(markets: Sequence[MarketRules], resources: Sequence[str]) -> Markets:
    """With the reserve prices of those in which a bid is what its VM pays at most."""
    names = tuple(resources)
    reserve = [
        one.pricing.reserve_prices(names) if one.bids_bound else np.full(len(names), np.nan)
        for one in markets
    ]
    return Markets(
        name=tuple(one.name for one in markets),
        reserve=np.array(reserve).reshape(len(markets), len(names)),
    )


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
        reserved=kept_from(seen.host_capacity, capacity),
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
    nowhere = np.full(count, NOWHERE)
    held = np.full((count, len(resources)), np.nan)
    rows = rows_of(seen.vm_id, use.vm_id)
    held[rows[rows != NOWHERE], MEMORY] = use.held_mib[rows != NOWHERE]
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
        movable=movable(seen) & ~np.isin(seen.vm_id, list(known.resting)),
        requirement=nowhere if rules is None else rules.vm_class,
        role=nowhere if rules is None else rules.vm_role,
        dirty_mib_s=np.full(count, np.nan),
        kind=np.full(count, int(VmKind.SERVICE)),
        priority=np.zeros(count) if seen.vm_priority is None else seen.vm_priority,
        leaves=np.zeros(count, dtype=bool) if seen.vm_leaves is None else seen.vm_leaves,
        stays=_stays(seen, known.waiting),
    )


def _applications(seen: Observation, known: StoredInputs) -> Ints:
    if not known.applications:
        return np.full(len(seen.vm_id), NOWHERE)
    return np.array([known.applications.get(vm, NOWHERE) for vm in seen.vm_id.tolist()])


def _moved_at_s(seen: Observation, moved_at_s: Mapping[int, float]) -> Floats:
    found = np.full(len(seen.vm_id), np.nan)
    rows = rows_of(seen.vm_id, np.array(list(moved_at_s), dtype=np.int64))
    there = rows != NOWHERE
    found[rows[there]] = np.array(list(moved_at_s.values()))[there]
    return found


def movable(seen: Observation) -> Bools:
    """[vms]: OpenNebula can move it while it runs, and its owner does not forbid it."""
    may = np.array(seen.vm_movable, dtype=bool)
    return may if seen.constraints is None else may & ~seen.constraints.fixed


def _rules(given: Constraints | None) -> dict[str, Any]:
    """The tables of who may be where."""
    if given is None:
        return {}
    pairs = np.array(given.role_pairs, dtype=np.int64).reshape(-1, 3)
    return {
        "requirements": Requirements(name=given.class_name, allowed=given.allowed, rank=given.rank),
        "roles": Roles(name=given.role_name, policy=given.role_policy),
        "role_pairs": RolePairs(first=pairs[:, 0], second=pairs[:, 1], policy=pairs[:, 2]),
    }
