"""The tables of limit orders: VMs that run together while they cost at most a limit.

A VM is in at most one limit order. An order without VMs is deleted. Only the order of a platform
stays until its platform ends: it has no VMs while they are not to run.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Column, Named, TypedColumns

from merkatd.cluster.orders import LimitOrder, OrderOutcome
from merkatd.database.base.schema import LONG_TEXT, SERIAL, chunks, table
from merkatd.database.scheduler.limit_order_vm_store import (
    LIMIT_ORDER_VMS,
    add_vms,
    release_orders,
    release_vms,
)


class LimitOrderColumns(TypedColumns):
    """The columns of `limit_orders`."""

    id: Named[int] = Column(SERIAL, primary_key=True)
    owner: Named[int] = Column(sa.Integer())
    limit_credits: Named[float] = Column(sa.Double())
    least_run_s: Named[float] = Column(sa.Double())
    factor: Named[float] = Column(sa.Double())
    stated_s: Named[float] = Column(sa.Double())
    runs: Named[bool] = Column(sa.Boolean())
    since_s: Named[float | None] = Column(sa.Double())
    cost: Named[float | None] = Column(sa.Double())
    why: Named[str] = Column(LONG_TEXT)
    platform: Named[int | None] = Column(sa.BigInteger())


LIMIT_ORDERS = table(
    # A tenant's program may keep the id of an order that is gone: no other order gets it.
    "limit_orders",
    LimitOrderColumns,
    sa.Index(None, "owner"),
    sa.Index(None, "platform", unique=True),
    sqlite_autoincrement=True,
)


def add(
    connection: sa.Connection,
    *,
    owner: int,
    vms: Iterable[int],
    limit: float,
    least_run_s: float,
    factor: float,
    stated_s: float,
    platform: int | None = None,
) -> LimitOrder:
    """Store a limit order of VMs that are in no other, and return it."""
    order = LimitOrder(
        id=0,
        owner=owner,
        vms=tuple(sorted(vms)),
        limit=limit,
        least_run_s=least_run_s,
        factor=factor,
        stated_s=stated_s,
        platform=platform,
    )
    row = {"owner": owner, **_terms(order), "stated_s": stated_s, "runs": False, "why": ""}
    query = sa.insert(LIMIT_ORDERS).values(**row, platform=platform)
    given = connection.execute(query).inserted_primary_key
    if given is None:
        raise LookupError(f"the database assigned no id to a limit order of user {owner}")
    stored = replace(order, id=int(given[0]))
    add_vms(connection, stored.id, order.vms)
    return stored


def set_vms(connection: sa.Connection, order: LimitOrder, vms: Iterable[int]) -> LimitOrder:
    """Replace the VMs of a platform's limit order, and return it."""
    new = tuple(sorted(vms))
    if new == order.vms:
        return order
    release_vms(connection, set(order.vms) - set(new))
    add_vms(connection, order.id, set(new) - set(order.vms))
    changed = order.with_vms(new)
    if new and order.vms:
        return changed
    none = {name: getattr(changed, name) for name in ("runs", "since_s", "cost", "why")}
    query = sa.update(LIMIT_ORDERS).where(LIMIT_ORDERS.c.id == order.id)
    connection.execute(query.values(none))
    return changed


def change(connection: sa.Connection, order: LimitOrder) -> None:
    """Store the limit, the least run and the factor of a limit order."""
    query = sa.update(LIMIT_ORDERS).where(LIMIT_ORDERS.c.id == order.id)
    connection.execute(query.values(**_terms(order)))


def withdraw(connection: sa.Connection, ids: Iterable[int]) -> None:
    """Delete limit orders; the bids of their VMs count again."""
    for some in chunks(sorted(ids)):
        release_orders(connection, some)
        connection.execute(sa.delete(LIMIT_ORDERS).where(LIMIT_ORDERS.c.id.in_(some)))


def living(connection: sa.Connection, owner: int | None = None) -> tuple[LimitOrder, ...]:
    """Return all limit orders, or those of an owner, by id."""
    query, vms = sa.select(LIMIT_ORDERS), _VMS
    if owner is not None:
        query = query.where(LIMIT_ORDERS.c.owner == owner)
        ids = sa.select(LIMIT_ORDERS.c.id).where(LIMIT_ORDERS.c.owner == owner)
        vms = vms.where(LIMIT_ORDER_VMS.c.limit_order.in_(ids))
    rows = connection.execute(query.order_by(LIMIT_ORDERS.c.id)).all()
    return tuple(_orders(rows, connection.execute(vms)))


def of_platforms(connection: sa.Connection, platform: int | None = None) -> dict[int, LimitOrder]:
    """Return the limit orders of all platforms, or of one, by platform.

    A transaction that changes one must have locked its platform before.
    """
    query = sa.select(LIMIT_ORDERS).where(LIMIT_ORDERS.c.platform.is_not(None))
    ids = sa.select(LIMIT_ORDERS.c.id).where(LIMIT_ORDERS.c.platform.is_not(None))
    if platform is not None:
        query = query.where(LIMIT_ORDERS.c.platform == platform)
        ids = ids.where(LIMIT_ORDERS.c.platform == platform)
    rows = connection.execute(query).all()
    vms = connection.execute(_VMS.where(LIMIT_ORDER_VMS.c.limit_order.in_(ids))) if rows else ()
    found = _orders(rows, vms, even_empty=True)
    return {order.platform: order for order in found if order.platform is not None}


def of_vms(connection: sa.Connection, vms: Iterable[int]) -> dict[int, LimitOrder]:
    """Return the limit order of each of these VMs that is in one, by VM."""
    found: dict[int, int] = {}
    for some in chunks(sorted(vms)):
        rows = connection.execute(_VMS.where(LIMIT_ORDER_VMS.c.vm.in_(some)))
        found |= {vm: order for vm, order in rows if order is not None}
    by_id = {order.id: order for order in of_ids(connection, set(found.values()))}
    return {vm: by_id[id_] for vm, id_ in found.items() if id_ in by_id}


def of_ids(
    connection: sa.Connection, ids: AbstractSet[int], *, lock: bool = False
) -> Iterator[LimitOrder]:
    """Yield the limit orders with these ids, by id.

    With `lock`, the rows are current, and locked until the transaction ends.
    """
    for some in chunks(sorted(ids)):
        query = sa.select(LIMIT_ORDERS).where(LIMIT_ORDERS.c.id.in_(some))
        query = query.order_by(LIMIT_ORDERS.c.id)
        vms = _VMS.where(LIMIT_ORDER_VMS.c.limit_order.in_(some))
        if lock:
            query, vms = query.with_for_update(), vms.with_for_update()
        rows = connection.execute(query).all()
        yield from _orders(rows, connection.execute(vms))


def lock_owner(connection: sa.Connection, owner: int) -> int:
    """Return the number of an owner's limit orders; no other transaction can add one meanwhile."""
    query = sa.select(LIMIT_ORDERS.c.id).where(LIMIT_ORDERS.c.owner == owner).with_for_update()
    return len(connection.scalars(query).all())


def lost_vms(
    connection: sa.Connection, owners: Mapping[int, int], unread: AbstractSet[int]
) -> frozenset[int]:
    """Return the VMs of limit orders that are gone, or have another owner than their order.

    `owners` are the present owners by VM id; `unread` VMs exist too, but can't be read.
    """
    return frozenset(
        vm
        for vm, owner in connection.execute(_OWNERS)
        if owners.get(vm, owner if vm in unread else None) != owner
    )


def remove_vms(connection: sa.Connection, vms: Iterable[int]) -> None:
    """Remove VMs from their limit orders, and delete the orders that have none left.

    Orders of platforms are kept.
    """
    for some in chunks(sorted(release_vms(connection, vms))):
        left = sa.select(LIMIT_ORDER_VMS.c.limit_order)
        kept = set(connection.scalars(left.where(LIMIT_ORDER_VMS.c.limit_order.in_(some))))
        platforms = sa.select(LIMIT_ORDERS.c.id).where(LIMIT_ORDERS.c.platform.is_not(None))
        kept |= set(connection.scalars(platforms.where(LIMIT_ORDERS.c.id.in_(some))))
        withdraw(connection, set(some) - kept)


def record_outcomes(
    connection: sa.Connection, outcomes: Sequence[OrderOutcome], at_s: float
) -> None:
    """Store the outcomes of a period; rows without a change are not written."""
    if not outcomes:
        return
    stored = {row.id: row for row in connection.execute(sa.select(LIMIT_ORDERS))}
    changed = []
    for new in outcomes:
        old = stored.get(new.id)
        if old is None or (old.runs, old.cost, old.why) == (new.runs, new.cost, new.why):
            continue
        since_s = old.since_s if old.runs == new.runs else at_s
        values = {"runs": new.runs, "since_s": since_s, "cost": new.cost, "why": new.why}
        changed.append({"which": new.id, **values})
    if changed:
        names: dict[str, Any] = {n: sa.bindparam(n) for n in ("runs", "since_s", "cost", "why")}
        query = sa.update(LIMIT_ORDERS).where(LIMIT_ORDERS.c.id == sa.bindparam("which"))
        connection.execute(query.values(names), changed)


_VMS = (
    sa.select(LIMIT_ORDER_VMS.c.vm, LIMIT_ORDER_VMS.c.limit_order)
    .where(LIMIT_ORDER_VMS.c.limit_order.is_not(None))
    .order_by(LIMIT_ORDER_VMS.c.vm)
)
_OWNERS = sa.select(LIMIT_ORDER_VMS.c.vm, LIMIT_ORDERS.c.owner).join(
    LIMIT_ORDERS, LIMIT_ORDERS.c.id == LIMIT_ORDER_VMS.c.limit_order
)


def _orders(
    rows: Iterable[Any], vms: Iterable[Any], *, even_empty: bool = False
) -> Iterator[LimitOrder]:
    by_order: dict[int, list[int]] = {}
    for vm, order in vms:
        by_order.setdefault(order, []).append(vm)
    for row in rows:
        if even_empty or row.id in by_order:
            yield LimitOrder(
                id=row.id,
                owner=row.owner,
                vms=tuple(by_order.get(row.id, ())),
                limit=row.limit_credits,
                least_run_s=row.least_run_s,
                factor=row.factor,
                stated_s=row.stated_s,
                runs=bool(row.runs),
                since_s=row.since_s,
                cost=row.cost,
                why=row.why,
                platform=row.platform,
            )


def _terms(order: LimitOrder) -> dict[str, float]:
    """Return the columns of the terms that its tenant can change."""
    return {
        "limit_credits": order.limit,
        "least_run_s": order.least_run_s,
        "factor": order.factor,
    }
