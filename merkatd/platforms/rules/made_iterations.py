"""The iterations of a job's VMs, by their monitors: how much of the work they are.

Guests report their iterations, so any number may come. A number that is not whole, or that is far
above the number of all iterations, shows that the monitor reads something else from the log, such
as a date. It counts as no iteration. A program may go on after its work is done, so a number
somewhat above it counts as all of them.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from merkatd.protocol.measurement_names import DONE, MADE
from merkatd.protocol.platform_messages import Readings

MOST_TIMES: Final = 10.0
"""How many times all iterations a VM may report."""


@dataclass(frozen=True, slots=True)
class MadeIterations:
    """The iterations of VMs, by VM id."""

    made: Mapping[int, float]
    """Those of the VMs that were measured; 0 for a refused number."""
    refused: Mapping[int, float]
    """The impossible numbers."""


def is_possible(count: float, steps: float) -> bool:
    """Return whether a VM may have made so many of `steps` iterations."""
    return 0.0 <= count <= MOST_TIMES * max(steps, 1.0) and count == int(count)


def made_iterations(values: Mapping[str, float], steps: float) -> MadeIterations:
    """Return the iterations in the values of a monitor."""
    named = {name.removeprefix(MADE): value for name, value in values.items() if MADE in name}
    counts = {int(vm): value for vm, value in named.items() if vm.isdecimal()}
    refused = {vm: count for vm, count in counts.items() if not is_possible(count, steps)}
    return MadeIterations(counts | dict.fromkeys(refused, 0.0), refused)


def measured_part(readings: Readings, clusters: Iterable[str], steps: float) -> float | None:
    """Return the part of the work that the slowest VM has done, from 0 to 1; None if unknown.

    `clusters` are those with a monitor. A cluster that was not measured has done nothing, if
    another one was.
    """
    counts = [
        _slowest(readings[name].values, steps) if name in readings else None for name in clusters
    ]
    if all(count is None for count in counts):
        return None
    return min(1.0, min(count or 0.0 for count in counts) / steps)


def _slowest(values: Mapping[str, float], steps: float) -> float | None:
    of_vms = made_iterations(values, steps).made
    if of_vms:
        return min(of_vms.values())
    count = values.get(DONE)
    return count if count is None or is_possible(count, steps) else 0.0


@dataclass(frozen=True, slots=True)
class VmEnds:
    """The VMs that have made all of their iterations, and those that have not.

    A VM that is measured no more, because it was powered off or its monitor starts anew, stays what
    it was. A VM whose program starts anew has not made all of them any more.
    """

    finished: frozenset[int] = frozenset()
    unfinished: frozenset[int] = frozenset()

    def followed_by(self, later: "VmEnds") -> "VmEnds":
        """Return the ends of VMs after a later measurement."""
        return VmEnds(
            self.finished - later.unfinished | later.finished,
            self.unfinished - later.finished | later.unfinished,
        )


NO_ENDS: Final = VmEnds()


_NO_NUMBERS: Final[Mapping[int, float]] = {}


class MeasuredVms(NamedTuple):
    """What monitors measured of a job's VMs."""

    ends: VmEnds = NO_ENDS
    refused: Mapping[int, float] = _NO_NUMBERS
    """The impossible numbers, by VM."""


def measured_vms(readings: Readings, steps: float) -> MeasuredVms:
    """Return which VMs have made all of their iterations, of those that were measured."""
    made: dict[int, float] = {}
    refused: dict[int, float] = {}
    for reading in readings.values():
        found = made_iterations(reading.values, steps)
        refused |= found.refused
        for vm, count in found.made.items():
            made[vm] = min(count, made.get(vm, count))
    finished = frozenset(vm for vm, count in made.items() if count >= steps)
    return MeasuredVms(VmEnds(finished, frozenset(made) - finished), refused)


def all_finished(finished: Collection[int], vms: Collection[int | None], wanted: int) -> bool:
    """Return whether each of a platform's VMs has made all of its iterations.

    `vms` has None for a VM that does not exist yet; `wanted` is the number of VMs that the platform
    should have.
    """
    return 0 < wanted <= len(vms) and all(vm is not None and vm in finished for vm in vms)
