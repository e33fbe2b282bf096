"""The Lublin-Feitelson model of rigid jobs (2003): sizes, run times and a daily cycle.

Logarithms of run times come from one of two gamma distributions; a larger job more often uses the
longer one. Sizes prefer one processor and powers of two. Gaps between jobs come from a gamma
distribution too, and last longer at night. The parameters are the published ones, for all jobs
together and for batch and interactive jobs separately.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from heapq import merge
from itertools import islice

import numpy as np
from scipy.special import gammainc

from merkatd.cluster import Floats
from simulator.workloads.swf import SwfJob

BUCKETS = 48
"""Number of half hours in a day."""
BUCKET_S = 1800.0
DAY_BEGINS = 11
"""Bucket at which the published day begins: the gamma distribution of jobs over the day fits a day
that starts before dawn."""
MOST_LOG_RUN = 12.0
"""Largest logarithm of a run time; longer ones are drawn again."""
MOST_LOG_GAP = 13.0
"""Largest logarithm of a gap; longer ones are drawn again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobClass:
    """A class of jobs. Gamma distributions are (shape, scale)."""

    serial: float
    """Part of jobs with one processor."""
    power: float
    """Part of jobs with a power of two of processors."""
    low: float
    medium: float
    high: float
    """Logarithms (base 2) of sizes: `low` is the least, `medium` a usual, `high` the greatest."""
    below_medium: float
    """Probability that a parallel job's size is below the medium one."""
    short: tuple[float, float]
    long: tuple[float, float]
    """Distributions of logarithms of run times, for `short` and `long` jobs."""
    slope: float
    offset: float
    """Probability that a job of n processors is short: slope * n + offset."""
    gap: tuple[float, float]
    """Distribution of the logarithm of a gap in the rush hours."""
    all_day: float
    """Factor of the shape of `gap` for the whole day."""
    day: tuple[float, float]
    """Distribution of jobs over the half hours of a day."""

    def up_to(self, procs: int) -> "JobClass":
        """Return the class for a machine of `procs` processors, with sizes shifted as published."""
        high = float(np.log2(procs))
        medium = max(high - (self.high - self.medium), self.low)
        return replace(self, high=high, medium=medium, low=min(self.low, high))


WHOLE = JobClass(
    serial=0.244,
    power=0.576,
    low=0.8,
    medium=4.5,
    high=7.0,
    below_medium=0.86,
    short=(4.2, 0.94),
    long=(312.0, 0.03),
    slope=-0.0054,
    offset=0.78,
    gap=(10.2303, 0.4871),
    all_day=1.0225,
    day=(8.1737, 3.9631),
)
BATCH = JobClass(
    serial=0.2927,
    power=0.6686,
    low=1.2,
    medium=5.0,
    high=7.0,
    below_medium=0.875,
    short=(6.57, 0.823),
    long=(639.1, 0.0156),
    slope=-0.003,
    offset=0.6986,
    gap=(6.0415, 0.8531),
    all_day=1.0519,
    day=(6.1271, 5.2740),
)
INTERACTIVE = JobClass(
    serial=0.1541,
    power=0.625,
    low=1.0,
    medium=3.0,
    high=5.5,
    below_medium=0.705,
    short=(3.8351, 0.6605),
    long=(7.073, 0.6856),
    slope=-0.0118,
    offset=0.9156,
    gap=(6.5510, 0.6621),
    all_day=0.9797,
    day=(8.9186, 3.6680),
)


def lublin(
    count: int, procs: int, rng: np.random.Generator, kinds: tuple[JobClass, ...] = (WHOLE,)
) -> list[SwfJob]:
    """Return `count` jobs for a machine of `procs` processors, by submission, from midnight on."""
    streams = [_jobs(kind.up_to(procs), user, rng) for user, kind in enumerate(kinds)]
    together = merge(*streams, key=lambda job: job.submit_s)
    return [job._replace(number=row + 1) for row, job in enumerate(islice(together, count))]


def size(kind: JobClass, rng: np.random.Generator) -> int:
    """Return the number of processors of a random job."""
    lot = rng.random()
    if lot <= kind.serial:
        return 1
    low, high = (
        (kind.low, kind.medium) if rng.random() <= kind.below_medium else (kind.medium, kind.high)
    )
    exponent = rng.uniform(low, high)
    if lot <= kind.serial + kind.power:
        exponent = float(int(exponent + 0.5))
    return max(1, int(2.0 ** min(exponent, kind.high) + 0.5))


def run_s(kind: JobClass, procs: int, rng: np.random.Generator) -> float:
    """Return the run time of a random job of this size, in whole seconds, at least one."""
    short = rng.random() <= min(max(kind.slope * procs + kind.offset, 0.0), 1.0)
    shape, scale = kind.short if short else kind.long
    while (log := rng.gamma(shape, scale)) > MOST_LOG_RUN:
        pass
    return max(1.0, float(int(np.exp(log))))


def day_weights(kind: JobClass) -> Floats:
    """Return [half hours, from midnight]: the relative arrival rate of jobs, 1 on average."""
    shape, scale = kind.day
    edges = np.arange(DAY_BEGINS, DAY_BEGINS + BUCKETS + 1) - 0.5
    parts = np.diff(gammainc(shape, edges / scale))
    weights: Floats = np.roll(parts / parts.mean(), DAY_BEGINS - 1)
    return weights


def _jobs(kind: JobClass, user: int, rng: np.random.Generator) -> Iterator[SwfJob]:
    for submit_s in _arrivals(kind, rng):
        procs = size(kind, rng)
        yield SwfJob(0, submit_s, run_s(kind, procs, rng), procs, -1.0, -1.0, user)


def _arrivals(kind: JobClass, rng: np.random.Generator) -> Iterator[float]:
    """Yield submission times: a gap is a number of points, and a half hour uses up its weight."""
    weights = day_weights(kind).tolist()
    shape, scale = kind.gap[0] * kind.all_day, kind.gap[1]
    bucket, points = 0, 0.0
    while True:
        while (log := rng.gamma(shape, scale)) > MOST_LOG_GAP:
            pass
        points += float(np.exp(log)) / BUCKET_S
        while points > weights[bucket % BUCKETS]:
            points -= weights[bucket % BUCKETS]
            bucket += 1
        yield float(int((bucket + points / weights[bucket % BUCKETS]) * BUCKET_S))
