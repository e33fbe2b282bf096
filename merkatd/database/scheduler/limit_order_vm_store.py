"""The table of the VMs of limit orders, and of VMs that the scheduler has saved for one.

# Note [Saved VMs]

The scheduler saves the VMs of an order that is displaced, and they have to start again. OpenNebula
does not show who saved a VM, and the journal forgets a step after some days. So the row of a VM has
the mark `saved` from the first observation after its stop was sent, until the VM is seen in another
state. A VM that is withdrawn from its order, or given to another owner, keeps its row without an
order for as long as it has the mark: the scheduler resumes it. The owner's own stop sets no mark.
So such a VM stays as it is until its owner resumes it, whatever order it is in.

Example: VM 7 is in order 3. In period 10 the scheduler stops it. The owner withdraws the order, and
the row of VM 7 has no order. Period 11 finds the stop outstanding, and marks the row. In period 12
VM 7 is saved, and the scheduler resumes it. In period 13 it is pending, and its row is deleted.
"""

from collections.abc import Collection, Iterable
from collections.abc import Set as AbstractSet

import sqlalchemy as sa
from sqlalchemy import Column, Named, TypedColumns

from merkatd.database.base.schema import chunks, table
from merkatd.database.base.transactions import LostRaceError


class LimitOrderVmColumns(TypedColumns):
    """The columns of `limit_order_vms`."""

    vm: Named[int] = Column(sa.Integer(), primary_key=True, autoincrement=False)
    limit_order: Named[int | None] = Column(sa.BigInteger(), sa.ForeignKey("limit_orders.id"))
    saved: Named[bool] = Column(sa.Boolean())


LIMIT_ORDER_VMS = table("limit_order_vms", LimitOrderVmColumns, sa.Index(None, "limit_order"))
_VM, _ORDER, _SAVED = LIMIT_ORDER_VMS.c.vm, LIMIT_ORDER_VMS.c.limit_order, LIMIT_ORDER_VMS.c.saved


def add_vms(connection: sa.Connection, order: int, vms: Iterable[int]) -> None:
    """Put VMs into a limit order. Raise LostRaceError if one of them is in an order."""
    for some in chunks(sorted(vms)):
        without_order = _VM.in_(some) & _ORDER.is_(None)
        known = set(connection.scalars(sa.select(_VM).where(without_order)))
        query = sa.update(LIMIT_ORDER_VMS).where(without_order).values(limit_order=order)
        is_alone = not known or connection.execute(query).rowcount == len(known)
        rows = [{"vm": vm, "limit_order": order, "saved": False} for vm in some if vm not in known]
        try:
            if rows:
                connection.execute(sa.insert(LIMIT_ORDER_VMS), rows)
        except sa.exc.IntegrityError as error:
            raise LostRaceError("another transaction put a VM into a limit order") from error
        if not is_alone:
            raise LostRaceError("another transaction changed the VMs of limit orders")


def release_vms(connection: sa.Connection, vms: Iterable[int]) -> frozenset[int]:
    """Take VMs out of their limit orders, and return the ids of these orders."""
    touched: set[int] = set()
    for some in chunks(sorted(vms)):
        rows = _VM.in_(some) & _ORDER.is_not(None)
        orders = connection.scalars(sa.select(_ORDER).where(rows).distinct())
        touched |= {order for order in orders if order is not None}
        connection.execute(sa.update(LIMIT_ORDER_VMS).where(rows).values(limit_order=None))
    return frozenset(touched)


def release_orders(connection: sa.Connection, orders: Collection[int]) -> None:
    """Take all VMs out of these limit orders."""
    query = sa.update(LIMIT_ORDER_VMS).where(_ORDER.in_(orders))
    connection.execute(query.values(limit_order=None))


def saved_vms(connection: sa.Connection) -> frozenset[int]:
    """Return the VMs that the scheduler has saved, or is saving."""
    return frozenset(connection.scalars(sa.select(_VM).where(_SAVED)))


def update_saved(
    connection: sa.Connection, stopped: AbstractSet[int], kept: AbstractSet[int]
) -> None:
    """Update the marks by an observation, and delete the rows that have neither mark nor order.

    `stopped` are the VMs whose stop by the scheduler was outstanding, and `kept` those that are
    saved, in transition or can't be read: their marks stay.
    """
    rows = connection.execute(sa.select(LIMIT_ORDER_VMS)).all()
    marked = {row.vm for row in rows if row.vm in stopped or (row.saved and row.vm in kept)}
    for mark in (True, False):
        changed = [row.vm for row in rows if row.saved != mark and (row.vm in marked) == mark]
        for some in chunks(sorted(changed)):
            query = sa.update(LIMIT_ORDER_VMS).where(_VM.in_(some))
            connection.execute(query.values(saved=mark))
    for some in chunks(sorted(row.vm for row in rows if row.limit_order is None)):
        # Another transaction may have put one of them into an order by now.
        left = _VM.in_(some) & _ORDER.is_(None) & _SAVED.is_(False)
        connection.execute(sa.delete(LIMIT_ORDER_VMS).where(left))
