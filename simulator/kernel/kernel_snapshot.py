"""The simulated data centre as an ordinary snapshot, as the daemon would observe it."""

from dataclasses import replace
from typing import Final

import numpy as np

from merkatd.cluster import Floats, Hosts, HostState, Ints, Markets, Snapshot, Vms, VmState
from merkatd.cluster.columns import NO_HOST, NO_ROW
from merkatd.cluster.hosts import kept_from, less
from simulator.kernel.data_center import DataCenter
from simulator.kernel.declared.declared_load import DeclaredLoad
from simulator.kernel.kernel_state import COMPUTES, GRAINS, KernelState
from simulator.kernel.use_monitoring import UseMonitoring
from simulator.model.simulated_cloud import CORE
from simulator.workloads.vm_requests import VmRequests

MARKET: Final = "simulated"
CPU: Final = "cpu"
_STATES: Final = np.array(
    [
        *(VmState.ABSENT, VmState.PENDING, VmState.BUSY, VmState.RUNNING, VmState.BUSY),
        *(VmState.BUSY, VmState.BUSY, VmState.SUSPENDED, VmState.BUSY, VmState.ABSENT),
        VmState.ABSENT,
    ],
    dtype=np.int64,
)
"""The state that the daemon observes, by phase."""


class KernelSnapshots:
    """Makes the snapshots of a run. The id of a VM is its row among the requests."""

    def __init__(
        self,
        center: DataCenter,
        requests: VmRequests,
        state: KernelState,
        monitoring: UseMonitoring,
        load: DeclaredLoad,
    ) -> None:
        self._center, self._requests = center, requests
        self._state, self._monitoring, self._load = state, monitoring, load
        self._vcpus: Ints = np.ones(len(requests), dtype=np.int64)
        """[vms]: as many virtual CPUs as the VM has cores, or parts of one."""
        if CPU in requests.resources:
            cores = requests.size[:, requests.resources.index(CPU)] / CORE
            self._vcpus = np.maximum(np.ceil(cores - 1e-9), 1).astype(np.int64)

    def snapshot(self, period: int, reserve: Floats) -> Snapshot:
        """Return the present data centre; `reserve` are the least prices by resource."""
        state, asked = self._state, self._requests
        states = _STATES[state.phase]
        vms = np.flatnonzero(states != VmState.ABSENT)
        count = len(vms)
        none = np.full(count, NO_ROW)
        floor = state.floor[vms] / GRAINS
        held = self._monitoring.held[vms]
        if CPU in asked.resources:
            held[:, asked.resources.index(CPU)] = np.nan  # the daemon observes memory alone
        its = self._load.tables(vms)
        return Snapshot(
            state.now_s,
            period,
            asked.resources,
            Markets((MARKET,), reserve=reserve[np.newaxis]),
            self._hosts(vms),
            Vms(
                id=vms,
                name=("",) * count,
                state=states[vms],
                host=state.host[vms],
                market=np.zeros(count, dtype=np.int64),
                bid=asked.bid[vms],
                floor=floor,
                cap=np.maximum(asked.size[vms], floor),
                held=held,
                application=asked.owner[vms],
                owner=asked.owner[vms],
                vcpus=self._vcpus[vms],
                moved_at_s=state.moved_at_s[vms],
                source=state.source[vms],
                movable=~state.rests(self._center.rhythm.period_s)[vms],
                requirement=none,
                role=none,
                dirty_mib_s=asked.dirty_mib_s[vms],
                kind=asked.kind[vms],
                saved=state.saved[vms],
                started_s=np.where(
                    COMPUTES[state.phase[vms]], np.floor(state.started_s[vms]), np.nan
                ),
                disk_mib=asked.disk_mib[vms],
                shared_disk=asked.disk_mib[vms] == 0,
            ),
            jobs=its.jobs,
            stages=its.stages,
            services=its.services,
            failure_rates=self._center.rates,
            history=self._monitoring.history(vms),
        )

    def _hosts(self, vms: Ints) -> Hosts:
        """Return the hosts, without the room that VMs still have on hosts that they leave."""
        state, hosts = self._state, self._center.hosts
        leaving = np.flatnonzero(state.source[vms] != NO_HOST)
        sources = state.source[vms][leaving].tolist()
        full, needed = state.capacity / GRAINS, state.floor[vms][leaving] / GRAINS
        capacity = less(full, list(enumerate(sources)), needed)
        off = np.where(state.works, hosts.state, int(HostState.OFF))
        return replace(
            hosts,
            state=off,
            capacity=capacity,
            reserved=kept_from(full, capacity),
            used=self._monitoring.used.copy(),
            asleep=state.is_asleep.copy(),
        )
