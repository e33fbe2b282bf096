"""The pace of periods: those that begin early share the limits of one interval.

# Note [Early periods share the limits of an interval]

Some limits of a period are limits of the load in time: the most migrations, and the largest change
of a balloon. With a period in each second they would allow sixty times as much in a minute. So at
most one period of an interval migrates VMs, as without early periods. A balloon changes at most by
the part of its limit that the time since the last period is of an interval.
Example: a VM may lose 512 MiB in an interval of 60 s. If periods follow each other after 15 s, it
loses at most 128 MiB in each.

Periods that OpenNebula requests are not limited by this: OpenNebula has its own rhythm, and carries
out a plan over several requests.
"""

from dataclasses import replace

from merkatd.base.clock import Clock
from merkatd.cluster import Migrate
from merkatd.scheduler.context import PeriodContext
from merkatd.scheduler.execution.execute import PeriodResult
from merkatd.scheduler.phases.permission import Permission


class PeriodPace:
    """The times of the last periods, on the clock of periods."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._begun_s: float | None = None
        self._acted_s: float | None = None
        """The start of the last period that acted."""
        self._moved_s: float | None = None
        """The start of the last period that migrated VMs."""

    def begin(self) -> float:
        """Begin a period; return the time."""
        self._begun_s = self._clock.seconds()
        return self._begun_s

    def paced(self, context: PeriodContext, leave: Permission) -> tuple[PeriodContext, Permission]:
        """Return the context and the permission of a period that the timer has begun."""
        part = self._part(self._acted_s, context)
        if part < 1.0:
            memory = context.limits.memory
            memory = replace(
                memory,
                most_step_mib=int(memory.most_step_mib * part),
                most_step_part=memory.most_step_part * part,
            )
            context = replace(context, limits=replace(context.limits, memory=memory))
        if self._part(self._moved_s, context) < 1.0:
            leave = replace(leave, moves=0)
        return context, leave

    def end(self, done: PeriodResult) -> None:
        """Record a period that acted."""
        self._acted_s = self._begun_s
        # After a refused migration the next period decides anew at once.
        if done.decided.decision.plan.of(Migrate) and not done.acted.unmoved:
            self._moved_s = self._begun_s

    def _part(self, since_s: float | None, context: PeriodContext) -> float:
        """Return the part of an interval since then; 1 for a whole one, or if that is unknown."""
        if self._begun_s is None:
            return 1.0
        return context.rhythm.part_since(since_s, self._begun_s)
