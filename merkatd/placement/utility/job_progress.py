"""The progress of jobs: the work that is left, the needs of a cycle, and the work it does.

Work is in percent of a core times seconds, speeds in percent of a core. A job has stages in order;
its finished work counts for the first stages first.

Example: stages with works 600 and 300 and greatest speeds 200 and 100, of which 500 are done. In a
cycle of 2 s the job finishes its first stage after 0.5 s and is in its second one for the rest. It
needs the greater speed, 200, for the whole cycle, since allocations stay the same meanwhile. With
it, it has done 750 at the end: 100 of the first stage, and 150 of the second one at its speed.
"""

from dataclasses import dataclass

import numpy as np

from merkatd.cluster import Floats


@dataclass(frozen=True, slots=True, eq=False)
class JobStages:
    """The stages of a job, in order: each column is [stages]."""

    work: Floats
    least_speed: Floats
    greatest_speed: Floats
    memory_mib: Floats

    def left(self, done: float) -> Floats:
        """Return [stages]: the work that is left of each stage (Eq. 3).

        More work than the job has counts as all of it.
        """
        ends = np.cumsum(self.work)
        return np.clip(ends - max(done, 0.0), 0.0, self.work)

    def times(self, done: float) -> Floats:
        """Return [stages]: the time that the rest of each stage takes at its greatest speed.

        A stage with work that may use no CPU never ends.
        """
        left = self.left(done)
        times = np.full(len(left), np.inf)
        np.divide(left, self.greatest_speed, out=times, where=self.greatest_speed > 0)
        times[left == 0] = 0.0
        return times

    def best_s(self, done: float) -> float:
        """Return the time that the rest of the job takes at the greatest speeds."""
        return float(self.times(done).sum())


@dataclass(frozen=True, slots=True)
class CycleNeeds:
    """What a job needs during a whole cycle (Eq. 4 to 6)."""

    least_speed: float
    greatest_speed: float
    memory_mib: float


NO_NEEDS = CycleNeeds(0.0, 0.0, 0.0)


def cycle_needs(stages: JobStages, done: float, cycle_s: float) -> CycleNeeds:
    """Return the greatest needs of all stages in which the job can be during the cycle.

    The paper counts the stages that end in the cycle. We count the stage in which the job is at the
    cycle's end, too: it needs its memory as soon as it begins. A least speed above the greatest one
    counts as the greatest.
    """
    left, times = stages.left(done), stages.times(done)
    begins = np.concatenate([[0.0], np.cumsum(times)[:-1]])
    inside = (left > 0) & (begins < cycle_s)
    if not inside.any():
        return NO_NEEDS
    least = np.minimum(stages.least_speed, stages.greatest_speed)
    return CycleNeeds(
        least_speed=float(least[inside].max()),
        greatest_speed=float(stages.greatest_speed[inside].max()),
        memory_mib=float(stages.memory_mib[inside].max()),
    )


def done_after(stages: JobStages, done: float, speed: float, cycle_s: float) -> float:
    """Return the finished work after a cycle with this speed.

    A stage uses at most its greatest speed, whatever the job has.
    """
    finished, rest_s = max(done, 0.0), cycle_s
    left = stages.left(done)
    for work, greatest in zip(left.tolist(), stages.greatest_speed.tolist(), strict=True):
        used = min(speed, greatest)
        if work == 0:
            continue
        if used <= 0 or rest_s <= 0:
            break
        took = min(rest_s, work / used)
        finished += took * used
        rest_s -= took
    return finished
