"""Leave: how much of what is decided may be done in this period."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from merkatd.cluster import Migrate, OnHost, Plan, Step
from merkatd.cluster.plan import Create, Terminate
from merkatd.database.scheduler.order_store import Mode
from merkatd.database.scheduler.plan_store import Key, key_of
from merkatd.scheduler.base.settings import ActingSettings
from merkatd.scheduler.observation.observed import Observed


@dataclass(frozen=True, slots=True)
class Permission:
    """What may be done."""

    mode: Mode = Mode.ON
    moves: int | None = None
    """How many VMs may be moved; None: any number."""
    approved: frozenset[Key] = frozenset()
    """In mode ask: the steps that an administrator has approved of."""

    def given(self, step: Step) -> bool:
        """Whether this step may be done.

        What is made and ended is what tenants ordered themselves; nobody is asked about it.
        """
        if self.mode.watches:
            return False
        if self.mode is Mode.ON or isinstance(step, OnHost | Create | Terminate):
            return True
        return key_of(step) in self.approved


EVERYTHING_PERMITTED = Permission()


def permitted_steps(leave: Permission, steps: Iterable[Step]) -> list[Step]:
    """The steps that may be done, without those that would come after others."""
    kept: list[Step] = []
    without: set[str] = set()
    for step in steps:
        if leave.given(step) and not without & set(step.after):
            kept.append(step)
        else:
            without.add(step.id)
    return kept


def with_fewer_moves(seen: Observed, plan: Plan, leave: Permission) -> Observed | None:
    """The same cloud, in which only the best of these moves can be made; None: they are few."""
    moves = plan.of(Migrate)
    if leave.moves is None or len(moves) <= leave.moves:
        return None
    best = sorted(moves, key=lambda step: (-step.gain, step.vm))[: leave.moves]
    vms = seen.snapshot.vms
    movable = vms.movable & np.isin(vms.id, [step.vm for step in best])
    return replace(seen, snapshot=replace(seen.snapshot, vms=replace(vms, movable=movable)))


class QuietPeriods:
    """Counts the quiet periods: after a start, a pause, or a change of mode to on."""

    def __init__(self) -> None:
        self._was: Mode | None = None
        self._done = 0

    def begin(self, mode: Mode) -> bool:
        """A period of this mode begins; whether it is the first one."""
        fresh = mode is not self._was
        if fresh:
            self._was, self._done = mode, 0
        return fresh

    def end(self) -> None:
        """It came to its end."""
        self._done += 1

    def interrupt(self) -> None:
        """No period could begin: whatever comes next comes after a pause."""
        self._was = None

    def moves(self, mode: Mode, acting: ActingSettings) -> int | None:
        """How many VMs may be moved in the next period; None: any number."""
        done = self._done if mode is self._was else 0
        return acting.quiet_migrations if done < acting.quiet_periods else None
