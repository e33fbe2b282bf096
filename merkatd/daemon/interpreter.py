"""Python's collections of garbage, kept short: none looks through all objects of a large cloud.

# Note [Short collections]
Reference counts free nearly everything at once; only objects that refer to each other in a circle
wait for a collection. A collection of the oldest generation looks at every object that is alive,
and no thread runs meanwhile. With 100,000 VMs that takes half a second, several times a period.

So the survivors of a collection that took longer than `SHORT_S` are put out of the sight of later
collections (`gc.freeze`). The next one looks at the objects that were made since, and comes
after about 30,000 new objects instead of Python's 85,000.
Frozen objects are still freed by their reference counts. Circles that were frozen alive and end
later are not freed; one whole collection frees them, after a period, once a day or when the process
has grown by half. In a small cloud no collection takes that long, and nothing is ever frozen.

Of all threads of a Python process one computes at a time. A thread that wants its turn waits until
the present one has had it for the switch interval, by default 5 ms. The reactor's thread gives its
turn away with each call of the system and has to wait for the next one: twenty reads of sockets
beside a worker that computes all the time take a tenth of a second. With the interval below they
take a hundredth, and workers computed no less in benchmarks/bench_reactor.py.
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
"""The CPU time of a collection whose survivors are looked at again."""
WHOLE_EVERY_S = 86_400.0
"""The time between two whole collections."""
GROWTH = 1.5
"""A whole collection is due where the process has grown by so much since the one before."""
_OLDEST = 2
_THRESHOLDS = (700, 10, 3)
"""New objects before a collection of the youngest, and how many of these before an older one."""
_STATM = Path("/proc/self/statm")
_log = Logger()


def resident_bytes() -> int:
    """Return how much memory the process holds."""
    return int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Garbage:
    """Keeps the collections of this process short."""

    def __init__(
        self,
        seconds: Callable[[], float] = time.monotonic,
        cpu_s: Callable[[], float] = time.thread_time,
        resident: Callable[[], int] = resident_bytes,
    ) -> None:
        """`cpu_s` is the CPU time of the calling thread: other programs don't lengthen it."""
        self._seconds, self._cpu_s, self._resident = seconds, cpu_s, resident
        self._began_s = 0.0
        self._whole_s = 0.0
        self._size: int | None = None
        self._frozen = False
        self._before = gc.get_threshold()

    def start(self) -> None:
        """Freeze all present objects, and keep collections short from now on."""
        gc.freeze()
        self._whole_s = self._seconds()
        gc.set_threshold(*_THRESHOLDS)
        gc.callbacks.append(self._collects)

    def stop(self) -> None:
        """Leave collections alone again; frozen objects stay frozen."""
        if self._collects in gc.callbacks:
            gc.callbacks.remove(self._collects)
            gc.set_threshold(*self._before)

    def after_period(self, _announcement: object = None) -> None:
        """Collect all garbage if that is due: now the next period is far away."""
        size = self._now_resident()
        if self._size is None:
            self._size = size
        old = self._seconds() - self._whole_s >= WHOLE_EVERY_S
        grown = size is not None and self._size is not None and size > GROWTH * self._size
        if self._frozen and (old or grown):
            self._collect_all()

    def _now_resident(self) -> int | None:
        """Return the size of the process; None where no more files can be opened."""
        try:
            return self._resident()
        except OSError:
            return None

    def _collect_all(self) -> None:
        began_s = self._seconds()
        gc.unfreeze()
        found = gc.collect()
        gc.freeze()
        self._whole_s, self._frozen, self._size = self._seconds(), False, self._now_resident()
        _log.info(
            "A whole collection of garbage freed {found} objects in {took_s:.2f} s",
            found=found,
            took_s=self._whole_s - began_s,
        )

    def _collects(self, phase: Literal["start", "stop"], info: dict[str, int]) -> None:
        """Called by the interpreter, on the thread on which the collection runs."""
        if info["generation"] != _OLDEST:
            return
        if phase == "start":
            self._began_s = self._cpu_s()
        elif self._cpu_s() - self._began_s > SHORT_S:
            gc.freeze()
            self._frozen = True


SWITCH_S = 0.0005
"""The switch interval of the daemon."""


def switch_quickly() -> Callable[[], None]:
    """Set the interval; the result sets it back."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_S)
    return lambda: sys.setswitchinterval(before)
