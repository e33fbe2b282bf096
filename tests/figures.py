"""The metrics page of a daemon after two periods."""

from collections.abc import Iterable

from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families as parsed

from merkatd.api.metrics.call_metrics import SERVERS, Calls
from merkatd.api.metrics.metric_registry import MetricRegistry
from merkatd.api.metrics.notice_metrics import NoticeMetrics
from merkatd.api.metrics.period_metrics import FairnessMetrics
from merkatd.api.metrics.reactor_metrics import ReactorHolds
from merkatd.base.clock import Inline
from tests.scheduler.frontend import Frontend


def all_figures() -> Iterable[Metric]:
    """Return every metric of a daemon, parsed from its page."""
    frontend = Frontend(hosts=2)
    frontend.vm(5.0)
    figures = MetricRegistry("1", {server: Calls() for server in SERVERS})
    announcement = frontend.periods(2)
    figures.announced(announcement)
    figures.balances({"users": 1.0}, 1.0)
    figures.states({"acting": lambda: 1})
    figures.bus(lambda: 0)
    figures.also(NoticeMetrics(frontend.scheduler))
    figures.also(ReactorHolds(frontend.clock))
    FairnessMetrics(Inline(), figures.fair).announced(announcement)
    page = figures.page().decode()
    frontend.close()
    return parsed(page)
