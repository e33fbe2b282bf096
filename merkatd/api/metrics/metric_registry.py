"""What is counted from the daemon's start on, and the registry that a scrape reads.

A scrape reads what periods left here: it asks neither OpenNebula nor the database.
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

from merkatd.api.metrics.call_metrics import CallStatistics, Loads
from merkatd.api.metrics.cloud_metrics import by_group, families
from merkatd.api.metrics.period_metrics import Cause, Fairness, MoveReasons, Result
from merkatd.protocol.control_messages import KINDS
from merkatd.scheduler.phases.announce import Announcement, PeriodOutcome

_PREFIX = "merkat"
_SECONDS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0)


class MetricRegistry:
    """All metrics of one daemon."""

    def __init__(
        self,
        version: str,
        loads: Mapping[str, CallStatistics] | None = None,
        *,
        interval_s: Callable[[], float] = lambda: 60.0,
        wall_s: Callable[[], float] = time.time,
    ) -> None:
        """`loads` are the calls by server; `wall_s` is Prometheus's time, not the cloud's."""
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
            "Periods that were due, by what became of them",
            labelnames=("outcome",),
            registry=self._registry,
        )
        # A rate needs the zero before the first one.
        for outcome in PeriodOutcome:
            self._periods.labels(outcome.value)
        self._duration = Histogram(
            "merkat_period_duration_seconds",
            "How long periods took that were done",
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._last = Gauge(
            "merkat_period_last_success_timestamp_seconds",
            "When the last period was done, since the epoch",
            registry=self._registry,
        )
        self._planned = Counter(
            "merkat_steps_planned",
            "Steps that were decided and written down, by kind",
            labelnames=("kind",),
            registry=self._registry,
        )
        self._steps = Counter(
            "merkat_steps",
            "Steps by what became of them",
            labelnames=("result",),
            registry=self._registry,
        )
        for kind in KINDS:
            self._planned.labels(kind)
        self._moves = Counter(
            "merkat_moves",
            "Migrations, by what became of them and why they were decided",
            labelnames=("result", "reason"),
            registry=self._registry,
        )
        for result in Result:
            for cause in Cause:
                self._moves.labels(result.value, cause.value)
        self._balances = Gauge(
            "merkat_balance_credits",
            "What tenants and their applications have, by OpenNebula's group",
            labelnames=("group",),
            registry=self._registry,
        )
        self._treasury = Gauge(
            "merkat_treasury_credits",
            "What there is that nobody has, to be paid out",
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
                    "Eq. 2: how far VMs' shares are from those on one great host, their mean",
                ),
                ("merkat_allocation_error_largest_ratio", "The same of the VM that is farthest"),
                (
                    "merkat_shortfall_credits",
                    "Bids, in credits a period, that buy nothing where their VMs are",
                ),
            )
        )
        self._state = Gauge(
            "merkat_state",
            "1 for what the daemon does at present",
            labelnames=("state",),
            registry=self._registry,
        )
        Gauge(
            "merkat_period_interval_seconds",
            "How often a period is due",
            registry=self._registry,
        ).set_function(interval_s)
        self._registry.register(_Present(lambda: self._latest))
        self._registry.register(Loads(loads or {}))

    def announced(self, announcement: Announcement) -> None:
        """A period is over."""
        self._latest = announcement
        self._last.set(self._wall_s())
        # One addition a kind: a period can have as many steps as there are VMs.
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
        """What became of a period that was due."""
        self._periods.labels(outcome.value).inc()
        if outcome is PeriodOutcome.DONE:
            self._duration.observe(took_s)

    def balances(self, by_group: Mapping[str, float], treasury: float) -> None:
        """What there is to pay with; groups that are gone are not told of any more."""
        self._balances.clear()
        for group, amount in by_group.items():
            self._balances.labels(group).set(amount)
        self._treasury.set(treasury)

    def quarantined(self, count: int) -> None:
        """How many periods could not be charged."""
        self._quarantined.set(count)

    def fair(self, markets: Iterable[Fairness]) -> None:
        """How the VMs stand that the last period saw."""
        for one in markets:
            self._mean_error.labels(one.market).set(one.mean_error)
            self._largest_error.labels(one.market).set(one.largest_error)
            self._shortfall.labels(one.market).set(one.shortfall)

    def states(self, state_of: Mapping[str, Callable[[], float]]) -> None:
        """Who tells, at each scrape, whether the daemon is in a state: 1 or 0."""
        for state, tell in state_of.items():
            self._state.labels(state).set_function(tell)

    def bus(self, tasks_ended: Callable[[], int]) -> None:
        """Ask at each scrape how many tasks of the bus have ended unasked."""
        self._registry.register(_Bus(tasks_ended))

    def also(self, collector: Collector) -> None:
        """Read this collector too at each scrape."""
        self._registry.register(collector)

    def page(self) -> bytes:
        """The text that Prometheus reads."""
        return generate_latest(self._registry)


class _Bus(Collector):
    """What became of the tasks of the bus."""

    def __init__(self, tasks_ended: Callable[[], int]) -> None:
        self._tasks_ended = tasks_ended

    def collect(self) -> Iterator[CounterMetricFamily]:
        """Read at each scrape."""
        words = "Tasks of the bus that ended unasked, and were started again"
        yield CounterMetricFamily("merkat_bus_tasks_ended", words, value=self._tasks_ended())


class _Present(Collector):
    """What the last period left; nothing before the first."""

    def __init__(self, latest: Callable[[], Announcement | None]) -> None:
        self._latest = latest

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Read at each scrape."""
        latest = self._latest()
        if latest is not None:
            yield from families(latest)
            yield from by_group(latest)
