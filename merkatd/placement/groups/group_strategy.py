"""Strategy `groups`: three phases, which run again only when a request changes.

A VM's bid for the first resource is its part of its group's spending rate. The shares that follow
from group prices are those of Eq. 1 on the host. So the market's code divides hosts, orders moves
and gives reasons. Phase 2, the choice of cores, is part of the pins (`limits/`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any

import numpy as np

from merkatd.cluster import Bools, Decision, Floats, Ints, Snapshot
from merkatd.cluster.columns import NO_HOST, NO_ROW
from merkatd.placement.base.hard_constraints import ELSEWHERE
from merkatd.placement.base.host_shares import SUM_OF_SHORTFALLS
from merkatd.placement.base.least_load import evacuate_to_least_load
from merkatd.placement.base.placement_problem import PlacementProblem
from merkatd.placement.contract import Pricing
from merkatd.placement.groups.cpu_use import limited_to_use, why_idle, with_leftovers
from merkatd.placement.groups.group_editing import EditedGroups, edit_groups, regrouping_times
from merkatd.placement.groups.group_phases import assign_to_hosts, group_by_price
from merkatd.placement.market.overfull_hosts import relieve_board
from merkatd.placement.market.settlement import decide_markets


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    """The settings of the group scheduler: only the pricing."""

    pricing: Pricing = field(default_factory=Pricing)


def groups(
    snapshot: Snapshot,
    settings: GroupSettings,
    memory: Mapping[str, Any],
    random: np.random.Generator,  # noqa: ARG001 - ties go to the first, nothing is drawn
) -> Decision:
    """Return the decision for each market of the snapshot, by groups."""
    known = memory.get("markets", {})
    kept: dict[str, Any] = {}

    def improve(problem: PlacementProblem) -> Ints:
        name = problem.snapshot.markets.name[problem.view.market]
        asked = _asked(problem)
        before = known.get(name, {})
        if not before:
            edited = EditedGroups(regroup(problem), (), settled=True)
        elif before.get("asked") == asked:
            edited = EditedGroups(
                _recalled(problem, before["wanted"]), regrouping_times(before), settled=True
            )
        else:
            so_far = _recalled(problem, before["wanted"])
            others = before["wanted"].keys() != {
                *map(str, problem.snapshot.vms.id[problem.view.vms])
            }
            edited = edit_groups(
                problem, so_far, regroup(problem), regrouping_times(before), others=others
            )
        wanted = _with_departures(problem, edited.wanted)
        kept[name] = {
            "asked": asked if edited.settled else "",
            "wanted": _named(problem, wanted),
            "anew_s": list(edited.anew_s),
        }
        return wanted

    lately = limited_to_use(snapshot)
    decision = decide_markets(lately, settings.pricing, improve, SUM_OF_SHORTFALLS, as_planned=True)
    allocations = with_leftovers(snapshot, decision)
    return replace(
        decision,
        allocations=allocations,
        reasons={**why_idle(snapshot, lately, allocations), **decision.reasons},
        memory={"markets": kept},
    )


def _with_departures(problem: PlacementProblem, wanted: Ints) -> Ints:
    """Return the placement after VMs have left hosts that they must leave, and overfull hosts."""
    board = problem.fresh_board(wanted)
    relieve_board(replace(problem, board=board), len(wanted))
    evacuate_to_least_load(problem, board, len(wanted))
    return board.place


def regroup(problem: PlacementProblem) -> Ints:
    """Return [vms]: the host of each VM after all three phases."""
    view = problem.view
    kind = _host_kinds(problem)
    fixed = np.where(problem.movable, NO_ROW, view.place)
    capacity = np.where(view.open[:, np.newaxis], view.capacity, 0.0)
    rate = np.ascontiguousarray(view.bid[:, 0])

    anywhere = _may_be_anywhere(problem).tolist()

    def allowed(vm: int, group: Ints) -> Bools | None:
        return None if anywhere[vm] else problem.rules.allowed(vm, group)

    group = group_by_price(rate, view.floor, capacity, fixed, allowed)
    host = np.append(assign_to_hosts(view.place, group, kind), NO_HOST)
    wanted: Ints = host[group]
    homeless = (wanted == NO_HOST) & (view.place != NO_HOST)
    return np.where(homeless, view.place, wanted)


def _may_be_anywhere(problem: PlacementProblem) -> Bools:
    """Return [vms]: whether only the VM's floor can exclude a host."""
    view, rules = problem.view, problem.rules
    requirement = problem.snapshot.vms.requirement[view.vms]
    anywhere: Bools = (problem.snapshot.vms.role[view.vms] == NO_ROW) & ~rules.leaving
    for row in np.unique(requirement).tolist():
        alike = (requirement == row) & ~rules.leaving
        anywhere &= ~alike | bool(alike.any() and rules.by_requirement(int(alike.argmax())).all())
    return anywhere


def _host_kinds(problem: PlacementProblem) -> Ints:
    """Return [hosts]: the kind; groups can be exchanged between hosts of one kind.

    A host with a VM that can't leave is a kind of its own.
    """
    view, rules = problem.view, problem.rules
    columns: list[Any] = [_whole_capacity(problem), view.open[:, np.newaxis].astype(float)]
    requirements = np.unique(problem.snapshot.vms.requirement[view.vms])
    first = {
        int(row): int(np.flatnonzero(problem.snapshot.vms.requirement[view.vms] == row)[0])
        for row in requirements
        if row != NO_ROW
    }
    columns += [rules.by_requirement(vm)[:, np.newaxis].astype(float) for vm in first.values()]
    _, kind = np.unique(np.concatenate(columns, axis=1), axis=0, return_inverse=True)
    own = np.zeros(len(view.hosts), dtype=bool)
    own[view.place[~problem.movable & (view.place != NO_HOST)]] = True
    for hosts in rules.outsiders.values():
        own[hosts[hosts != ELSEWHERE]] = True
    return np.where(own, len(kind) + np.arange(len(kind)), kind.ravel())


def _whole_capacity(problem: PlacementProblem) -> Floats:
    """Return [hosts, resources]: the capacity plus the reserves of leaving VMs.

    So a host's kind does not change while VMs leave it.
    """
    reserved = np.nan_to_num(problem.snapshot.hosts.reserved)
    capacity = problem.view.capacity
    return capacity + reserved[problem.view.hosts] if reserved.shape[1] else capacity


def _asked(problem: PlacementProblem) -> str:
    """Return a hash that changes when a request comes, ends or is edited, or the hosts change."""
    view = problem.view
    parts: tuple[Any, ...] = (
        problem.snapshot.vms.id[view.vms],
        np.ascontiguousarray(view.bid[:, 0]),
        problem.snapshot.hosts.id[view.hosts[view.open]],
        np.ascontiguousarray(_whole_capacity(problem)[view.open]),
    )
    for role, hosts in sorted(problem.rules.outsiders.items()):
        parts = (*parts, np.array([role]), hosts)
    digest = blake2b(digest_size=16)
    for part in parts:
        digest.update(part.tobytes())
    return digest.hexdigest()


def _named(problem: PlacementProblem, wanted: Ints) -> dict[str, int]:
    placed = np.flatnonzero(wanted != NO_HOST)
    return {str(problem.vm_id(vm)): problem.host_id(int(wanted[vm])) for vm in placed.tolist()}


def _recalled(problem: PlacementProblem, wanted: Mapping[str, int]) -> Ints:
    """Return the remembered places of the VMs; VMs that never got a place keep waiting."""
    row_of = {problem.host_id(row): row for row in range(len(problem.view.hosts))}
    places = np.array(
        [
            row_of.get(wanted.get(str(problem.vm_id(vm)), NO_HOST), NO_ROW)
            for vm in range(len(problem.view.vms))
        ],
        dtype=np.int64,
    )
    keeps = ~problem.movable | (places == NO_HOST)
    return np.where(keeps & (problem.view.place != NO_HOST), problem.view.place, places)
