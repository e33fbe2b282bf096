"""Settlement of markets: from a wanted placement to a decision with reasons.

Each market is started, improved and settled. A strategy supplies only the middle part: a function
that gets a `PlacementProblem`, moves VMs on its board and returns the wanted placement.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from merkatd.cluster import (
    Decision,
    Deploy,
    Floats,
    Ints,
    Migrate,
    Plan,
    Snapshot,
)
from merkatd.cluster.columns import NO_HOST
from merkatd.cluster.plan import Step, step_id
from merkatd.market.market_view import MarketView, market_view
from merkatd.market.price import price, price_of_whole_bids
from merkatd.placement.base.board import Board
from merkatd.placement.base.host_shares import SUM_OF_SHORTFALLS, VmTerms, host_score, terms_of_vms
from merkatd.placement.base.least_load import start_market
from merkatd.placement.base.move_order import OrderedMoves
from merkatd.placement.base.placement_problem import PlacementProblem, must_leave
from merkatd.placement.contract import Pricing
from merkatd.placement.market.move_reasons import (
    AllocationChange,
    said,
    why_deployed,
    why_migrated,
    why_pending,
    why_stays,
    why_stuck,
)
from merkatd.placement.market.plan_halves import without_harmful_halves


@dataclass(frozen=True, slots=True, eq=False)
class Settlement:
    """The decision for one market."""

    place: Ints
    allocations: Floats
    """[vms, resources] of the market's VMs."""
    steps: tuple[Step, ...]
    reasons: dict[int, str]


def settle_market(problem: PlacementProblem, orderly: OrderedMoves) -> Settlement:
    """Divide the hosts as after the moves, and give the reason for each step, made or left out."""
    view, place = problem.view, orderly.place
    first, stakes = problem.first, problem.stakes
    if not np.array_equal(place == NO_HOST, problem.started == NO_HOST):
        first = view.first(place != NO_HOST)
        stakes = terms_of_vms(view, first.allocation)
    outcome = AllocationChange(
        place=place,
        first=first.allocation,
        before=view.on_hosts(problem.started).allocation,
        after=view.on_hosts(place).allocation,
    )
    board = Board(view, place)
    steps = tuple(_step(problem, orderly, vm, outcome, board, stakes) for vm in orderly.moves)
    running = [vm for vm in orderly.stuck if view.place[vm] != NO_HOST]
    reasons = {problem.vm_id(vm): said(why_stuck, problem, vm, orderly) for vm in running}
    for vm in np.flatnonzero(place == NO_HOST).tolist():
        reasons.setdefault(problem.vm_id(vm), said(why_pending, problem, vm, board))
    for vm in np.flatnonzero(must_leave(problem) & (place == view.place)).tolist():
        reasons.setdefault(problem.vm_id(vm), said(why_stays, problem, vm, board))
    return Settlement(place, outcome.after, steps, reasons)


def _step(
    problem: PlacementProblem,
    orderly: OrderedMoves,
    vm: int,
    outcome: AllocationChange,
    board: Board,
    terms: VmTerms,
) -> Step:
    source = int(problem.view.place[vm])
    if source == NO_HOST:
        return move_step(problem, orderly, vm, said(why_deployed, problem, vm, outcome))
    reason, gain = said(why_migrated, problem, vm, outcome), _gain(board, terms, vm, source)
    return move_step(problem, orderly, vm, reason, gain=gain)


def move_step(
    problem: PlacementProblem,
    orderly: OrderedMoves,
    vm: int,
    reason: str,
    *,
    after: Sequence[str] = (),
    gain: float = 0.0,
) -> Step:
    """Return the step to a VM's new host: it follows the moves that make room, and `after`."""
    period, source = problem.snapshot.period, int(problem.view.place[vm])
    others = orderly.after.get(vm, ())
    room = (step_id(period, Migrate.kind, problem.vm_id(other)) for other in others)
    host, before = problem.host_id(int(orderly.place[vm])), (*room, *after)
    number = problem.vm_id(vm)
    if source == NO_HOST:
        return Deploy(period=period, vm=number, host=host, after=before, reason=reason)
    return Migrate(
        period=period,
        vm=number,
        source=problem.host_id(source),
        host=host,
        after=before,
        gain=gain,
        reason=reason,
    )


def _gain(board: Board, terms: VmTerms, vm: int, source: int) -> float:
    """Return the shortfall, in credits, that this one migration removes."""
    host = int(board.place[vm])
    with_it = _shortfall(board, terms, source) + _shortfall(board, terms, host)
    board.move(vm, source)
    without = _shortfall(board, terms, source) + _shortfall(board, terms, host)
    board.move(vm, host)
    return without - with_it


def _shortfall(board: Board, terms: VmTerms, host: int) -> float:
    there, capacity = board.on(host), board.capacity[host]
    work = np.empty((2, len(there) + 1))
    return float(host_score(there, len(there), capacity, terms, SUM_OF_SHORTFALLS, work))


def decide_markets(
    snapshot: Snapshot,
    pricing: Pricing,
    improve: Callable[[PlacementProblem], Ints | OrderedMoves],
    harm: int = SUM_OF_SHORTFALLS,
    *,
    as_planned: bool = False,
) -> Decision:
    """Return the combined decision for all markets of the snapshot.

    `harm` and `as_planned` limit halves of plans: see Note [Halves of plans].
    """
    allocations = np.zeros_like(snapshot.vms.bid)
    prices = np.tile(pricing.reserve_prices(snapshot.resources), (len(snapshot.markets), 1))
    steps: list[Step] = []
    reasons: dict[int, str] = {}
    for market in range(len(snapshot.markets)):
        game = start_market(snapshot, market)
        improved = improve(game)
        if not isinstance(improved, OrderedMoves):
            improved = without_harmful_halves(game, improved, harm, as_planned=as_planned)
        settled = settle_market(game, improved)
        allocations[game.view.vms] = settled.allocations
        prices[market] = _price(snapshot, game.view, settled.place, pricing)
        steps.extend(settled.steps)
        reasons.update(settled.reasons)
        snapshot = with_arrivals(snapshot, settled.steps)
    return Decision(Plan.ordered(steps), allocations, prices, reasons)


def stay(snapshot: Snapshot, market: int, pricing: Pricing, why: str) -> Decision:
    """Return a decision without steps for one market; new VMs wait for the reason `why`."""
    view = market_view(snapshot, market)
    allocations = np.zeros_like(snapshot.vms.bid)
    prices = np.tile(pricing.reserve_prices(snapshot.resources), (len(snapshot.markets), 1))
    allocations[view.vms] = view.on_hosts(view.place).allocation
    prices[market] = _price(snapshot, view, view.place, pricing)
    waiting = snapshot.vms.id[view.vms[view.place == NO_HOST]].tolist()
    return Decision(Plan(()), allocations, prices, dict.fromkeys(waiting, why))


def _price(snapshot: Snapshot, view: MarketView, place: Ints, pricing: Pricing) -> Floats:
    reserve = pricing.reserve_prices(snapshot.resources)
    if pricing.whole_bids:
        return price_of_whole_bids(view.bid[place != NO_HOST], view.total, reserve)
    return price(view.price_level(pricing.rule, place), reserve)


def with_arrivals(snapshot: Snapshot, steps: Iterable[Step]) -> Snapshot:
    """Return the snapshot for the next markets, with the members of VM groups on their new hosts.

    Only VM groups link markets; other decisions of later markets do not read these VMs.
    """
    moves = [step for step in steps if isinstance(step, Deploy | Migrate)]
    if not moves or len(snapshot.markets) < 2 or not len(snapshot.roles):
        return snapshot
    host = snapshot.vms.host.copy()
    for step in moves:
        host[snapshot.vm_row(step.vm)] = snapshot.host_row(step.host)
    return replace(snapshot, vms=replace(snapshot.vms, host=host))
