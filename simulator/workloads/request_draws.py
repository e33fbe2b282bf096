"""Drawn requests: arrivals, lifetimes, VM types and demand curves, as in Papers II to IV."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from merkatd.cluster import Floats, Ints, VmKind
from simulator.workloads.random_streams import StreamPurpose, stream_of
from simulator.workloads.vm_requests import DAY_S, RequestsError, VmRequests, joined
from simulator.workloads.vm_types import PAPER_IV, VmType, sizes_of

SERVICE_RATIOS: Final = (0.1, 0.4, 0.6)
"""The ratios of services to batch jobs of Paper IV, 5.1."""


def poisson_arrivals(per_s: float, span_s: float, random: np.random.Generator) -> Floats:
    """Return the arrivals of a Poisson process within the span."""
    _require_positive("per_s", per_s)
    count = int(random.poisson(per_s * span_s))
    return arrivals_within(count, span_s, random)


def arrivals_within(count: int, span_s: float, random: np.random.Generator) -> Floats:
    """Return the arrivals of a Poisson process that has this many within the span."""
    return np.sort(random.uniform(0.0, span_s, count))


def normal_arrivals(
    count: int, mean_gap_s: float, deviation_s: float, random: np.random.Generator
) -> Floats:
    """Return arrivals with normally distributed times between them."""
    return np.cumsum(normal_times(count, mean_gap_s, deviation_s, random))


def normal_times(
    count: int, mean_s: float, deviation_s: float, random: np.random.Generator
) -> Floats:
    """Return normally distributed times; those that are not above 0 are drawn again."""
    _require_positive("mean_s", mean_s)
    times = random.normal(mean_s, deviation_s, count)
    while (wrong := np.flatnonzero(times <= 0)).size:
        times[wrong] = random.normal(mean_s, deviation_s, len(wrong))
    return times


def power_law_times(
    count: int, exponent: float, least_s: float, most_s: float, random: np.random.Generator
) -> Floats:
    """Return times with a density proportional to t^-exponent between two bounds, else 0."""
    _require_positive("least_s", least_s)
    if not most_s > least_s:
        raise RequestsError(f"most_s: must be greater than least_s, {least_s:g} (got {most_s:g})")
    drawn = random.random(count)
    if exponent == 1.0:
        even: Floats = least_s * (most_s / least_s) ** drawn
        return even
    power = 1.0 - exponent
    low, high = least_s**power, most_s**power
    times: Floats = (low + drawn * (high - low)) ** (1.0 / power)
    return np.clip(times, least_s, most_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class MixedWorkload:
    """Services and batch jobs, as in Paper IV, 5.1.

    Services are there from the begin to the end, and their demand changes over the day. Batch jobs
    arrive by a Poisson process, live for a time with a power law, and always demand all of their
    size.
    """

    count: int
    """The number of requests."""
    span_s: float = DAY_S
    services_per_job: float = SERVICE_RATIOS[1]
    types: tuple[VmType, ...] = PAPER_IV
    exponent: float = 2.0
    least_s: float = 60.0
    """The shortest lifetime before `boot_s` is added. The paper does not print it."""
    boot_s: float = 600.0
    """Added to each lifetime; at most the span in all."""
    most_dirty_mib_s: float = 0.0
    """Guests write to their memory at rates from 0 to this; 0 leaves the rates unknown."""

    def __post_init__(self) -> None:
        if self.count < 0:
            raise RequestsError(f"count: must be at least 0 (got {self.count})")
        if self.services_per_job < 0:
            raise RequestsError(
                f"services_per_job: must be at least 0 (got {self.services_per_job:g})"
            )
        if not self.types:
            raise RequestsError("types: must be at least one VM type")
        _require_positive("span_s", self.span_s)

    @property
    def services(self) -> int:
        """Return the number of services."""
        return round(self.count * self.services_per_job / (1.0 + self.services_per_job))


def draw_requests(workload: MixedWorkload, seed: int) -> VmRequests:
    """Return the requests of a mixed workload; equal seeds give equal requests."""
    services, jobs = workload.services, workload.count - workload.services
    span_s = workload.span_s
    lifetimes = power_law_times(
        jobs,
        workload.exponent,
        workload.least_s,
        max(span_s, 2.0 * workload.least_s),
        stream_of(seed, StreamPurpose.LIFETIMES),
    )
    curves = stream_of(seed, StreamPurpose.DEMANDS)
    swing = curves.uniform(0.0, 1.0, services)
    steady = _part(
        workload,
        VmKind.SERVICE,
        np.zeros(services),
        np.full(services, np.inf),
        seed,
        demand=(np.full(services, 0.5), swing, curves.uniform(0.0, 1.0, services)),
    )
    batch = _part(
        workload,
        VmKind.BATCH,
        arrivals_within(jobs, span_s, stream_of(seed, StreamPurpose.ARRIVALS)),
        np.minimum(lifetimes + workload.boot_s, span_s),
        seed,
        demand=(np.ones(jobs), np.zeros(jobs), np.zeros(jobs)),
    )
    return joined(steady, batch)


def _part(
    workload: MixedWorkload,
    kind: VmKind,
    arrival_s: Floats,
    lifetime_s: Floats,
    seed: int,
    demand: tuple[Floats, Floats, Floats],
) -> VmRequests:
    """Return the services or the batch jobs of a workload."""
    count = len(arrival_s)
    drawn: Ints = stream_of(seed, StreamPurpose.TYPES, kind.name).integers(
        0, len(workload.types), count
    )
    dirty = np.full(count, np.nan)
    if workload.most_dirty_mib_s > 0:
        rates = stream_of(seed, StreamPurpose.DIRTY_RATES, kind.name)
        dirty = rates.uniform(0.0, workload.most_dirty_mib_s, count)
    level, swing, phase = demand
    return VmRequests(
        arrival_s=arrival_s,
        lifetime_s=lifetime_s,
        size=sizes_of(workload.types)[drawn],
        kind=np.full(count, int(kind)),
        level=level,
        swing=swing,
        phase=phase,
        dirty_mib_s=dirty,
        names={"type": drawn},
    )


def _require_positive(name: str, value: float) -> None:
    if not value > 0:
        raise RequestsError(f"{name}: must be greater than 0 (got {value:g})")
