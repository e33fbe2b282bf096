"""Balloon steps: memory is taken from some VMs before other VMs get it.

# Note [The room for memory]

Balloons shrink first. Free memory and the memory that they free goes first to VMs that the plan
brings, whose steps come after the steps that free it; then to VMs below their least memory; then to
the widest gaps between memory and target. If too little can be freed for a VM in this period, it
does not come yet. The shrinking goes on, and the next period decides again.

Example: a host has 100 MiB free, and the balloons A and B free 200 and 300 MiB. VM 1 takes 250: 100
free MiB and 150 of A, so it comes after A. VM 2 takes 150: the last 50 of A and 100 of B, so it
comes after A and B. 200 MiB are left: a VM that needs 250 waits. See `MemoryPool`, `limit_plan.py`.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from merkatd.cluster import (
    Balloon,
    Deploy,
    Migrate,
    Plan,
    Snapshot,
    Step,
    Stop,
    Terminate,
    urgent_vms,
)
from merkatd.cluster.columns import NO_HOST
from merkatd.cluster.plan import step_id
from merkatd.limits import limit_reasons
from merkatd.limits.memory_prospects import (
    MissingMemory,
    WaitingVms,
    hosts_without_room,
    rows_without_prospects,
)
from merkatd.limits.memory_targets import MemoryHoldings
from merkatd.limits.occupancy import Occupancy
from merkatd.limits.settings import MemorySettings


class MemorySource(NamedTuple):
    """Memory that a step frees."""

    amount_mib: int
    step: str


class MemoryPool:
    """The free memory of a host, followed by the memory that balloon steps free, given in order.

    Free memory and the sources lie end to end on a line, and each taker gets the next stretch. Its
    step must come after the steps whose stretches it touches. No two takers share a stretch, so
    steps may be confirmed in any order: at any time the given memory is at most the free and freed
    memory. An overcommitted host begins below zero; sources must cover that before any VM takes.
    """

    def __init__(self, free_mib: int) -> None:
        self.free_mib = free_mib
        self._sources: list[MemorySource] = []
        self._freed_mib = 0
        self._given_mib = 0

    def add(self, source: MemorySource) -> None:
        """Append the memory that a step frees to the line."""
        self._sources.append(source)
        self._freed_mib += source.amount_mib

    @property
    def left_mib(self) -> int:
        """Return the memory that can still be given; below 0 on an overcommitted host."""
        return self.free_mib + self._freed_mib - self._given_mib

    @property
    def now_mib(self) -> int:
        """Return the memory that can be given without waiting for a step."""
        return max(self.free_mib - self._given_mib, 0)

    def take(self, amount_mib: int) -> tuple[str, ...]:
        """Take the next stretch, and return the steps that must come first."""
        start, end = self._given_mib, self._given_mib + amount_mib
        self._given_mib = end
        if end <= self.free_mib:
            return ()
        first: list[str] = []
        at = self.free_mib
        for source in self._sources:
            behind = at + source.amount_mib
            if at < 0 or (at < end and behind > start):
                first.append(source.step)
            at = behind
        return tuple(first)


class Change(NamedTuple):
    """A changed target of a balloon."""

    vm: int
    """Row of the snapshot."""
    memory_mib: int
    after: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class MemoryPlan:
    """The memory steps of a period, and the steps that must wait."""

    changes: tuple[Change, ...]
    steps: tuple[Step, ...]
    """The plan's steps, each after the steps that make room for it."""
    postponed: Mapping[int, str]
    """By VM id: why the plan's step for the VM must wait."""
    hopeless: Mapping[int, frozenset[int]] = field(default_factory=dict)
    """By id of postponed VMs without room in later periods: the ids of the hosts without room."""


def memory_steps(
    snapshot: Snapshot,
    plan: Plan,
    occupancy: Occupancy,
    stock: MemoryHoldings,
    settings: MemorySettings,
) -> MemoryPlan:
    """Return steps that shrink balloons, bring VMs that fit, and grow balloons with the rest."""
    giving = _Giving(snapshot, plan, occupancy, stock)
    shrinking = giving.shrink()
    kept: list[Step] = []
    postponed: dict[int, str] = {}
    dropped: dict[str, int] = {}
    for step in _urgent_first(snapshot, plan):
        before = next((vm for earlier, vm in dropped.items() if earlier in step.after), None)
        if before is not None:
            giving.behind[snapshot.vm_row(step.vm)] = snapshot.vm_row(before)
            why = f"waits for VM {before}, which can't make room yet"
        elif step.id in giving.arrivals:
            step, why = giving.let_come(step)  # noqa: PLW2901 - the same step, after others
        elif step.id in giving.resumed:
            step, why = giving.let_resume(step)  # noqa: PLW2901 - the same step, after others
        else:
            why = ""
        if why:
            dropped[step.id] = step.vm
            postponed[step.vm] = why
        else:
            giving.note_departure(step)
            kept.append(step)
    growing = giving.grow(settings.least_step_mib)
    begun = giving.begin([step for step in kept if step.id in giving.arrivals])
    hopeless = giving.hopeless()
    postponed |= {vm: giving.why_never(vm) for vm in hopeless}
    by_id = {step.id: step for step in kept}
    steps = tuple(by_id[step.id] for step in plan if step.id in by_id)
    return MemoryPlan((*shrinking, *growing, *begun), steps, postponed, hopeless)


def _urgent_first(snapshot: Snapshot, plan: Plan) -> list[Step]:
    """Return the plan's steps, those that bring urgent VMs first.

    Steps that these wait for are first as well. Migrations for gain get only the remaining room.
    Otherwise they would take the room in each period, and an urgent VM would never come.
    """
    must = urgent_vms(snapshot)
    first: set[str] = set()
    for step in reversed(plan.steps):
        if step.id in first or (isinstance(step, Deploy | Migrate) and step.vm in must):
            first |= {step.id, *step.after}
    return sorted(plan, key=lambda step: step.id not in first)


@dataclass(slots=True)
class _Left:
    """Memory that a departure frees, less what the steps after it have taken."""

    vm: int
    """Row of the VM that leaves."""
    host: int
    amount_mib: int

    def take(self, wanted_mib: int) -> int:
        taken = min(self.amount_mib, wanted_mib)
        self.amount_mib -= taken
        return taken


class _Giving:
    """The hosts' memory pools while they are filled and emptied."""

    def __init__(
        self, snapshot: Snapshot, plan: Plan, occupancy: Occupancy, stock: MemoryHoldings
    ) -> None:
        self._snapshot, self._scene, self._stock = snapshot, occupancy, stock
        self._followers = Counter(earlier for step in plan for earlier in step.after)
        self._pools: dict[int, MemoryPool] = {}
        self._shrinks: dict[int, str] = {}
        self._freed: dict[int, int] = {}
        self._left: dict[str, _Left] = {}
        self.arrivals = {step.id: row for row, step in occupancy.arrival.items()}
        """By step id: the row of the VM that the step brings."""
        self.resumed = {step.id: row for row, step in occupancy.resumed.items()}
        """By step id: the row of the VM that the step resumes on its host."""
        self._goes_to = {
            row: snapshot.host_row(step.host)
            for row, step in occupancy.arrival.items()
            if isinstance(step, Deploy | Migrate)
        }
        """By VM row: the row of the VM's new host, even if the plan later ends the VM there."""
        self.behind: dict[int, int] = {}
        """By row of a VM that waits for another waiting VM: the row of the other VM."""
        self._missing: dict[int, MissingMemory] = {}

    def _pool(self, host: int) -> MemoryPool:
        if host not in self._pools:
            self._pools[host] = MemoryPool(int(self._stock.free[host]))
        return self._pools[host]

    def shrink(self) -> list[Change]:
        """Return the changes of all balloons that shrink.

        An unchanged target needs no step, so no confirmation can show that it freed memory. A guest
        needs minutes to return memory in use, if it can at all. Other VMs get this memory only
        after monitoring shows it free, in the next period.
        """
        stock = self._stock
        used = np.ceil(np.nan_to_num(stock.guests.used)).astype(np.int64)
        kept = np.maximum(stock.moved, np.minimum(used, stock.holds))
        gives = (stock.moved < stock.holds) & (stock.moved != stock.guests.balloon)
        changes = []
        for row in np.flatnonzero(gives).tolist():
            moved = int(stock.moved[row])
            step = step_id(self._snapshot.period, Balloon.kind, int(self._snapshot.vms.id[row]))
            self._freed[row] = int(stock.holds[row] - kept[row])
            self._pool(int(self._scene.now[row])).add(MemorySource(self._freed[row], step))
            self._shrinks[row] = step
            changes.append(Change(row, moved, ()))
        return changes

    def let_come(self, step: Step) -> tuple[Step, str]:
        """Return the step after those that make room for its VM, or why the VM can't come yet.

        A VM that starts needs its floor. A migrating VM needs what it holds after its own balloon
        has shrunk. Departures before this step also make room, those with few followers first.
        """
        row = self.arrivals[step.id]
        host = self._goes_to[row]
        starts = self._scene.now[row] == NO_HOST
        amount = int(self._stock.least[row]) if starts else self._leaves(row)
        pool = self._pool(host)
        earlier = sorted(step.after, key=self._followers.__getitem__)
        leaving = [left for left in map(self._left.get, earlier) if left and left.host == host]
        missing = amount - sum(left.amount_mib for left in leaving) - pool.left_mib
        if amount > 0 and missing > 0:
            self._missing[row] = MissingMemory(host, amount - pool.left_mib)
            return step, limit_reasons.why_no_room(self._snapshot, host, amount, missing)
        for left in leaving:
            amount -= left.take(amount)
        own = (self._shrinks[row],) if row in self._shrinks else ()
        after = (*step.after, *own, *pool.take(amount))
        return replace(step, after=tuple(dict.fromkeys(after))), ""

    def hopeless(self) -> Mapping[int, frozenset[int]]:
        """Return, by id of VMs that will never have room, the ids of the hosts without room."""
        if not self._missing:
            return {}
        scene, stock = self._scene, self._stock
        left = {left.vm: left.amount_mib for left in self._left.values()}
        waits = WaitingVms(self._missing, self.behind)
        rows = rows_without_prospects(waits, scene, stock, self._freed, left)
        hosts = hosts_without_room({row: self._missing[row].host for row in rows}, scene, stock)
        ids, host_ids = self._snapshot.vms.id, self._snapshot.hosts.id
        return {int(ids[row]): frozenset(host_ids[hosts[row]].tolist()) for row in sorted(rows)}

    def why_never(self, vm: int) -> str:
        """Return why the VM will never have room."""
        stock, row = self._stock, self._snapshot.vm_row(vm)
        starts = self._scene.now[row] == NO_HOST
        least = stock.least if starts or stock.adjustable[row] else stock.holds
        return limit_reasons.why_never_room(
            self._snapshot, self._missing[row].host, int(least[row])
        )

    def begin(self, coming: Sequence[Step]) -> list[Change]:
        """Return the balloon changes of starting VMs: their least memory plus what is free then.

        A guest boots with all of its memory, regardless of its host's room. It uses little of it at
        first.
        """
        stock, changes = self._stock, []
        for step in coming:
            row = self.arrivals[step.id]
            if self._scene.now[row] != NO_HOST or self._scene.then[row] == NO_HOST:
                continue
            pool, least = self._pool(self._goes_to[row]), int(stock.least[row])
            more = min(max(int(stock.target[row]) - least, 0), pool.now_mib)
            pool.take(more)
            if least + more < int(stock.guests.boots_with[row]):
                changes.append(Change(row, least + more, (step.id,)))
        return changes

    def let_resume(self, step: Step) -> tuple[Step, str]:
        """Return the step after those that make room for the resumed VM, or why it must wait.

        The host reserves the floor of a suspended VM; an overcommitted host lacks even that.
        """
        row = self.resumed[step.id]
        host = int(self._scene.now[row])
        amount = int(self._stock.brings[row] - self._stock.holds[row])
        pool = self._pool(host)
        missing = amount - pool.left_mib
        if missing > 0:
            brings = int(self._stock.brings[row])
            return step, limit_reasons.why_no_room(self._snapshot, host, brings, missing)
        after = (*step.after, *pool.take(amount))
        return replace(step, after=tuple(dict.fromkeys(after))), ""

    def note_departure(self, step: Step) -> None:
        """Record the memory that the step frees on the host that its VM leaves."""
        if isinstance(step, Migrate | Stop | Terminate):
            row = self._snapshot.vm_row(step.vm)
            self._left[step.id] = _Left(row, int(self._scene.now[row]), self._leaves(row))

    def _leaves(self, row: int) -> int:
        """Return what a VM holds after its own balloon has shrunk."""
        return int((self._stock.moved if row in self._shrinks else self._stock.holds)[row])

    def grow(self, least_step_mib: int) -> list[Change]:
        """Return the changes of balloons that grow.

        VMs below their least memory come first and get at least that; then the widest gaps.
        """
        stock, host = self._stock, self._scene.now
        rows = np.flatnonzero((stock.moved > stock.holds) & (host == self._scene.then))
        below = stock.least - stock.holds
        gap = stock.target - stock.holds
        waiting: set[int] = set()
        changes = []
        for row in rows[np.lexsort((rows, -gap[rows], below[rows] <= 0))].tolist():
            pool = self._pool(int(host[row]))
            wanted = int(stock.moved[row] - stock.holds[row])
            given = min(wanted, pool.left_mib)
            if host[row] in waiting or given < max(below[row], min(wanted, least_step_mib)):
                if below[row] > 0:
                    waiting.add(int(host[row]))
                continue
            changes.append(Change(row, int(stock.holds[row]) + given, pool.take(given)))
        return changes
