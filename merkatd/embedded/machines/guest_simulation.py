"""A simulated guest: its work, its memory and its limits, integrated exactly between events."""

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
    """What a guest does, from EMBEDDED=[...] in its VM's user template."""

    work: float = 0.0
    """Core-seconds until its application is done; 0 means it never ends."""
    iterations: int = 1
    """Parts of the work; one that is whole survives a reboot."""
    demand: float = 1.0
    """Cores that each virtual processor wants."""
    memory_use_mib: float = 0.0
    poweroff: bool = False
    """Whether the guest turns itself off when its application is done."""


def behaviour_of(vm: Vm, settings: Guesting) -> Behaviour:
    """Read what a VM's template says; what it leaves out is a busy, half-full guest."""
    told = vm.user_template.vector("EMBEDDED")
    default_use = vm.memory_mib * settings.memory_part
    return Behaviour(
        work=max(0.0, number(told.get("WORK", ""), float, 0.0)),
        iterations=max(1, int(number(told.get("ITERATIONS", ""), float, 1))),
        demand=min(1.0, max(0.0, number(told.get("DEMAND", ""), float, settings.demand))),
        memory_use_mib=max(0.0, number(told.get("MEMORY_USE", ""), float, default_use)),
        poweroff=told.get("ON_FINISH", "run").lower() == "poweroff",
    )


@dataclass(frozen=True, slots=True)
class GuestLimits:
    """What the host was told about a guest; -1 means no quota, and no other limit."""

    cpu_shares: int
    memory_mib: int
    vcpu_quota: int = -1
    global_quota: int = -1
    pins: tuple[tuple[int, ...], ...] = ()
    """Cores of each virtual processor; an empty tuple means any core."""
    network_kb_s: int = -1
    """What it may send, and as much that it may receive. Guests do neither: it is kept, no more."""
    disk_kib_s: int = -1
    """What it may read and write."""


@dataclass(slots=True)
class SimulatedGuest:
    """A guest as it was at `at_s`, and the rate at which it goes on from there."""

    vm: int
    vcpus: int
    size_mib: int
    behaviour: Behaviour
    limits: GuestLimits
    host: int = -1
    """Where its processors turn; -1 while they don't."""
    at_s: float = 0.0
    rate: float = 0.0
    """Cores that it really gets."""
    cpu_s: float = 0.0
    done: float = 0.0
    """Core-seconds of work done; less than those used where it swapped."""
    balloon_mib: float = 0.0
    log: list[tuple[float, int]] = field(default_factory=list)
    """When each of its last iterations ended."""
    run: int = 0
    """Another number after each start and each move to a host, as a domain's id is."""

    @property
    def finished(self) -> bool:
        """Whether its application is done."""
        return 0 < self.behaviour.work <= self.done

    @property
    def wanted(self) -> float:
        """Cores that it would use if nothing held it back."""
        return 0.0 if self.finished else self.vcpus * self.behaviour.demand

    @property
    def used_mib(self) -> float:
        """Memory in use, as far as the balloon leaves it any."""
        return min(self.behaviour.memory_use_mib, self.balloon_mib)

    def speed(self, settings: Guesting) -> float:
        """Work done per core-second: less than 1 while it swaps."""
        return _speed(self, self.balloon_mib, settings)

    def advance(self, now_s: float, settings: Guesting) -> None:
        """Bring it to a later time at its present rate."""
        if now_s <= self.at_s or self.host < 0:
            self.at_s = max(self.at_s, now_s)
            return
        for stretch in _stretches(self, settings):
            seconds = min(stretch.seconds, now_s - self.at_s)
            self._run(stretch, seconds)
            if self.at_s >= now_s:
                return

    def complete(self, now_s: float, settings: Guesting) -> None:
        """Bring it to the moment at which all is done, whatever rounding errors say."""
        self.advance(now_s, settings)
        self.done = self.behaviour.work
        last = self.behaviour.iterations
        if not self.log or self.log[-1][1] < last:
            self.log.append((self.at_s, last))
            del self.log[:-LOG_KEPT]

    def finish_s(self, settings: Guesting) -> float:
        """When its application will be done at this rate; infinity if never."""
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
        """Lose what only memory held: the iteration it was in."""
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
    """A time in which the balloon moves evenly, and the guest's speed with it."""

    seconds: float
    end_mib: float
    slope_mib: float
    speed: float
    slope: float
    """Change of the speed in a second."""

    def gain(self, seconds: float) -> float:
        """Seconds' worth of full speed that so many seconds bring."""
        return self.speed * seconds + self.slope * seconds * seconds / 2

    def time_for(self, gain: float) -> float:
        """The seconds that bring a gain; infinity if this stretch never does."""
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
    """The sizes at which the balloon's pace or the guest's speed bends, up to its goal."""
    at, goal = guest.balloon_mib, float(min(guest.limits.memory_mib, guest.size_mib))
    use = guest.behaviour.memory_use_mib
    roomy = use + settings.margin_mib
    bends = sorted({use, use * settings.least_speed, roomy}, reverse=goal < at)
    for bend in [*bends, goal]:
        if min(at, goal) < bend < max(at, goal) or (bend == goal and at != goal):
            squeezing = bend < at <= roomy
            yield bend, settings.squeeze_mib_s if squeezing else settings.balloon_mib_s
            at = bend
