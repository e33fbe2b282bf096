"""What is really got of a processor or a disk: bounds that hold however busy the machine is.

That nobody gets more than a limit is always so. That it is reached is seen only where the run's own
control group has the weight to get it.
"""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass

from tests.real import controls

_LOOK_S = 0.1


@dataclass(frozen=True, slots=True)
class Got:
    """What a guest really got a second: between the two, as asking takes its time too."""

    least: float
    most: float
    free: bool
    """Whether others on the machine left it what it wanted."""

    def __str__(self) -> str:
        return f"{self.least:.4g} to {self.most:.4g}{'' if self.free else ', among many others'}"

    def within(self, least: float, most: float) -> bool:
        """Never more; and no less, where nobody but its limit kept it from that."""
        return self.least <= most and (self.most >= least or not self.free)


def measured(counter: Callable[[], float], seconds: float) -> Got:
    """How much a counter grows a second."""
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
