"""The limits that hosts enforced at the last monitoring, and the hosts' cores."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, fields

import numpy as np

from merkatd.cluster import Bools, Floats, Ints, Snapshot
from merkatd.cluster.columns import read_only

CPU = "cpu"
MEMORY = "memory"
NETWORK = "network"
DISK = "disk"
"""The resources of a snapshot that hosts can limit."""
UNSET = -1
"""No limit, or an unknown limit."""
BEYOND = -2
"""No limit, and none is possible: the VM has no such device, or its hypervisor can't limit it."""
Cores = tuple[tuple[int, ...], ...]
"""The cores that each virtual CPU may use; empty if it may use all."""


@dataclass(frozen=True, slots=True, eq=False)
class EnforcedLimits:
    """Limits in force, [vms], in the order of the snapshot's rows. UNSET and NaN mean unknown."""

    vcpu_quota_us: Ints
    global_quota_us: Ints
    shares: Ints
    memory_mib: Ints
    """Target of the balloon; the guest's memory is `held` of the snapshot."""
    used_mib: Floats
    """Memory that the guest uses of what it holds."""
    balloon: Bools
    """Whether the VM has a balloon that works."""
    pin_policy: Bools
    """Whether OpenNebula pins the VM (PIN_POLICY): then Merkat does not choose its cores."""
    pins: Mapping[int, Cores] = field(default_factory=dict)
    """By id of pinned VMs: their pins, set by Merkat or by OpenNebula."""
    emulators_off: AbstractSet[int] = frozenset()
    """Ids of pinned VMs whose helper threads are not on the cores reserved for them."""
    further: Mapping[str, Ints] = field(default_factory=dict)
    """[vms], by resource: the network limit in kB/s, the disk limit in KiB/s, or BEYOND. A missing
    resource is UNSET for all VMs."""
    size_mib: Floats | None = None
    """Memory that each guest boots with, even if its owner's cap is less; None: its cap."""

    def __post_init__(self) -> None:
        for entry in fields(self):
            value = getattr(self, entry.name)
            if isinstance(value, np.ndarray):
                object.__setattr__(self, entry.name, read_only(value))

    def boots_with(self, cap_mib: Floats) -> Floats:
        """Return [vms]: the memory that each guest boots with, given its owner's cap."""
        return cap_mib if self.size_mib is None else np.fmax(cap_mib, self.size_mib)

    @classmethod
    def nothing(cls, snapshot: Snapshot) -> "EnforcedLimits":
        """Return limits with nothing set, nothing measured, and working balloons."""
        count = len(snapshot.vms)
        return cls(
            vcpu_quota_us=np.full(count, UNSET),
            global_quota_us=np.full(count, UNSET),
            shares=np.full(count, UNSET),
            memory_mib=np.full(count, UNSET),
            used_mib=np.full(count, np.nan),
            balloon=np.ones(count, dtype=bool),
            pin_policy=np.zeros(count, dtype=bool),
        )

    def throttled(self, resource: str) -> Ints:
        """Return [vms]: the network or disk limit of each VM."""
        there = self.further.get(resource)
        return np.full(len(self.shares), UNSET) if there is None else there

    def pinned(self, vm_id: int) -> Cores:
        """Return the VM's pins; empty if no virtual CPU has any."""
        cores = self.pins.get(vm_id, ())
        return cores if any(cores) else ()


@dataclass(frozen=True, slots=True)
class Topology:
    """The cores of a host."""

    cell: Mapping[int, int]
    """The NUMA cell of each core."""
    reserved: frozenset[int] = frozenset()
    """The cores for emulator threads: no virtual CPU is pinned there."""

    def cells(self) -> dict[int, tuple[int, ...]]:
        """Return the cores for virtual CPUs, by cell."""
        cores: dict[int, list[int]] = {}
        for core in sorted(set(self.cell) - self.reserved):
            cores.setdefault(self.cell[core], []).append(core)
        return {cell: tuple(cores[cell]) for cell in sorted(cores)}

    @property
    def usable(self) -> int:
        """Return the number of cores for virtual CPUs."""
        return len(set(self.cell) - self.reserved)


@dataclass(frozen=True, slots=True)
class Pinned:
    """A VM on a host, with the data that decide its cores."""

    vm: int
    vcpus: int
    share: float
    """CPU share, in percent of a core."""
    cores: Cores = ()
    """The present pins."""
    rate: float | None = None
    """The VM's spending rate; None if rates don't buy cores."""
    fixed: bool = False
    """Whether Merkat may not choose the pins; the cores count as loaded."""
