"""Counts of the daemon's calls to each server, by outcome."""

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from merkatd.opennebula import Transport

ANSWERED, FAILED = "answered", "failed"
SERVERS = ("opennebula", "database", "hosts")


class CallStatistics(Protocol):
    """Counts of the calls to a server."""

    @property
    def answered(self) -> int:
        """Return the number of answered calls; an error from the server is an answer."""

    @property
    def failed(self) -> int:
        """Return the number of failed calls, which may have taken effect or not."""

    @property
    def under_way(self) -> int:
        """Return the number of calls without an outcome yet."""

    @property
    def queued(self) -> int:
        """Return the number of calls that wait to be sent."""


class Calls:
    """The counts of the calls to a server; no call waits before it is sent."""

    queued = 0

    def __init__(self) -> None:
        self.answered = 0
        self.failed = 0
        self.under_way = 0

    def through(self, transport: Transport) -> Transport:
        """Return the transport with its calls counted here."""
        return _Watched(transport, self)


class _Watched:
    def __init__(self, transport: Transport, calls: Calls) -> None:
        self._transport = transport
        self._calls = calls

    async def call(self, method: str, *arguments: Any) -> list[Any]:
        """Make the call on the wrapped transport, and count it."""
        self._calls.under_way += 1
        try:
            answer = await self._transport.call(method, *arguments)
        except BaseException:
            self._calls.failed += 1
            raise
        else:
            self._calls.answered += 1
            return answer
        finally:
            self._calls.under_way -= 1


class ServerMetrics(Collector):
    """The metrics of the calls to each server."""

    def __init__(self, loads: Mapping[str, CallStatistics]) -> None:
        """`loads` has the counts by server; servers may be added later."""
        self._loads = loads

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics at each scrape, from the counts."""
        ended = CounterMetricFamily(
            "merkat_calls", "Calls by server and outcome", labels=("server", "outcome")
        )
        under_way = GaugeMetricFamily(
            "merkat_calls_in_flight", "Calls that are not answered yet", labels=("server",)
        )
        queued = GaugeMetricFamily(
            "merkat_queue_depth", "Calls that wait to be sent, by server", labels=("server",)
        )
        for server, load in self._loads.items():
            ended.add_metric((server, ANSWERED), load.answered)
            ended.add_metric((server, FAILED), load.failed)
            under_way.add_metric((server,), load.under_way)
            queued.add_metric((server,), load.queued)
        yield from (ended, under_way, queued)
