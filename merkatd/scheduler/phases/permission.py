"""Permission: the steps of a decision that may be carried out in this period."""

from dataclasses import dataclass, replace

from merkatd.cluster import OnHost, Plan, Step
from merkatd.cluster.left_out import with_fewer_migrations
from merkatd.cluster.plan import Create, Terminate
from merkatd.database.scheduler.order_store import Mode
from merkatd.database.scheduler.plan_store import Key, key_of
from merkatd.scheduler.base.acting_settings import ActingSettings
from merkatd.scheduler.observation.observed import Observed


@dataclass(frozen=True, slots=True)
class Permission:
    """The permitted steps of a period."""

    mode: Mode = Mode.ON
    moves: int | None = None
    """The most migrations; None for any number."""
    approved: frozenset[Key] = frozenset()
    """In mode ask: the steps that an administrator has approved."""

    def given(self, step: Step) -> bool:
        """Return whether this step may be carried out.

        Tenants order the creation and the end of VMs themselves, so these need no approval.
        """
        if self.mode.watches:
            return False
        if self.mode is Mode.ON or isinstance(step, OnHost | Create | Terminate):
            return True
        return key_of(step) in self.approved


EVERYTHING_PERMITTED = Permission()
_NEARLY = 0.9
"""The part of an interval that counts as a whole one: real intervals differ."""


def with_fewer_moves(observed: Observed, plan: Plan, leave: Permission) -> Observed | None:
    """Return the cloud in which only the best moves can be made; None if all are permitted."""
    if leave.moves is None:
        return None
    snapshot = with_fewer_migrations(observed.snapshot, plan, leave.moves)
    return None if snapshot is None else replace(observed, snapshot=snapshot)


class QuietPeriods:
    """The count of quiet periods: after a start, a pause, or a change of mode to on.

    A period that begins within an interval after one that was counted counts for nothing.
    """

    def __init__(self) -> None:
        self._was: Mode | None = None
        self._done = 0
        self._counted_s: float | None = None

    def begin(self, mode: Mode) -> bool:
        """Begin a period of this mode; return whether it is the first one."""
        fresh = mode is not self._was
        if fresh:
            self._was, self._done, self._counted_s = mode, 0, None
        return fresh

    def end(self, begun_s: float, interval_s: float) -> None:
        """Count a finished period that began then."""
        if self._counted_s is None or not 0.0 < begun_s - self._counted_s < _NEARLY * interval_s:
            self._done += 1
            self._counted_s = begun_s

    def interrupt(self) -> None:
        """Restart the count, because no period could begin."""
        self._was = None

    def moves(self, mode: Mode, acting: ActingSettings) -> int | None:
        """Return the most migrations in the next period; None for any number."""
        done = self._done if mode is self._was else 0
        return acting.quiet_migrations if done < acting.quiet_periods else None
