"""The table of VMs' last migrations, and of VMs that a step saved. OpenNebula tells neither.

# Note [Histories of VMs]

The journal forgets a step after some days, but a VM may be held where it is, or stay saved, for
longer. So a VM that was migrated or saved by a step has a row for as long as it exists.

`moved_s` is the time of the observation that confirmed its last migration. `saved` is set from the
first observation after its suspension or stop was sent, until the VM is seen running or pending. A
VM that its owner suspends or stops has no such mark. See Note [Saved VMs] in
`merkatd/database/scheduler/limit_order_vm_store.py` for the VMs of limit orders.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

import sqlalchemy as sa
from sqlalchemy import Column, Named, TypedColumns

from merkatd.database.base.schema import chunks, table
from merkatd.database.fleets.fleet_store import MEMBERS
from merkatd.database.fleets.platform_store import PLATFORMS


class VmHistoryColumns(TypedColumns):
    """The columns of `vm_histories`."""

    vm: Named[int] = Column(sa.Integer(), primary_key=True, autoincrement=False)
    moved_s: Named[float | None] = Column(sa.Double())
    saved: Named[bool] = Column(sa.Boolean())


VM_HISTORIES = table("vm_histories", VmHistoryColumns)
_VM, _MOVED, _SAVED = VM_HISTORIES.c.vm, VM_HISTORIES.c.moved_s, VM_HISTORIES.c.saved
_ALL = sa.select(_VM, _MOVED, _SAVED)
_STATES_OF_PLATFORMS = (
    sa.select(MEMBERS.c.vm, PLATFORMS.c.state)
    .join(PLATFORMS, PLATFORMS.c.id == MEMBERS.c.platform)
    .where(MEMBERS.c.gone_s.is_(None), MEMBERS.c.vm.is_not(None))
)


@dataclass(frozen=True, slots=True)
class VmHistories:
    """The past of VMs, as far as it is stored."""

    moved_at_s: Mapping[int, float] = field(default_factory=dict)
    """The time of each VM's last confirmed migration."""
    saved: Mapping[int, str] = field(default_factory=dict)
    """The VMs that a step has saved, each with the state of its platform, "" without one."""


def read_histories(connection: sa.Connection) -> VmHistories:
    """Return the histories of all VMs that have one."""
    return _histories(connection, *_stored(connection))


def update_histories(
    connection: sa.Connection,
    moved: AbstractSet[int],
    at_s: float,
    saving: AbstractSet[int],
    goes_on: AbstractSet[int],
    exists: AbstractSet[int],
) -> VmHistories:
    """Update the histories by an observation, and return them.

    `moved` are the VMs whose migration it confirms, `saving` those whose suspension or stop was
    outstanding, `goes_on` those that run or are pending, and `exists` all that exist.
    """
    times, saved = _stored(connection)
    rows = times.keys()
    gone = rows - exists
    moved, saving = moved & exists, (saving & exists) - goes_on
    now_saved = ((saved - goes_on) | saving) - gone
    changed = moved | (now_saved ^ saved)
    times = {vm: time_s for vm, time_s in times.items() if vm not in gone} if gone else times
    times |= dict.fromkeys(moved, at_s)
    empty = {vm for vm in changed if vm not in now_saved and times.get(vm) is None}
    for some in chunks(sorted(gone | changed)):
        connection.execute(sa.delete(VM_HISTORIES).where(_VM.in_(some)))
    new = [
        {"vm": vm, "moved_s": times.get(vm), "saved": vm in now_saved}
        for vm in sorted(changed - empty - gone)
    ]
    if new:
        connection.execute(sa.insert(VM_HISTORIES), new)
    return _histories(connection, times, now_saved)


def _stored(connection: sa.Connection) -> tuple[dict[int, float | None], set[int]]:
    """Return the times of the last migrations, and the VMs that are saved."""
    rows = connection.execute(_ALL).all()
    return {row[0]: row[1] for row in rows}, {row[0] for row in rows if row[2]}


def _histories(
    connection: sa.Connection, times: Mapping[int, float | None], saved: AbstractSet[int]
) -> VmHistories:
    states = dict.fromkeys(saved, "")
    for some in chunks(sorted(saved)):
        query = _STATES_OF_PLATFORMS.where(MEMBERS.c.vm.in_(some))
        states |= {vm: state for vm, state in connection.execute(query) if vm is not None}
    moved_at_s = {vm: time_s for vm, time_s in times.items() if time_s is not None}
    return VmHistories(moved_at_s, states)
