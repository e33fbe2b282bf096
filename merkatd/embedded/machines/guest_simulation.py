"""A simulated guest: its work, memory and limits, integrated exactly between events.

# Note [Stretches of a balloon]

A guest with too little memory swaps: its speed is balloon / use, at least `least_speed`. A balloon
moves evenly between the sizes at which its pace or the guest's speed bends. In such a stretch the
speed changes linearly, so the work done and its end have closed forms, without time steps.
Example: a guest has a balloon of 1000 MiB and uses 600 MiB, and its limit falls to 400 MiB.
- 336 MiB go at 170 MiB/s (2.0 s) at full speed.
- 64 MiB, the margin, go at 40 MiB/s (1.6 s) at full speed.
- 200 MiB in use go at 40 MiB/s (5 s) while the speed falls from 1 to 0.67: 4.17 s of work.
Used by `advance` and `finish_s`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from merkatd.embedded.model.template_text import number

if TYPE_CHECKING:
    from collections.abc import Iterator

    from merkatd.embedded.model.records import Vm
    from merkatd.embedded.model.settings import Guesting

PERIOD_US = 100_000
LOG_KEPT = 200


@dataclass(frozen=True, slots=True)
class Behaviour:
    """A guest's behaviour, from EMBEDDED=[...] in its VM's user template."""

    work: float = 0.0
    """The core-seconds until its application finishes; 0 means never."""
    iterations: int = 1
    """The number of parts of the work; completed parts survive a reboot."""
    demand: float = 1.0
    """The demand of each virtual CPU in cores."""
    memory_use_mib: float = 0.0
    poweroff: bool = False
    """Whether the guest powers itself off when its application finishes."""


def behaviour_of(vm: Vm, settings: Guesting) -> Behaviour:
    """Read the behaviour in a VM's template; the default is a busy, half-full guest."""
    behaviour = vm.user_template.vector("EMBEDDED")
    default_use = vm.memory_mib * settings.memory_part
    return Behaviour(
        work=max(0.0, number(behaviour.get("WORK", ""), float, 0.0)),
        iterations=max(1, int(number(behaviour.get("ITERATIONS", ""), float, 1))),
        demand=min(1.0, max(0.0, number(behaviour.get("DEMAND", ""), float, settings.demand))),
        memory_use_mib=max(0.0, number(behaviour.get("MEMORY_USE", ""), float, default_use)),
        poweroff=behaviour.get("ON_FINISH", "run").lower() == "poweroff",
    )


@dataclass(frozen=True, slots=True)
class GuestLimits:
    """The limits set on a guest; -1 means no limit."""

    cpu_shares: int
    memory_mib: int
    vcpu_quota: int = -1
    global_quota: int = -1
    pins: tuple[tuple[int, ...], ...] = ()
    """The cores of each virtual CPU; an empty tuple means any core."""
    network_kb_s: int = -1
    """The limit of sending, and of receiving. It has no effect: guests send and receive nothing."""
    disk_kib_s: int = -1
    """The limit of reading plus writing disks, without effect."""


@dataclass(slots=True)
class SimulatedGuest:
    """The state of a guest at `at_s`, and its CPU rate from then on."""

    vm: int
    vcpus: int
    size_mib: int
    behaviour: Behaviour
    limits: GuestLimits
    host: int = -1
    """The id of the host where it runs; -1 while it does not run."""
    at_s: float = 0.0
    rate: float = 0.0
    """The cores that it gets."""
    cpu_s: float = 0.0
    done: float = 0.0
    """The core-seconds of work done; less than `cpu_s` if it swapped."""
    balloon_mib: float = 0.0
    log: list[tuple[float, int]] = field(default_factory=list)
    """The end and the number of each of its last iterations."""
    run: int = 0
    """A number that changes with each start and each move, like a domain's id."""

    @property
    def finished(self) -> bool:
        """Whether its application has finished."""
        return 0 < self.behaviour.work <= self.done

    @property
    def wanted(self) -> float:
        """The cores that it would use without limits."""
        return 0.0 if self.finished else self.vcpus * self.behaviour.demand

    @property
    def used_mib(self) -> float:
        """The memory in use, at most the balloon's size."""
        return min(self.behaviour.memory_use_mib, self.balloon_mib)

    def speed(self, settings: Guesting) -> float:
        """Return the work done per core-second: less than 1 while it swaps."""
        return _speed(self, self.balloon_mib, settings)

    def advance(self, now_s: float, settings: Guesting) -> None:
        """Advance the guest to a later time at its present rate."""
        if now_s <= self.at_s or self.host < 0:
            self.at_s = max(self.at_s, now_s)
            return
        for stretch in _stretches(self, settings):
            seconds = min(stretch.seconds, now_s - self.at_s)
            self._run(stretch, seconds)
            if self.at_s >= now_s:
                return

    def complete(self, now_s: float, settings: Guesting) -> None:
        """Advance the guest to the end of its work, and correct rounding errors."""
        self.advance(now_s, settings)
        self.done = self.behaviour.work
        last = self.behaviour.iterations
        if not self.log or self.log[-1][1] < last:
            self.log.append((self.at_s, last))
            del self.log[:-LOG_KEPT]

    def finish_s(self, settings: Guesting) -> float:
        """Return the time when its application finishes at this rate; infinity if never."""
        if self.rate <= 0 or self.host < 0 or self.behaviour.work <= 0 or self.finished:
            return math.inf
        left, at_s = self.behaviour.work - self.done, self.at_s
        for stretch in _stretches(self, settings):
            after = stretch.time_for(left / self.rate)
            if after <= stretch.seconds:
                return at_s + after
            left -= self.rate * stretch.gain(stretch.seconds)
            at_s += stretch.seconds
        return math.inf

    def reboot(self) -> None:
        """Lose the work of the unfinished iteration, which only memory contains."""
        if not self.finished and self.behaviour.work > 0:
            part = self.behaviour.work / self.behaviour.iterations
            self.done = math.floor(self.done / part + 1e-9) * part

    def _run(self, stretch: _Stretch, seconds: float) -> None:
        before = self.done
        self.done += self.rate * stretch.gain(seconds)
        if self.behaviour.work > 0:
            self._note(stretch, before)
        self.cpu_s += self.rate * seconds
        self.balloon_mib += stretch.slope_mib * seconds
        self.at_s += seconds
        if seconds == stretch.seconds:
            self.balloon_mib = stretch.end_mib

    def _note(self, stretch: _Stretch, before: float) -> None:
        work, part = self.behaviour.work, self.behaviour.work / self.behaviour.iterations
        if self.done > work * (1 - 1e-12):
            self.done = work
        first = math.floor(before / part + 1e-9) + 1
        last = math.floor(self.done / part + 1e-9)
        for number_ in range(max(first, last - LOG_KEPT + 1), last + 1):
            after = stretch.time_for((number_ * part - before) / self.rate)
            self.log.append((self.at_s + max(0.0, after), number_))
        del self.log[:-LOG_KEPT]


@dataclass(frozen=True, slots=True)
class _Stretch:
    """A time in which the balloon and the guest's speed change evenly."""

    seconds: float
    end_mib: float
    slope_mib: float
    speed: float
    slope: float
    """The change of the speed per second."""

    def gain(self, seconds: float) -> float:
        """Return the work of the first seconds, in seconds at full speed."""
        return self.speed * seconds + self.slope * seconds * seconds / 2

    def time_for(self, gain: float) -> float:
        """Return the seconds until a gain; infinity if the stretch never reaches it."""
        if gain <= 0:
            return 0.0
        if abs(self.slope) < 1e-15:
            return gain / self.speed if self.speed > 0 else math.inf
        under = self.speed * self.speed + 2 * self.slope * gain
        if under < 0:
            return math.inf
        # This form of the root loses no precision when the slope is small.
        return 2 * gain / (self.speed + math.sqrt(under))


def _speed(guest: SimulatedGuest, balloon_mib: float, settings: Guesting) -> float:
    use = guest.behaviour.memory_use_mib
    if use <= balloon_mib or use <= 0:
        return 1.0
    return max(settings.least_speed, balloon_mib / use)


def _stretches(guest: SimulatedGuest, settings: Guesting) -> Iterator[_Stretch]:
    at = guest.balloon_mib
    for goal, pace in _balloon_path(guest, settings):
        seconds = abs(goal - at) / pace
        before, after = _speed(guest, at, settings), _speed(guest, goal, settings)
        yield _Stretch(seconds, goal, (goal - at) / seconds, before, (after - before) / seconds)
        at = goal
    yield _Stretch(math.inf, at, 0.0, _speed(guest, at, settings), 0.0)


def _balloon_path(guest: SimulatedGuest, settings: Guesting) -> Iterator[tuple[float, float]]:
    """Yield the sizes at which the balloon's pace or the guest's speed bends, with the pace."""
    at, goal = guest.balloon_mib, float(min(guest.limits.memory_mib, guest.size_mib))
    use = guest.behaviour.memory_use_mib
    roomy = use + settings.margin_mib
    bends = sorted({use, use * settings.least_speed, roomy}, reverse=goal < at)
    for bend in [*bends, goal]:
        if min(at, goal) < bend < max(at, goal) or (bend == goal and at != goal):
            squeezing = bend < at <= roomy
            yield bend, settings.squeeze_mib_s if squeezing else settings.balloon_mib_s
            at = bend
