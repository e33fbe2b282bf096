"""The occupancy of hosts now and after the plan, and the VMs that get limits."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from merkatd.cluster import (
    ON_HOST,
    Bools,
    Deploy,
    HostState,
    Ints,
    Migrate,
    Plan,
    Resume,
    Snapshot,
    Step,
    Stop,
    Suspend,
    Terminate,
    VmState,
)
from merkatd.cluster.columns import NO_HOST, NO_MARKET, is_one_of


@dataclass(frozen=True, slots=True, eq=False)
class Occupancy:
    """Host rows of all VMs, [vms]; NO_HOST for a VM without a host."""

    now: Ints
    """Present host."""
    then: Ints
    """Host after the plan."""
    limited: Bools
    """Whether the VM gets limits: it is in a market, and runs or will run on a reachable host."""
    bidding: Bools
    arrival: Mapping[int, Step]
    """By VM row: the step that brings the VM to its new host."""
    resumed: Mapping[int, Step]
    """By VM row: the step that resumes the VM on its host."""
    waits: frozenset[int] = frozenset()
    """Rows of VMs that will move when the new host has memory, and stay for now."""

    def without(self, rows: list[int]) -> "Occupancy":
        """Return the occupancy if these VMs stay; VMs among them without a host get no limits."""
        if not rows:
            return self
        then, limited = self.then.copy(), self.limited.copy()
        then[rows] = self.now[rows]
        limited[rows] &= self.now[rows] != NO_HOST
        arrival = {row: step for row, step in self.arrival.items() if row not in set(rows)}
        resumed = {row: step for row, step in self.resumed.items() if row not in set(rows)}
        return replace(self, then=then, limited=limited, arrival=arrival, resumed=resumed)

    def expecting(self, hosts: Mapping[int, int]) -> "Occupancy":
        """Return the occupancy with VMs that wait for memory on their new hosts, given by row."""
        if not hosts:
            return self
        then, limited = self.then.copy(), self.limited.copy()
        for row, host in hosts.items():
            then[row] = host
            limited[row] |= self.now[row] == NO_HOST
        return replace(self, then=then, limited=limited, waits=frozenset(hosts))

    @property
    def starting(self) -> Bools:
        """Return [vms]: whether the plan deploys the VM."""
        starting: Bools = (self.now == NO_HOST) & (self.then != NO_HOST)
        return starting


def occupancy_of(snapshot: Snapshot, plan: Plan) -> Occupancy:
    """Return the occupancy of the snapshot's hosts before and after the plan."""
    vms = snapshot.vms
    now = np.where(is_one_of(vms.state, ON_HOST), vms.host, NO_HOST)
    then = now.copy()
    ended = np.zeros(len(vms), dtype=bool)
    arrival: dict[int, Step] = {}
    resumed: dict[int, Step] = {}
    for step in plan:
        match step:
            case Deploy(vm=vm, host=host) | Migrate(vm=vm, host=host):
                row = snapshot.vm_row(vm)
                then[row] = snapshot.host_row(host)
                arrival[row] = step
            case Stop(vm=vm) | Terminate(vm=vm):
                row = snapshot.vm_row(vm)
                then[row], ended[row] = NO_HOST, True
            case Suspend(vm=vm):
                ended[snapshot.vm_row(vm)] = True
            case Resume(vm=vm) if now[snapshot.vm_row(vm)] != NO_HOST:
                resumed[snapshot.vm_row(vm)] = step
    runs = (vms.state == VmState.RUNNING) | ((vms.state == VmState.BUSY) & vms.stays)
    running = runs & _serves(snapshot, now)
    starting = vms.waiting & (now == NO_HOST)
    limited = (vms.market != NO_MARKET) & (running | starting) & _serves(snapshot, then) & ~ended
    return Occupancy(now, then, limited, vms.bidding, arrival, resumed)


def _serves(snapshot: Snapshot, host: Ints) -> Bools:
    """Return [vms]: whether the VM is on a reachable host of a market."""
    hosts = snapshot.hosts
    serves = np.append((hosts.market != NO_MARKET) & (hosts.state != HostState.OFF), False)
    on_it: Bools = serves[host]
    return on_it
