"""What hosts were last seen to enforce, and the cores they have."""

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
"""The resources of a snapshot that hosts can be told to limit."""
UNSET = -1
"""No such limit, or none that anybody knows of."""
BEYOND = -2
"""No such limit, and none can be set: the VM has no such device, or its hypervisor can't."""
Cores = tuple[tuple[int, ...], ...]
"""For each virtual CPU the cores it may use; empty where it may use all."""


@dataclass(frozen=True, slots=True, eq=False)
class EnforcedLimits:
    """[vms], in the order of the snapshot's rows. UNSET and NaN stand for what is not known."""

    vcpu_quota_us: Ints
    global_quota_us: Ints
    shares: Ints
    memory_mib: Ints
    """What the balloon was told; what the guest holds is the snapshot's `held`."""
    used_mib: Floats
    """What the guest itself uses of what it holds."""
    balloon: Bools
    """Whether there is a balloon and what the guest holds follows it."""
    pin_policy: Bools
    """Whether OpenNebula pins the VM (PIN_POLICY): its cores are not ours to choose."""
    pins: Mapping[int, Cores] = field(default_factory=dict)
    """By VM id, for those that are pinned, by us or by OpenNebula."""
    emulators_off: AbstractSet[int] = frozenset()
    """The ids of pinned VMs whose hypervisor's other threads are not on the cores for them."""
    further: Mapping[str, Ints] = field(default_factory=dict)
    """[vms], by resource: what its network sends in kB/s, what its disks do in KiB/s, BEYOND too.
    UNSET for all of a resource that is not there."""
    size_mib: Floats | None = None
    """What each guest boots with, also where its owner's cap is less. None: its cap."""

    def __post_init__(self) -> None:
        for entry in fields(self):
            value = getattr(self, entry.name)
            if isinstance(value, np.ndarray):
                object.__setattr__(self, entry.name, read_only(value))

    def boots_with(self, cap_mib: Floats) -> Floats:
        """Return [vms]: the memory of each guest itself, where its owner's cap is this."""
        return cap_mib if self.size_mib is None else np.fmax(cap_mib, self.size_mib)

    @classmethod
    def nothing(cls, snapshot: Snapshot) -> "EnforcedLimits":
        """No limit set anywhere, nothing measured, and every balloon works."""
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
        """[vms]: what of network or disk each VM may use at most."""
        there = self.further.get(resource)
        return np.full(len(self.shares), UNSET) if there is None else there

    def pinned(self, vm_id: int) -> Cores:
        """The VM's pins; empty where no virtual CPU has any."""
        cores = self.pins.get(vm_id, ())
        return cores if any(cores) else ()


@dataclass(frozen=True, slots=True)
class Topology:
    """The cores of a host."""

    cell: Mapping[int, int]
    """The NUMA cell of each core."""
    reserved: frozenset[int] = frozenset()
    """For emulator threads: no virtual CPU is pinned there."""

    def cells(self) -> dict[int, tuple[int, ...]]:
        """The cores for virtual CPUs, by cell."""
        found: dict[int, list[int]] = {}
        for core in sorted(set(self.cell) - self.reserved):
            found.setdefault(self.cell[core], []).append(core)
        return {cell: tuple(found[cell]) for cell in sorted(found)}

    @property
    def usable(self) -> int:
        """How many cores there are for virtual CPUs."""
        return len(set(self.cell) - self.reserved)


@dataclass(frozen=True, slots=True)
class Pinned:
    """A VM on the host, as far as cores are concerned."""

    vm: int
    vcpus: int
    share: float
    """CPU, in percent of a core."""
    cores: Cores = ()
    """Where it is pinned now."""
    rate: float | None = None
    """Where spending rates buy cores: its own."""
    fixed: bool = False
    """Its pins are not ours to choose; its cores count as loaded."""
