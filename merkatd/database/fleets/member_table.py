"""What the tables of the VMs of platforms and of groups share; a VM has a key before an id."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Generic, TypeVar

import sqlalchemy as sa

from merkatd.database.base.schema import chunks


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetMember:
    """A VM of a platform or a group, which exists or is about to be created."""

    key: str
    number: int
    """The VM's sequence number within its platform or group, from 1 on."""
    vm: int | None = None
    """The VM's id, once the daemon has seen the VM."""
    leaving: bool = False
    """Whether the VM is about to be ended."""
    gone_s: float | None = None


@dataclass(frozen=True, slots=True)
class SeenMember:
    """A member whose VM was seen, and whose id can be stored now."""

    key: str
    fleet: int
    """Its platform or group."""
    vm: int
    is_late: bool
    """Whether the daemon gave it up before."""


Member = TypeVar("Member", bound=FleetMember)


class MemberTable(Generic[Member]):
    """A table of members, with the columns `create_key`, `number`, `vm`, `leaving`, `gone_s`."""

    def __init__(self, table: sa.Table[Any], fleet: str, member: type[Member]) -> None:
        """`fleet` is the column of the platform or group."""
        self._table = table
        self._fleet = table.c[fleet]
        self._member = member
        names = [entry.name for entry in fields(member) if entry.name != "key"]
        self._known = sa.select(table.c.vm).where(table.c.vm.is_not(None))
        columns = [table.c.create_key.label("key"), *(table.c[name] for name in names)]
        self._living = (
            sa.select(*columns)
            .where(table.c.gone_s.is_(None))
            .order_by(self._fleet, table.c.number)
        )
        self._living_of = self._living.where(self._fleet == sa.bindparam("its_fleet"))
        self._highest = sa.select(self._fleet, sa.func.max(table.c.number)).group_by(self._fleet)

    def add(self, connection: sa.Connection, members: Iterable[Member]) -> None:
        """Store new members."""
        rows = [asdict(member) for member in members]
        for row in rows:
            row["create_key"] = row.pop("key")
        if rows:
            connection.execute(sa.insert(self._table), rows)

    def newly_seen(
        self,
        connection: sa.Connection,
        waiting: sa.Select[str, float | None, int, int],
        keys: Mapping[tuple[str, int], int],
        owners: Mapping[int, int],
    ) -> list[SeenMember]:
        """Return the members without an id whose VMs have their key and owner.

        `waiting` selects their key, `gone_s`, owner and fleet. `keys` are VMs by key and owner: the
        owner must match because tenants can write any key into their own templates.
        """
        rows = connection.execute(waiting).all()
        if not rows:
            return []
        taken = set(connection.scalars(self._known))
        bound = []
        for key, gone_s, owner, fleet in rows:
            vm = keys.get((key, owner))
            if vm is None or vm in taken or owners.get(vm) != owner:
                continue
            taken.add(vm)
            bound.append(SeenMember(key, fleet, vm, gone_s is not None))
        return bound

    def bind(self, connection: sa.Connection, seen: Iterable[SeenMember]) -> None:
        """Store the ids of members; those that the daemon gave up are marked to be ended."""
        for member in seen:
            late: dict[str, Any] = {"gone_s": None, "leaving": True} if member.is_late else {}
            self.change(connection, [member.key], vm=member.vm, **late)

    def mark_leaving(self, connection: sa.Connection, keys: Iterable[str]) -> None:
        """Mark these members as about to be ended."""
        self.change(connection, keys, leaving=True)

    def mark_gone(self, connection: sa.Connection, keys: Iterable[str], at_s: float) -> None:
        """Mark these members as gone or never created."""
        self.change(connection, keys, leaving=True, gone_s=at_s)

    def living(self, connection: sa.Connection, fleet: int | None = None) -> tuple[Member, ...]:
        """Return the members that are not gone, of one fleet or of all, in order of numbers."""
        if fleet is None:
            rows = connection.execute(self._living)
        else:
            rows = connection.execute(self._living_of, {"its_fleet": fleet})
        return tuple(self._member(**row._asdict()) for row in rows)

    def gone_since(self, connection: sa.Connection, since_s: float) -> frozenset[int]:
        """Return the fleets with members whose VMs were found to be gone then or later."""
        query = sa.select(self._fleet).where(self._table.c.gone_s >= since_s)
        return frozenset(connection.scalars(query.where(self._table.c.vm.is_not(None)).distinct()))

    def highest_numbers(self, connection: sa.Connection) -> dict[int, int]:
        """Return the highest number of a member, by fleet."""
        return {row[0]: row[1] for row in connection.execute(self._highest)}

    def change(self, connection: sa.Connection, keys: Iterable[str], **values: Any) -> None:
        """Set columns of the members with these keys."""
        for some in chunks(sorted(keys)):
            query = sa.update(self._table).where(self._table.c.create_key.in_(some))
            connection.execute(query.values(**values))
