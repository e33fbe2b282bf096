"""Strategy `tabu`, the default: a tabu search for the best placement.

# Note [The search of tabu]

In each iteration the search makes the best permitted move, even if it makes the placement worse. A
VM may not return to a host it left for `tenure` iterations, so the search does not undo its
last moves. It ends after `n_iter` moves without an improvement and returns to the best placement.

A move is scored by its effect on all VMs of the two hosts, not only on the VM that moves. Two VMs
may swap places. The objective is the shortfall weighed by bids, so that VMs with the highest
bids lack least, or the paper's largest error.

Example: hosts 0 and 1 with 100 % of a core each; VMs 0 and 1 on host 0 bid 30 each, VMs 2 and 3 on
host 1 bid 10 each. As one host the market would give them 75, 75, 25 and 25. Now each gets 50, and
the shortfall is 2 x 30 x 25 / 75 = 20. VM 0 moves to host 1: 10 is left. VM 2 moves to host 0: 0 is
left, and the search ends. Used by `_least_shortfall` and `_least_error`.

VMs leave drained and overfull hosts before any gain, within the limits on migrations: a large host
needs several periods. VMs that may not move stay. A migrated VM stays for `hold_s`, a
host takes part in few migrations at once, and a migration that gains too little is not made. Loads
are kept even where that costs little.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Protocol

import numpy as np

from merkatd.cluster import Bools, Decision, Ints, Snapshot
from merkatd.cluster.columns import NO_HOST
from merkatd.market.error import errors
from merkatd.placement.base.host_shares import LARGEST_ERROR, LARGEST_LACK, SUM_OF_SHORTFALLS
from merkatd.placement.base.least_load import evacuate_to_least_load
from merkatd.placement.base.move_order import OrderedMoves, order_moves
from merkatd.placement.base.placement_problem import PlacementProblem, are_held, must_leave
from merkatd.placement.contract import parameter
from merkatd.placement.market.overfull_hosts import relieve_board, relieve_first
from merkatd.placement.market.plan_halves import without_harmful_halves
from merkatd.placement.market.search_state import Move, Search, SearchLimits
from merkatd.placement.market.settlement import decide_markets
from merkatd.placement.tabu.even_loads import host_bids, host_loads, level_loads, relieve_overloads
from merkatd.placement.tabu.exhaustive_moves import ExhaustiveMoves, small_enough
from merkatd.placement.tabu.largest_error_moves import LargestErrorMoves
from merkatd.placement.tabu.paper import MarketSettings, algorithm_1
from merkatd.placement.tabu.shortfall_moves import ShortfallMoves, try_single


class Neighbourhood(Protocol):
    """A set of moves, and the objective that they lower."""

    def total(self) -> float:
        """Return the present value of the objective."""

    def best(self) -> Move | None:
        """Return the best move that the limits allow; None if they allow none."""


class SingleMoves(Protocol):
    """Moves of one VM each."""

    def best_single(self) -> Move | None:
        """Return the best move of one VM that the limits allow; None if they allow none."""


@dataclass(frozen=True, slots=True, eq=False)
class Descent:
    """The best placement of a search, and its objective."""

    place: Ints
    least: float


def tabu_search(
    search: Search, hood: Neighbourhood, n_iter: int, good_enough: float = 0.0
) -> Descent:
    """Search from the board's placement, and leave the board at the best placement found."""
    best = search.board.place.copy()
    least = hood.total()
    stale = 0
    while stale < n_iter and least > good_enough:
        move = hood.best()
        if move is None:
            break
        search.make(move.changes)
        total = hood.total()
        stale += 1
        if total < least:
            best, least, stale = search.board.place.copy(), total, 0
    moved = np.flatnonzero(search.board.place != best)
    search.make(tuple((int(vm), int(best[vm])) for vm in moved))
    return Descent(best, least)


def climb_down(search: Search, hood: SingleMoves, least_gain: float) -> None:
    """Make single moves as long as each gains, so that any part of them does no harm."""
    while (move := hood.best_single()) is not None:
        if move.gain <= 0 or move.gain < least_gain * move.extra:
            return
        search.make(move.changes)


def drop_useless_moves(search: Search, least_gain: float) -> None:
    """Undo every migration that gains nothing, or less than `least_gain`."""
    useless = True
    while useless:
        useless = False
        away = search.away()
        away = away[search.movable[away]]
        losses = sorted((search.loss_without(vm), vm) for vm in away.tolist())
        for _, vm in losses:
            loss = search.loss_without(vm)
            if loss > 0 and loss >= least_gain:
                continue
            search.make(((vm, int(search.home[vm])),))
            useless = True


def evacuate_first(search: Search) -> None:
    """Move VMs that must leave, by id and within the limits, to where they do least harm."""
    game = search.game
    leaving = must_leave(game) & (search.board.place == game.view.place) & search.movable
    for vm in np.flatnonzero(leaving).tolist():
        if search.may_move(np.array([vm]))[0]:
            move = try_single(search, vm)
            if move is not None:
                search.make(move.changes)


class Objective(StrEnum):
    """The value that the search minimises."""

    SHORTFALL = "shortfall"
    """The sum over the VMs of bid times shortfall."""
    ERROR = "error"
    """The largest allocation error (Eq. 2), as in the paper."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TabuSettings(MarketSettings):
    """The settings of the search. `e_max` applies only to the objective `error`."""

    objective: Objective = Objective.SHORTFALL
    """The value that the search minimises. shortfall: the sum of bid times shortfall over the VMs.
    error: the largest allocation error, as in the paper."""
    hold_s: float = parameter(600.0, unit="seconds", most=30 * 86_400.0)
    """The time for which a VM stays on its host after a migration."""
    least_gain: float = parameter(0.01, most=10.0)
    """The least gain of a migration. For the objective `shortfall` it is a part of the market's
    average bid, for the objective `error` an allocation error."""
    migrations_per_host: int = parameter(8, unit="migrations", most=100_000)
    """The most migrations from and to one host in a period."""
    load_slack: float = parameter(0.15, most=10.0)
    """The part by which the largest load of a host may exceed the most even one that single moves
    reach."""
    load_price: float = parameter(0.25, most=10.0)
    """The largest part by which the shortfall may increase so that loads become even."""
    load_m_max: int = parameter(5, unit="migrations", most=100_000)
    """The search evens out loads only if at least this many migrations are allowed."""


def tabu(
    snapshot: Snapshot,
    settings: TabuSettings,
    memory: Mapping[str, Any],  # noqa: ARG001 - the snapshot has the times of migrations
    random: np.random.Generator,  # noqa: ARG001 - ties go to the lowest id, nothing is drawn
) -> Decision:
    """Return the decision that improves each market of the snapshot within the limits."""
    stay = are_held(snapshot, settings.hold_s)
    harm = harm_of(settings)
    return decide_markets(
        snapshot, settings.pricing, lambda game: improve(game, settings, stay), harm
    )


def harm_of(settings: TabuSettings) -> int:
    """Return the measure of harm for halves of plans."""
    by_error = settings.objective is Objective.ERROR
    return LARGEST_LACK if by_error else SUM_OF_SHORTFALLS


def improve(problem: PlacementProblem, settings: TabuSettings, stay: Bools) -> Ints | OrderedMoves:
    """Return the best placement found for the objective. Orders to leave override hold times."""
    movable = problem.movable & (~stay[problem.view.vms] | must_leave(problem))
    if settings.objective is Objective.ERROR:
        wanted = _least_error(problem, settings, movable)
    else:
        wanted = _least_shortfall(problem, settings, movable)
    return _with_others_instead(problem, settings, movable, wanted)


def _with_others_instead(
    problem: PlacementProblem, settings: TabuSettings, movable: Bools, wanted: Ints
) -> Ints | OrderedMoves:
    """Return the wanted moves; single moves with a gain replace those left out as harmful."""
    orderly = without_harmful_halves(problem, wanted, harm_of(settings))
    left_out = orderly.place != wanted
    left_out[list(orderly.stuck)] = False
    if not left_out.any():
        return orderly
    by_error = settings.objective is Objective.ERROR
    objective = LARGEST_ERROR if by_error else SUM_OF_SHORTFALLS
    limits = _limits(problem, settings)
    search = Search(problem, problem.fresh_board(orderly.place), movable, objective, limits)
    least_gain = settings.least_gain * (1.0 if by_error else _mean_bid(problem))
    climb_down(
        search, LargestErrorMoves(search) if by_error else ShortfallMoves(search), least_gain
    )
    return search.board.place


def _limits(problem: PlacementProblem, settings: TabuSettings) -> SearchLimits:
    return SearchLimits(
        m_max=settings.m_max(len(problem.started)),
        per_host=settings.migrations_per_host,
        tenure=settings.tenure,
    )


def _least_shortfall(problem: PlacementProblem, settings: TabuSettings, movable: Bools) -> Ints:
    """Return the placement with the least shortfall, or an even one with little more.

    VMs leave overfull and drained hosts before all other moves.
    """
    limits = _limits(problem, settings)
    least_gain = settings.least_gain * _mean_bid(problem)
    search = Search(problem, problem.board, movable, SUM_OF_SHORTFALLS, limits)
    relieve_first(search)
    evacuate_first(search)
    ordered, before = search.board.place.copy(), float(search.scores.sum())
    free = tabu_search(search, _moves_of(search), settings.n_iter)
    drop_useless_moves(search, least_gain)
    _no_worse(search, ordered, before)
    if free.least <= 0 or limits.m_max < settings.load_m_max:
        return search.board.place
    _, evenest = level_loads(problem.view, problem.started, movable, limits.m_max)
    most_load = (1.0 + settings.load_slack) * evenest
    bids = host_bids(problem.view, search.board.place)
    if host_loads(bids, problem.view.capacity).max(initial=0.0) <= most_load:
        return search.board.place
    even = Search(problem, problem.fresh_board(), movable, SUM_OF_SHORTFALLS, limits)
    relieve_first(even)
    evacuate_first(even)
    even.most_load = most_load  # set after orders to leave, so that no VM stays for even loads
    relieve_overloads(even)
    descent = tabu_search(even, _moves_of(even), settings.n_iter)
    if descent.least > min((1.0 + settings.load_price) * free.least, before):
        return search.board.place
    drop_useless_moves(even, least_gain)
    _no_worse(even, ordered, before)
    return even.board.place


def _no_worse(search: Search, ordered: Ints, before: float) -> None:
    """Undo all moves except orders to leave if the shortfall is more than `before`."""
    if search.scores.sum() > before:
        away = np.flatnonzero(search.board.place != ordered)
        search.make(tuple((int(vm), int(ordered[vm])) for vm in away))


def _moves_of(search: Search) -> Neighbourhood:
    if small_enough(search):
        return ExhaustiveMoves(search)
    return (
        LargestErrorMoves(search) if search.objective == LARGEST_ERROR else ShortfallMoves(search)
    )


def _mean_bid(problem: PlacementProblem) -> float:
    bidding = problem.stakes.weight > 0
    return float(problem.stakes.weight[bidding].mean()) if bidding.any() else 0.0


def _least_error(problem: PlacementProblem, settings: TabuSettings, movable: Bools) -> Ints:
    """Return the placement with the least largest error, at most that of Algorithm 1."""
    limits = _limits(problem, settings)
    as_printed = replace(problem, board=problem.fresh_board())
    stay = ~relieve_board(as_printed, limits.m_max)
    as_printed = replace(as_printed, movable=movable & ~stay)
    evacuate_to_least_load(
        as_printed, as_printed.board, limits.m_max - problem.migrations(as_printed.board.place)
    )
    printed = Search(
        problem,
        problem.fresh_board(algorithm_1(as_printed, settings)),
        movable,
        LARGEST_ERROR,
        limits,
    )
    search = Search(problem, problem.board, movable, LARGEST_ERROR, limits)
    relieve_first(search)
    evacuate_first(search)
    tabu_search(search, _moves_of(search), settings.n_iter, settings.e_max)
    drop_useless_moves(search, settings.least_gain)
    ours, theirs = search.board.place, printed.board.place
    if printed.keeps_to_limits() and _error_reached(problem, theirs) < _error_reached(
        problem, ours
    ):
        return theirs
    return ours


def _error_reached(problem: PlacementProblem, wanted: Ints) -> float:
    """Return the largest error after all feasible moves."""
    place = order_moves(problem.view, problem.rules, wanted).place
    first = problem.view.first(place != NO_HOST).allocation
    return float(errors(first, problem.view.on_hosts(place).allocation).max(initial=0.0))
