"""Monitoring: what guests demand, what hosts are used for, and the power that they draw.

Between two monitorings the load counts as constant (Paper III, 4.2).
"""

from collections import deque
from typing import Final

import numpy as np

from merkatd.cluster import Bools, Floats, Ints, UsageHistory
from merkatd.cluster.columns import NO_HOST
from simulator.kernel.data_center import DataCenter
from simulator.kernel.declared.declared_load import DeclaredLoad
from simulator.kernel.kernel_state import COMPUTES, KernelState
from simulator.workloads.declared_work import NO_WORK
from simulator.workloads.vm_requests import VmRequests

TOLERANCE: Final = 1.0 + 1e-9
"""Sums of demands may exceed a capacity by their rounding errors."""


class UseMonitoring:
    """The use of VMs and hosts at the last monitoring."""

    def __init__(
        self,
        center: DataCenter,
        requests: VmRequests,
        state: KernelState,
        samples: int = 0,
        load: DeclaredLoad | None = None,
    ) -> None:
        """Remember the last `samples` monitorings."""
        self._center, self._state = center, state
        self._load = load or DeclaredLoad(NO_WORK, requests, state)
        self._capacity = center.hosts.capacity
        count, width = len(requests), len(requests.resources)
        self.held: Floats = np.full((count, width), np.nan)
        """[vms, resources]: the demand of each guest that computes, as far as its allocation allows
        it; NaN for others."""
        self.used: Floats = np.zeros((len(center.hosts), width))
        """[hosts, resources]"""
        self.lacking_vms = 0
        """The number of VMs that lack a part of their demand: the guests on their host demand more
        than there is, or the strategy gives them less."""
        self.overloaded_hosts = 0
        self.watts = 0.0
        idle, full = center.hosts.idle_watts, center.hosts.full_watts
        self._idle_watts: Floats = np.nan_to_num(idle)
        self._more_watts: Floats = np.maximum(np.nan_to_num(full) - self._idle_watts, 0.0)
        self._cpu = requests.resources.index("cpu") if "cpu" in requests.resources else 0
        self._seen: Ints = np.zeros(0, dtype=np.int64)
        self._past: deque[tuple[float, Floats, Floats]] = deque(maxlen=samples)
        """Times, and copies of `held` and `used`."""

    def measure(self) -> None:
        """Measure all guests and hosts."""
        state = self._state
        rows = np.flatnonzero(COMPUTES[state.phase])
        # A guest runs on the source of its migration until it has arrived.
        host = np.where(state.source[rows] != NO_HOST, state.source[rows], state.host[rows])
        wanted = self._load.demand(rows, state.now_s)
        demand = np.minimum(wanted, state.given[rows])
        self.held[self._seen] = np.nan
        self.held[rows], self._seen = demand, rows
        for column in range(demand.shape[1]):
            self.used[:, column] = np.bincount(host, demand[:, column], len(self.used))
        over: Bools = np.any(self.used > self._capacity * TOLERANCE, axis=1)
        self.overloaded_hosts = int(over.sum())
        short = np.any(wanted > demand * TOLERANCE, axis=1)
        self.lacking_vms = int((over[host] | short).sum())
        self.watts = self._power()
        if self._past.maxlen and not (self._past and self._past[-1][0] == state.now_s):
            self._past.append((state.now_s, self.held.copy(), self.used.copy()))

    def history(self, vms: Ints) -> UsageHistory | None:
        """Return the past use of these VMs and of all hosts; None if nothing is remembered."""
        if not self._past:
            return None
        times, held, used = zip(*self._past, strict=True)
        return UsageHistory(np.array(times), np.stack([each[vms] for each in held]), np.stack(used))

    def _power(self) -> float:
        """Return the power of all hosts: linear in the CPU load; none of failed hosts."""
        state, cpu = self._state, self._cpu
        capacity = self._capacity[:, cpu]
        load = np.divide(
            self.used[:, cpu], capacity, out=np.zeros(len(capacity)), where=capacity > 0
        )
        drawn = self._idle_watts + self._more_watts * np.minimum(load, 1.0)
        drawn = np.where(state.is_asleep, self._center.asleep_watts, drawn)
        return float(drawn[~state.is_cut_off].sum())

    def utilisation(self) -> tuple[Floats, float]:
        """Return the used part of active hosts by resource (Paper IV, Eq. 16), and the imbalance.

        The imbalance is the sum over hosts of the difference between the used parts of the first
        two resources (Paper IV, Eq. 18).
        """
        state = self._state
        active = state.guests > 0
        total = self._capacity[active].sum(axis=0)
        parts = np.divide(
            self.used[active].sum(axis=0), total, out=np.zeros(len(total)), where=total > 0
        )
        if self.used.shape[1] < 2:
            return parts, 0.0
        capacity = self._capacity[active, :2]
        each = np.divide(
            self.used[active, :2], capacity, out=np.zeros_like(capacity), where=capacity > 0
        )
        return parts, float(np.abs(each[:, 0] - each[:, 1]).sum())
