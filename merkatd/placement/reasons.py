"""Why: each step, and each VM that stays pending, in words an administrator understands."""

from dataclasses import dataclass

import numpy as np

from merkatd.cluster import Bools, Floats, HostState, Ints
from merkatd.market.view import NOWHERE
from merkatd.placement.board import Board, where_floors_fit
from merkatd.placement.floors import excess
from merkatd.placement.game import Game
from merkatd.placement.order import Orderly


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """What the plan changes for everybody: allocations are [vms, resources]."""

    place: Ints
    first: Floats
    before: Floats
    after: Floats


def why_deployed(game: Game, vm: int, outcome: Outcome) -> str:
    """A new VM starts where there is least load, or where the search found it better."""
    host = int(outcome.place[vm])
    name = _host(game, host)
    gets = _amounts(game, outcome.after[vm])
    if host == game.started[vm]:
        return f"{name} had the least load of all hosts that can take it: it gets {gets}"
    return f"on {name} it gets {gets}, more evenly than where there is least load"


def why_migrated(game: Game, vm: int, outcome: Outcome) -> str:
    """The VM itself gains, or it makes room for others, or its host must be emptied."""
    source, host = int(game.view.place[vm]), int(outcome.place[vm])
    if game.snapshot.hosts.state[game.view.hosts[source]] == HostState.DRAINED:
        return f"{_host(game, source)} is drained"
    if game.rules.leaving[vm]:
        return f"it is to be moved away from {_host(game, source)}"
    over = excess(game.view, game.view.place)[source]
    if over.any():
        most = int(np.argmax(over / np.maximum(game.view.capacity[source], 1.0)))
        return (
            f"the floors on {_host(game, source)} exceed its {game.snapshot.resources[most]}"
            f" by {_n(over[most])}"
        )
    lack = _lacks(outcome.first[vm], outcome.before[vm])
    worst = int(np.argmax(lack))
    if outcome.after[vm, worst] > outcome.before[vm, worst] and lack[worst] > 0:
        resource = game.snapshot.resources[worst]
        return (
            f"of its {_n(outcome.first[vm, worst])} {resource} it gets"
            f" {_n(outcome.before[vm, worst])} on {_host(game, source)}"
            f" and {_n(outcome.after[vm, worst])} on {_host(game, host)}"
        )
    return _makes_room(game, source, host, outcome)


def _makes_room(game: Game, source: int, host: int, outcome: Outcome) -> str:
    """Who on the source gains most, weighed by bids, from what the VM leaves behind."""
    stay = np.flatnonzero((outcome.place == source) & (game.started == source))
    if len(stay):
        relief = _lacks(outcome.first[stay], outcome.before[stay]) - _lacks(
            outcome.first[stay], outcome.after[stay]
        )
        value = relief * game.stakes.weight[stay, np.newaxis]
        at, worst = np.unravel_index(int(np.argmax(value)), value.shape)
        if value[at, worst] > 0:
            other = int(stay[at])
            return (
                f"makes room on {_host(game, source)}: VM {game.vm_id(other)} gets"
                f" {_n(outcome.after[other, worst])} {game.snapshot.resources[worst]}"
                f" instead of {_n(outcome.before[other, worst])}"
            )
    return f"evens out {_host(game, source)} and {_host(game, host)}"


def why_stuck(game: Game, vm: int, orderly: Orderly) -> str:
    """A move that would need a place which only later becomes free."""
    others = [str(game.vm_id(other)) for other in orderly.stuck if other != vm]
    ring = f" (with VM {', '.join(others)})" if others else ""
    return f"would have to change places{ring}, and no host has room for both meanwhile"


def why_stays(game: Game, vm: int, board: Board) -> str:
    """A VM that is to leave its host, and is still there with this plan."""
    source = _host(game, int(game.view.place[vm]))
    why = why_pending(game, vm, board, "its turn among the migrations of a period comes later")
    return f"is to leave {source}: {why}"


def why_pending(
    game: Game,
    vm: int,
    board: Board,
    fits: str = "waits for room that this period's migrations make",
) -> str:
    """The first constraint that leaves no host, and what would satisfy it."""
    row = int(game.view.vms[vm])
    market = game.snapshot.markets.name[game.view.market]
    if not game.view.open.any():
        return f"no host of market {market} takes VMs now"
    by_requirement = game.rules.by_requirement(vm)
    if not by_requirement.any():
        # A VM that is to leave its host looks for another one.
        other = "other " if game.rules.leaving[vm] else ""
        kind = int(game.snapshot.vms.requirement[row])
        if kind == NOWHERE:
            return f"no {other}host of market {market} takes VMs now"
        requirement = game.snapshot.requirements.name[kind]
        return (
            f"no {other}host of market {market} that takes VMs meets its requirements"
            f" ({requirement})"
        )
    allowed = game.rules.allowed(vm, board.place)
    if not allowed.any():
        role = game.snapshot.roles.name[game.snapshot.vms.role[row]]
        return f"its VM group (role {role}) leaves none of {int(by_requirement.sum())} hosts"
    fitting = where_floors_fit(
        vm, allowed, board.rows, board.start, board.count, board.capacity, game.view.floor
    )
    if fitting.any():
        return fits
    return _lacks_room(game, vm, allowed, board)


def _lacks_room(game: Game, vm: int, allowed: Bools, board: Board) -> str:
    """The resource whose floors come nearest to fitting, and how much is missing."""
    hosts = np.flatnonzero(allowed)
    placed = board.place != NOWHERE
    free = np.stack(
        [
            board.capacity[:, column]
            - np.bincount(board.place[placed], game.view.floor[placed, column], len(board.count))
            for column in range(board.capacity.shape[1])
        ],
        axis=1,
    )[hosts]
    floor = game.view.floor[vm]
    missing = np.maximum(floor - free, 0.0) / np.maximum(floor, 1.0)
    best = int(np.argmin(missing.max(axis=1)))
    worst = int(np.argmax(missing[best]))
    return (
        f"needs {_n(floor[worst])} {game.snapshot.resources[worst]} as its floor;"
        f" of {len(hosts)} hosts that may take it {_host(game, int(hosts[best]))} comes nearest,"
        f" with {_n(max(free[best, worst], 0.0))} not promised to others"
    )


def _lacks(first: Floats, given: Floats) -> Floats:
    """The part of the first allocation that is missing."""
    return np.divide(
        np.maximum(first - given, 0.0), first, out=np.zeros_like(first), where=first > 0
    )


def _host(game: Game, host: int) -> str:
    name: str = game.snapshot.hosts.name[game.view.hosts[host]]
    return name


def _amounts(game: Game, given: Floats) -> str:
    names = game.snapshot.resources
    return ", ".join(f"{_n(value)} {name}" for name, value in zip(names, given, strict=True))


def _n(value: float) -> str:
    return f"{value:,.1f}".removesuffix(".0")
