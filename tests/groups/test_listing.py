"""Lists of groups read only rows that the caller may see, one read per user at a time."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import product
from typing import Any

import pytest
import sqlalchemy as sa
from twisted.internet.defer import Deferred, ensureDeferred

from merkatd.api.xmlrpc.method_table import SELF
from merkatd.api.xmlrpc.methods.group_methods import group_info, group_list
from merkatd.api.xmlrpc.methods.market_methods import MOST_PERIODS, price_history
from merkatd.api.xmlrpc.methods.platform_methods import platform_info, platform_list
from merkatd.database.database import transaction
from merkatd.database.fleets import group_store, group_vm_store
from merkatd.database.fleets.group_store import GroupRow
from merkatd.database.fleets.group_vm_store import GROUP_MEMBERS, GroupMember
from merkatd.groups.group_orders import GroupRight, permits
from merkatd.service.base.callers import Caller
from merkatd.service.base.identity import Identity
from merkatd.service.base.turns import FairTurns
from tests.groups.site import Site, groups_at

MANY = 3_000


class House:
    """The services that the calls use."""

    def __init__(self, there: Any) -> None:
        self.require_groups = self.require_platforms = lambda: there
        self.prices = there
        self.long_reads = FairTurns(2, per_key=1)


def caller(user: int, *of: int) -> Caller:
    """Return a user in these groups of users."""
    return Caller(Identity(user, "ann", frozenset(of), of[0]), "ann:x")


@contextmanager
def count_instructions(engine: sa.Engine) -> Iterator[list[int]]:
    """Count SQLite's work, in hundreds of its instructions."""
    counted: list[int] = []
    raw: Any = engine.raw_connection().driver_connection
    raw.set_progress_handler(lambda: counted.append(1), 100)
    try:
        yield counted
    finally:
        raw.set_progress_handler(None, 100)


def write(site: Site, what: Any, rows: Any = None) -> None:
    """Change stored rows."""

    def work(connection: sa.Connection) -> None:
        connection.execute(what, rows)

    transaction(site.engine, work)


def test_a_list_does_not_read_other_users_vms(site: Site) -> None:
    """It takes no longer when other users have thousands of VMs."""
    mine = site.create(60.0, 2)
    theirs = site.create(60.0, 2, site.eve)
    site.scheduler.latest = site.periods(4)
    house: Any = House(groups_at(site))
    with count_instructions(site.engine) as before:
        (first,) = site.wait(group_list(house, caller(site.ann, 1), SELF))
    many = [
        GroupMember(key=f"k{number}", vm_group=theirs, owner=site.eve, number=number + 10)
        for number in range(MANY)
    ]
    transaction(site.engine, lambda c: GROUP_MEMBERS.add(c, many))
    with count_instructions(site.engine) as after:
        (row,) = site.wait(group_list(house, caller(site.ann, 1), SELF))
    assert row == first
    assert len(after) <= len(before) + 1
    assert (row["id"], row["running"], row["vm_ids"]) == (mine, 2, site.vms(mine))
    details = site.wait(group_info(house, caller(site.ann, 1), mine))
    assert {name: details[name] for name in row} == row
    assert row["cpu"] == sum(vm["cpu"] for vm in details["vms"]) > 0


def test_a_list_does_not_read_vms_that_are_not_created_yet(site: Site) -> None:
    """A group that waits for thousands of VMs is listed as fast as any other."""
    mine = site.create(60.0, 2)
    site.scheduler.latest = site.periods(4)
    many = [
        GroupMember(key=f"k{number}", vm_group=mine, owner=site.ann, number=number + 10)
        for number in range(MANY)
    ]
    transaction(site.engine, lambda c: GROUP_MEMBERS.add(c, many))
    vms_by_group = site.read(lambda c: group_vm_store.ids(c, [mine]))
    assert vms_by_group == {mine: site.vms(mine)}
    house: Any = House(groups_at(site))
    (row,) = site.wait(group_list(house, caller(site.ann, 1), SELF))
    assert (row["running"], row["vm_ids"]) == (2, vms_by_group[mine])


def test_the_database_applies_permissions(site: Site) -> None:
    """All 512 permissions apply to owners, members and others, for one owner and for all."""
    users, of = (site.ann, site.bob), (1, 7)
    made = [
        {
            "token": f"t{number}",
            "name": "g",
            "owner": owner,
            "user_group": group,
            "permissions": bits,
            "market": "groups",
            "template": "",
            "spending_rate": 1.0,
            "nvm": 1,
            "ending": False,
            "why": "",
            "created_s": 0.0,
        }
        for number, (owner, group, bits) in enumerate(product(users, of, range(0o1000)))
    ]
    write(site, sa.insert(group_store.VM_GROUPS), made)
    every = site.read(group_store.living)
    try:
        for right, owner in product(GroupRight, (None, site.ann)):
            wanted = [
                row
                for row in every
                if owner in {None, row.owner} and permits(row, site.ann, frozenset({1}), right)
            ]
            rows: tuple[GroupRow, ...] = site.read(
                lambda c, right=right, owner=owner: group_store.permitting(
                    c, site.ann, {1}, right, owner
                )
            )
            assert list(rows) == wanted
        assert {row.owner for row in site.read(lambda c: group_store.living(c, site.bob))} == {
            site.bob
        }
    finally:
        write(site, sa.delete(group_store.VM_GROUPS))


CALLS: dict[str, Callable[[Any, Caller], Any]] = {
    "prices": lambda house, who: price_history(house, who, MOST_PERIODS, ""),
    "groups": lambda house, who: group_list(house, who, SELF),
    "group": lambda house, who: group_info(house, who, 1),
    "platforms": lambda house, who: platform_list(house, who, SELF),
    "platform": lambda house, who: platform_info(house, who, 1),
}


class Slow:
    """Queries whose reads never end."""

    def __init__(self) -> None:
        self.begun = 0
        self._waiting: list[Deferred[Any]] = []

    async def require_used(self, *_arguments: Any) -> None:
        """Allow everything."""

    require_managed = require_used

    async def listed(self, *_arguments: Any) -> Any:
        """Start a read that never ends."""
        self.begun += 1
        self._waiting.append(Deferred())
        return await self._waiting[-1]

    groups = group = platforms = platform = history = listed


@pytest.mark.parametrize("name", CALLS)
def test_long_reads_of_a_user_take_turns(name: str) -> None:
    """Of a user's sixteen concurrent requests one reads the database; other users continue."""
    there = Slow()
    house: Any = House(there)
    asked = [ensureDeferred(CALLS[name](house, caller(2, 1))) for _ in range(16)]
    assert there.begun == 1
    asked.append(ensureDeferred(CALLS["groups"](house, caller(3, 1))))
    assert there.begun == 2
    for question in reversed(asked):
        question.addErrback(lambda _: None)
        question.cancel()
