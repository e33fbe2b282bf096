"""Failed VMs: those that the daemon starts again, and those that wait for an administrator.

A VM that failed keeps room on its host for the next attempt, and its owner pays the reserve price
for that room. Without another attempt there is no reason to keep room, and none is charged.
"""

import numpy as np
import sqlalchemy as sa

from merkatd.cluster import Deploy, VmState
from merkatd.database.scheduler import journal
from merkatd.database.scheduler.step_store import OUTSTANDING, StepState, StoredStep
from merkatd.scheduler.base.ports import Observation

FAILED = "BOOT_FAILURE"
_LOOKED_AT = 20


def attempts_at(connection: sa.Connection, vm: int) -> int | None:
    """Return the number of failed starts in a row of this VM; None while one is under way."""
    return attempts(journal.history(connection, vm, _LOOKED_AT))


def attempts(history: tuple[StoredStep, ...]) -> int | None:
    """Return the number of failed starts in a row from a VM's steps (newest first).

    None while a step is under way.
    """
    failed = 0
    for stored in history:
        if stored.state in OUTSTANDING:
            return None
        if stored.step.kind != Deploy.kind:
            continue
        if stored.state is StepState.CONFIRMED:
            break
        failed += stored.state is StepState.EXPIRED
    return failed


def is_retried(count: int | None, retries: int) -> bool:
    """Return whether the daemon restarts a VM after this number of failed starts in a row."""
    return count is None or 0 < count <= retries


def waiting_for_administrator(
    connection: sa.Connection, seen: Observation, retries: int
) -> frozenset[int]:
    """Return the ids of the failed VMs that wait for an administrator."""
    rows = np.flatnonzero((seen.vm_state == VmState.ABSENT) & (seen.vm_host >= 0)).tolist()
    failed = []
    for row in rows:
        vm = int(seen.vm_id[row])
        boots = seen.vm_words[row] == FAILED
        if not boots or not is_retried(attempts_at(connection, vm), retries):
            failed.append(vm)
    return frozenset(failed)
