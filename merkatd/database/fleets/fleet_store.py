"""Fleets: the VMs of virtual platforms, each known by its key before it exists."""

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
    """One VM of a platform, there or about to be."""

    key: str
    platform: int
    cluster: str
    number: int
    """It is the how-manieth of its platform, from 1 on."""
    vm: int | None = None
    """Its id, once it was seen."""
    leaving: bool = False
    """Whether it is to be ended."""
    gone_s: float | None = None


class Refusals(NamedTuple):
    """Of the creation of one VM."""

    times: int = 0
    why: str = ""
    """The newest answer,"""
    period: int = 0
    """and the period in which that came."""


def add_platform_members(connection: sa.Connection, members: Iterable[PlatformMember]) -> None:
    """New ones."""
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


def bind_vms(
    connection: sa.Connection, keys: Mapping[str, int], owners: Mapping[int, int]
) -> tuple[int, ...]:
    """Learn the ids of VMs that were seen with a key: of those whose owner is the platform's.

    Anybody may write any key into a template of his own. One that comes after it was given up
    is to be ended. Return those VMs whose platform's controller fails now: it was not there to
    bid for them.
    """
    query = (
        sa.select(MEMBERS.c.create_key, MEMBERS.c.gone_s, PLATFORMS.c.owner, MEMBERS.c.platform)
        .join(PLATFORMS, PLATFORMS.c.id == MEMBERS.c.platform)
        .where(MEMBERS.c.vm.is_(None))
    )
    taken = set(connection.scalars(sa.select(MEMBERS.c.vm).where(MEMBERS.c.vm.is_not(None))))
    bound: dict[int, list[int]] = {}
    for key, gone_s, owner, platform in connection.execute(query).all():
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
    """These are to be ended."""
    _change_members(connection, keys, leaving=True)


def mark_failed(connection: sa.Connection, keys: Iterable[str], at_s: float) -> None:
    """These have failed: they are to be ended, and others made in their place."""
    _change_members(connection, keys, leaving=True, failed_s=at_s)


def failures(connection: sa.Connection, since_s: float) -> dict[tuple[int, str], list[float]]:
    """By platform and cluster: when VMs had failed since then, oldest first."""
    query = sa.select(MEMBERS.c.platform, MEMBERS.c.cluster, MEMBERS.c.failed_s)
    found: dict[tuple[int, str], list[float]] = {}
    rows = connection.execute(
        query.where(MEMBERS.c.failed_s > since_s).order_by(MEMBERS.c.failed_s)
    )
    for platform, cluster, at_s in rows:
        found.setdefault((platform, cluster), []).append(at_s or 0.0)
    return found


def mark_gone(connection: sa.Connection, keys: Iterable[str], at_s: float) -> None:
    """These are gone, or were never made."""
    _change_members(connection, keys, leaving=True, gone_s=at_s)


def living_members(
    connection: sa.Connection, platform: int | None = None
) -> tuple[PlatformMember, ...]:
    """All that are not gone, of one platform or of all, in the order in which they were added."""
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
    """By platform: the highest number it ever gave."""
    query = sa.select(MEMBERS.c.platform, sa.func.max(MEMBERS.c.number))
    rows = connection.execute(query.group_by(MEMBERS.c.platform))
    return {platform: number for platform, number in rows}  # noqa: C416 - rows are no pairs to mypy


def refusals(connection: sa.Connection, keys: Iterable[str]) -> dict[str, Refusals]:
    """By key: how often the creation of its VM was refused, and the newest answer."""
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
    """By VM id: the account that pays for it, of all VMs of platforms."""
    query = (
        sa.select(MEMBERS.c.vm, PLATFORMS.c.account)
        .join(PLATFORMS, PLATFORMS.c.id == MEMBERS.c.platform)
        .where(MEMBERS.c.gone_s.is_(None), MEMBERS.c.vm.is_not(None))
    )
    return {
        vm: account
        for vm, account in connection.execute(query)
        if vm is not None and account is not None
    }


def _change_members(connection: sa.Connection, keys: Iterable[str], **values: Any) -> None:
    for some in chunks(sorted(keys)):
        query = sa.update(MEMBERS).where(MEMBERS.c.create_key.in_(some))
        connection.execute(query.values(**values))
