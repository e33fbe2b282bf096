"""How long the reactor is held: the time in which the daemon answers nobody.

A beat is due every few milliseconds; what passes beyond that between two beats is a hold. A
thread looks, while a beat is late, at what the reactor's thread is doing, so that the longest
hold has a name. A collection of garbage stops that thread too, so it says for itself how long it
took.

A hold is time of the wall: it counts what other threads, other processes and a slow machine take
as well as what the reactor's own thread does.
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
"""A beat that is so late is looked into."""
BUCKETS_S = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)
_OURS = ("merkatd.", "controllers.", "twisted.web")
_UNKNOWN = ""
GARBAGE = "garbage collection"


class Holds(Collector):
    """Measures the holds of one reactor, from its own thread."""

    def __init__(self, reactor: Any) -> None:
        self.longest_s = 0.0
        """Since the last scrape,"""
        self.where = _UNKNOWN
        """and the function that ran meanwhile, where it was long enough to be seen."""
        self._reactor = reactor
        self._counts = [0] * (len(BUCKETS_S) + 1)
        self._sum_s = 0.0
        self._beat_s = time.monotonic()
        self._seen = _UNKNOWN
        self._collecting_s = 0.0
        self._collected_s = 0.0
        """How long garbage was collected since the last beat."""
        self._thread = threading.get_ident()
        self._ended = threading.Event()
        self._call: Any = None

    def start(self) -> None:
        """Begin to measure; called on the reactor's thread."""
        self._thread = threading.get_ident()
        self._beat_s = time.monotonic()
        self._call = self._reactor.callLater(BEAT_S, self._beat)
        gc.callbacks.append(self._collects)
        threading.Thread(target=self._look, name="reactor-holds", daemon=True).start()

    def stop(self) -> None:
        """Measure no more."""
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
        """Called by the interpreter, on whichever thread the collection runs."""
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
        """The longest hold since the last time that this was called, and where it was."""
        taken = self.longest_s, self.where
        self.longest_s, self.where = 0.0, _UNKNOWN
        return taken

    def collect(self) -> Iterator[Metric]:
        """Read at each scrape, which begins to measure the longest hold anew."""
        longest_s, where = self.take()
        longest = GaugeMetricFamily(
            "merkat_reactor_longest_hold_seconds",
            "The longest time since the last scrape in which the daemon answered nobody",
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
            "How long the daemon answered nobody, beat by beat",
            buckets=buckets,
            sum_value=self._sum_s,
        )


def _named(frame: FrameType | None) -> str:
    """The innermost function of ours."""
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module.startswith(_OURS) and module != __name__:
            return f"{module}.{frame.f_code.co_name}"
        frame = frame.f_back
    return _UNKNOWN
