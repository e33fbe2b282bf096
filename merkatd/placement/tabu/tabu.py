"""Strategy `tabu`, the default, and its descent.

A VM stays away from the host it left for some iterations, so the search does not fall back
at once into what it climbed out of. It ends when nothing has improved for `n_iter` moves.

A drained host is to be worked on, so this comes before any gain. It keeps to the limits on
migrations: a large host is empty after some periods. VMs that may not move stay.

What is made small is a choice: the shortfall weighed by bids, so that those who pay most
lack least, or the paper's largest error. A move is chosen by what it does to all who are on
the two hosts, not by what it does to the VM that moves, and two VMs may change places. A
VM that was migrated stays for a while, a host is not worried by many migrations at once, a
migration that gains too little is not made, and loads are kept even where that costs little.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Protocol

import numpy as np

from merkatd.cluster import Bools, Decision, Ints, Snapshot
from merkatd.cluster.columns import NOWHERE
from merkatd.market.error import errors
from merkatd.placement.base.host_shares import LARGEST_ERROR, LARGEST_LACK, SUM_OF_SHORTFALLS
from merkatd.placement.base.least_load import send_away
from merkatd.placement.base.move_order import OrderedMoves, order_moves
from merkatd.placement.base.placement_problem import PlacementProblem, held, must_leave
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
    """What moves there are, and what is made small by them."""

    def total(self) -> float:
        """The objective now."""

    def best(self) -> Move | None:
        """The best move that the limits allow, None where they allow none."""


class Singles(Protocol):
    """Moves of one VM each."""

    def best_single(self) -> Move | None:
        """The best one that the limits allow, None where they allow none."""


@dataclass(frozen=True, slots=True, eq=False)
class Descent:
    """The best that was found."""

    place: Ints
    least: float


def tabu_search(
    search: Search, hood: Neighbourhood, n_iter: int, good_enough: float = 0.0
) -> Descent:
    """Search from where the board is, and leave it at the best placement found."""
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


def climb_down(search: Search, hood: Singles, least_gain: float) -> None:
    """Make single moves as long as each gains: whatever is begun of them does no harm."""
    while (move := hood.best_single()) is not None:
        if move.gain <= 0 or move.gain < least_gain * move.extra:
            return
        search.make(move.changes)


def drop_useless_moves(search: Search, least_gain: float) -> None:
    """Send home every VM that may move whose migration gains nothing, or less than `least_gain`."""
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
    """Move them, by id and within the limits, to where they do least harm."""
    game = search.game
    leaving = must_leave(game) & (search.board.place == game.view.place) & search.movable
    for vm in np.flatnonzero(leaving).tolist():
        if search.may_move(np.array([vm]))[0]:
            move = try_single(search, vm)
            if move is not None:
                search.make(move.changes)


class Objective(StrEnum):
    """What the search makes small."""

    SHORTFALL = "shortfall"
    """The sum over the VMs of bid times shortfall."""
    ERROR = "error"
    """The largest allocation error (Eq. 2), as in the paper."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TabuSettings(MarketSettings):
    """Algorithm 1's settings, and ours. E_max counts only where the objective is the error."""

    objective: Objective = Objective.SHORTFALL
    hold_s: float = 600.0
    """How long a VM stays where a migration brought it."""
    least_gain: float = 0.01
    """The least a migration must gain: a part of what a VM of the market bids on average,
    or an error, by the objective."""
    migrations_per_host: int = 8
    """The most migrations from and to one host together in a period."""
    load_slack: float = 0.15
    """How far above the evenest that single moves could reach the largest load may stay,"""
    load_price: float = 0.25
    """and by what part the shortfall left may be greater for it."""
    load_m_max: int = 5
    """Where fewer migrations than this are allowed, none is spent on loads."""


def tabu(
    snapshot: Snapshot,
    settings: TabuSettings,
    memory: Mapping[str, Any],  # noqa: ARG001 - the snapshot knows when VMs were moved
    rng: np.random.Generator,  # noqa: ARG001 - ties go to the lowest id, nothing is drawn
) -> Decision:
    """Improve each market of the snapshot, within the limits."""
    stay = held(snapshot, settings.hold_s)
    harm = harm_of(settings)
    return decide_markets(
        snapshot, settings.pricing, lambda game: improve(game, settings, stay), harm
    )


def harm_of(settings: TabuSettings) -> int:
    """Return the measure by which halves of plans are judged."""
    by_error = settings.objective is Objective.ERROR
    return LARGEST_LACK if by_error else SUM_OF_SHORTFALLS


def improve(game: PlacementProblem, settings: TabuSettings, stay: Bools) -> Ints | OrderedMoves:
    """The best placement found, by the chosen objective. An order counts before hold times."""
    movable = game.movable & (~stay[game.view.vms] | must_leave(game))
    if settings.objective is Objective.ERROR:
        wanted = _least_error(game, settings, movable)
    else:
        wanted = _least_shortfall(game, settings, movable)
    return _with_others_instead(game, settings, movable, wanted)


def _with_others_instead(
    game: PlacementProblem, settings: TabuSettings, movable: Bools, wanted: Ints
) -> Ints | OrderedMoves:
    """The same, but moves of which no half may be begun give way to single ones that gain."""
    orderly = without_harmful_halves(game, wanted, harm_of(settings))
    left_out = orderly.place != wanted
    left_out[list(orderly.stuck)] = False
    if not left_out.any():
        return orderly
    by_error = settings.objective is Objective.ERROR
    objective = LARGEST_ERROR if by_error else SUM_OF_SHORTFALLS
    limits = _limits(game, settings)
    search = Search(game, game.fresh_board(orderly.place), movable, objective, limits)
    least_gain = settings.least_gain * (1.0 if by_error else _mean_bid(game))
    climb_down(
        search, LargestErrorMoves(search) if by_error else ShortfallMoves(search), least_gain
    )
    return search.board.place


def _limits(game: PlacementProblem, settings: TabuSettings) -> SearchLimits:
    return SearchLimits(
        m_max=settings.m_max(len(game.started)),
        per_host=settings.migrations_per_host,
        tenure=settings.tenure,
    )


def _least_shortfall(game: PlacementProblem, settings: TabuSettings, movable: Bools) -> Ints:
    """The least shortfall, or the least among even placements where that is not much more.

    Overfull hosts are relieved and drained ones emptied before anything else.
    """
    limits = _limits(game, settings)
    least_gain = settings.least_gain * _mean_bid(game)
    search = Search(game, game.board, movable, SUM_OF_SHORTFALLS, limits)
    relieve_first(search)
    evacuate_first(search)
    ordered, before = search.board.place.copy(), float(search.scores.sum())
    free = tabu_search(search, _moves_of(search), settings.n_iter)
    drop_useless_moves(search, least_gain)
    _no_worse(search, ordered, before)
    if free.least <= 0 or limits.m_max < settings.load_m_max:
        return search.board.place
    _, evenest = level_loads(game.view, game.started, movable, limits.m_max)
    most_load = (1.0 + settings.load_slack) * evenest
    bids = host_bids(game.view, search.board.place)
    if host_loads(bids, game.view.capacity).max(initial=0.0) <= most_load:
        return search.board.place
    even = Search(game, game.fresh_board(), movable, SUM_OF_SHORTFALLS, limits)
    relieve_first(even)
    evacuate_first(even)
    even.most_load = most_load  # after the orders to leave: an uneven host is no reason to stay
    relieve_overloads(even)
    descent = tabu_search(even, _moves_of(even), settings.n_iter)
    if descent.least > min((1.0 + settings.load_price) * free.least, before):
        return search.board.place
    drop_useless_moves(even, least_gain)
    _no_worse(even, ordered, before)
    return even.board.place


def _no_worse(search: Search, ordered: Ints, before: float) -> None:
    """Take all back but what must be, where what was trimmed leaves more shortfall than before."""
    if search.scores.sum() > before:
        away = np.flatnonzero(search.board.place != ordered)
        search.make(tuple((int(vm), int(ordered[vm])) for vm in away))


def _moves_of(search: Search) -> Neighbourhood:
    if small_enough(search):
        return ExhaustiveMoves(search)
    return (
        LargestErrorMoves(search) if search.objective == LARGEST_ERROR else ShortfallMoves(search)
    )


def _mean_bid(game: PlacementProblem) -> float:
    bidding = game.stakes.weight > 0
    return float(game.stakes.weight[bidding].mean()) if bidding.any() else 0.0


def _least_error(game: PlacementProblem, settings: TabuSettings, movable: Bools) -> Ints:
    """The least largest error, never more than Algorithm 1 finds under the same limits."""
    limits = _limits(game, settings)
    as_printed = replace(game, board=game.fresh_board())
    stay = ~relieve_board(as_printed, limits.m_max)
    as_printed = replace(as_printed, movable=movable & ~stay)
    send_away(as_printed, as_printed.board, limits.m_max - game.migrations(as_printed.board.place))
    printed = Search(
        game,
        game.fresh_board(algorithm_1(as_printed, settings)),
        movable,
        LARGEST_ERROR,
        limits,
    )
    search = Search(game, game.board, movable, LARGEST_ERROR, limits)
    relieve_first(search)
    evacuate_first(search)
    tabu_search(search, _moves_of(search), settings.n_iter, settings.e_max)
    drop_useless_moves(search, settings.least_gain)
    ours, theirs = search.board.place, printed.board.place
    if printed.keeps_to_limits() and _error_reached(game, theirs) < _error_reached(game, ours):
        return theirs
    return ours


def _error_reached(game: PlacementProblem, wanted: Ints) -> float:
    """The largest error once all moves are made that can be."""
    place = order_moves(game.view, game.rules, wanted).place
    first = game.view.first(place != NOWHERE).allocation
    return float(errors(first, game.view.on_hosts(place).allocation).max(initial=0.0))
