"""Metrics of the scheduler's notices: foreign placements, removed users, errors, the clock."""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from merkatd.scheduler.base.troubles import TroubleKind
from merkatd.scheduler.period import Scheduler


class NoticeMetrics(Collector):
    """The scheduler's counts since its start."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def collect(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
        """Yield the metrics at each scrape."""
        foreign = CounterMetricFamily(
            "merkat_foreign_placements",
            "VMs that were placed or moved, but not by this daemon",
            labels=("kind",),
        )
        foreign.add_metric(("deploy",), self._scheduler.foreign.deployments)
        foreign.add_metric(("migrate",), self._scheduler.foreign.migrations)
        yield foreign
        retired = CounterMetricFamily(
            "merkat_retired_tenants", "Tenants retired, because OpenNebula had removed their users"
        )
        retired.add_metric((), self._scheduler.removed.count)
        yield retired
        waiting = GaugeMetricFamily(
            "merkat_removed_users", "Removed users whose tenants wait to be retired"
        )
        waiting.add_metric((), len(self._scheduler.removed.waiting))
        yield waiting
        unattended = GaugeMetricFamily(
            "merkat_unattended",
            "Platforms, groups and removed tenants that the daemon fails to manage",
            labels=("kind",),
        )
        for kind in TroubleKind:
            unattended.add_metric((str(kind),), len(self._scheduler.world.troubles.of(kind)))
        yield unattended
        ahead = GaugeMetricFamily(
            "merkat_clock_ahead_seconds",
            "Seconds by which the clock is ahead of the time by which deadlines take effect",
        )
        ahead.add_metric((), self._scheduler.world.believed.ahead_s)
        yield ahead
        errors = CounterMetricFamily(
            "merkat_subscriber_errors", "Calls at the end of a period that raised an exception"
        )
        errors.add_metric((), self._scheduler.subscriber_errors)
        yield errors
