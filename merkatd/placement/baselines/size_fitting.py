"""New VMs on hosts with room for their whole sizes: what all baselines have in common.

A baseline knows no bids. It says in which order VMs get hosts, and which of the hosts with room a
VM gets. Bids divide the hosts, as under any strategy of a market; a VM migrates only if it must.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from merkatd.cluster import Bools, Decision, Deploy, Floats, Ints, Plan, Snapshot
from merkatd.cluster.columns import NO_HOST, NO_ROW, is_one_of
from merkatd.placement.base.board import Board, where_floors_fit
from merkatd.placement.base.host_shares import SUM_OF_SHORTFALLS
from merkatd.placement.base.least_load import evacuate_to_least_load
from merkatd.placement.base.placement_problem import PlacementProblem
from merkatd.placement.contract import Pricing, Strategy, parameter
from merkatd.placement.market.overfull_hosts import relieve_board
from merkatd.placement.market.settlement import decide_markets

_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineSettings:
    """The settings of a baseline."""

    fill_part: float = parameter(1.0, unit="of the capacity", most=100.0)
    """The part of a host that the sizes of its VMs may fill; above 1, hosts are overcommitted."""
    m_max: int = parameter(5, unit="migrations", most=100_000)
    """The most VMs that leave drained and overfull hosts in a period."""
    pricing: Pricing = field(default_factory=Pricing)


class SizeRoom:
    """The waiting VMs of a market and the room that the sizes of placed VMs leave on hosts."""

    def __init__(
        self, problem: PlacementProblem, fill_part: float, random: np.random.Generator
    ) -> None:
        self.problem, self.random = problem, random
        self.board: Board = problem.board
        self.sizes: Floats = problem.view.size
        self.capacity: Floats = self.board.capacity * fill_part
        waits = (problem.view.place == NO_HOST) & (problem.rules.order == NO_ROW)
        self._startable = waits & (self.board.place != NO_HOST)
        for vm in np.flatnonzero(self._startable).tolist():
            self.board.move(vm, NO_HOST)
        there = np.flatnonzero(self.board.place != NO_HOST)
        self.room: Floats = self.capacity.copy()
        """[hosts, resources]"""
        np.subtract.at(self.room, self.board.place[there], self.sizes[there])
        rows = np.flatnonzero(waits)
        self.queue: Ints = rows[np.lexsort((rows, -problem.rules.priority[rows]))]
        """The waiting VMs, in order of priority and arrival."""
        self.started: dict[int, int] = {}
        """By VM: the host on which it starts."""
        self.reasons: dict[int, str] = {}
        """By VM id: why a VM starts, or waits although its floor has room."""

    def hosts_for(self, vm: int) -> Ints:
        """Return the hosts that can take a VM with its whole size, in order."""
        if not self._startable[vm]:
            return np.zeros(0, dtype=np.int64)
        fits = self._may_take(vm) & self._covers(self.room, vm)
        return np.flatnonzero(fits)

    def fits_if_empty(self, vm: int) -> bool:
        """Return whether a host that the VM may use would have room for it without other VMs."""
        hosts = self.could_take(vm, self.capacity)
        fits: Bools = (self.problem.view.floor[vm] <= self.board.capacity[hosts]).all(axis=1)
        return bool(fits.any())

    def could_take(self, vm: int, room: Floats) -> Ints:
        """Return the hosts that could take a VM if each had this room."""
        allowed = self.problem.rules.allowed(vm, self.board.place)
        return np.flatnonzero(allowed & self._covers(room, vm))

    def _covers(self, room: Floats, vm: int) -> Bools:
        covers: Bools = (room >= self.sizes[vm] * (1.0 - _ROUNDING)).all(axis=1)
        return covers

    def _may_take(self, vm: int) -> Bools:
        board, allowed = self.board, self.problem.rules.allowed(vm, self.board.place)
        fits: Bools = where_floors_fit(
            vm,
            allowed,
            board.rows,
            board.start,
            board.count,
            board.capacity,
            self.problem.view.floor,
        )
        return fits

    def start(self, vm: int, host: int, why: str) -> None:
        """Place a waiting VM; `why` follows the host's name."""
        self.board.move(vm, host)
        self.room[host] -= self.sizes[vm]
        self.started[vm] = host
        problem = self.problem
        name = problem.snapshot.hosts.name[problem.view.hosts[host]]
        self.reasons[problem.vm_id(vm)] = f"{name} {why}"

    def wait(self, vm: int, why: str) -> None:
        """Leave a VM waiting; the reason counts unless its floor or a rule keeps it from hosts."""
        if self._startable[vm]:
            self.reasons[self.problem.vm_id(vm)] = why


class Baseline(Protocol):
    """Places the waiting VMs of a market."""

    def __call__(self, room: SizeRoom) -> None:
        """Start VMs on hosts, or let them wait."""


def baseline(place: Baseline) -> Strategy[BaselineSettings]:
    """Return the strategy that places new VMs by a baseline."""

    def strategy(
        snapshot: Snapshot,
        settings: BaselineSettings,
        memory: Mapping[str, Any],  # noqa: ARG001 - nothing is remembered
        random: np.random.Generator,
    ) -> Decision:
        """Return the decision for each market of the snapshot."""
        reasons, hosts = dict[int, str](), dict[int, int]()

        def relieved_room(problem: PlacementProblem) -> SizeRoom:
            relieved = replace(problem, movable=relieve_board(problem, settings.m_max))
            left = settings.m_max - problem.migrations(problem.board.place)
            evacuate_to_least_load(relieved, problem.board, left)
            return SizeRoom(problem, settings.fill_part, random)

        def improve(problem: PlacementProblem) -> Ints:
            room = relieved_room(problem)
            place(room)
            reasons.update(room.reasons)
            hosts.update({problem.vm_id(vm): host for vm, host in room.started.items()})
            return problem.board.place

        def repeat(problem: PlacementProblem) -> Ints:
            room = relieved_room(problem)
            for vm in room.queue.tolist():
                host = hosts.get(problem.vm_id(vm))
                if host is not None and host in room.hosts_for(vm):
                    room.start(vm, host, "")
            return problem.board.place

        decision = decide_markets(snapshot, settings.pricing, improve, SUM_OF_SHORTFALLS)
        if waits := [vm for vm in reasons if vm not in hosts]:
            # A market starts every VM whose floor has room, but for those that may not be placed.
            vms = snapshot.vms
            placeable = vms.placeable & ~is_one_of(vms.id, waits)
            held = replace(snapshot, vms=replace(vms, placeable=placeable))
            decision = decide_markets(held, settings.pricing, repeat, SUM_OF_SHORTFALLS)
        return _with_reasons(decision, reasons)

    return strategy


def _with_reasons(decision: Decision, reasons: Mapping[int, str]) -> Decision:
    """Return the decision with the baseline's reasons for VMs that start or wait."""
    steps = tuple(
        replace(step, reason=reasons[step.vm])
        if isinstance(step, Deploy) and step.vm in reasons
        else step
        for step in decision.plan
    )
    started = {step.vm for step in steps if isinstance(step, Deploy)}
    waits = {vm: why for vm, why in reasons.items() if vm not in started}
    return replace(decision, plan=Plan(steps), reasons={**decision.reasons, **waits})


NO_SIZE = "no host that it may use has room for its whole size"

Choice = Callable[[SizeRoom, int, Ints], int]
"""Returns one of the hosts with room for a VM."""


def in_order(room: SizeRoom, order: Ints, choose: Choice, why: str) -> None:
    """Start VMs in this order, each on the chosen host; VMs without room wait."""
    for vm in order.tolist():
        hosts = room.hosts_for(vm)
        if len(hosts):
            room.start(vm, choose(room, vm, hosts), why)
        else:
            room.wait(vm, NO_SIZE)


def first_host(room: SizeRoom, vm: int, hosts: Ints) -> int:  # noqa: ARG001 - a `Choice`
    """Return the first host."""
    return int(hosts[0])


def free_parts(room: SizeRoom, hosts: Ints) -> Floats:
    """Return the free room of hosts: the sums of its parts of the largest host."""
    typical = np.maximum(room.capacity.max(axis=0, initial=0.0), 1e-12)
    parts: Floats = (room.room[hosts] / typical).sum(axis=1)
    return parts
