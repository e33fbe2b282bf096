"""Triggers: hosts whose load calls for other places of their VMs (Paper IV, 5.3).

A host is overloaded while it uses more than a part of any resource, and underloaded while it has
VMs and uses less than a part of every resource. A trigger counts once a host has been so at a
number of monitorings in a row, and is unresolved until a monitoring finds it otherwise.
"""

from dataclasses import dataclass

import numpy as np

from merkatd.cluster import Bools, Floats, Ints


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerLimits:
    """The loads that count as too high and too low."""

    over_part: float = 0.9
    under_part: float = 0.3
    monitorings: int = 10
    """The monitorings in a row until a trigger counts."""

    def __post_init__(self) -> None:
        if not 0 <= self.under_part < self.over_part:
            raise ValueError(
                f"under_part: must be from 0 to less than over_part, which is {self.over_part:g}"
                f" (got {self.under_part:g})"
            )
        if self.monitorings < 1:
            raise ValueError(f"monitorings: must be at least 1 (got {self.monitorings})")


class LoadTriggers:
    """The triggers of a run."""

    def __init__(self, capacity: Floats, limits: TriggerLimits) -> None:
        self._capacity, self._limits = capacity, limits
        self._over: Ints = np.zeros(len(capacity), dtype=np.int64)
        """[hosts]: the monitorings in a row at which the host was overloaded."""
        self._under: Ints = np.zeros(len(capacity), dtype=np.int64)
        self.overloads = 0
        self.underloads = 0

    def count(self, used: Floats, active: Bools) -> None:
        """Count a monitoring: [hosts, resources] in use, and which hosts have VMs."""
        limits = self._limits
        part = np.divide(used, self._capacity, out=np.zeros_like(used), where=self._capacity > 0)
        over = active & (part > limits.over_part).any(axis=1)
        under = active & (part < limits.under_part).all(axis=1)
        self._over = np.where(over, self._over + 1, 0)
        self._under = np.where(under, self._under + 1, 0)
        self.overloads += int((self._over == limits.monitorings).sum())
        self.underloads += int((self._under == limits.monitorings).sum())

    @property
    def unresolved(self) -> int:
        """Return the number of hosts that have triggered and are as they were."""
        most = np.maximum(self._over, self._under)
        return int((most >= self._limits.monitorings).sum())
