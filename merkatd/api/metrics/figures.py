"""What is counted from the daemon's start on, and the registry that a scrape reads.

A scrape reads what periods left here: it asks neither OpenNebula nor the database.
"""

from collections.abc import Callable, Iterator, Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from merkatd.api.metrics.calls import Calls
from merkatd.api.metrics.present import families
from merkatd.api.recorded import KINDS
from merkatd.scheduler.outcome import Outcome
from merkatd.scheduler.tell import Announcement

_OPENNEBULA = "opennebula"
_SECONDS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0)


class Figures:
    """All metrics of one daemon."""

    def __init__(self, version: str, calls: Calls | None = None) -> None:
        self._latest: Announcement | None = None
        self._registry = CollectorRegistry()
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
        for outcome in Outcome:
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
        self._registry.register(_Present(lambda: self._latest))
        if calls is not None:
            self._registry.register(_Called(calls))

    def announced(self, announcement: Announcement) -> None:
        """A period is over."""
        self._latest = announcement
        self._last.set(announcement.at_s)
        for step in announcement.decided.steps:
            self._planned.labels(step.kind).inc()
        acted, verdicts = announcement.acted, announcement.seen.verdicts
        for result, number in (
            ("sent", acted.sent),
            ("refused", acted.refused),
            ("postponed", acted.postponed),
            ("confirmed", len(verdicts.confirmed)),
            ("expired", len(verdicts.expired)),
        ):
            self._steps.labels(result).inc(number)

    def ended(self, outcome: Outcome, took_s: float) -> None:
        """What became of a period that was due."""
        self._periods.labels(outcome.value).inc()
        if outcome is Outcome.DONE:
            self._duration.observe(took_s)

    def balances(self, by_group: Mapping[str, float], treasury: float) -> None:
        """What there is to pay with; groups that are gone are not told of any more."""
        self._balances.clear()
        for group, amount in by_group.items():
            self._balances.labels(group).set(amount)
        self._treasury.set(treasury)

    def page(self) -> bytes:
        """The text that Prometheus reads."""
        return generate_latest(self._registry)


class _Present(Collector):
    """What the last period left; nothing before the first."""

    def __init__(self, latest: Callable[[], Announcement | None]) -> None:
        self._latest = latest

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Read at each scrape."""
        latest = self._latest()
        if latest is not None:
            yield from families(latest)


class _Called(Collector):
    """The calls to OpenNebula until now."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def collect(self) -> Iterator[Metric]:
        """Read at each scrape."""
        ended = CounterMetricFamily(
            "merkat_calls", "Calls, by server and what became of them", labels=("server", "outcome")
        )
        for outcome, count in self._calls.ended.items():
            ended.add_metric((_OPENNEBULA, outcome), count)
        yield ended
        under_way = GaugeMetricFamily(
            "merkat_calls_in_flight", "Calls that were not answered yet", labels=("server",)
        )
        under_way.add_metric((_OPENNEBULA,), self._calls.under_way)
        yield under_way
