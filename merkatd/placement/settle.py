"""From a placement that can be reached to what everybody gets, and the steps with reasons."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ParamSpec

import numpy as np

from merkatd.cluster import Deploy, Floats, Ints, Migrate
from merkatd.cluster.steps import Step, step_id
from merkatd.market.view import NOWHERE
from merkatd.placement.board import Board
from merkatd.placement.evacuate import must_leave
from merkatd.placement.game import Game
from merkatd.placement.onehost import SUM_OF_SHORTFALLS, Stakes, score, stakes_of
from merkatd.placement.order import Orderly
from merkatd.placement.reasons import (
    Outcome,
    why_deployed,
    why_migrated,
    why_pending,
    why_stays,
    why_stuck,
)

Given = ParamSpec("Given")


@dataclass(frozen=True, slots=True, eq=False)
class Settled:
    """The outcome of one market."""

    place: Ints
    allocations: Floats
    """[vms, resources] of the market's VMs."""
    steps: tuple[Step, ...]
    reasons: dict[int, str]


def settle(game: Game, orderly: Orderly) -> Settled:
    """Divide the hosts as they will be, and say why each step is taken or left out."""
    view, place = game.view, orderly.place
    first, stakes = game.first, game.stakes
    if not np.array_equal(place == NOWHERE, game.started == NOWHERE):
        first = view.first(place != NOWHERE)
        stakes = stakes_of(view, first.allocation)
    outcome = Outcome(
        place=place,
        first=first.allocation,
        before=view.on_hosts(game.started).allocation,
        after=view.on_hosts(place).allocation,
    )
    board = Board(view, place)
    steps = tuple(_step(game, orderly, vm, outcome, board, stakes) for vm in orderly.moves)
    running = [vm for vm in orderly.stuck if view.place[vm] != NOWHERE]
    reasons = {game.vm_id(vm): said(why_stuck, game, vm, orderly) for vm in running}
    for vm in np.flatnonzero(place == NOWHERE).tolist():
        reasons.setdefault(game.vm_id(vm), said(why_pending, game, vm, board))
    for vm in np.flatnonzero(must_leave(game) & (place == view.place)).tolist():
        reasons.setdefault(game.vm_id(vm), said(why_stays, game, vm, board))
    return Settled(place, outcome.after, steps, reasons)


def said(why: Callable[Given, str], *given: Given.args, **named: Given.kwargs) -> str:
    """Return the reason, or a substitute if it raises: no decision depends on its text."""
    try:
        return why(*given, **named)
    except Exception as error:  # noqa: BLE001 - no step depends on a text
        return f"no reason is available ({type(error).__name__}: {error})"


def _step(
    game: Game, orderly: Orderly, vm: int, outcome: Outcome, board: Board, stakes: Stakes
) -> Step:
    period = game.snapshot.period
    source, host = int(game.view.place[vm]), int(orderly.place[vm])
    after = tuple(
        step_id(period, Migrate.kind, game.vm_id(other)) for other in orderly.after.get(vm, ())
    )
    if source == NOWHERE:
        return Deploy(
            period=period,
            vm=game.vm_id(vm),
            host=game.host_id(host),
            after=after,
            reason=said(why_deployed, game, vm, outcome),
        )
    return Migrate(
        period=period,
        vm=game.vm_id(vm),
        source=game.host_id(source),
        host=game.host_id(host),
        after=after,
        gain=_gain(board, stakes, vm, source),
        reason=said(why_migrated, game, vm, outcome),
    )


def _gain(board: Board, stakes: Stakes, vm: int, source: int) -> float:
    """The shortfall, in credits, that there would be again without this one migration."""
    host = int(board.place[vm])
    with_it = _shortfall(board, stakes, source) + _shortfall(board, stakes, host)
    board.move(vm, source)
    without = _shortfall(board, stakes, source) + _shortfall(board, stakes, host)
    board.move(vm, host)
    return without - with_it


def _shortfall(board: Board, stakes: Stakes, host: int) -> float:
    there = board.on(host)
    work = np.empty((2, len(there) + 1))
    return float(score(there, len(there), board.capacity[host], stakes, SUM_OF_SHORTFALLS, work))
