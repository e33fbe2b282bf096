"""Reasons in words for the moves of a market's VMs, and for waiting and staying."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ParamSpec

import numpy as np

from merkatd.base.quantities import resource_amount, resource_amounts
from merkatd.cluster import Bools, Floats, HostState, Ints
from merkatd.cluster.columns import NO_HOST, NO_ROW
from merkatd.placement.base.board import Board, excess, where_floors_fit
from merkatd.placement.base.move_order import OrderedMoves
from merkatd.placement.base.placement_problem import PlacementProblem

Given = ParamSpec("Given")


@dataclass(frozen=True, slots=True, eq=False)
class AllocationChange:
    """The changes of a plan for all VMs of a market; allocations are [vms, resources]."""

    place: Ints
    first: Floats
    before: Floats
    after: Floats


def why_deployed(problem: PlacementProblem, vm: int, outcome: AllocationChange) -> str:
    """Return why a new VM starts on its host: the least load, or a better share."""
    host = int(outcome.place[vm])
    name = _host(problem, host)
    gets = resource_amounts(problem.snapshot.resources, outcome.after[vm].tolist())
    if host == problem.started[vm]:
        return f"{name} had the least load of all hosts that can take it: it gets {gets}"
    return f"on {name} it gets {gets}, a more even share than on the host with the least load"


def why_leaves(problem: PlacementProblem, vm: int) -> str:
    """Return why a VM leaves its host without a gain of its own; "" if it need not."""
    source = int(problem.view.place[vm])
    if problem.snapshot.hosts.state[problem.view.hosts[source]] == HostState.DRAINED:
        return f"{_host(problem, source)} is drained"
    if problem.rules.leaving[vm]:
        return f"it must leave {_host(problem, source)}"
    over = excess(problem.view, problem.view.place)[source]
    if not over.any():
        return ""
    most = int(np.argmax(over / np.maximum(problem.view.capacity[source], 1.0)))
    return (
        f"the floors on {_host(problem, source)} exceed its capacity"
        f" by {_amount(problem, most, over[most])}"
    )


def why_migrated(problem: PlacementProblem, vm: int, outcome: AllocationChange) -> str:
    """Return why a VM migrates: an order to leave, its own gain, or room for other VMs."""
    leaves = why_leaves(problem, vm)
    if leaves:
        return leaves
    source, host = int(problem.view.place[vm]), int(outcome.place[vm])
    lack = _lacks(outcome.first[vm], outcome.before[vm])
    worst = int(np.argmax(lack))
    if outcome.after[vm, worst] > outcome.before[vm, worst] and lack[worst] > 0:
        return (
            f"of its {_amount(problem, worst, outcome.first[vm, worst])} it gets"
            f" {_n(outcome.before[vm, worst])} on {_host(problem, source)}"
            f" and {_n(outcome.after[vm, worst])} on {_host(problem, host)}"
        )
    return _makes_room(problem, vm, outcome)


def _makes_room(problem: PlacementProblem, vm: int, outcome: AllocationChange) -> str:
    """Return the VM on the source that gains most, weighed by bids, and its gain, as a text."""
    source, host = int(problem.view.place[vm]), int(outcome.place[vm])
    stay = np.flatnonzero((outcome.place == source) & (problem.started == source))
    if len(stay):
        first, before, after = outcome.first[stay], outcome.before[stay], outcome.after[stay]
        relief = _lacks(first, before) - _lacks(first, after)
        value = relief * problem.stakes.weight[stay, np.newaxis]
        at, worst = np.unravel_index(int(np.argmax(value)), value.shape)
        if value[at, worst] > 0:
            other = int(stay[at])
            room, owner = f"makes room on {_host(problem, source)}", problem.snapshot.vms.owner
            if owner[problem.view.vms[other]] != owner[problem.view.vms[vm]]:
                return f"{room} for a VM of another owner"  # the moved VM's owner reads this
            new = _amount(problem, int(worst), outcome.after[other, worst])
            old = _n(outcome.before[other, worst])
            return f"{room}: VM {problem.vm_id(other)} gets {new} instead of {old}"
    return f"evens out {_host(problem, source)} and {_host(problem, host)}"


def why_stuck(problem: PlacementProblem, vm: int, orderly: OrderedMoves) -> str:
    """Return why a move is left out: it is part of a ring of moves."""
    others = [str(problem.vm_id(other)) for other in orderly.stuck if other != vm]
    ring = f" (with VM {', '.join(others)})" if others else ""
    return f"would have to change places{ring}, but no host has room for both during the swap"


def why_stays(problem: PlacementProblem, vm: int, board: Board) -> str:
    """Return why a VM that must leave its host stays there in this plan."""
    source = _host(problem, int(problem.view.place[vm]))
    why = why_pending(problem, vm, board, "a later period migrates it")
    return f"must leave {source}: {why}"


def why_pending(
    problem: PlacementProblem,
    vm: int,
    board: Board,
    fits: str = "waits for room that this period's migrations free",
) -> str:
    """Return the first constraint that excludes every host, and what would satisfy it."""
    row = int(problem.view.vms[vm])
    market = problem.snapshot.markets.name[problem.view.market]
    if not problem.view.open.any():
        return f"no host of market {market} takes VMs now"
    by_requirement = problem.rules.by_requirement(vm)
    if not by_requirement.any():
        # A VM that must leave its host needs another host.
        other = "other " if problem.rules.leaving[vm] else ""
        kind = int(problem.snapshot.vms.requirement[row])
        if kind == NO_ROW:
            return f"no {other}host of market {market} takes VMs now"
        requirement = problem.snapshot.requirements.name[kind]
        return (
            f"no {other}host of market {market} that takes VMs meets its requirements"
            f" ({requirement})"
        )
    allowed = problem.rules.allowed(vm, board.place)
    if not allowed.any():
        role = problem.snapshot.roles.name[problem.snapshot.vms.role[row]]
        return f"its VM group (role {role}) leaves none of {int(by_requirement.sum())} hosts"
    fitting = where_floors_fit(
        vm, allowed, board.rows, board.start, board.count, board.capacity, problem.view.floor
    )
    if fitting.any():
        return fits
    return _lacks_room(problem, vm, allowed, board)


def _lacks_room(problem: PlacementProblem, vm: int, allowed: Bools, board: Board) -> str:
    """Return the missing resource and amount on the host where the floor most nearly fits."""
    hosts = np.flatnonzero(allowed)
    placed = board.place != NO_HOST
    free = np.stack(
        [
            board.capacity[:, column]
            - np.bincount(board.place[placed], problem.view.floor[placed, column], len(board.count))
            for column in range(board.capacity.shape[1])
        ],
        axis=1,
    )[hosts]
    floor = problem.view.floor[vm]
    missing = np.maximum(floor - free, 0.0) / np.maximum(floor, 1.0)
    best = int(np.argmin(missing.max(axis=1)))
    worst = int(np.argmax(missing[best]))
    return (
        f"needs {_amount(problem, worst, floor[worst])} as its floor;"
        f" of {len(hosts)} hosts that may take it {_host(problem, int(hosts[best]))} comes nearest,"
        f" with {_n(max(free[best, worst], 0.0))} not taken by other floors"
    )


def _lacks(first: Floats, given: Floats) -> Floats:
    """Return the missing part of the first allocation."""
    return np.divide(
        np.maximum(first - given, 0.0), first, out=np.zeros_like(first), where=first > 0
    )


def _host(problem: PlacementProblem, host: int) -> str:
    name: str = problem.snapshot.hosts.name[problem.view.hosts[host]]
    return name


def _amount(problem: PlacementProblem, resource: int, value: float) -> str:
    return resource_amount(problem.snapshot.resources[resource], value)


def _n(value: float) -> str:
    return f"{value:,.1f}".removesuffix(".0")


def said(why: Callable[Given, str], *given: Given.args, **named: Given.kwargs) -> str:
    """Return the reason, or a substitute if `why` raises: no decision depends on its text."""
    try:
        return why(*given, **named)
    except Exception as error:  # noqa: BLE001 - no step depends on a text
        return f"no reason is available ({type(error).__name__}: {error})"
