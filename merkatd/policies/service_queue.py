"""The requests of a service: how many wait, and how long each takes.

# Note [Requests of a service]

With `c` cores a service completes `m = c x speed / request_work` requests a second. With fewer
arrivals `a` than that it is a queue M/M/1 with processor sharing: the mean response time is
`s / (1 - r)`, with `s = 1 / m` and the load `r = a / m`. It then uses `a x request_work / speed`
cores and leaves the rest to other guests. With more arrivals a backlog grows by `a - m` a second,
and the service uses all its cores until the backlog is gone. Both rates are constant between two
events, so the backlog changes linearly and its end has a closed form. A request waits for the
backlog before it, `backlog / m`, and then takes the time of the formula, in which `r` counts at
most `MOST_LOAD`: near a load of 1 the formula grows beyond all bounds, but the queue needs ever
more time to grow.
Example: requests of 0.1 core-seconds, 2 cores, 10 arrivals a second: m = 20, r = 0.5, and a request
takes 0.05 / 0.5 = 0.1 s on average. With 0.5 cores m = 5: after 60 s 300 requests wait, and a new
one takes 300 / 5 + 0.2 / (1 - 0.99) = 80 s.
The 95th percentile is that of an exponential distribution with this mean, after the backlog. That
is exact for a queue in the order of arrival, and an approximation for processor sharing.
Used by `response_s`, `RequestCount.serve` and `needed_cores`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

MOST_LOAD = 0.99
"""The highest load that counts in the formula of the response time."""
LONGEST_S = 86_400.0
"""The longest response time: a service without cores never answers."""
_P95 = math.log(20)
_MARGIN = 1e-9
"""The part by which the cores exceed the need, so that rounding errors leave no backlog."""


@dataclass(slots=True)
class RequestCount:
    """The requests of a service since it first ran."""

    arrived: float = 0.0
    served: float = 0.0
    waiting: float = 0.0
    """The backlog: those for which there was no capacity yet."""
    lost: float = 0.0
    """Those that waited when the guest rebooted."""
    response_sum_s: float = 0.0
    """The sum of the response times of all that have arrived."""

    def serve(self, arrivals: float, seconds: float, most: float) -> float:
        """Let requests arrive and be served, at most `most`; return the used part of `most`."""
        came = arrivals * seconds
        done = min(most, self.waiting + came)
        self.arrived += came
        self.served += done
        self.waiting = max(0.0, self.waiting + came - done)
        return done / most if most > 0 else 0.0

    def lose(self) -> None:
        """Lose all waiting requests."""
        self.lost += self.waiting
        self.waiting = 0.0

    def finish(self) -> None:
        """Serve the rest of the backlog, which is only a rounding error."""
        self.served += self.waiting
        self.waiting = 0.0


@dataclass(frozen=True, slots=True)
class ServiceView:
    """The present values of a service, as a monitor in its guest measures them."""

    arrivals_per_s: float
    throughput_per_s: float
    response_s: float
    p95_s: float


def view_of(arrivals: float, waiting: float, capacity: float) -> ServiceView:
    """Return the present values; `capacity` is in requests a second."""
    busy = waiting > 0 or arrivals >= capacity
    return ServiceView(
        arrivals_per_s=arrivals,
        throughput_per_s=capacity if busy else arrivals,
        response_s=response_s(arrivals, waiting, capacity),
        p95_s=response_s(arrivals, waiting, capacity, _P95),
    )


def response_s(arrivals: float, waiting: float, capacity: float, factor: float = 1.0) -> float:
    """Return the mean response time of a request now, or `factor` times it after the backlog."""
    if capacity <= 0:
        return LONGEST_S
    load = min(arrivals / capacity, MOST_LOAD)
    return min(LONGEST_S, (factor / (1 - load) + waiting) / capacity)


def needed_cores(arrivals: float, request_work: float, speed: float) -> float:
    """Return the cores with which a service without a backlog keeps up with its arrivals."""
    return arrivals * request_work / speed * (1 + _MARGIN) if speed > 0 else math.inf
