"""Strategy `groups`: the three phases, made anew only when somebody asks for something else.

A VM's bid for the first resource is its part of its group's spending rate. The shares that
follow from group prices are those of Eq. 1 on the host, so dividing hosts, the order of moves
and their reasons are the market's. The cores of phase 2 are chosen where pins are (limits/).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any

import numpy as np

from merkatd.cluster import Bools, Decision, Floats, Ints, Snapshot
from merkatd.cluster.columns import NOWHERE
from merkatd.placement.base.hard_constraints import ELSEWHERE
from merkatd.placement.base.host_shares import SUM_OF_SHORTFALLS
from merkatd.placement.base.least_load import send_away
from merkatd.placement.base.placement_problem import PlacementProblem
from merkatd.placement.base.strategy import Pricing
from merkatd.placement.groups.cpu_use import computing, why_idle, with_leftovers
from merkatd.placement.groups.group_editing import Edited, edited, remembered
from merkatd.placement.groups.group_phases import assign_to_hosts, group_by_price
from merkatd.placement.market.overfull_hosts import relieve_board
from merkatd.placement.market.settlement import decide_markets

VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    """The group scheduler has nothing to choose but how its prices are shown."""

    pricing: Pricing = field(default_factory=Pricing)


def groups(
    snapshot: Snapshot,
    settings: GroupSettings,
    memory: Mapping[str, Any],
    rng: np.random.Generator,  # noqa: ARG001 - ties go to the first, nothing is drawn
) -> Decision:
    """Group each market of the snapshot."""
    known = memory.get("markets", {}) if memory.get("version") == VERSION else {}
    kept: dict[str, Any] = {}

    def improve(game: PlacementProblem) -> Ints:
        name = game.snapshot.markets.name[game.view.market]
        asked = _asked(game)
        before = known.get(name, {})
        if not before:
            found = Edited(regrouped(game), (), settled=True)
        elif before.get("asked") == asked:
            found = Edited(_recalled(game, before["wanted"]), remembered(before), settled=True)
        else:
            so_far = _recalled(game, before["wanted"])
            others = before["wanted"].keys() != {*map(str, game.snapshot.vms.id[game.view.vms])}
            found = edited(game, so_far, regrouped(game), remembered(before), others=others)
        wanted = _but_for_those_who_must_leave(game, found.wanted)
        kept[name] = {
            "asked": asked if found.settled else "",
            "wanted": _named(game, wanted),
            "anew_s": list(found.anew_s),
        }
        return wanted

    lately = computing(snapshot)
    decision = decide_markets(lately, settings.pricing, improve, SUM_OF_SHORTFALLS, as_planned=True)
    allocations = with_leftovers(snapshot, decision)
    return replace(
        decision,
        allocations=allocations,
        reasons={**why_idle(snapshot, lately, allocations), **decision.reasons},
        memory={"version": VERSION, "markets": kept},
    )


def _but_for_those_who_must_leave(game: PlacementProblem, wanted: Ints) -> Ints:
    """The same, with VMs elsewhere that must leave a host, or that make one overfull."""
    board = game.fresh_board(wanted)
    relieve_board(replace(game, board=board), len(wanted))
    send_away(game, board, len(wanted))
    return board.place


def regrouped(game: PlacementProblem) -> Ints:
    """[vms]: the host of each once all three phases are through."""
    view = game.view
    kind = _kinds(game)
    fixed = np.where(game.movable, NOWHERE, view.place)
    capacity = np.where(view.open[:, np.newaxis], view.capacity, 0.0)
    rate = np.ascontiguousarray(view.bid[:, 0])

    anywhere = _may_be_anywhere(game).tolist()

    def allowed(vm: int, group: Ints) -> Bools | None:
        return None if anywhere[vm] else game.rules.allowed(vm, group)

    group = group_by_price(rate, view.floor, capacity, fixed, allowed)
    host = np.append(assign_to_hosts(view.place, group, kind), NOWHERE)
    wanted: Ints = host[group]
    homeless = (wanted == NOWHERE) & (view.place != NOWHERE)
    return np.where(homeless, view.place, wanted)


def _may_be_anywhere(game: PlacementProblem) -> Bools:
    """[vms]: nothing but its floor forbids any host."""
    view, rules = game.view, game.rules
    requirement = game.snapshot.vms.requirement[view.vms]
    found: Bools = (game.snapshot.vms.role[view.vms] == NOWHERE) & ~rules.leaving
    for row in np.unique(requirement).tolist():
        alike = (requirement == row) & ~rules.leaving
        found &= ~alike | bool(alike.any() and rules.by_requirement(int(alike.argmax())).all())
    return found


def _kinds(game: PlacementProblem) -> Ints:
    """[hosts]: equal where a group could be on either; who can't leave makes a host its own."""
    view, rules = game.view, game.rules
    columns: list[Any] = [_whole_capacity(game), view.open[:, np.newaxis].astype(float)]
    requirements = np.unique(game.snapshot.vms.requirement[view.vms])
    first = {
        int(row): int(np.flatnonzero(game.snapshot.vms.requirement[view.vms] == row)[0])
        for row in requirements
        if row != NOWHERE
    }
    columns += [rules.by_requirement(vm)[:, np.newaxis].astype(float) for vm in first.values()]
    _, kind = np.unique(np.concatenate(columns, axis=1), axis=0, return_inverse=True)
    own = np.zeros(len(view.hosts), dtype=bool)
    own[view.place[~game.movable & (view.place != NOWHERE)]] = True
    for hosts in rules.outsiders.values():
        own[hosts[hosts != ELSEWHERE]] = True
    return np.where(own, len(kind) + np.arange(len(kind)), kind.ravel())


def _whole_capacity(game: PlacementProblem) -> Floats:
    """[hosts, resources]: with what VMs keep there that are leaving: the hosts stay the same."""
    reserved = np.nan_to_num(game.snapshot.hosts.reserved)
    capacity = game.view.capacity
    return capacity + reserved[game.view.hosts] if reserved.shape[1] else capacity


def _asked(game: PlacementProblem) -> str:
    """The same as long as no request is new, edited or over and the hosts are the same."""
    view = game.view
    parts: tuple[Any, ...] = (
        game.snapshot.vms.id[view.vms],
        np.ascontiguousarray(view.bid[:, 0]),
        game.snapshot.hosts.id[view.hosts[view.open]],
        np.ascontiguousarray(_whole_capacity(game)[view.open]),
    )
    for role, hosts in sorted(game.rules.outsiders.items()):
        parts = (*parts, np.array([role]), hosts)
    digest = blake2b(digest_size=16)
    for part in parts:
        digest.update(part.tobytes())
    return digest.hexdigest()


def _named(game: PlacementProblem, wanted: Ints) -> dict[str, int]:
    placed = np.flatnonzero(wanted != NOWHERE)
    return {str(game.vm_id(vm)): game.host_id(int(wanted[vm])) for vm in placed.tolist()}


def _recalled(game: PlacementProblem, wanted: Mapping[str, int]) -> Ints:
    """Where the VMs were to be; those that never got a place wait on."""
    row_of = {game.host_id(row): row for row in range(len(game.view.hosts))}
    found = np.array(
        [
            row_of.get(wanted.get(str(game.vm_id(vm)), NOWHERE), NOWHERE)
            for vm in range(len(game.view.vms))
        ],
        dtype=np.int64,
    )
    keeps = ~game.movable | (found == NOWHERE)
    return np.where(keeps & (game.view.place != NOWHERE), game.view.place, found)
