"""The outcome of a run as columns over time, and their CSV form."""

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from merkatd.cluster import Floats
from simulator.kernel.data_center import DataCenter, Tariff
from simulator.kernel.kernel_snapshot import CPU
from simulator.kernel.kernel_state import COMPUTES, GuestPhase, KernelState
from simulator.kernel.use_monitoring import UseMonitoring
from simulator.kernel.vm_operations import MEMORY, OperationTotals
from simulator.model.load_triggers import LoadTriggers
from simulator.model.simulated_cloud import CORE
from simulator.workloads.vm_requests import VmRequests

_S_PER_HOUR: Final = 3600.0
_MIB_PER_GIB: Final = 1024.0
_TOTALS: Final = (
    "deploys",
    "live_migrations",
    "cold_migrations",
    "suspensions",
    "resumptions",
    "stops",
    "terminations",
    "sleeps",
    "wakes",
    "restarts",
    "refused",
    "postponed",
    "live_volume_mib",
    "cold_volume_mib",
)


@dataclass(frozen=True, slots=True, eq=False)
class KernelOutcome:
    """What a run showed: a row for each monitoring and for the end, and the VMs at the end."""

    columns: Mapping[str, Floats]
    """By name, in order. Totals count from the begin of the run."""
    state: KernelState
    totals: OperationTotals
    volumes_mib: Floats
    """The volume of each migration."""
    periods: int

    def mean(self, name: str) -> float:
        """Return the mean of a column over time."""
        return float(self.columns[name].mean())

    def last(self, name: str) -> float:
        """Return the last value of a column."""
        return float(self.columns[name][-1])

    def write_csv(self, path: Path) -> None:
        """Write a line for each monitoring."""
        with path.open("w", newline="") as file:
            lines = csv.writer(file)
            lines.writerow(self.columns)
            for row in zip(*(column.tolist() for column in self.columns.values()), strict=True):
                lines.writerow([f"{value:.10g}" for value in row])


class OutcomeColumns:
    """Collects the columns during a run."""

    def __init__(self, center: DataCenter, requests: VmRequests) -> None:
        self._tariff = center.tariff
        self._triggers = LoadTriggers(center.hosts.capacity, center.triggers)
        self._earns_h: Floats = _hourly(center.tariff, requests)
        self.prices: Floats = np.zeros(len(requests.resources))
        """Those of the last period; NaN for a resource that no price clears."""
        self._levels = center.hosts.topology.shape[1] + 1
        self._rows: list[Mapping[str, float]] = []
        self.energy_kwh = 0.0
        self.violations_vm_h = 0.0
        self.revenue = 0.0
        self.hours = 0.0
        self._last: tuple[float, float, int, float] | None = None
        """Time, power, number of lacking VMs and earnings an hour of the last monitoring."""

    def _pass_time(self, now_s: float) -> None:
        """Add what was spent since the last monitoring."""
        if self._last is not None:
            at_s, watts, lacking, earned_h = self._last
            hours = (now_s - at_s) / _S_PER_HOUR
            self.energy_kwh += watts * hours / 1000.0
            self.violations_vm_h += lacking * hours
            self.revenue += earned_h * hours
            self.hours += hours

    def record(
        self, state: KernelState, monitoring: UseMonitoring, totals: OperationTotals
    ) -> None:
        """Add a row for a monitoring."""
        self._pass_time(state.now_s)
        runs = COMPUTES[state.phase]
        earned_h = float(self._earns_h[runs].sum())
        self._last = (state.now_s, monitoring.watts, monitoring.lacking_vms, earned_h)
        counts = np.bincount(state.phase, minlength=len(GuestPhase)).tolist()
        parts, imbalance = monitoring.utilisation()
        active = state.guests > 0
        self._triggers.count(monitoring.used, active)
        reserved = (state.capacity[active] - state.free[active]).sum(axis=0)
        capacity = np.maximum(state.capacity[active].sum(axis=0), 1e-12)
        row = {
            "at_s": state.now_s,
            "active_hosts": float(active.sum()),
            "asleep_hosts": float(state.is_asleep.sum()),
            "failed_hosts": float(state.is_cut_off.sum()),
            "overloaded_hosts": monitoring.overloaded_hosts,
            "running": counts[GuestPhase.RUNNING] + counts[GuestPhase.MIGRATING],
            "pending": counts[GuestPhase.PENDING],
            "ended": counts[GuestPhase.ENDED],
            "rejected": counts[GuestPhase.REJECTED],
            "imbalance": imbalance,
        }
        for at, name in enumerate(state.resources):
            row[f"utilisation_{name}"] = float(parts[at])
            row[f"reserved_{name}"] = float(reserved[at] / capacity[at])
            row[f"price_{name}"] = float(self.prices[at])
        row.update({name: getattr(totals, name) for name in _TOTALS})
        for far in range(1, self._levels + 1):
            row[f"migrations_distance_{far}"] = totals.by_distance.get(far, 0)
        row["overload_triggers"] = self._triggers.overloads
        row["underload_triggers"] = self._triggers.underloads
        row["triggers"] = self._triggers.overloads + self._triggers.underloads
        row["unresolved_triggers"] = self._triggers.unresolved
        row["watts"] = monitoring.watts
        row["energy_kwh"] = self.energy_kwh
        row["sla_violations_vm_h"] = self.violations_vm_h
        row["cost"] = self.cost(totals)
        row["revenue"] = self.revenue
        row["profit"] = self.revenue - row["cost"]
        self._rows.append(row)

    def cost(self, totals: OperationTotals) -> float:
        """Return what was spent so far, by the tariff."""
        moved_gib = (totals.live_volume_mib + totals.cold_volume_mib) / _MIB_PER_GIB
        return (
            self._tariff.energy_kwh * self.energy_kwh
            + self._tariff.moved_gib * moved_gib
            + self._tariff.violation_vm_h * self.violations_vm_h
            + self._tariff.fixed_h * self.hours
        )

    def columns(self) -> Mapping[str, Floats]:
        """Return [rows] by name."""
        names = self._rows[0] if self._rows else ()
        return {name: np.array([row[name] for row in self._rows], dtype=float) for name in names}


def _hourly(tariff: Tariff, requests: VmRequests) -> Floats:
    """Return [vms]: what tenants pay for an hour in which the VM runs (Paper I, Eq. 1)."""
    units = {CPU: tariff.core_h / CORE, MEMORY: tariff.memory_gib_h / _MIB_PER_GIB}
    earned = np.zeros(len(requests))
    for at, name in enumerate(requests.resources):
        earned += requests.size[:, at] * units.get(name, 0.0)
    return earned
