"""Requests and their response times over a sliding window, in bounded memory. Pure."""

import math
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from controllers.measurements import FAILURES, PERCENTILES, UNREAD
from merkatd.protocol.measurement_names import ARRIVALS, RESPONSE, THROUGHPUT

LONGEST_S: Final = 1e6
"""The longest response time that counts, almost twelve days."""
_LEAST_S: Final = 1e-3
_RATIO: Final = 1.01
_LOG_RATIO: Final = math.log(_RATIO)


class ResponseTimes:
    """A histogram of response times, exact to half a percent from a millisecond up.

    The width of its classes grows by one percent from class to class. So there are at most some
    2,100 of them, and histograms of several VMs and looks can be added.
    """

    __slots__ = ("count", "counts", "sum_s")

    def __init__(self) -> None:
        self.counts: dict[int, float] = {}
        self.sum_s = 0.0
        self.count = 0.0

    def add(self, seconds: float, times: float = 1.0) -> None:
        """Count a response time from 0 to `LONGEST_S`."""
        place = _place(seconds)
        self.counts[place] = self.counts.get(place, 0.0) + times
        self.sum_s += seconds * times
        self.count += times

    def merge(self, other: "ResponseTimes") -> None:
        """Count all response times of another histogram too."""
        for place, count in other.counts.items():
            self.counts[place] = self.counts.get(place, 0.0) + count
        self.sum_s += other.sum_s
        self.count += other.count

    @property
    def mean_s(self) -> float:
        """Return the mean, which is exact; NaN without any time."""
        return self.sum_s / self.count if self.count else math.nan

    def percentile_s(self, part: float) -> float:
        """Return the time that this part of all requests does not exceed; NaN without any time."""
        reached = 0.0
        for place, count in sorted(self.counts.items()):
            reached += count
            if reached >= part * self.count * (1.0 - 1e-12):
                return _middle_s(place)
        return math.nan


def _place(seconds: float) -> int:
    return 0 if seconds < _LEAST_S else 1 + math.floor(math.log(seconds / _LEAST_S) / _LOG_RATIO)


def _middle_s(place: int) -> float:
    return _LEAST_S * _RATIO ** (place - 0.5) if place else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """The requests of one VM between two looks."""

    arrived: float = 0.0
    answered: float = 0.0
    failed: float = 0.0
    unread: float = 0.0
    times: ResponseTimes = field(default_factory=ResponseTimes)
    """Empty if the proxy does not report the time of each request."""
    averages: ResponseTimes = field(default_factory=ResponseTimes)
    """The proxy's own averages, each weighted by its number of requests."""


@dataclass(frozen=True, slots=True)
class _Look:
    at_s: float
    took_s: float
    traffic: Traffic


class RequestWindow:
    """The traffic of the VMs of a cluster in the last `window_s` seconds."""

    def __init__(self, window_s: float) -> None:
        self._window_s = window_s
        self._looks: dict[int, deque[_Look]] = {}

    def add(self, vm: int, at_s: float, took_s: float, traffic: Traffic) -> None:
        """Add the traffic of a VM in the `took_s` seconds before the time `at_s`."""
        self._looks.setdefault(vm, deque()).append(_Look(at_s, took_s, traffic))

    def keep(self, vms: Iterable[int], now_s: float) -> None:
        """Drop other VMs than these, and looks that ended before the window."""
        kept = set(vms)
        for vm in self._looks.keys() - kept:
            del self._looks[vm]
        for looks in self._looks.values():
            while looks and looks[0].at_s <= now_s - self._window_s:
                looks.popleft()

    def values(self) -> Mapping[str, float]:
        """Return the measurements; values that are unknown are left out."""
        rates = dict.fromkeys((ARRIVALS, THROUGHPUT, FAILURES, UNREAD), 0.0)
        times, averages = ResponseTimes(), ResponseTimes()
        seen = False
        for looks in filter(None, self._looks.values()):
            seen = True
            took_s = math.fsum(look.took_s for look in looks)
            for name, count in (
                (ARRIVALS, math.fsum(look.traffic.arrived for look in looks)),
                (THROUGHPUT, math.fsum(look.traffic.answered for look in looks)),
                (FAILURES, math.fsum(look.traffic.failed for look in looks)),
                (UNREAD, math.fsum(look.traffic.unread for look in looks)),
            ):
                rates[name] += count / took_s
            for look in looks:
                times.merge(look.traffic.times)
            averages.merge(_newest(looks))
        if not seen:
            return {}
        if times.count:
            percentiles = {name: times.percentile_s(part) for name, part in PERCENTILES.items()}
            return {**rates, RESPONSE: times.mean_s, **percentiles}
        return {**rates, RESPONSE: averages.mean_s} if averages.count else rates


def _newest(looks: deque[_Look]) -> ResponseTimes:
    """Return the newest averages: they already cover earlier requests."""
    for look in reversed(looks):
        if look.traffic.averages.count:
            return look.traffic.averages
    return ResponseTimes()
