"""The work profiler: estimates how much CPU a request takes, from use and throughput.

# Note [The work of a request]
The used CPU of a service is its idle use plus its throughput times the work of a request. Both
unknowns come from the samples of a sliding window:

1. The median of the slopes between all pairs of samples (Theil and Sen) gives a first line. Fewer
   than 29 % of absurd samples can't move it far.
2. Samples further from it than `_FAR` times the typical distance are left out.
3. Least squares give the line through the others.

Example: 10, 20, 30 and 40 requests/s use 25, 45, 65 and 85 percent of a core, and one sample claims
5,000. The first line is 5 + 2 r, the fifth sample is left out, and the result is 0.02 core-seconds
for a request and 5 percent idle use.

The estimate is unknown while the samples can't tell: too few, a throughput that hardly changes, or
noise that hides the slope.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Final

import numpy as np

LONGEST_WINDOW: Final = 120
"""The most samples of a window."""
LEAST_SAMPLES: Final = 8
_LEAST_RANGE: Final = 1e-6
"""The least range of the throughput that counts, in requests per second: one in eleven days."""
LEAST_SPREAD: Final = 0.1
"""The least range of the throughput that counts, as a part of its highest value."""
MOST_ERROR: Final = 0.25
"""The largest standard error of an estimate, as a part of it."""
PERCENT_OF_A_CORE: Final = 100.0
_MOST: Final = 1e9
"""The largest number in a sample: ten million cores, a billion requests per second."""
_FAR: Final = 4.0
_MAD: Final = 1.4826
"""The standard deviation of normal noise, in median absolute deviations."""
_ROUNDING: Final = 1e-9


@dataclass(frozen=True, slots=True)
class WorkSample:
    """The throughput and the use of a service over the same time."""

    requests_per_s: float
    used_cpu: float
    """In percent of a core, of all its VMs together."""

    @property
    def counts(self) -> bool:
        """Return whether both numbers are possible."""
        return 0.0 <= self.requests_per_s <= _MOST and 0.0 <= self.used_cpu <= _MOST


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkEstimate:
    """The estimated work of a request; None, with the reason in `why`, if it is unknown."""

    work_per_request: float | None
    """In core-seconds."""
    idle_cpu: float | None = None
    """The use without requests, in percent of a core."""
    error: float | None = None
    """The standard error of the work, in core-seconds."""
    why: str = ""


@dataclass(frozen=True, slots=True)
class WorkProfile:
    """The samples of a sliding window, oldest first."""

    samples: tuple[WorkSample, ...] = ()

    def with_sample(self, sample: WorkSample) -> "WorkProfile":
        """Return the profile with one more sample; an impossible sample changes nothing."""
        if not sample.counts:
            return self
        return replace(self, samples=(*self.samples, sample)[-LONGEST_WINDOW:])

    def estimate(self) -> WorkEstimate:
        """Return the estimate from the samples of the window."""
        return work_of(self.samples)


def work_of(samples: Sequence[WorkSample]) -> WorkEstimate:
    """Return the work of a request, from the newest samples; impossible samples do not count."""
    points = [
        (sample.requests_per_s, sample.used_cpu)
        for sample in samples[-LONGEST_WINDOW:]
        if sample.counts
    ]
    if len(points) < LEAST_SAMPLES:
        return _unknown(f"{len(points)} samples; at least {LEAST_SAMPLES} are needed")
    if not _spread(points):
        return _unknown("the throughput hardly changes")
    kept = _near(points, *_first_line(points))
    if len(kept) < LEAST_SAMPLES or not _spread(kept):
        return _unknown("too few samples agree")
    slope, idle, error = _least_squares(kept)
    if slope <= 0.0 or error > MOST_ERROR * slope:
        return _unknown("the use does not follow the throughput")
    return WorkEstimate(
        work_per_request=slope / PERCENT_OF_A_CORE,
        idle_cpu=idle,
        error=error / PERCENT_OF_A_CORE,
    )


def _unknown(why: str) -> WorkEstimate:
    return WorkEstimate(work_per_request=None, why=why)


_Points = Sequence[tuple[float, float]]


def _spread(points: _Points) -> bool:
    """Return whether the throughput changes enough, also without its highest and lowest value.

    Otherwise one sample alone would set the slope.
    """
    rates = sorted(rate for rate, _ in points)
    return rates[-2] - rates[1] > max(LEAST_SPREAD * rates[-2], _LEAST_RANGE)


def _first_line(points: _Points) -> tuple[float, float]:
    """Return the slope and the idle use of the line of median slope."""
    rates, used = np.array(points).T
    one, other = np.triu_indices(len(points), 1)
    apart = rates[one] - rates[other]
    differ = np.abs(apart) > _ROUNDING
    slope = float(np.median((used[one] - used[other])[differ] / apart[differ]))
    return slope, float(np.median(used - slope * rates))


def _near(points: _Points, slope: float, idle: float) -> _Points:
    """Return the points that are not far from the line."""
    distances = [abs(used - idle - slope * rate) for rate, used in points]
    scale = _ROUNDING * max(used for _, used in points)
    limit = max(_FAR * _MAD * median(distances), scale)
    return [point for point, distance in zip(points, distances, strict=True) if distance <= limit]


def _least_squares(points: _Points) -> tuple[float, float, float]:
    """Return the slope, the idle use (never negative), and the standard error of the slope."""
    count = len(points)
    middle_rate = _mean(rate for rate, _ in points)
    middle_used = _mean(used for _, used in points)
    spread = math.fsum((rate - middle_rate) ** 2 for rate, _ in points)
    slope = math.fsum((rate - middle_rate) * (used - middle_used) for rate, used in points) / spread
    idle, freedoms = middle_used - slope * middle_rate, count - 2
    if idle < 0.0:
        spread = math.fsum(rate * rate for rate, _ in points)
        slope = math.fsum(rate * used for rate, used in points) / spread
        idle, freedoms = 0.0, count - 1
    rest = math.fsum((used - idle - slope * rate) ** 2 for rate, used in points)
    return slope, idle, math.sqrt(rest / freedoms / spread)


def _mean(values: Iterable[float]) -> float:
    listed = list(values)
    return math.fsum(listed) / len(listed)
