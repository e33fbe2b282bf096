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
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import TYPE_CHECKING

from merkatd.embedded.machines.guest_behaviour import Behaviour
from merkatd.policies.service_queue import (
    RequestCount,
    ServiceView,
    needed_cores,
    response_s,
    view_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from merkatd.embedded.model.settings import Guesting

PERIOD_US = 100_000
LOG_KEPT = 200
_BALLOON_STEP_S = 5.0
"""The time after which a service's need is computed again while its balloon moves."""
_ROUNDING_S = 2e-6
_LEAST_MARGIN = 1e-9


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
    stage: int = 0
    """The number of stages that are done."""
    share: float = 0.0
    """The cores that it gets if it wants all: a service may use less."""
    arrivals: float = 0.0
    """The requests a second that reach it."""
    requests: RequestCount = field(default_factory=RequestCount)

    @property
    def finished(self) -> bool:
        """Whether its application has finished."""
        if self.behaviour.stages:
            return self.stage >= len(self.behaviour.stages)
        return 0 < self.behaviour.work <= self.done

    @property
    def use_mib(self) -> float:
        """The memory that its application uses at present, if it has as much."""
        stages = self.behaviour.stages
        if stages:
            return stages[min(self.stage, len(stages) - 1)].memory_mib
        return self.behaviour.memory_use_mib

    @property
    def used_mib(self) -> float:
        """The memory in use, at most the balloon's size."""
        return min(self.use_mib, self.balloon_mib)

    @property
    def dirty_mib_s(self) -> float | None:
        """The MiB that it writes to its memory in a second now; None if this is not measured."""
        rate, wanted = self.behaviour.dirty_mib_s, self.behaviour.demand * self.vcpus
        if rate is None or self.host < 0 or wanted <= 0:
            return None if rate is None else 0.0
        return rate * min(self.rate / wanted, 1.0)

    def most_cores(self, settings: Guesting) -> float:
        """Return the most cores that its application can use at present."""
        if self.behaviour.stages and not self.finished:
            return self.behaviour.stages[self.stage].greatest
        if self.behaviour.serves and self.requests.waiting <= 0:
            return needed_cores(self.arrivals, self.behaviour.request_work, self.speed(settings))
        return math.inf

    def become(self, behaviour: Behaviour) -> None:
        """Change the behaviour; the work that is done counts for new stages."""
        if behaviour.stages != self.behaviour.stages:
            ends = accumulate(stage.work for stage in behaviour.stages)
            self.stage = sum(end <= self.done for end in ends)
        self.behaviour = behaviour

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

    def seen_at(self, now_s: float, settings: Guesting) -> SimulatedGuest:
        """Return the guest at a later time, for a look that must not change its future.

        The need of a service is computed in steps while its balloon moves. A look between two
        steps would begin a new step, so it gets a copy.
        """
        if not (self.behaviour.serves and self._balloon_moves and self.host >= 0):
            self.advance(now_s, settings)
            return self
        copy = replace(self, log=[*self.log], requests=replace(self.requests))
        copy.advance(now_s, settings)
        return copy

    def complete(self, now_s: float, settings: Guesting) -> None:
        """Advance the guest to the end of its work or stage, and correct rounding errors."""
        self.advance(now_s, settings)
        if self.behaviour.stages:
            self.done = self.behaviour.stage_end(self.stage)
            self.stage += 1
            self.log.append((self.at_s, self.stage))
            return
        self.done = self.behaviour.work
        last = self.behaviour.iterations
        if not self.log or self.log[-1][1] < last:
            self.log.append((self.at_s, last))
            del self.log[:-LOG_KEPT]

    def finish_s(self, settings: Guesting) -> float:
        """Return the time when its work or stage ends at this rate; infinity if never."""
        if self._pace <= 0 or self.host < 0 or self.behaviour.work <= 0 or self.finished:
            return math.inf
        left, at_s = max(0.0, self._goal - self.done), self.at_s
        for stretch in _stretches(self, settings):
            after = stretch.time_for(left / self._pace)
            if after <= stretch.seconds:
                return at_s + after
            left -= self._pace * stretch.gain(stretch.seconds)
            at_s += stretch.seconds
        return math.inf

    def turn_s(self, settings: Guesting) -> float:
        """Return the time when a service's use of CPU changes; infinity if never."""
        if self.host < 0 or not self.behaviour.serves:
            return math.inf
        turn_s = self.behaviour.arrivals.next_change_s(self.at_s)
        if self._balloon_moves:
            turn_s = min(turn_s, self.at_s + _BALLOON_STEP_S)
        excess = self._served_per_s(self.rate, settings) - self.arrivals
        if self.requests.waiting > 0 and excess > 0:
            turn_s = min(turn_s, self.at_s + self.requests.waiting / excess)
        return turn_s

    def receive(self, arrivals: float, settings: Guesting) -> None:
        """Change the arrivals from now on; correct the rounding error of an ended backlog."""
        excess = self._served_per_s(self.rate, settings) - self.arrivals
        if 0 < self.requests.waiting <= excess * _ROUNDING_S:
            self.requests.finish()
        self.arrivals = arrivals

    def view(self, settings: Guesting) -> ServiceView:
        """Return the present values of a service."""
        waiting, capacity = self.requests.waiting, self._served_per_s(self.share, settings)
        return view_of(self.arrivals, waiting, capacity)

    def _served_per_s(self, cores: float, settings: Guesting) -> float:
        """Return the requests a second that a service completes with some cores."""
        work = self.behaviour.request_work
        return cores * self.speed(settings) / work if work > 0 else 0.0

    @property
    def _balloon_moves(self) -> bool:
        return self.balloon_mib != min(self.limits.memory_mib, self.size_mib)

    @property
    def _pace(self) -> float:
        """The cores that advance its work: none in a stage that needs more."""
        stages = self.behaviour.stages
        needed = stages[self.stage].least if stages and not self.finished else 0.0
        return self.rate if self.rate >= needed * (1 - _LEAST_MARGIN) else 0.0

    @property
    def _goal(self) -> float:
        """The work that is done at the end of its stage, or of its whole work."""
        if self.behaviour.stages:
            return self.behaviour.stage_end(self.stage)
        return self.behaviour.work

    def reboot(self) -> None:
        """Lose waiting requests, and the work of the unfinished stage or iteration."""
        self.requests.lose()
        if self.behaviour.stages:
            if not self.finished:
                self.done = self.behaviour.stage_end(self.stage - 1)
        elif not self.finished and self.behaviour.work > 0:
            part = self.behaviour.work / self.behaviour.iterations
            self.done = math.floor(self.done / part + 1e-9) * part

    def _run(self, stretch: _Stretch, seconds: float) -> None:
        before, used = self.done, 1.0
        if self.behaviour.serves:
            used = self._serve(stretch, seconds)
            self.done += self.rate * stretch.gain(seconds) * used
        elif self.behaviour.stages:
            if not self.finished:
                self.done = min(self.done + self._pace * stretch.gain(seconds), self._goal)
        else:
            self.done += self.rate * stretch.gain(seconds)
            if self.behaviour.work > 0:
                self._note(stretch, before)
        self.cpu_s += self.rate * seconds * used
        self.balloon_mib += stretch.slope_mib * seconds
        self.at_s += seconds
        if seconds == stretch.seconds:
            self.balloon_mib = stretch.end_mib

    def _serve(self, stretch: _Stretch, seconds: float) -> float:
        """Serve requests for some seconds; return the used part of the cores."""
        work, requests, arrivals = self.behaviour.request_work, self.requests, self.arrivals
        speeds = stretch.speed, stretch.speed + stretch.slope * seconds
        first_s, last_s = (self.share * speed / work for speed in speeds)
        before_s = response_s(arrivals, requests.waiting, first_s)
        used = requests.serve(arrivals, seconds, self.rate * stretch.gain(seconds) / work)
        after_s = response_s(arrivals, requests.waiting, last_s)
        requests.response_sum_s += arrivals * seconds * (before_s + after_s) / 2
        return used

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
    use = guest.use_mib
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
    use = guest.use_mib
    roomy = use + settings.margin_mib
    bends = sorted({use, use * settings.least_speed, roomy}, reverse=goal < at)
    for bend in [*bends, goal]:
        if min(at, goal) < bend < max(at, goal) or (bend == goal and at != goal):
            squeezing = bend < at <= roomy
            yield bend, settings.squeeze_mib_s if squeezing else settings.balloon_mib_s
            at = bend
