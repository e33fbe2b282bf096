"""The table of the VMs of virtual platforms; a VM has a key before it has an id."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy import Column, Named, TypedColumns

from merkatd.database.base.schema import chunks, table
from merkatd.database.fleets.platform_store import PLATFORMS, is_in_trouble
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
class PlatformMember:
    """A VM of a platform, which exists or is about to be created."""

    key: str
    platform: int
    cluster: str
    number: int
    """The VM's sequence number within its platform, from 1 on."""
    vm: int | None = None
    """The VM's id, once the daemon has seen the VM."""
    leaving: bool = False
    """Whether the VM is about to be ended."""
    gone_s: float | None = None


class Refusals(NamedTuple):
    """Refusals of the creation of a VM."""

    times: int = 0
    why: str = ""
    """The newest answer."""
    period: int = 0
    """The period of the newest answer."""


def add_platform_members(connection: sa.Connection, members: Iterable[PlatformMember]) -> None:
    """Store new VMs of platforms."""
    rows = [
        {
            "create_key": one.key,
            "platform": one.platform,
            "cluster": one.cluster,
            "number": one.number,
            "vm": one.vm,
            "leaving": one.leaving,
            "gone_s": one.gone_s,
        }
        for one in members
    ]
    if rows:
        connection.execute(sa.insert(MEMBERS), rows)


_UNBOUND = (
    sa.select(MEMBERS.c.create_key, MEMBERS.c.gone_s, PLATFORMS.c.owner, MEMBERS.c.platform)
    .join(PLATFORMS, PLATFORMS.c.id == MEMBERS.c.platform)
    .where(MEMBERS.c.vm.is_(None))
)
_BOUND_VMS = sa.select(MEMBERS.c.vm).where(MEMBERS.c.vm.is_not(None))
_PAYING_ACCOUNTS = (
    sa.select(MEMBERS.c.vm, PLATFORMS.c.account)
    .join(PLATFORMS, PLATFORMS.c.id == MEMBERS.c.platform)
    .where(MEMBERS.c.gone_s.is_(None), MEMBERS.c.vm.is_not(None))
)


def bind_vms(
    connection: sa.Connection, keys: Mapping[str, int], owners: Mapping[int, int]
) -> tuple[int, ...]:
    """Store the ids of the VMs that have a platform's key and its owner.

    The owner must match because tenants can write any key into their own templates. A VM that
    appears after the daemon gave it up is marked to be ended. Return the VMs of platforms whose
    controller fails now: it could not bid for them.
    """
    taken = set(connection.scalars(_BOUND_VMS))
    bound: dict[int, list[int]] = {}
    for key, gone_s, owner, platform in connection.execute(_UNBOUND).all():
        vm = keys.get(key)
        if vm is None or vm in taken or owners.get(vm) != owner:
            continue
        taken.add(vm)
        values: dict[str, Any] = {"vm": vm}
        if gone_s is not None:
            values |= {"gone_s": None, "leaving": True}
        _change_members(connection, [key], **values)
        bound.setdefault(platform, []).append(vm)
    reports = sa.select(PLATFORMS.c.id, PLATFORMS.c.report).where(PLATFORMS.c.id.in_(bound))
    return tuple(
        vm
        for platform, report in (connection.execute(reports).all() if bound else ())
        if is_in_trouble(report)
        for vm in bound[platform]
    )


def mark_leaving(connection: sa.Connection, keys: Iterable[str]) -> None:
    """Mark these VMs as about to be ended."""
    _change_members(connection, keys, leaving=True)


def mark_failed(connection: sa.Connection, keys: Iterable[str], at_s: float) -> None:
    """Mark these VMs as failed: they are about to be ended and replaced."""
    _change_members(connection, keys, leaving=True, failed_s=at_s)


def failures(connection: sa.Connection, since_s: float) -> dict[tuple[int, str], list[float]]:
    """Return the times of VM failures since then, by platform and cluster, oldest first."""
    query = sa.select(MEMBERS.c.platform, MEMBERS.c.cluster, MEMBERS.c.failed_s)
    found: dict[tuple[int, str], list[float]] = {}
    rows = connection.execute(
        query.where(MEMBERS.c.failed_s > since_s).order_by(MEMBERS.c.failed_s)
    )
    for platform, cluster, at_s in rows:
        found.setdefault((platform, cluster), []).append(at_s or 0.0)
    return found


def mark_gone(connection: sa.Connection, keys: Iterable[str], at_s: float) -> None:
    """Mark these VMs as gone or never created."""
    _change_members(connection, keys, leaving=True, gone_s=at_s)


def living_members(
    connection: sa.Connection, platform: int | None = None
) -> tuple[PlatformMember, ...]:
    """Return the VMs that are not gone, of one platform or of all, in order of their numbers."""
    query = sa.select(MEMBERS).where(MEMBERS.c.gone_s.is_(None))
    if platform is not None:
        query = query.where(MEMBERS.c.platform == platform)
    query = query.order_by(MEMBERS.c.platform, MEMBERS.c.number)
    return tuple(
        PlatformMember(
            key=row.create_key,
            platform=row.platform,
            cluster=row.cluster,
            number=row.number,
            vm=row.vm,
            leaving=row.leaving,
            gone_s=row.gone_s,
        )
        for row in connection.execute(query)
    )


def highest_numbers(connection: sa.Connection) -> dict[int, int]:
    """Return the highest VM number of each platform."""
    query = sa.select(MEMBERS.c.platform, sa.func.max(MEMBERS.c.number))
    rows = connection.execute(query.group_by(MEMBERS.c.platform))
    return {platform: number for platform, number in rows}  # noqa: C416 - rows are no pairs to mypy


def refusals(connection: sa.Connection, keys: Iterable[str]) -> dict[str, Refusals]:
    """Return the refusals of the creation of VMs, by key."""
    found: dict[str, Refusals] = {}
    for some in chunks(sorted(keys)):
        query = sa.select(STEPS.c.create_key, STEPS.c.reply, STEPS.c.period)
        query = query.order_by(STEPS.c.period)
        query = query.where(STEPS.c.create_key.in_(some), STEPS.c.state == StepState.REFUSED)
        for key, reply, period in connection.execute(query):
            if key is not None:
                times = found.get(key, Refusals()).times + 1
                found[key] = Refusals(times, reply or "", period)
    return found


def applications(connection: sa.Connection) -> dict[int, int]:
    """Return the account that pays for each VM of a platform, by VM id."""
    return {
        vm: account
        for vm, account in connection.execute(_PAYING_ACCOUNTS)
        if vm is not None and account is not None
    }


def _change_members(connection: sa.Connection, keys: Iterable[str], **values: Any) -> None:
    for some in chunks(sorted(keys)):
        query = sa.update(MEMBERS).where(MEMBERS.c.create_key.in_(some))
        connection.execute(query.values(**values))
