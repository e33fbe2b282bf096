"""The cores of a host, and its VMs as far as cores are concerned."""

from collections.abc import Mapping
from dataclasses import dataclass

from merkatd.limits.in_force import Cores


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
