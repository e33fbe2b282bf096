"""The table of the VMs of virtual platforms; a VM has a key before it has an id."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import sqlalchemy as sa
from sqlalchemy import Column, Named, TypedColumns

from merkatd.database.base.schema import chunks, table
from merkatd.database.fleets.member_table import FleetMember, MemberTable
from merkatd.database.fleets.platform_store import PLATFORMS, is_in_trouble
from merkatd.database.scheduler.limit_order_store import LIMIT_ORDERS
from merkatd.database.scheduler.limit_order_vm_store import LIMIT_ORDER_VMS
from merkatd.database.scheduler.period_store import PERIODS
from merkatd.database.scheduler.step_store import STEPS, StepState


class MemberColumns(TypedColumns):
    """The columns of `platform_vms`."""

    create_key: Named[str] = Column(sa.String(64), primary_key=True)
    platform: Named[int] = Column(sa.BigInteger(), sa.ForeignKey("platforms.id"))
    cluster: Named[str] = Column(sa.String(64))
    number: Named[int] = Column(sa.Integer())
    vm: Named[int | None] = Column(sa.Integer(), unique=True)
    leaving: Named[bool] = Column(sa.Boolean())
    gone_s: Named[float | None] = Column(sa.Double())
    failed_s: Named[float | None] = Column(sa.Double())


MEMBERS = table("platform_vms", MemberColumns, sa.Index(None, "platform"), sa.Index(None, "gone_s"))


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformMember(FleetMember):
    """A VM of a platform, which exists or is about to be created."""

    platform: int
    cluster: str


PLATFORM_VMS = MemberTable(MEMBERS, "platform", PlatformMember)
_WAITING = (
    sa.select(MEMBERS.c.create_key, MEMBERS.c.gone_s, PLATFORMS.c.owner, MEMBERS.c.platform)
    .join(PLATFORMS, PLATFORMS.c.id == MEMBERS.c.platform)
    .where(MEMBERS.c.vm.is_(None))
)


_PAYING_ACCOUNTS = (
    sa.select(MEMBERS.c.vm, PLATFORMS.c.account)
    .join(PLATFORMS, PLATFORMS.c.id == MEMBERS.c.platform)
    .where(MEMBERS.c.gone_s.is_(None), MEMBERS.c.vm.is_not(None))
)


_OWNERS = (
    sa.select(MEMBERS.c.vm, PLATFORMS.c.owner)
    .join(PLATFORMS, PLATFORMS.c.id == MEMBERS.c.platform)
    .where(MEMBERS.c.gone_s.is_(None), MEMBERS.c.vm.is_not(None))
)


_FAILURES = (
    sa.select(MEMBERS.c.platform, MEMBERS.c.cluster, MEMBERS.c.failed_s)
    .where(MEMBERS.c.failed_s > sa.bindparam("since_s"))
    .order_by(MEMBERS.c.failed_s)
)


class Refusals(NamedTuple):
    """Refusals of the creation of a VM."""

    times: int = 0
    why: str = ""
    """The newest answer."""
    at_s: float = 0.0
    """The time of the observation before the newest answer."""


def bind_vms(
    connection: sa.Connection, keys: Mapping[tuple[str, int], int], owners: Mapping[int, int]
) -> tuple[int, ...]:
    """Store the ids of the VMs that have a platform's key and its owner.

    Return the VMs of platforms whose controller fails now: it could not bid for them.
    """
    seen = PLATFORM_VMS.newly_seen(connection, _WAITING, keys, owners)
    PLATFORM_VMS.bind(connection, seen)
    if not seen:
        return ()
    bound: dict[int, list[int]] = {}
    for member in seen:
        bound.setdefault(member.fleet, []).append(member.vm)
    reports = sa.select(PLATFORMS.c.id, PLATFORMS.c.report).where(PLATFORMS.c.id.in_(bound))
    return tuple(
        vm
        for platform, report in connection.execute(reports).all()
        if is_in_trouble(report)
        for vm in bound[platform]
    )


def given_away(connection: sa.Connection, owners: Mapping[int, int]) -> frozenset[int]:
    """Return the VMs of platforms that have another owner now; `owners` are by VM id."""
    return frozenset(
        vm
        for vm, owner in connection.execute(_OWNERS)
        if vm is not None and owners.get(vm, owner) != owner
    )


def platforms_of(connection: sa.Connection, vms: Collection[int], owner: int) -> dict[int, int]:
    """Return the platforms of this owner to which the VMs belong, by VM id."""
    found: dict[int, int] = {}
    for some in chunks(sorted(vms)):
        query = sa.select(MEMBERS.c.vm, MEMBERS.c.platform)
        query = query.join(PLATFORMS, PLATFORMS.c.id == MEMBERS.c.platform)
        query = query.where(MEMBERS.c.vm.in_(some), MEMBERS.c.gone_s.is_(None))
        rows = connection.execute(query.where(PLATFORMS.c.owner == owner))
        found |= {vm: platform for vm, platform in rows if vm is not None}
    return found


def mark_failed(connection: sa.Connection, keys: Iterable[str], at_s: float) -> None:
    """Mark these VMs as failed: they are about to be ended and replaced."""
    PLATFORM_VMS.change(connection, keys, leaving=True, failed_s=at_s)


def failures(connection: sa.Connection, since_s: float) -> dict[tuple[int, str], list[float]]:
    """Return the times of VM failures since then, by platform and cluster, oldest first."""
    times: dict[tuple[int, str], list[float]] = {}
    for platform, cluster, at_s in connection.execute(_FAILURES, {"since_s": since_s}):
        times.setdefault((platform, cluster), []).append(at_s or 0.0)
    return times


def refusals(connection: sa.Connection, keys: Iterable[str]) -> dict[str, Refusals]:
    """Return the refusals of the creation of VMs, by key."""
    by_key: dict[str, Refusals] = {}
    for some in chunks(sorted(keys)):
        query = sa.select(STEPS.c.create_key, STEPS.c.reply, PERIODS.c.observed_s)
        query = query.join(PERIODS, PERIODS.c.number == STEPS.c.period).order_by(STEPS.c.period)
        query = query.where(STEPS.c.create_key.in_(some), STEPS.c.state == StepState.REFUSED)
        for key, reply, at_s in connection.execute(query):
            if key is not None:
                times = by_key.get(key, Refusals()).times + 1
                by_key[key] = Refusals(times, reply or "", at_s)
    return by_key


def applications(connection: sa.Connection) -> dict[int, int]:
    """Return the account that pays for each VM of a platform, by VM id."""
    return {
        vm: account
        for vm, account in connection.execute(_PAYING_ACCOUNTS)
        if vm is not None and account is not None
    }


def unordered_vms(connection: sa.Connection) -> frozenset[int]:
    """Return the VMs of platforms with limit orders that are in no order now.

    They run only in an order, whatever their bids, so they must wait for it.
    """
    in_orders = sa.select(LIMIT_ORDER_VMS.c.vm).where(LIMIT_ORDER_VMS.c.limit_order.is_not(None))
    query = (
        sa.select(MEMBERS.c.vm)
        .join(LIMIT_ORDERS, LIMIT_ORDERS.c.platform == MEMBERS.c.platform)
        .where(MEMBERS.c.gone_s.is_(None), MEMBERS.c.vm.is_not(None))
        .where(MEMBERS.c.vm.not_in(in_orders))
    )
    return frozenset(vm for vm in connection.scalars(query) if vm is not None)
