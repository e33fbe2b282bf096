"""How many calls a server is sent, and what became of them."""

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from merkatd.opennebula import Transport

ANSWERED, FAILED = "answered", "failed"
SERVERS = ("opennebula", "database", "hosts")


class CallStatistics(Protocol):
    """What a server is asked for, by whoever asks it."""

    @property
    def answered(self) -> int:
        """Calls that were answered; a refusal is an answer."""

    @property
    def failed(self) -> int:
        """Calls that may have been carried out or not."""

    @property
    def under_way(self) -> int:
        """Calls that are neither."""

    @property
    def queued(self) -> int:
        """Calls that wait for their turn."""


class Calls:
    """Counts the calls to one server; all are sent at once."""

    queued = 0

    def __init__(self) -> None:
        self.answered = 0
        self.failed = 0
        self.under_way = 0

    def through(self, transport: Transport) -> Transport:
        """The same way, watched."""
        return _Watched(transport, self)


class _Watched:
    def __init__(self, transport: Transport, calls: Calls) -> None:
        self._transport = transport
        self._calls = calls

    async def call(self, method: str, *arguments: Any) -> list[Any]:
        """As the other way does."""
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


class Loads(Collector):
    """The calls to each server until now."""

    def __init__(self, loads: Mapping[str, CallStatistics]) -> None:
        """By server; `loads` may still grow."""
        self._loads = loads

    def collect(self) -> Iterator[Metric]:
        """Read at each scrape, from what was counted."""
        ended = CounterMetricFamily(
            "merkat_calls", "Calls, by server and what became of them", labels=("server", "outcome")
        )
        under_way = GaugeMetricFamily(
            "merkat_calls_in_flight", "Calls that were not answered yet", labels=("server",)
        )
        queued = GaugeMetricFamily(
            "merkat_queue_depth", "Calls that wait for their turn, by server", labels=("server",)
        )
        for server, load in self._loads.items():
            ended.add_metric((server, ANSWERED), load.answered)
            ended.add_metric((server, FAILED), load.failed)
            under_way.add_metric((server,), load.under_way)
            queued.add_metric((server,), load.queued)
        yield from (ended, under_way, queued)
