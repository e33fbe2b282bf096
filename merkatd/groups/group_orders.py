"""Users' orders on groups: creation, edit and deletion; the permissions of groups."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import sqlalchemy as sa

from merkatd import ledger
from merkatd.currency.settings import MoneySettings
from merkatd.database.fleets import group_store
from merkatd.database.fleets.group_store import GroupRow
from merkatd.database.fleets.group_vm_store import GROUP_MEMBERS
from merkatd.ledger import LedgerError, NotFoundError

OWN = 0o600
"""The permissions of a new group: use and manage for its owner, as for OpenNebula's resources."""
MAX_PERMISSIONS = 0o777


class GroupRight(IntEnum):
    """A right to act on a group, as a permission bit."""

    USE = 4
    MANAGE = 2
    ADMIN = 1


def permits(group: GroupRow, user: int, groups: frozenset[int], right: GroupRight) -> bool:
    """Return whether a user has a right, as owner, as member of the user group or as other."""
    classes = (group.owner == user, group.user_group in groups, True)
    return any(
        belongs and group.permissions >> shift & right
        for belongs, shift in zip(classes, (6, 3, 0), strict=True)
    )


def octal(permissions: int) -> str:
    """Return permissions in the form that `chmod` takes: 640."""
    return f"{permissions:03o}"


def letters(permissions: int) -> str:
    """Return permissions in the form that OpenNebula's commands show: um-u-----."""
    marks = ("u", "m", "a") * 3
    return "".join(mark if permissions >> (8 - at) & 1 else "-" for at, mark in enumerate(marks))


MOST_VMS = 10_000
"""The most VMs in a group, and in all groups of a user together."""
MOST_LIVING = 1_000
"""The most groups of a user that have not ended."""


class GroupError(LedgerError):
    """An order that is rejected; the message says what is accepted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Creation:
    """A user's order to create a group."""

    token: str
    """The identity of the order: a repeated order with the same token has no effect."""
    owner: int
    user_group: int
    name: str | None
    market: str
    template: str
    spending_rate: float
    nvm: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """A user's order to change a group; values of None are left unchanged."""

    spending_rate: float | None = None
    nvm: int | None = None
    ending: Sequence[int] = ()
    """Ids of the VMs to end instead of the newest."""


def create(
    connection: sa.Connection, given: Creation, money: MoneySettings, at_s: float
) -> GroupRow:
    """Create a group and return it; its VMs start from the next period on. Raise LedgerError."""
    before = group_store.created_by(connection, given.token)
    if before is not None:
        return before
    ledger.open_tenant(connection, given.owner, money, at_s)
    own = _groups_of(connection, given.owner)
    _check_number(own)
    _room_for(given.nvm, own)
    stored = group_store.add(
        connection,
        GroupRow(
            token=given.token,
            name=given.name or "",
            owner=given.owner,
            user_group=given.user_group,
            permissions=OWN,
            market=given.market,
            template=given.template,
            spending_rate=given.spending_rate,
            nvm=given.nvm,
            created_s=at_s,
        ),
    )
    if given.name is None:
        group_store.change(connection, stored.id, name=f"group-{stored.id}")
    return require_group(connection, stored.id)


def _groups_of(connection: sa.Connection, owner: int) -> Sequence[GroupRow]:
    """Return a user's groups, locked: those that another order changed meanwhile are current."""
    return group_store.living(connection, owner, lock=True)


def _check_number(others: Sequence[GroupRow]) -> None:
    if len(others) >= MOST_LIVING:
        raise GroupError(f"a user may have at most {MOST_LIVING} groups (has {len(others)})")


def _room_for(nvm: int, others: Sequence[GroupRow]) -> None:
    there = sum(group.nvm for group in others)
    if nvm + there > MOST_VMS:
        raise GroupError(
            f"a user's groups may have at most {MOST_VMS} VMs in all; the others have {there}"
        )


def require_group(connection: sa.Connection, group: int, *, lock: bool = True) -> GroupRow:
    """Return the group of this id, locked by default. Raise NotFoundError.

    Views must not lock it: they would make the period's review wait, and wait for it.
    """
    find = group_store.locked if lock else group_store.get
    stored = find(connection, group)
    if stored is None or stored.ended_s is not None:
        raise NotFoundError(f"there is no group {group}")
    return stored


def edit(connection: sa.Connection, group: int, new: Edit) -> GroupRow:
    """Change a group's spending rate or number of VMs from the next period on. Raise LedgerError.

    Concurrent edits are made one after another: each starts from the result of the one before.
    """
    stored = _alive(connection, group)
    values: dict[str, float | str] = {}
    if new.spending_rate is not None:
        if new.spending_rate > stored.spending_rate:
            _check_payers(connection, stored)
        values["spending_rate"] = new.spending_rate
    nvm = _number(connection, stored, new)
    if nvm is not None:
        if nvm > stored.nvm:
            others = _groups_of(connection, stored.owner)
            _room_for(nvm, [group for group in others if group.id != stored.id])
        values |= {"nvm": nvm, "why": ""}
    if not values:
        raise GroupError(
            f"nothing to change in group {group}:"
            " expected a spending rate, a number of VMs, or VMs to end"
        )
    group_store.change(connection, group, **values)
    return require_group(connection, group)


def _check_payers(connection: sa.Connection, stored: GroupRow) -> None:
    """Raise GroupError if the group still has VMs of a former owner, who would pay the new rate."""
    payers = {vm.owner for vm in GROUP_MEMBERS.living(connection, stored.id)} - {stored.owner}
    if payers:
        raise GroupError(
            f"group {stored.id} still has VMs of user {min(payers)}, who pays for them:"
            " end these VMs"
            " before you raise the rate"
        )


def _number(connection: sa.Connection, stored: GroupRow, new: Edit) -> int | None:
    """Return the group's new number of VMs, and mark the VMs in `new.ending` to end."""
    named = set(new.ending)
    if not named:
        return new.nvm
    there = {
        vm.vm: vm.key
        for vm in GROUP_MEMBERS.living(connection, stored.id)
        if vm.vm is not None and not vm.leaving
    }
    strangers = named - there.keys()
    if strangers:
        raise GroupError(f"VM {min(strangers)} is not in group {stored.id}")
    if len(named) > stored.nvm:
        # Some of them are surplus already, and end in the next period.
        raise GroupError(
            f"group {stored.id} is set to {stored.nvm} VMs: at most {stored.nvm} can be named to"
            f" end (got {len(named)})"
        )
    nvm = stored.nvm - len(named) if new.nvm is None else new.nvm
    if nvm > stored.nvm - len(named):
        raise GroupError(
            f"ending {len(named)} VMs must leave {stored.nvm - len(named)} of {stored.nvm},"
            f" not {nvm}"
        )
    GROUP_MEMBERS.mark_leaving(connection, [there[vm] for vm in named])
    return nvm


def delete(connection: sa.Connection, group: int) -> GroupRow:
    """Delete a group: its VMs end first, then the group itself. Raise LedgerError."""
    stored = require_group(connection, group)
    if not stored.ending:
        group_store.change(connection, group, ending=True)
    return require_group(connection, group)


def end_of_removed(connection: sa.Connection, owner: int, _at_s: float) -> str | None:
    """Delete all groups of a removed user; return what must still end, None if nothing must."""
    theirs = _groups_of(connection, owner)
    for stored in theirs:
        if not stored.ending:
            group_store.change(
                connection, stored.id, ending=True, why="OpenNebula has removed its user"
            )
    named = ", ".join(str(stored.id) for stored in theirs)
    return f"its groups ({named}) have ended" if theirs else None


def change(connection: sa.Connection, group: int, **values: int | str) -> GroupRow:
    """Change a group's name, owner, user group or permissions. Raise LedgerError.

    The new owner's limits on groups and VMs apply as for a new group.
    """
    stored = _alive(connection, group)
    owner = values.get("owner", stored.owner)
    if owner != stored.owner:
        theirs = _groups_of(connection, int(owner))
        _check_number(theirs)
        _room_for(stored.nvm, theirs)
    group_store.change(connection, group, **values)
    return require_group(connection, group)


def _alive(connection: sa.Connection, group: int) -> GroupRow:
    stored = require_group(connection, group)
    if stored.ending:
        raise GroupError(f"group {group} was deleted: its VMs are being ended")
    return stored
