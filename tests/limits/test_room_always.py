"""Memory on hosts in any order of confirmations: no host allocates more than it has."""

from random import Random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from merkatd.cluster import Balloon, Deploy, Floats, Migrate, Snapshot, Step, VmState
from tests.lengths import shorten
from tests.limits.hosts import (
    MEMORY,
    confirmed,
    decide_shares,
    limits_of,
    measured,
    observed,
    one_host,
)


class Memory:
    """An independent count of the hosts' memory while steps are executed one by one."""

    def __init__(self, snapshot: Snapshot) -> None:
        vms = snapshot.vms
        self.snapshot = snapshot
        self.capacity = snapshot.hosts.capacity[:, MEMORY]
        self.on: list[dict[int, float]] = [{} for _ in self.capacity]
        off = np.isin(vms.state, [VmState.SUSPENDED, VmState.POWERED_OFF])
        for row in np.flatnonzero((vms.host >= 0) & (vms.state != VmState.ABSENT)).tolist():
            size, held = float(vms.cap[row, MEMORY]), float(vms.held[row, MEMORY])
            amount = size if vms.market[row] < 0 or np.isnan(held) else held
            if off[row]:
                amount = self.floor(row)
            if vms.state[row] != VmState.PENDING:
                self.on[int(vms.host[row])][row] = amount

    def floor(self, row: int) -> float:
        """Return the floor of a VM, limited by its size."""
        return float(min(self.snapshot.vms.floor[row, MEMORY], self.snapshot.vms.cap[row, MEMORY]))

    def carry_out(self, step: Step) -> None:
        """Execute the step; if it adds memory to a host, check that everything fits."""
        row = self.snapshot.vm_row(step.vm)
        here = [host for host, rows in enumerate(self.on) if row in rows]
        match step:
            case Balloon(memory_mib=memory_mib):
                more = memory_mib > self.on[here[0]][row]
                self.on[here[0]][row] = memory_mib
                assert not more or self.fits(here[0])
            case Deploy(host=host) | Migrate(host=host):
                target = self.snapshot.host_row(host)
                amount = self.on[here[0]][row] if here else self.floor(row)
                self.on[target][row] = amount
                assert amount == 0 or self.fits(target)
                for source in here:
                    del self.on[source][row]

    def fits(self, host: int) -> bool:
        """Return whether all VMs on the host together fit."""
        return bool(sum(self.on[host].values()) <= self.capacity[host] + 1e-6)


@settings(max_examples=shorten(200, 60))
@given(st.integers(0, 10**6), st.randoms(use_true_random=False))
def test_no_host_overcommits_in_any_order_of_confirmations(seed: int, order: Random) -> None:
    """In any order allowed by `after`, each step that adds memory leaves its host within bounds."""
    snapshot, decision, in_force, topologies = observed(seed)
    limits = limits_of(snapshot, decision, in_force, topologies)
    memory = Memory(snapshot)
    left = {step.id: step for step in limits.plan}
    while left:
        ready = [step for step in left.values() if not any(id_ in left for id_ in step.after)]
        step = order.choice(ready)
        memory.carry_out(step)
        del left[step.id]


@settings(max_examples=shorten(200, 60))
@given(st.integers(0, 10**6))
def test_balloons_respect_floors_use_and_margins(seed: int) -> None:
    """No target is below the VM's floor, or shrinks it below its use plus margin."""
    snapshot, decision, in_force, topologies = observed(seed)
    for step in limits_of(snapshot, decision, in_force, topologies).plan.of(Balloon):
        row = snapshot.vm_row(step.vm)
        size = np.floor(snapshot.vms.cap[row, MEMORY])
        assert step.memory_mib >= min(snapshot.vms.floor[row, MEMORY], size)
        used = in_force.used_mib[row]
        held = snapshot.vms.held[row, MEMORY]
        if step.memory_mib < held:
            assert step.memory_mib >= min(used + max(128.0, 0.1 * used), size)


def test_memory_moves_towards_the_shares() -> None:
    """On a crowded host all VMs get close to their shares and stay there."""
    rng = np.random.default_rng(7)
    count = 12
    bid: Floats = rng.lognormal(0, 1, (count, 2))
    snapshot = one_host(
        [400.0, 32768.0],
        bid=bid,
        cap=np.tile([100.0, 8192.0], (count, 1)),
        floor=np.tile([0.0, 256.0], (count, 1)),
        held=np.tile([np.nan, np.floor(32768.0 / count)], (count, 1)),
    )
    decision = decide_shares(snapshot)
    in_force = measured(snapshot, [64.0] * count)
    for _ in range(12):
        limits = limits_of(snapshot, decision, in_force)
        snapshot, in_force = confirmed(snapshot, in_force, limits.plan.steps)
    gap = np.abs(snapshot.vms.held[:, MEMORY] - decision.allocations[:, MEMORY])
    assert gap.sum() <= count * 64
    assert not limits_of(snapshot, decision, in_force).plan.of(Balloon)
