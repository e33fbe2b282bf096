"""Which VMs were moved, why, and what became of it: in words that can be counted."""

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from enum import StrEnum

import numpy as np

from merkatd.cluster import HostState, Migrate
from merkatd.scheduler.observation.observed import Seen
from merkatd.scheduler.phases.announce import Announcement


class Cause(StrEnum):
    """Why a VM is moved; `explain` has the numbers."""

    DRAINED = "drained"
    """Its host is to be emptied."""
    ASKED = "asked"
    """Somebody asked that it be moved (RESCHED)."""
    ROOM = "room"
    """Another step waits for the room that it leaves."""
    SHARES = "shares"
    """VMs get more of what they bid for."""
    EARLIER = "earlier"
    """It was decided before this daemon began."""


class Result(StrEnum):
    """What became of a move."""

    SENT = "sent"
    REFUSED = "refused"
    POSTPONED = "postponed"
    CONFIRMED = "confirmed"
    EXPIRED = "expired"


class Moves:
    """Remembers why, for as long as a move is under way."""

    def __init__(self) -> None:
        self._why: dict[str, Cause] = {}

    def of(self, announcement: Announcement) -> Iterator[tuple[Result, Cause]]:
        """What a period that is over came to, one by one."""
        yield from self._judged(announcement.seen)
        steps = announcement.decided.steps
        moves = [step for step in steps if step.kind == Migrate.kind and isinstance(step, Migrate)]
        waited_for = {one for step in steps for one in step.after} if moves else set()
        for step in moves:
            result = Result(announcement.acted.not_done.get(step.id, Result.SENT))
            why = cause(step, announcement.seen, waited_for)
            if result is Result.SENT:
                self._why[step.id] = why
            yield result, why

    def _judged(self, seen: Seen) -> Iterator[tuple[Result, Cause]]:
        """Of those of earlier periods."""
        verdicts = seen.verdicts
        for result, ended in (
            (Result.CONFIRMED, verdicts.confirmed),
            (Result.EXPIRED, verdicts.expired.keys()),
        ):
            for step in verdicts.moves & ended:
                yield result, self._why.get(step, Cause.EARLIER)
        under_way = {one.id for one in verdicts.waiting}
        self._why = {step: why for step, why in self._why.items() if step in under_way}


def cause(step: Migrate, seen: Seen, waited_for: AbstractSet[str]) -> Cause:
    """The strongest of the reasons that there are."""
    hosts = seen.snapshot.hosts
    if np.any((hosts.id == step.source) & (hosts.state == HostState.DRAINED)):
        return Cause.DRAINED
    leaves = seen.observation.vm_leaves
    if leaves is not None and np.any(leaves[seen.observation.vm_id == step.vm]):
        return Cause.ASKED
    return Cause.ROOM if step.id in waited_for else Cause.SHARES
