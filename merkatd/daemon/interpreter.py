"""The settings of the Python interpreter: short garbage collections, a short switch interval.

# Note [Short collections]
Reference counts free nearly all objects immediately. Only objects that refer to each other in a
cycle wait for a garbage collection. A collection of the oldest generation visits every live object
and stops all threads. With 100,000 VMs it takes half a second, several times a period.

So after a collection that took longer than `SHORT_S`, `gc.freeze` hides the survivors from later
collections. The next collection visits only the objects created since then. It starts after about
30,000 new objects instead of Python's 85,000.
Reference counts still free frozen objects. A cycle that becomes garbage after it was frozen is not
freed until a full collection. That runs after a period, once a day or when the process has grown by
half. In a small cloud no collection takes that long, so nothing is ever frozen.

# Note [Switch interval]
Only one thread of a Python process computes at a time. A waiting thread gets its turn when the
running thread has computed for the switch interval, by default 5 ms. The reactor's thread gives up
its turn at each system call and then waits for the next turn. Twenty socket reads beside a worker
that computes all the time take 0.1 s (20 x 5 ms), and 0.01 s with `SWITCH_S` (20 x 0.5 ms). The
workers computed no less in benchmarks/bench_reactor.py.
"""

import gc
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from twisted.logger import Logger

SHORT_S = 0.01
"""The longest CPU time of a collection whose survivors are not frozen, in seconds."""
WHOLE_EVERY_S = 86_400.0
"""The time between two full collections, in seconds."""
GROWTH = 1.5
"""The growth of the process since the last full collection at which the next one is due."""
_OLDEST = 2
_THRESHOLDS = (700, 10, 3)
"""The new objects per collection of the youngest generation, then collections per older one."""
_STATM = Path("/proc/self/statm")
_log = Logger()


def resident_bytes() -> int:
    """Return the resident memory of the process, in bytes."""
    return int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class GarbageCollections:
    """Keeps the garbage collections of this process short."""

    def __init__(
        self,
        seconds: Callable[[], float] = time.monotonic,
        cpu_s: Callable[[], float] = time.thread_time,
        resident: Callable[[], int] = resident_bytes,
    ) -> None:
        """`cpu_s` returns the CPU time of the calling thread, which other programs don't affect."""
        self._seconds, self._cpu_s, self._resident = seconds, cpu_s, resident
        self._began_s = 0.0
        self._whole_s = 0.0
        self._size: int | None = None
        self._frozen = False
        self._before = gc.get_threshold()

    def start(self) -> None:
        """Freeze all present objects and shorten collections from now on."""
        gc.freeze()
        self._whole_s = self._seconds()
        gc.set_threshold(*_THRESHOLDS)
        gc.callbacks.append(self._collects)

    def stop(self) -> None:
        """Restore Python's thresholds; frozen objects stay frozen."""
        if self._collects in gc.callbacks:
            gc.callbacks.remove(self._collects)
            gc.set_threshold(*self._before)

    def after_period(self, _announcement: object = None) -> None:
        """Run a full collection if it is due; now the next period is far away."""
        size = self._now_resident()
        if self._size is None:
            self._size = size
        old = self._seconds() - self._whole_s >= WHOLE_EVERY_S
        grown = size is not None and self._size is not None and size > GROWTH * self._size
        if self._frozen and (old or grown):
            self._collect_all()

    def _now_resident(self) -> int | None:
        """Return the memory of the process, None if the process can't open another file."""
        try:
            return self._resident()
        except OSError:
            return None

    def _collect_all(self) -> None:
        began_s = self._seconds()
        gc.unfreeze()
        collected = gc.collect()
        gc.freeze()
        self._whole_s, self._frozen, self._size = self._seconds(), False, self._now_resident()
        _log.info(
            "A full garbage collection freed {found} objects in {took_s:.2f} s",
            found=collected,
            took_s=self._whole_s - began_s,
        )

    def _collects(self, phase: Literal["start", "stop"], info: dict[str, int]) -> None:
        """Measure a collection; the interpreter calls this on the thread that runs it."""
        if info["generation"] != _OLDEST:
            return
        if phase == "start":
            self._began_s = self._cpu_s()
        elif self._cpu_s() - self._began_s > SHORT_S:
            gc.freeze()
            self._frozen = True


SWITCH_S = 0.0005
"""The switch interval of the daemon, in seconds."""


def shorten_switch_interval() -> Callable[[], None]:
    """Set the switch interval; return a function that restores the previous one."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_S)
    return lambda: sys.setswitchinterval(before)
