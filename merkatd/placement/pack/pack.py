"""Strategy `pack`: new VMs start on the fullest host that has room for them.

Hosts are divided by bids as under any market strategy. A VM migrates only if it must leave its
host.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from merkatd.cluster import Decision, Floats, Ints, Plan, Snapshot
from merkatd.cluster.columns import NO_HOST
from merkatd.placement.base.board import Board
from merkatd.placement.base.host_shares import SUM_OF_SHORTFALLS
from merkatd.placement.base.least_load import evacuate_to_least_load
from merkatd.placement.base.placement_problem import PlacementProblem
from merkatd.placement.contract import Pricing, parameter
from merkatd.placement.market.overfull_hosts import relieve_board
from merkatd.placement.market.settlement import decide_markets


@dataclass(frozen=True, slots=True, kw_only=True)
class PackSettings:
    """The settings of `pack`."""

    fill_part: float = parameter(0.9, unit="of the capacity", most=1.0)
    """The part of a host that the sizes of its VMs may fill before new VMs start elsewhere."""
    m_max: int = parameter(5, unit="migrations", most=100_000)
    """The most VMs that leave drained and overfull hosts in a period."""
    pricing: Pricing = field(default_factory=Pricing)


def pack(
    snapshot: Snapshot,
    settings: PackSettings,
    memory: Mapping[str, Any],  # noqa: ARG001 - nothing is remembered
    random: np.random.Generator,  # noqa: ARG001 - and nothing is drawn
) -> Decision:
    """Return the decision for each market of the snapshot."""
    chosen = dict[tuple[int, int], str]()

    def improve(problem: PlacementProblem) -> Ints:
        board = problem.board
        relieved = replace(problem, movable=relieve_board(problem, settings.m_max))
        left = settings.m_max - problem.migrations(board.place)
        evacuate_to_least_load(relieved, board, left)
        rows = problem.lift_new_vms()
        filled = _filled(problem, board)
        for vm in rows:
            host, why = _host_for(problem, board, vm, filled, settings.fill_part)
            if host != NO_HOST:
                board.move(vm, host)
                filled[host] += problem.view.size[vm]
                chosen[problem.vm_id(vm), problem.host_id(host)] = why
        return board.place

    decision = decide_markets(snapshot, settings.pricing, improve, SUM_OF_SHORTFALLS)
    reasons = (chosen.get((step.vm, getattr(step, "host", NO_HOST))) for step in decision.plan)
    pairs = zip(decision.plan, reasons, strict=True)
    steps = (replace(step, reason=why) if why else step for step, why in pairs)
    return replace(decision, plan=Plan(tuple(steps)))


def _filled(problem: PlacementProblem, board: Board) -> Floats:
    """Return [hosts, resources]: the sizes of the VMs on each host."""
    view, there = problem.view, board.place != NO_HOST
    sizes = [np.bincount(board.place[there], size[there], len(view.hosts)) for size in view.size.T]
    filled: Floats = np.stack(sizes, axis=1).astype(float)  # no VMs give whole numbers
    return filled


def _host_for(
    problem: PlacementProblem, board: Board, vm: int, filled: Floats, fill_part: float
) -> tuple[int, str]:
    """Return the fullest host that stays below the limit with this VM, else the emptiest, and why.

    Hosts without room for its floor, or forbidden ones, are left out; NO_HOST if none remains.
    """
    view = problem.view
    hosts = problem.hosts_for(vm)
    if not len(hosts):
        return NO_HOST, ""
    after = (filled[hosts] + view.size[vm]) / np.maximum(board.capacity[hosts], 1.0)
    after = after.max(axis=1)
    below = after <= fill_part
    best = int(np.where(below, after, -1.0).argmax() if below.any() else after.argmin())
    name = problem.snapshot.hosts.name[view.hosts[hosts[best]]]
    if below.any():
        return int(hosts[best]), f"{name} is the fullest host with room for it"
    return int(hosts[best]), f"{name} is the emptiest host: with it, each is over its limit"
