"""Blocked times of the reactor are detected, measured, named and counted."""

import gc
import time
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from merkatd.api.metrics.reactor_metrics import BEAT_S, GARBAGE, ReactorHolds
from tests.opennebula.worlds import RealTime


@pytest.fixture
def real_time() -> Any:
    """Return a reactor for this test."""
    made = RealTime()
    yield made
    made.close()


def hold(seconds: float) -> None:
    """Compute for this time."""
    ending = time.monotonic() + seconds
    while time.monotonic() < ending:
        sum(range(100))


def test_a_hold_is_measured_named_and_reset_after_a_scrape(real_time: RealTime) -> None:
    """Its length is exact to a beat or two on a busy machine; the name is the function's."""
    holds = ReactorHolds(real_time.reactor)
    holds.start()
    real_time.wait(1.0)
    holds.take()
    real_time.reactor.callLater(0.02, hold, 0.2)
    real_time.wait(6.0)
    registry = CollectorRegistry()
    holds.stop()
    assert holds.longest_s >= 0.2 - BEAT_S * 2
    registry.register(holds)
    holds.longest_s, holds.where = 0.25, "here"
    text = generate_latest(registry).decode()
    assert 'merkat_reactor_longest_hold_seconds{where="here"} 0.25' in text
    assert holds.longest_s == 0.0
    assert "merkat_reactor_hold_seconds_bucket" in text


def test_the_function_that_holds_the_reactor_is_named(real_time: RealTime) -> None:
    """Only functions of the daemon are named."""
    module = {"__name__": "merkatd.slow", "time": time}
    exec(  # noqa: S102 - a function of a module of the daemon
        "def compute():\n end = time.monotonic() + 0.3\n while time.monotonic() < end: pass\n",
        module,
    )
    holds = ReactorHolds(real_time.reactor)
    holds.start()
    real_time.wait(0.5)
    real_time.reactor.callLater(0.02, module["compute"])
    real_time.wait(8.0)
    holds.stop()
    longest_s, where = holds.take()
    assert longest_s >= 0.25
    assert where == "merkatd.slow.compute"


def test_a_garbage_collection_is_named(real_time: RealTime) -> None:
    """No function of the daemon holds the reactor then, and no thread can inspect it."""
    kept: list[list[int]] = [[] for _ in range(400_000)]
    holds = ReactorHolds(real_time.reactor)
    holds.start()
    real_time.wait(0.5)
    holds.take()
    gc.collect()
    real_time.wait(0.5)
    holds.stop()
    assert len(kept) == 400_000
    assert holds.take()[1] == GARBAGE
    assert not [
        callback for callback in gc.callbacks if getattr(callback, "__self__", None) is holds
    ]
