"""The assignment of virtual CPUs to cores: on separate cores, near each other, evenly loaded.

A VM stays inside one NUMA cell if a cell is large enough, and no two of its virtual CPUs share a
core. A VM with more virtual CPUs than the host has cores takes the least loaded core for each; with
more than `MOST_PER_CORE` for each core it has no pins. Load is the CPU share of a VM, divided
evenly among its virtual CPUs; each can use at most a core. Existing pins stay unless they break a
rule, or a change relieves a core by at least `least_gain_units`.

If spending rates buy cores, VMs choose by falling rate, and take the cheapest instead of the least
loaded cores, as in phase 2 of the group scheduler. The price of a core is the sum of the rates of
the VMs with a virtual CPU there. Prices ignore that a rate may buy more than a VM can use, or is
spread over many virtual CPUs. So load decides in the end: if it can be divided better, the busiest
core is relieved.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from merkatd.limits.cpu_limits import UNITS_PER_CORE
from merkatd.limits.enforced_limits import Pinned, Topology

MOST_PER_CORE = 8
"""The most virtual CPUs of a pinned VM for each core of its host. Tenants choose the number, and
OpenNebula accepts millions. A VM with more loads all cores alike, which changes no choice."""


def assign_cores(
    topology: Topology, vms: Iterable[Pinned], least_gain_units: float
) -> dict[int, tuple[int, ...]]:
    """Return, for each VM that is not fixed, a core for each virtual CPU.

    Return nothing if the host has no core for virtual CPUs.
    """
    board = _Board(topology)
    if not board.cores:
        return {}
    ours: list[Pinned] = []
    most = MOST_PER_CORE * len(board.cores)
    for vm in vms:
        if vm.fixed:
            board.burden(vm)
        elif 0 < vm.vcpus <= most:
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
    """The assignment of virtual CPUs to cores while it changes."""

    topology: Topology
    cells: dict[int, tuple[int, ...]] = field(init=False)
    cores: tuple[int, ...] = field(init=False)
    load: dict[int, int] = field(init=False)
    """Load by core, in thousandths of a unit: integers, so the order of changes has no effect."""
    price: dict[int, int] = field(init=False)
    """Price by core, in millionths of a credit."""
    taken: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """By VM: the core of each virtual CPU."""
    parts: dict[int, int] = field(default_factory=dict)
    """By VM: the load of a virtual CPU on its core."""

    def __post_init__(self) -> None:
        self.cells = self.topology.cells()
        self.cores = tuple(sorted(core for cell in self.cells.values() for core in cell))
        self.load = dict.fromkeys(self.cores, 0)
        self.price = dict.fromkeys(self.cores, 0)

    def burden(self, vm: Pinned) -> None:
        """Add the load of a VM with fixed cores; a virtual CPU with several loads all evenly."""
        part, price = _part(vm), _price(vm)
        for entry in vm.cores:
            for core in entry:
                if core in self.load:
                    self.load[core] += part // len(entry)
                    self.price[core] += price // len(entry)

    def put(self, vm: Pinned, cores: tuple[int, ...]) -> None:
        """Pin the VM to these cores, and remove its pins on the board."""
        for tally, part in ((self.load, self.part(vm)), (self.price, _price(vm))):
            for core in self.taken.get(vm.vm, ()):
                tally[core] -= part
            for core in cores:
                tally[core] += part
        self.taken[vm.vm] = cores

    def part(self, vm: Pinned) -> int:
        """Return the load of a virtual CPU of the VM on its core."""
        part = self.parts.get(vm.vm)
        if part is None:
            part = self.parts[vm.vm] = _part(vm)
        return part

    def keeps_rules(self, vm: Pinned, cores: tuple[int, ...]) -> bool:
        """Return whether the rules allow these pins for the VM."""
        if len(cores) != vm.vcpus or not self.load.keys() >= set(cores):
            return False
        if vm.vcpus > len(self.cores):
            return True
        if len(set(cores)) != len(cores):
            return False
        return not self._fits_cell(vm) or len({self.topology.cell[core] for core in cores}) == 1

    def best_for(self, vm: Pinned) -> tuple[int, ...]:
        """Return the least loaded cores, of the cell where the busiest of them is least loaded."""
        return self._best(vm, self._load_without(vm), self.part(vm))

    def cheapest_for(self, vm: Pinned) -> tuple[int, ...]:
        """Return the cheapest cores of the best cell, for a VM that is not pinned yet."""
        return self._best(vm, self.price, _price(vm))

    def _best(self, vm: Pinned, tally: Mapping[int, int], part: int) -> tuple[int, ...]:
        """Return the cores with the least tally; each virtual CPU adds its part to a tally."""
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
        """Relieve the busiest core that a change can relieve, until no change helps."""
        for _ in range(_CHANGES_PER_VCPU * sum(vm.vcpus for vm in vms)):
            change = self._relief(vms, least_gain)
            if change is None:
                return
            self.put(*change)

    def _relief(
        self, vms: Sequence[Pinned], least_gain: int
    ) -> tuple[Pinned, tuple[int, ...]] | None:
        """Return the change that relieves the busiest core most, with the fewest changed pins."""
        lightest, parts, taken = min(self.load.values()), self.parts, self.taken
        for core in reversed(_least(self.cores, self.load)):
            most = self.load[core] - least_gain
            if most < lightest:
                return None
            choices = [
                (peak, changed, vm.vm, cores, vm)
                for vm in vms
                if core in taken[vm.vm] and lightest + parts[vm.vm] <= most
                for cores, changed, peak in self._changes(vm, core)
                if peak <= most
            ]
            if choices:
                *_, cores, vm = min(choices, key=lambda change: change[:4])
                return vm, cores
        return None

    def _changes(self, vm: Pinned, core: int) -> Iterator[tuple[tuple[int, ...], int, int]]:
        """Yield new pins for the VM, the number of changes, and the highest load on a touched core.

        Either a virtual CPU moves to another core nearby, or the whole VM moves to another cell.
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
"""Safe upper bound of changes per virtual CPU: each change lowers the busiest core it touches."""


def _part(vm: Pinned) -> int:
    """Return the load of a virtual CPU on its core; at least 1, so that idle VMs spread too."""
    units = min(vm.share / max(vm.vcpus, 1), UNITS_PER_CORE)
    return max(round(units * _THOUSANDTHS), 1)


def _price(vm: Pinned) -> int:
    """Return what a virtual CPU adds to its core's price: all of its VM's rate."""
    return 0 if vm.rate is None else max(round(vm.rate * _MILLIONTHS), 1)


def _turn(vm: Pinned) -> tuple[bool, float, int]:
    """Return the sort key of the VM: the highest rate first; without rates, the largest share."""
    return vm.rate is None, -(vm.share if vm.rate is None else vm.rate), vm.vm


def _least(cores: Iterable[int], tally: Mapping[int, int]) -> tuple[int, ...]:
    """Return the cores by rising tally; equal cores keep their order: the lower core first."""
    return tuple(sorted(cores, key=tally.__getitem__))


def _one_by_one(vcpus: int, tally: dict[int, int], part: int) -> tuple[int, ...]:
    """Return a core for each virtual CPU, each time the core with the least tally; may repeat."""
    chosen = dict.fromkeys(tally, 0)
    for _ in range(vcpus):
        core = min(tally, key=lambda core: (tally[core], chosen[core], core))
        tally[core] += part
        chosen[core] += 1
    return tuple(core for core in sorted(chosen) for _ in range(chosen[core]))
