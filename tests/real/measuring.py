"""Measured use of CPU or disk, with bounds that hold however busy the machine is.

A guest never exceeds its limit. Whether it reaches the limit can be measured only where the run's
own control group has enough weight.
"""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass

from tests.real import controls

_LOOK_S = 0.1


@dataclass(frozen=True, slots=True)
class Got:
    """The use of a guest per second, between two bounds, because reading takes time too."""

    least: float
    most: float
    free: bool
    """Whether other processes on the machine left it what it wanted."""

    def __str__(self) -> str:
        return f"{self.least:.4g} to {self.most:.4g}{'' if self.free else ', among many others'}"

    def within(self, least: float, most: float) -> bool:
        """Return whether the use is within the bounds; ignore the lower one on a busy machine."""
        return self.least <= most and (self.most >= least or not self.free)


def measured(counter: Callable[[], float], seconds: float) -> Got:
    """Return the growth of a counter per second."""
    asked_s, before = time.monotonic(), counter()
    answered_s = time.monotonic()
    crowds = []
    while time.monotonic() < answered_s + seconds:
        time.sleep(_LOOK_S)
        crowds.append(controls.crowd())
    until_s, after = time.monotonic(), counter()
    ended_s, grown = time.monotonic(), after - before
    mean = sum(crowds) / len(crowds)
    free = controls.has_weight(os.environ["MERKAT_REAL_GROUP"], mean)
    return Got(grown / (ended_s - asked_s), grown / (until_s - answered_s), free)
