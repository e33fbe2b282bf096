"""The ids of members' VMs are stored once, and only if key and owner match the member."""

import pytest
import sqlalchemy as sa

from merkatd.database.fleets import group_store
from merkatd.database.fleets.group_store import GroupRow
from merkatd.database.fleets.group_vm_store import GROUP_MEMBERS, GroupMember, bind_group_vms

OURS, THEIRS = 2, 3
GROUP = GroupRow(
    token=str(OURS),
    name="g",
    owner=OURS,
    user_group=1,
    permissions=0o600,
    market="groups",
    template="",
    spending_rate=1.0,
    nvm=0,
    created_s=0.0,
)


@pytest.fixture
def fleet(connection: sa.Connection) -> int:
    """Return a group with one living and one removed member."""
    group = group_store.add(connection, GROUP).id
    for number, key in enumerate("ab", start=1):
        GROUP_MEMBERS.add(
            connection, [GroupMember(key=key, vm_group=group, owner=OURS, number=number)]
        )
    GROUP_MEMBERS.mark_gone(connection, ["b"], 5.0)
    return group


def ids(connection: sa.Connection, fleet: int) -> list[tuple[str, int | None, bool]]:
    """Return key, VM id and `leaving` of each living member."""
    return [
        (member.key, member.vm, member.leaving)
        for member in GROUP_MEMBERS.living(connection, fleet)
    ]


def test_another_users_vm_with_the_same_key_is_not_a_member(
    connection: sa.Connection, fleet: int
) -> None:
    """Tenants can write any key into their own templates, so the owner must match too."""
    bind_group_vms(connection, {("a", THEIRS): 7, ("a", OURS): 7}, {7: THEIRS})
    assert ids(connection, fleet) == [("a", None, False)]
    bind_group_vms(connection, {("a", OURS): 8}, {8: OURS})
    assert ids(connection, fleet) == [("a", 8, False)]


def test_a_vm_that_appears_after_its_member_was_removed_is_to_end(
    connection: sa.Connection, fleet: int
) -> None:
    """The daemon had already abandoned the creation."""
    bind_group_vms(connection, {("b", OURS): 9}, {9: OURS})
    assert ids(connection, fleet) == [("a", None, False), ("b", 9, True)]


def test_a_vm_belongs_to_one_member(connection: sa.Connection, fleet: int) -> None:
    """A VM that its owner gives several keys binds to one member only."""
    bind_group_vms(connection, {("a", OURS): 7, ("b", OURS): 7}, {7: OURS})
    bind_group_vms(connection, {("b", OURS): 7}, {7: OURS})
    assert ids(connection, fleet) == [("a", 7, False)]
