"""The registry of all metrics, and the counts since the daemon's start.

A scrape reads the values that periods stored here. It calls neither OpenNebula nor the database.
"""

import time
from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import attrgetter

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from merkatd.api.metrics.call_metrics import CallStatistics, ServerMetrics
from merkatd.api.metrics.cloud_metrics import by_group, families
from merkatd.api.metrics.period_metrics import Fairness, MoveCause, MoveReasons, MoveResult
from merkatd.protocol.control_messages import KINDS
from merkatd.scheduler.phases.announce import Announcement, PeriodOutcome

_PREFIX = "merkat"
_SECONDS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0)


class MetricRegistry:
    """All metrics of a daemon."""

    def __init__(
        self,
        version: str,
        loads: Mapping[str, CallStatistics] | None = None,
        *,
        interval_s: Callable[[], float] = lambda: 60.0,
        wall_s: Callable[[], float] = time.time,
    ) -> None:
        """`loads` has the calls by server; `wall_s` is the wall clock, as Prometheus uses it."""
        self._latest: Announcement | None = None
        self._wall_s = wall_s
        self._remembered = MoveReasons()
        self._registry = CollectorRegistry()
        ProcessCollector(namespace=_PREFIX, registry=self._registry)
        Gauge(
            "merkat_build_info", "Always 1", labelnames=("version",), registry=self._registry
        ).labels(version).set(1)
        self._periods = Counter(
            "merkat_periods",
            "Periods that were due, by outcome",
            labelnames=("outcome",),
            registry=self._registry,
        )
        # A rate needs the value zero before the first period.
        for outcome in PeriodOutcome:
            self._periods.labels(outcome.value)
        self._duration = Histogram(
            "merkat_period_duration_seconds",
            "Duration of the periods that were done",
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._last = Gauge(
            "merkat_period_last_success_timestamp_seconds",
            "Time of the last period that was done, since the epoch",
            registry=self._registry,
        )
        self._planned = Counter(
            "merkat_steps_planned",
            "Steps that were decided and recorded in the journal, by kind",
            labelnames=("kind",),
            registry=self._registry,
        )
        self._steps = Counter(
            "merkat_steps",
            "Steps by result",
            labelnames=("result",),
            registry=self._registry,
        )
        for kind in KINDS:
            self._planned.labels(kind)
        self._moves = Counter(
            "merkat_moves",
            "Migrations by result and by the reason of the decision",
            labelnames=("result", "reason"),
            registry=self._registry,
        )
        for result in MoveResult:
            for cause in MoveCause:
                self._moves.labels(result.value, cause.value)
        self._balances = Gauge(
            "merkat_balance_credits",
            "Balances of tenants and their applications, by OpenNebula's group",
            labelnames=("group",),
            registry=self._registry,
        )
        self._treasury = Gauge(
            "merkat_treasury_credits",
            "Credits in the treasury, available for renewals and grants",
            registry=self._registry,
        )
        self._quarantined = Gauge(
            "merkat_quarantined_periods",
            "Periods that could not be charged and wait for an administrator",
            registry=self._registry,
        )
        self._mean_error, self._largest_error, self._shortfall = (
            Gauge(name, text, labelnames=("market",), registry=self._registry)
            for name, text in (
                (
                    "merkat_allocation_error_ratio",
                    "Mean allocation error (Eq. 2): distance to the shares on a single large host",
                ),
                ("merkat_allocation_error_largest_ratio", "Largest allocation error of a VM"),
                (
                    "merkat_shortfall_credits",
                    "Bids, in credits a period, that buy nothing on the hosts of their VMs",
                ),
            )
        )
        self._state = Gauge(
            "merkat_state",
            "1 for the present state of the daemon",
            labelnames=("state",),
            registry=self._registry,
        )
        Gauge(
            "merkat_period_interval_seconds",
            "Interval between periods",
            registry=self._registry,
        ).set_function(interval_s)
        self._registry.register(_Present(lambda: self._latest))
        self._registry.register(ServerMetrics(loads or {}))

    def announced(self, announcement: Announcement) -> None:
        """Record a period that has ended."""
        self._latest = announcement
        self._last.set(self._wall_s())
        # Add once per kind: a period can have as many steps as the cloud has VMs.
        for kind, count in Tally(map(attrgetter("kind"), announcement.decided.steps)).items():
            self._planned.labels(kind).inc(count)
        acted, verdicts = announcement.acted, announcement.seen.verdicts
        for result, number in (
            ("sent", acted.sent),
            ("refused", acted.refused),
            ("postponed", acted.postponed),
            ("confirmed", len(verdicts.confirmed)),
            ("expired", len(verdicts.expired)),
        ):
            self._steps.labels(result).inc(number)
        for (outcome, cause), count in Tally(self._remembered.of(announcement)).items():
            self._moves.labels(outcome.value, cause.value).inc(count)

    def ended(self, outcome: PeriodOutcome, took_s: float) -> None:
        """Record the outcome of a period that was due."""
        self._periods.labels(outcome.value).inc()
        if outcome is PeriodOutcome.DONE:
            self._duration.observe(took_s)

    def balances(self, by_group: Mapping[str, float], treasury: float) -> None:
        """Record the balances by group, without groups that are gone, and the treasury's."""
        self._balances.clear()
        for group, amount in by_group.items():
            self._balances.labels(group).set(amount)
        self._treasury.set(treasury)

    def quarantined(self, count: int) -> None:
        """Record the number of periods that could not be charged."""
        self._quarantined.set(count)

    def fair(self, markets: Iterable[Fairness]) -> None:
        """Record the fairness of each market in the last period."""
        for market in markets:
            self._mean_error.labels(market.market).set(market.mean_error)
            self._largest_error.labels(market.market).set(market.largest_error)
            self._shortfall.labels(market.market).set(market.shortfall)

    def states(self, state_of: Mapping[str, Callable[[], float]]) -> None:
        """Read at each scrape whether the daemon is in each state: 1 or 0."""
        for state, tell in state_of.items():
            self._state.labels(state).set_function(tell)

    def bus(self, tasks_ended: Callable[[], int]) -> None:
        """Read at each scrape the number of bus tasks that ended unexpectedly."""
        self._registry.register(_Bus(tasks_ended))

    def also(self, collector: Collector) -> None:
        """Add a collector to each scrape."""
        self._registry.register(collector)

    def page(self) -> bytes:
        """Return the metrics as Prometheus reads them."""
        return generate_latest(self._registry)


class _Bus(Collector):
    """The metric of bus tasks that ended unexpectedly."""

    def __init__(self, tasks_ended: Callable[[], int]) -> None:
        self._tasks_ended = tasks_ended

    def collect(self) -> Iterator[CounterMetricFamily]:
        """Yield the metrics at each scrape."""
        help_text = "Tasks of the bus that ended unexpectedly and were restarted"
        yield CounterMetricFamily("merkat_bus_tasks_ended", help_text, value=self._tasks_ended())


class _Present(Collector):
    """The metrics of the last period; none before the first."""

    def __init__(self, latest: Callable[[], Announcement | None]) -> None:
        self._latest = latest

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the metrics at each scrape."""
        latest = self._latest()
        if latest is not None:
            yield from families(latest)
            yield from by_group(latest)
