"""Settlement of markets: from a wanted placement to a decision with reasons.

Each market is started, improved and settled. A strategy supplies only the middle part: a function
that gets a `PlacementProblem`, moves VMs on its board and returns the wanted placement.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import ParamSpec

import numpy as np

from merkatd.base.quantities import resource_amount, resource_amounts
from merkatd.cluster import (
    Bools,
    Decision,
    Deploy,
    Floats,
    HostState,
    Ints,
    Migrate,
    Plan,
    Snapshot,
)
from merkatd.cluster.columns import NO_HOST, NO_ROW
from merkatd.cluster.plan import Step, step_id
from merkatd.market.market_view import MarketView, market_view
from merkatd.market.price import price, price_of_whole_bids
from merkatd.placement.base.board import Board, excess, where_floors_fit
from merkatd.placement.base.host_shares import SUM_OF_SHORTFALLS, VmTerms, host_score, terms_of_vms
from merkatd.placement.base.least_load import start_market
from merkatd.placement.base.move_order import OrderedMoves
from merkatd.placement.base.placement_problem import PlacementProblem, must_leave
from merkatd.placement.contract import Pricing
from merkatd.placement.market.plan_halves import without_harmful_halves


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


Given = ParamSpec("Given")


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


def said(why: Callable[Given, str], *given: Given.args, **named: Given.kwargs) -> str:
    """Return the reason, or a substitute if `why` raises: no decision depends on its text."""
    try:
        return why(*given, **named)
    except Exception as error:  # noqa: BLE001 - no step depends on a text
        return f"no reason is available ({type(error).__name__}: {error})"


def _step(
    problem: PlacementProblem,
    orderly: OrderedMoves,
    vm: int,
    outcome: AllocationChange,
    board: Board,
    terms: VmTerms,
) -> Step:
    period = problem.snapshot.period
    source, host = int(problem.view.place[vm]), int(orderly.place[vm])
    after = tuple(
        step_id(period, Migrate.kind, problem.vm_id(other)) for other in orderly.after.get(vm, ())
    )
    if source == NO_HOST:
        return Deploy(
            period=period,
            vm=problem.vm_id(vm),
            host=problem.host_id(host),
            after=after,
            reason=said(why_deployed, problem, vm, outcome),
        )
    return Migrate(
        period=period,
        vm=problem.vm_id(vm),
        source=problem.host_id(source),
        host=problem.host_id(host),
        after=after,
        gain=_gain(board, terms, vm, source),
        reason=said(why_migrated, problem, vm, outcome),
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
