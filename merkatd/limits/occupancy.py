"""Who is where now and once the plan is carried out, and who may be told something."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from merkatd.cluster import (
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
from merkatd.cluster.columns import NOWHERE

_ON_HOST = (VmState.RUNNING, VmState.BUSY, VmState.SUSPENDED, VmState.POWERED_OFF)
_BIDDING = (VmState.PENDING, VmState.RUNNING, VmState.BUSY)


@dataclass(frozen=True, slots=True, eq=False)
class Occupancy:
    """[vms]: rows of hosts, NOWHERE for a VM that is on none."""

    now: Ints
    then: Ints
    """Once the plan is carried out."""
    told: Bools
    """Belongs to a market and runs, or will, on a host that can be reached: gets limits."""
    bidding: Bools
    arrival: Mapping[int, Step]
    """By VM row: the step that brings a VM to where it will be."""
    resumed: Mapping[int, Step]
    """By VM row: the step that starts a VM again on the host that it is on."""
    waits: frozenset[int] = frozenset()
    """Rows of VMs that will be elsewhere once there is memory, and stay where they are for now."""

    def without(self, rows: list[int]) -> "Occupancy":
        """The same when these VMs stay where they are; any of them on no host is told nothing."""
        if not rows:
            return self
        then, told = self.then.copy(), self.told.copy()
        then[rows] = self.now[rows]
        told[rows] &= self.now[rows] != NOWHERE
        arrival = {row: step for row, step in self.arrival.items() if row not in set(rows)}
        resumed = {row: step for row, step in self.resumed.items() if row not in set(rows)}
        return replace(self, then=then, told=told, arrival=arrival, resumed=resumed)

    def expecting(self, hosts: Mapping[int, int]) -> "Occupancy":
        """The same with room for VMs that will come once there is memory: by row, their hosts."""
        if not hosts:
            return self
        then, told = self.then.copy(), self.told.copy()
        for row, host in hosts.items():
            then[row] = host
            told[row] |= self.now[row] == NOWHERE
        return replace(self, then=then, told=told, waits=frozenset(hosts))

    @property
    def starting(self) -> Bools:
        """[vms]: not yet anywhere, but deployed by the plan."""
        starting: Bools = (self.now == NOWHERE) & (self.then != NOWHERE)
        return starting


def occupancy_of(snapshot: Snapshot, plan: Plan) -> Occupancy:
    """Read the plan into the snapshot's rows."""
    vms = snapshot.vms
    now = np.where(np.isin(vms.state, _ON_HOST), vms.host, NOWHERE)
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
                then[row], ended[row] = NOWHERE, True
            case Suspend(vm=vm):
                ended[snapshot.vm_row(vm)] = True
            case Resume(vm=vm) if now[snapshot.vm_row(vm)] != NOWHERE:
                resumed[snapshot.vm_row(vm)] = step
    runs = (vms.state == VmState.RUNNING) | ((vms.state == VmState.BUSY) & vms.stays)
    running = runs & _serves(snapshot, now)
    starting = (vms.state == VmState.PENDING) & (now == NOWHERE)
    told = (vms.market != NOWHERE) & (running | starting) & _serves(snapshot, then) & ~ended
    return Occupancy(now, then, told, np.isin(vms.state, _BIDDING), arrival, resumed)


def _serves(snapshot: Snapshot, host: Ints) -> Bools:
    """[vms]: on a host of a market that can be reached."""
    hosts = snapshot.hosts
    serves = np.append((hosts.market != NOWHERE) & (hosts.state != HostState.OFF), False)
    on_it: Bools = serves[host]
    return on_it
