"""How a batch queue does, as a performance that Algorithm 4 can judge, for two aims.

Least wait (the paper's Torque): the time that the first job has waited, against a target. Greatest
throughput (its Condor): whether jobs wait at all, for as long as there is work for another VM.
"""

from dataclasses import dataclass
from enum import StrEnum
from math import ceil

from controllers.policies.deadline import HIGH, LOW
from controllers.policies.vertical import Performance


class Aim(StrEnum):
    """What a framework's tenant wants."""

    WAIT = "wait"
    THROUGHPUT = "throughput"


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """A queue and its workers."""

    waiting: int
    wanted: int
    """Processors that waiting jobs ask for."""
    longest_s: float
    busy: int
    """Workers with jobs."""
    slots: int = 1
    """Processors of a worker."""

    @property
    def useful(self) -> int:
        """How many workers there is work for."""
        return self.busy + ceil(self.wanted / max(self.slots, 1))


def judged(load: Load, aim: Aim, workers: int, target_s: float) -> Performance:
    """Slow where more workers are wanted, fast where some have nothing to do."""
    idle = workers > load.useful
    if aim is Aim.WAIT and load.waiting:
        # Jobs that wait are nobody's leisure: it is never fast.
        value = max(load.longest_s, LOW * target_s)
        return Performance(
            value=value, reference=target_s, low=LOW * target_s, high=HIGH * target_s
        )
    value = 2.0 if load.waiting else LOW / 2 if idle else (LOW + HIGH) / 2
    return Performance(value=value, reference=1.0, low=LOW, high=HIGH)
