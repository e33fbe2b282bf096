"""Holds of the reactor: times in which the daemon answers no requests.

A beat is due every few milliseconds. The time between two beats beyond that is a hold. While a
beat is late, a thread samples the stack of the reactor's thread, so that the longest hold gets
the name of a function. A garbage collection stops the sampling thread too, so the collector's
callbacks measure its time.

A hold is wall-clock time: it includes the time that other threads, other processes and a slow
machine take, not only the work of the reactor's thread.
"""

import gc
import sys
import threading
import time
from collections.abc import Iterator
from types import FrameType
from typing import Any, Literal

from prometheus_client.core import GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

BEAT_S = 0.005
LATE_S = 0.03
"""The delay of a beat from which on the thread samples the stack."""
BUCKETS_S = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)
_OURS = ("merkatd.", "controllers.", "twisted.web")
_UNKNOWN = ""
GARBAGE = "garbage collection"


class ReactorHolds(Collector):
    """The holds of a reactor, measured by beats on its thread."""

    def __init__(self, reactor: Any) -> None:
        self.longest_s = 0.0
        """The longest hold since the last scrape."""
        self.where = _UNKNOWN
        """The function that ran in the longest hold, if the hold was long enough for a sample."""
        self._reactor = reactor
        self._counts = [0] * (len(BUCKETS_S) + 1)
        self._sum_s = 0.0
        self._beat_s = time.monotonic()
        self._seen = _UNKNOWN
        self._collecting_s = 0.0
        self._collected_s = 0.0
        """The time of garbage collections since the last beat."""
        self._thread = threading.get_ident()
        self._ended = threading.Event()
        self._call: Any = None

    def start(self) -> None:
        """Start measuring; call this on the reactor's thread."""
        self._thread = threading.get_ident()
        self._beat_s = time.monotonic()
        self._call = self._reactor.callLater(BEAT_S, self._beat)
        gc.callbacks.append(self._collects)
        threading.Thread(target=self._look, name="reactor-holds", daemon=True).start()

    def stop(self) -> None:
        """Stop measuring."""
        self._ended.set()
        if self._collects in gc.callbacks:
            gc.callbacks.remove(self._collects)
        if self._call is not None and self._call.active():
            self._call.cancel()

    def _beat(self) -> None:
        now_s = time.monotonic()
        held_s = max(now_s - self._beat_s - BEAT_S, 0.0)
        self._beat_s, seen, self._seen = now_s, self._seen, _UNKNOWN
        if self._collected_s > held_s / 2:
            seen = GARBAGE
        self._collected_s = 0.0
        self._counts[sum(held_s > bound for bound in BUCKETS_S)] += 1
        self._sum_s += held_s
        if held_s > self.longest_s:
            self.longest_s, self.where = held_s, seen
        self._call = self._reactor.callLater(BEAT_S, self._beat)

    def _collects(self, phase: Literal["start", "stop"], _info: dict[str, int]) -> None:
        """Add up the time of garbage collections; the interpreter calls this on any thread."""
        if phase == "start":
            self._collecting_s = time.monotonic()
        else:
            self._collected_s += time.monotonic() - self._collecting_s

    def _look(self) -> None:
        while not self._ended.wait(LATE_S / 2):
            if time.monotonic() - self._beat_s > LATE_S + BEAT_S:
                frame = sys._current_frames().get(self._thread)  # noqa: SLF001 - the documented way
                self._seen = _named(frame) or self._seen

    def take(self) -> tuple[float, str]:
        """Return the longest hold since the last call of this, and its function."""
        taken = self.longest_s, self.where
        self.longest_s, self.where = 0.0, _UNKNOWN
        return taken

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics at each scrape, and reset the longest hold."""
        longest_s, where = self.take()
        longest = GaugeMetricFamily(
            "merkat_reactor_longest_hold_seconds",
            "Longest time since the last scrape in which the daemon answered no requests",
            labels=("where",),
        )
        longest.add_metric((where,), longest_s)
        yield longest
        buckets, count = [], 0
        for bound, some in zip((*map(str, BUCKETS_S), "+Inf"), self._counts, strict=True):
            count += some
            buckets.append((bound, float(count)))
        yield HistogramMetricFamily(
            "merkat_reactor_hold_seconds",
            "Times in which the daemon answered no requests, per beat",
            buckets=buckets,
            sum_value=self._sum_s,
        )


def _named(frame: FrameType | None) -> str:
    """Return the innermost function of Merkat on the stack."""
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module.startswith(_OURS) and module != __name__:
            return f"{module}.{frame.f_code.co_name}"
        frame = frame.f_back
    return _UNKNOWN
