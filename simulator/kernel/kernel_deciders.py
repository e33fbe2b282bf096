"""Deciders: any strategy of the registry, on a snapshot, or a placer that knows free room alone."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from merkatd.cluster import Decision, Floats, Ints, Migrate, Plan, Scale, Snapshot
from merkatd.cluster.columns import NO_HOST
from merkatd.placement.base.repeatable_random import repeatable_random
from merkatd.placement.changes.plan_changes import moved_first, with_hosts_at_rest
from merkatd.placement.changes.withheld_moves import allocations_until_moved, withheld_vms
from merkatd.placement.contract import Allocation, Charge, Pricing, StrategyEntry, with_pricing
from merkatd.placement.decision_check import checked_decision
from merkatd.placement.snapshot_needs import require_needs
from simulator.kernel.kernel_snapshot import CPU, MARKET
from simulator.kernel.kernel_state import KernelState
from simulator.kernel.vm_operations import MEMORY

NO_ROOM = -1.0
"""The free room of a host that takes no VMs now."""
_NONE: Ints = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class KernelMoment:
    """What a decision may depend on."""

    period: int
    state: KernelState
    """Deciders must not change it."""
    pending: Ints
    """The VMs that wait, in order of arrival."""
    changed: Ints
    """The hosts whose room or state changed since the last decision."""
    random: Callable[[], np.random.Generator]
    """Function to the period's own random numbers."""
    seed: int
    """The seed of the run."""
    snapshot: Callable[[Floats], Snapshot]
    """Function from the least prices to the snapshot."""


@dataclass(frozen=True, slots=True, eq=False)
class StatedAmounts:
    """The amounts that a strategy states for VMs."""

    vms: Ints
    amounts: Floats
    """[vms, resources]"""


@dataclass(frozen=True, slots=True, eq=False)
class KernelOrders:
    """What a decision orders: VMs to start on hosts, a plan, amounts, and numbers of VMs."""

    vms: Ints = field(default_factory=lambda: _NONE)
    hosts: Ints = field(default_factory=lambda: _NONE)
    plan: Plan = field(default_factory=Plan)
    prices: Floats | None = None
    """[resources]: credits per unit and period; None if nothing has a price."""
    given: StatedAmounts | None = None
    """The allocations of a strategy that states them itself."""
    wishes: tuple[Scale, ...] = ()


class KernelDecider(Protocol):
    """Decides in each period. An instance serves one run."""

    history_samples: int
    """The number of monitorings in the snapshot's history; 0 for no history."""

    def decide(self, moment: KernelMoment) -> KernelOrders:
        """Return what to do now."""


class StrategyDecider:
    """A strategy of the registry: it gets a snapshot as in the daemon, and its own memory.

    Its random numbers are those of a market of the same name in a cloud with the run's seed, and
    its decisions are checked and changed as in the daemon.
    """

    def __init__(
        self,
        entry: StrategyEntry,
        settings: Any = None,
        pricing: Pricing | None = None,
        history_samples: int = 10,
    ) -> None:
        self.entry, self.history_samples = entry, history_samples
        self._pricing = pricing or Pricing()
        self.settings_in_force = with_pricing(settings or entry.defaults, self._pricing)
        self._memory: Mapping[str, Any] = {}

    def decide(self, moment: KernelMoment) -> KernelOrders:
        """Return the strategy's plan and prices.

        Raise UnfilledNeedError without what it needs, and WrongDecisionError if it breaks a rule.
        """
        snapshot = self._priced(moment.snapshot(self._reserve(moment.state.resources)))
        decision = self.decision(snapshot, moment.seed)
        changed = with_hosts_at_rest(snapshot, moved_first(snapshot, decision.plan))
        begun = self.begun(snapshot, replace(decision, plan=changed.plan))
        prices = decision.prices[0] if self.entry.charges is not Charge.NONE else None
        given = None
        if self.entry.allocates is Allocation.OWN:
            given = StatedAmounts(snapshot.vms.id, begun.allocations)
        return KernelOrders(plan=begun.plan, prices=prices, given=given, wishes=decision.wishes)

    def begun(self, snapshot: Snapshot, decision: Decision) -> Decision:
        """Return the part of a decision that begins now.

        Migrations that would do harm without others that wait are withheld; until they begin, hosts
        are divided without them.
        """
        late = withheld_vms([self], snapshot, decision.plan)
        steps = tuple(
            step
            for step in decision.plan
            if step.after or not (isinstance(step, Migrate) and step.vm in late)
        )
        amounts = allocations_until_moved([self], snapshot, decision, late)
        return replace(decision, plan=Plan(steps), allocations=amounts)

    def decision(self, snapshot: Snapshot, seed: int) -> Decision:
        """Return the strategy's decision on a snapshot, and remember what it remembers."""
        require_needs(self.entry, snapshot)
        random = repeatable_random(seed, snapshot.period, MARKET)
        made = self.entry.decide(snapshot, self.settings_in_force, self._memory, random)
        decision = checked_decision(snapshot, 0, made)
        self._memory = decision.memory
        return decision

    def _priced(self, snapshot: Snapshot) -> Snapshot:
        """Return the snapshot as a market that sells used CPU alone sees it, if this is one.

        VMs have no bids for other resources there, and keep all their memory.
        """
        if not self.entry.by_use:
            return snapshot
        vms, names = snapshot.vms, np.array(snapshot.resources)
        bid = np.where(names == CPU, vms.bid, 0.0)
        floor = np.where(names == MEMORY, vms.cap, 0.0)
        return replace(snapshot, vms=replace(vms, bid=bid, floor=floor))

    def _reserve(self, resources: tuple[str, ...]) -> Floats:
        """Return the least prices where a bid is the most that a VM pays; NaN elsewhere."""
        entry = self.entry
        sells_shares = entry.allocates is Allocation.SHARES and entry.charges is Charge.SHARES
        if sells_shares and not self._pricing.whole_bids:
            return self._pricing.reserve_prices(resources)
        return np.full(len(resources), np.nan)


class Placer(Protocol):
    """Finds hosts for VMs from free room alone. An instance serves one run.

    A host has room for a VM if no resource of its free room is less than the VM's floor. All
    amounts are whole numbers of grains.
    """

    def start(self, room: Floats, capacity: Floats) -> None:
        """Take over the free room and the capacity of all hosts, each [hosts, resources]."""

    def update(self, hosts: Ints, room: Floats) -> None:
        """Take over the free room of some hosts."""

    def place(self, floors: Floats, random: np.random.Generator) -> Ints:
        """Return a host for each VM, or NO_HOST, and count the VMs as placed there."""


class PlacerDecider:
    """Passes the changes of free room to a placer, which needs no snapshot."""

    history_samples = 0

    def __init__(self, placer: Placer) -> None:
        self._placer, self._started = placer, False

    def decide(self, moment: KernelMoment) -> KernelOrders:
        """Return the hosts of those waiting VMs that fit somewhere."""
        state = moment.state
        if not self._started:
            room = np.where(state.is_open[:, np.newaxis], state.free, NO_ROOM)
            self._placer.start(room, state.capacity)
            self._started = True
        elif len(moment.changed):
            hosts = moment.changed
            room = np.where(state.is_open[hosts][:, np.newaxis], state.free[hosts], NO_ROOM)
            self._placer.update(hosts, room)
        if not len(moment.pending):
            return KernelOrders()
        hosts = self._placer.place(state.floor[moment.pending], moment.random())
        placed = hosts != NO_HOST
        return KernelOrders(moment.pending[placed], hosts[placed])
