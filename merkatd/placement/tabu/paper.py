"""Strategy `paper`: Algorithm 1 as printed except for its errors, and its settings.

The printed algorithm starts e_worse at infinity, which makes a balanced cloud worse before it
stops. So here e_worse starts at the present largest error. M_max is an upper limit. Only pairs of
VM and host are tabu, the destination differs from the source, and ties go to the lowest id. A VM
that may not move or has no host to go to is skipped, but its error counts.

ComputeErrors recomputes only the two hosts that a move changes.

The paper has neither administrators nor floors. VMs that must leave a drained or overfull host do
so before Algorithm 1 begins, and count in M_max.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from merkatd.cluster import Bools, Decision, Floats, Ints, Snapshot
from merkatd.cluster.columns import NO_HOST
from merkatd.placement.base.host_shares import LARGEST_LACK
from merkatd.placement.base.least_load import evacuate_to_least_load
from merkatd.placement.base.placement_problem import PlacementProblem
from merkatd.placement.contract import Pricing, parameter
from merkatd.placement.market.host_errors import errors_on, least_error
from merkatd.placement.market.overfull_hosts import relieve_board
from merkatd.placement.market.settlement import decide_markets


@dataclass(frozen=True, slots=True, kw_only=True)
class MarketSettings:
    """The settings of Algorithm 1, under the paper's names."""

    n_iter: int = parameter(20, unit="iterations", most=100_000)
    """The number of iterations without an improvement after which the search ends."""
    e_max: float = parameter(0.05, most=10.0)
    """The largest allocation error at which the search makes no moves."""
    m_max_part: float = parameter(0.02, unit="of the VMs", most=1.0)
    """The part of the market's VMs that may be migrated in a period."""
    m_max_least: int = parameter(5, unit="VMs", most=100_000)
    """The number of VMs that may be migrated in a period even in a small market."""
    tenure: int = parameter(10, unit="iterations", most=100_000)
    """The number of iterations in which a VM may not return to a host that it left."""
    pricing: Pricing = field(default_factory=Pricing)

    def m_max(self, vms: int) -> int:
        """Return the largest number of migrations in a market of so many VMs."""
        return max(self.m_max_least, int(self.m_max_part * vms))


def paper(
    snapshot: Snapshot,
    settings: MarketSettings,
    memory: Mapping[str, Any],  # noqa: ARG001 - Algorithm 1 remembers nothing between periods
    random: np.random.Generator,  # noqa: ARG001 - nor does it draw
) -> Decision:
    """Return the decision of Algorithm 1 for each market of the snapshot."""

    def improve(problem: PlacementProblem) -> Ints:
        most = settings.m_max(len(problem.started))
        relieved = replace(problem, movable=relieve_board(problem, most))
        evacuate_to_least_load(
            relieved, problem.board, most - problem.migrations(problem.board.place)
        )
        return algorithm_1(relieved, settings)

    return decide_markets(snapshot, settings.pricing, improve, LARGEST_LACK)


def algorithm_1(problem: PlacementProblem, settings: MarketSettings) -> Ints:
    """Return the best placement found with at most M_max migrations (lines 9 to 30)."""
    board = problem.board
    m_max = settings.m_max(len(board.place))
    e = compute_errors(problem)
    best, e_worse = board.place.copy(), float(e.max(initial=0.0))
    tabu: dict[tuple[int, int], int] = {}
    iteration = n_iterations = 0
    while n_iterations < settings.n_iter and e_worse > settings.e_max:
        iteration += 1
        move = _next_move(problem, e, {pair for pair, end in tabu.items() if end >= iteration})
        if move is None:
            break
        vm, destination = move
        source = int(board.place[vm])
        board.move(vm, destination)
        tabu[vm, source] = iteration + settings.tenure
        for host in (source, destination):
            _recompute(problem, host, e)
        e_max = float(e.max())
        if e_worse - e_max > 0 and problem.migrations(board.place) <= m_max:
            best, e_worse, n_iterations = board.place.copy(), e_max, 0
        else:
            n_iterations += 1
    return best


def _next_move(
    problem: PlacementProblem, e: Floats, tabu: set[tuple[int, int]]
) -> tuple[int, int] | None:
    """Return the movable VM with the largest error, and its best host (lines 15 to 17)."""
    candidates = np.where(problem.movable, e, -1.0)
    while len(candidates):
        vm = int(np.argmax(candidates))
        if candidates[vm] < 0:
            break
        destination = _best_host(problem, vm, tabu)
        if destination != NO_HOST:
            return vm, destination
        candidates[vm] = -1.0
    return None


def _best_host(problem: PlacementProblem, vm: int, tabu: set[tuple[int, int]]) -> int:
    """Return the host with the least own error of the VM."""
    board = problem.board
    allowed: Bools = problem.rules.allowed(vm, board.place).copy()
    allowed[board.place[vm]] = False
    for other, host in tabu:
        if other == vm:
            allowed[host] = False
    host = least_error(
        vm, allowed, board.rows, board.start, board.count, board.capacity, problem.stakes
    )
    return int(host)


def compute_errors(problem: PlacementProblem) -> Floats:
    """Return Eq. 2 for each VM, the largest over the resources (ComputeErrors)."""
    e = np.zeros(len(problem.board.place))
    for host in range(len(problem.board.count)):
        _recompute(problem, host, e)
    return e


def _recompute(problem: PlacementProblem, host: int, e: Floats) -> None:
    """Update the errors of the VMs of one host."""
    there = problem.board.on(host)
    given = np.empty(len(there))
    errors_on(there, len(there), problem.board.capacity[host], problem.stakes, given, e)
