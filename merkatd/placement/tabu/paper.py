"""Strategy `paper`: Algorithm 1 as printed but for its slips, and its settings.

The listing starts e_worse at infinity, which makes a balanced cloud worse before it stops:
it must start as the largest error there is. M_max is an "at most". Only pairs of VM and
host are tabu, the destination is another host than the source, and ties go to the lowest
id. A VM that may not move or has nowhere to go is passed over, but its error counts.

ComputeErrors need not look at the whole cloud again after a move: only two hosts changed.

The paper knows neither administrators nor floors: VMs that must leave a host, because it is
drained or overfull, do so before Algorithm 1 begins, and count in M_max.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from merkatd.cluster import Bools, Decision, Floats, Ints, Snapshot
from merkatd.cluster.columns import NOWHERE
from merkatd.placement.base.host_shares import LARGEST_LACK
from merkatd.placement.base.least_load import send_away
from merkatd.placement.base.placement_problem import PlacementProblem
from merkatd.placement.base.strategy import Pricing
from merkatd.placement.market.host_errors import errors_on, least_error
from merkatd.placement.market.overfull_hosts import relieve_board
from merkatd.placement.market.settlement import decide_markets


@dataclass(frozen=True, slots=True, kw_only=True)
class MarketSettings:
    """What Algorithm 1 is told, under the paper's names."""

    n_iter: int = 20
    """Iterations without an improvement before the search ends."""
    e_max: float = 0.05
    """The largest allocation error that is left alone."""
    m_max_part: float = 0.02
    """The part of the market's VMs that may be migrated in a period,"""
    m_max_least: int = 5
    """and how many may be migrated however small the market is."""
    tenure: int = 10
    """For how many iterations a VM stays away from the host it left."""
    pricing: Pricing = field(default_factory=Pricing)

    def m_max(self, vms: int) -> int:
        """The most migrations in a market of so many VMs."""
        return max(self.m_max_least, int(self.m_max_part * vms))


def paper(
    snapshot: Snapshot,
    settings: MarketSettings,
    memory: Mapping[str, Any],  # noqa: ARG001 - Algorithm 1 remembers nothing between periods
    rng: np.random.Generator,  # noqa: ARG001 - nor does it draw
) -> Decision:
    """Algorithm 1 on each market of the snapshot."""

    def improve(game: PlacementProblem) -> Ints:
        most = settings.m_max(len(game.started))
        relieved = replace(game, movable=relieve_board(game, most))
        send_away(relieved, game.board, most - game.migrations(game.board.place))
        return algorithm_1(relieved, settings)

    return decide_markets(snapshot, settings.pricing, improve, LARGEST_LACK)


def algorithm_1(game: PlacementProblem, settings: MarketSettings) -> Ints:
    """Lines 9 to 30: the best placement found with at most M_max migrations."""
    board = game.board
    m_max = settings.m_max(len(board.place))
    e = compute_errors(game)
    best, e_worse = board.place.copy(), float(e.max(initial=0.0))
    tabu: dict[tuple[int, int], int] = {}
    iteration = n_iterations = 0
    while n_iterations < settings.n_iter and e_worse > settings.e_max:
        iteration += 1
        move = _next_move(game, e, {pair for pair, end in tabu.items() if end >= iteration})
        if move is None:
            break
        vm, destination = move
        source = int(board.place[vm])
        board.move(vm, destination)
        tabu[vm, source] = iteration + settings.tenure
        for host in (source, destination):
            _recompute(game, host, e)
        e_max = float(e.max())
        if e_worse - e_max > 0 and game.migrations(board.place) <= m_max:
            best, e_worse, n_iterations = board.place.copy(), e_max, 0
        else:
            n_iterations += 1
    return best


def _next_move(
    game: PlacementProblem, e: Floats, tabu: set[tuple[int, int]]
) -> tuple[int, int] | None:
    """Lines 15 to 17: the VM with the largest error that can move, and its best host."""
    candidates = np.where(game.movable, e, -1.0)
    while len(candidates):
        vm = int(np.argmax(candidates))
        if candidates[vm] < 0:
            break
        destination = _best_host(game, vm, tabu)
        if destination != NOWHERE:
            return vm, destination
        candidates[vm] = -1.0
    return None


def _best_host(game: PlacementProblem, vm: int, tabu: set[tuple[int, int]]) -> int:
    """The host on which the VM's own error is least."""
    board = game.board
    allowed: Bools = game.rules.allowed(vm, board.place).copy()
    allowed[board.place[vm]] = False
    for other, host in tabu:
        if other == vm:
            allowed[host] = False
    host = least_error(
        vm, allowed, board.rows, board.start, board.count, board.capacity, game.stakes
    )
    return int(host)


def compute_errors(game: PlacementProblem) -> Floats:
    """ComputeErrors: Eq. 2 for each VM, the larger over the resources."""
    e = np.zeros(len(game.board.place))
    for host in range(len(game.board.count)):
        _recompute(game, host, e)
    return e


def _recompute(game: PlacementProblem, host: int, e: Floats) -> None:
    """ComputeErrors for the VMs of one host."""
    there = game.board.on(host)
    given = np.empty(len(there))
    errors_on(there, len(there), game.board.capacity[host], game.stakes, given, e)
