"""Programs read the metrics and the daemon's health over HTTP."""

import asyncio
import socket
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest
from twisted.internet.task import Clock
from twisted.logger import capturedLogs

from merkatd.api.metrics.metric_registry import MetricRegistry
from merkatd.api.metrics.metrics_server import CachedPage, Health, PortError, listen
from tests.opennebula.worlds import RealTime

Get = Callable[..., tuple[int, str, str]]


@pytest.fixture
def state() -> dict[str, Health]:
    """Return the health that the daemon reports."""
    return {"health": Health(True, "acting")}


@pytest.fixture
def get(state: dict[str, Health]) -> Iterator[Get]:
    """Return a function that requests a path; it returns status, type and text."""
    time = RealTime()
    port = listen(time.reactor, "127.0.0.1", 0, MetricRegistry("1"), lambda: state["health"])

    def asked(path: str, method: str = "GET") -> tuple[int, str, str]:
        number = port.getHost().port
        asking = urllib.request.Request(f"http://127.0.0.1:{number}{path}", method=method)
        try:
            with urllib.request.urlopen(asking, timeout=20) as answer:  # noqa: S310
                return answer.status, answer.headers["Content-Type"], answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, "", error.read().decode()

    def waited(*words: str) -> tuple[int, str, str]:
        return time.loop.run_until_complete(asyncio.to_thread(asked, *words))

    yield waited

    async def end() -> None:
        await port.stopListening()

    time.run(end())
    time.close()


def test_the_page_of_metrics_is_built_at_most_once_a_second() -> None:
    """This holds for any number of requests and any jump of the clock."""
    clock, made = Clock(), 0

    def make() -> tuple[int, bytes, bytes]:
        nonlocal made
        made += 1
        return 200, b"", str(made).encode()

    kept = CachedPage(make, clock.seconds)
    assert [kept.page()[2] for _ in range(20)] == [b"1"] * 20
    clock.advance(0.9)
    assert kept.page()[2] == b"1"
    clock.advance(0.2)
    assert kept.page()[2] == b"2"
    clock.rightNow -= 5.0
    assert kept.page()[2] == b"3"


def test_prometheus_gets_its_own_format(get: Get) -> None:
    """The type names its version, and the request leaves no line in the log."""
    with capturedLogs() as logged:
        status, kind, text = get("/metrics")
    assert not logged
    assert status == 200
    assert kind.startswith("text/plain; version=")
    assert "# TYPE merkat_periods_total counter" in text


def test_health_is_a_status_and_a_sentence(get: Get, state: dict[str, Health]) -> None:
    """Monitors read the status; people read the rest."""
    assert get("/healthz")[::2] == (200, "ok: acting\n")
    state["health"] = Health(False, "the last 3 periods failed")
    assert get("/healthz")[::2] == (503, "failing: the last 3 periods failed\n")


def test_other_paths_and_methods_are_refused(get: Get) -> None:
    """They get 404 or 405."""
    assert get("/")[0] == 404
    assert get("/metrics/x")[0] == 404
    assert get("/metrics", "POST")[0] == 405
    assert get("/metrics", "HEAD")[::2] == (200, "")


def test_a_port_in_use_is_named() -> None:
    """The error names the key to change."""
    time = RealTime()
    with closing(socket.socket()) as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        number = other.getsockname()[1]
        with pytest.raises(PortError, match=f"metrics.port: 127.0.0.1:{number}: "):
            listen(time.reactor, "127.0.0.1", number, MetricRegistry("1"), lambda: Health(True, ""))
    time.close()
