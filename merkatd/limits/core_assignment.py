"""Virtual CPUs to cores: apart while there are cores enough, near each other, evenly loaded.

A VM stays inside one NUMA cell where one is large enough for it, and no two of its virtual
CPUs share a core. One with more virtual CPUs than the host has cores takes the least loaded
core for each. Load is the CPU share of a VM, divided evenly among its virtual CPUs, none of
which can use more than a core. Pins that stand are kept: they are given up only where they
break a rule, or where a change relieves a core by at least `least_gain_units`.

Where spending rates buy cores, VMs come by falling rate and take the cheapest cores instead of the
least loaded ones, as phase 2 of the group scheduler has it: the price of a core is the sum of the
rates of the VMs that have a virtual CPU there. Prices don't know that a rate may buy a VM more than
it can use, or is spread over many virtual CPUs. So load has the last word all the same: where it
could be shared out better, the busiest core is relieved.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from merkatd.limits.cpu_limits import UNITS_PER_CORE
from merkatd.limits.enforced_limits import Pinned, Topology


def assign_cores(
    topology: Topology, vms: Iterable[Pinned], least_gain_units: float
) -> dict[int, tuple[int, ...]]:
    """By VM: one core for each virtual CPU, for all VMs that are not fixed.

    Nothing where the host has no core for virtual CPUs at all.
    """
    board = _Board(topology)
    if not board.cores:
        return {}
    ours: list[Pinned] = []
    for vm in vms:
        if vm.fixed:
            board.burden(vm)
        elif vm.vcpus > 0:
            ours.append(vm)
    fresh = []
    for vm in ours:
        standing = tuple(core for entry in vm.cores for core in entry[:1])
        if all(len(entry) == 1 for entry in vm.cores) and board.keeps_rules(vm, standing):
            board.put(vm, standing)
        else:
            fresh.append(vm)
    for vm in sorted(fresh, key=_turn):
        board.put(vm, board.best_for(vm) if vm.rate is None else board.cheapest_for(vm))
    board.even_out(ours, max(round(least_gain_units * _THOUSANDTHS), 1))
    return board.taken


@dataclass(slots=True)
class _Board:
    """Which virtual CPU is on which core, while that is being settled."""

    topology: Topology
    cells: dict[int, tuple[int, ...]] = field(init=False)
    cores: tuple[int, ...] = field(init=False)
    load: dict[int, int] = field(init=False)
    """In thousandths of a unit: whole numbers, so that no order of changes makes a difference."""
    price: dict[int, int] = field(init=False)
    """In millionths of a credit."""
    taken: dict[int, tuple[int, ...]] = field(default_factory=dict)
    parts: dict[int, int] = field(default_factory=dict)
    """By VM: what one virtual CPU loads its core with."""

    def __post_init__(self) -> None:
        self.cells = self.topology.cells()
        self.cores = tuple(sorted(core for cell in self.cells.values() for core in cell))
        self.load = dict.fromkeys(self.cores, 0)
        self.price = dict.fromkeys(self.cores, 0)

    def burden(self, vm: Pinned) -> None:
        """Count a VM whose cores are given; those allowed to use several use all alike."""
        part, price = _part(vm), _price(vm)
        for entry in vm.cores:
            for core in entry:
                if core in self.load:
                    self.load[core] += part // len(entry)
                    self.price[core] += price // len(entry)

    def put(self, vm: Pinned, cores: tuple[int, ...]) -> None:
        """Pin the VM, in place of the pins it has on the board."""
        for tally, part in ((self.load, self.part(vm)), (self.price, _price(vm))):
            for core in self.taken.get(vm.vm, ()):
                tally[core] -= part
            for core in cores:
                tally[core] += part
        self.taken[vm.vm] = cores

    def part(self, vm: Pinned) -> int:
        """What one virtual CPU of a VM loads its core with."""
        found = self.parts.get(vm.vm)
        if found is None:
            found = self.parts[vm.vm] = _part(vm)
        return found

    def keeps_rules(self, vm: Pinned, cores: tuple[int, ...]) -> bool:
        """Whether the VM could be pinned like this."""
        if len(cores) != vm.vcpus or not self.load.keys() >= set(cores):
            return False
        if vm.vcpus > len(self.cores):
            return True
        if len(set(cores)) != len(cores):
            return False
        return not self._fits_cell(vm) or len({self.topology.cell[core] for core in cores}) == 1

    def best_for(self, vm: Pinned) -> tuple[int, ...]:
        """The least loaded cores of the cell where the busiest of them is least loaded."""
        return self._best(vm, self._load_without(vm), self.part(vm))

    def cheapest_for(self, vm: Pinned) -> tuple[int, ...]:
        """The same by price, for a VM that is not pinned yet."""
        return self._best(vm, self.price, _price(vm))

    def _best(self, vm: Pinned, tally: Mapping[int, int], part: int) -> tuple[int, ...]:
        """The cores with the least of a tally, to which each virtual CPU adds its part."""
        if vm.vcpus > len(self.cores):
            return _one_by_one(vm.vcpus, dict(tally), part)
        groups = list(self._cells_for(vm)) or [self.cores]
        if len(groups) == 1:
            return _least(groups[0], tally)[: vm.vcpus]
        choices = [_least(group, tally)[: vm.vcpus] for group in groups]
        return min(
            choices, key=lambda cores: (tally[cores[-1]], sum(tally[core] for core in cores), cores)
        )

    def even_out(self, vms: Sequence[Pinned], least_gain: int) -> None:
        """Relieve the busiest core that can be, as long as one can."""
        for _ in range(_CHANGES_PER_VCPU * sum(vm.vcpus for vm in vms)):
            change = self._relief(vms, least_gain)
            if change is None:
                return
            self.put(*change)

    def _relief(
        self, vms: Sequence[Pinned], least_gain: int
    ) -> tuple[Pinned, tuple[int, ...]] | None:
        """The change that relieves the busiest core most, with the fewest pins changed."""
        lightest, parts, taken = min(self.load.values()), self.parts, self.taken
        for core in reversed(_least(self.cores, self.load)):
            most = self.load[core] - least_gain
            if most < lightest:
                return None
            found = [
                (peak, changed, vm.vm, cores, vm)
                for vm in vms
                if core in taken[vm.vm] and lightest + parts[vm.vm] <= most
                for cores, changed, peak in self._changes(vm, core)
                if peak <= most
            ]
            if found:
                *_, cores, vm = min(found, key=lambda change: change[:4])
                return vm, cores
        return None

    def _changes(self, vm: Pinned, core: int) -> Iterator[tuple[tuple[int, ...], int, int]]:
        """New pins for the VM, how many are changed, and the highest load on a core it touches.

        One virtual CPU leaves the core for another one nearby, or the whole VM goes elsewhere.
        """
        taken = self.taken[vm.vm]
        at, part = taken.index(core), self.part(vm)
        cell = self.topology.cell[core]
        near = self.cells[cell] if self._fits_cell(vm) else self.cores
        shared = vm.vcpus > len(self.cores)
        others = [other for other in near if other != core and (shared or other not in taken)]
        if others:
            target = _least(others, self.load)[0]
            yield (
                (*taken[:at], target, *taken[at + 1 :]),
                1,
                max(self.load[target] + part, self.load[core] - part),
            )
        if len(self.cells) > 1 and self._fits_cell(vm):
            cores = self.best_for(vm)
            without = self._load_without(vm)
            peak = max(without[core], *(without[other] + part for other in cores))
            if self.topology.cell[cores[0]] != cell:
                yield cores, vm.vcpus, peak

    def _load_without(self, vm: Pinned) -> Mapping[int, int]:
        taken = self.taken.get(vm.vm)
        if taken is None:
            return self.load
        without, part = dict(self.load), self.part(vm)
        for core in taken:
            without[core] -= part
        return without

    def _cells_for(self, vm: Pinned) -> Iterator[tuple[int, ...]]:
        return (cores for cores in self.cells.values() if len(cores) >= vm.vcpus)

    def _fits_cell(self, vm: Pinned) -> bool:
        return any(True for _ in self._cells_for(vm))


_THOUSANDTHS = 1_000
_MILLIONTHS = 1_000_000

_CHANGES_PER_VCPU = 8
"""Far more changes than are ever made: each lowers the busiest core that it touches."""


def _part(vm: Pinned) -> int:
    """What one virtual CPU loads its core with; never nothing, so that idle VMs spread too."""
    units = min(vm.share / max(vm.vcpus, 1), UNITS_PER_CORE)
    return max(round(units * _THOUSANDTHS), 1)


def _price(vm: Pinned) -> int:
    """What one virtual CPU adds to the price of its core: all of its VM's rate."""
    return 0 if vm.rate is None else max(round(vm.rate * _MILLIONTHS), 1)


def _turn(vm: Pinned) -> tuple[bool, float, int]:
    """Who spends most comes first, and where nobody spends, who has the largest share."""
    return vm.rate is None, -(vm.share if vm.rate is None else vm.rate), vm.vm


def _least(cores: Iterable[int], tally: Mapping[int, int]) -> tuple[int, ...]:
    """Those with the least first, and of equals the one that comes first already: the lower one."""
    return tuple(sorted(cores, key=tally.__getitem__))


def _one_by_one(vcpus: int, tally: dict[int, int], part: int) -> tuple[int, ...]:
    """Each virtual CPU to the core that has least by then, cores shared where needed."""
    chosen: list[int] = []
    for _ in range(vcpus):
        core = min(tally, key=lambda core: (tally[core], chosen.count(core), core))
        tally[core] += part
        chosen.append(core)
    return tuple(sorted(chosen))
