"""The world of an embedded cloud: its objects, their ids, and the listeners to changes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar

from merkatd.embedded.model.event_clock import Agenda
from merkatd.embedded.model.records import (
    AclRule,
    Cluster,
    Datastore,
    Host,
    Image,
    Network,
    User,
    UserGroup,
    Vm,
    VmGroup,
    VmTemplate,
)
from merkatd.embedded.model.settings import EmbeddedSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy as np

    from merkatd.base.clock import Clock

Record: TypeAlias = (
    Vm
    | Host
    | User
    | UserGroup
    | Cluster
    | Datastore
    | Image
    | VmGroup
    | VmTemplate
    | Network
    | AclRule
)

T = TypeVar("T", bound=Record)


@dataclass(slots=True)
class ObjectTable(Generic[T]):
    """Objects of one kind by id; an id is never used twice."""

    kind: str
    rows: dict[int, T] = field(default_factory=dict)
    next_id: int = 0

    def __iter__(self) -> Iterator[T]:
        return iter(self.rows.values())

    def __len__(self) -> int:
        return len(self.rows)

    def get(self, oid: int) -> T | None:
        """Return the object with this id; None if it is missing."""
        return self.rows.get(oid)

    def descending(self) -> list[T]:
        """Return all objects, newest first, as pools list them."""
        return [self.rows[oid] for oid in sorted(self.rows, reverse=True)]

    def named(self, name: str) -> T | None:
        """Return the first object with this name."""
        return next((row for row in self if getattr(row, "name", None) == name), None)

    def add(self, row: T) -> T:
        """Add a new object."""
        self.rows[row.id] = row
        self.next_id = max(self.next_id, row.id + 1)
        return row


class World:
    """The whole state of an embedded cloud. The calls and the lifecycle change it."""

    def __init__(
        self, clock: Clock, rng: np.random.Generator, settings: EmbeddedSettings | None = None
    ) -> None:
        self.settings = settings or EmbeddedSettings()
        self.clock = clock
        self.rng = rng
        self.agenda = Agenda(clock, self.settings.epoch_s, self.settings.events_per_turn)
        self.vms: ObjectTable[Vm] = ObjectTable("vm")
        self.hosts: ObjectTable[Host] = ObjectTable("host")
        self.users: ObjectTable[User] = ObjectTable("user")
        self.groups: ObjectTable[UserGroup] = ObjectTable("group")
        self.clusters: ObjectTable[Cluster] = ObjectTable("cluster")
        self.datastores: ObjectTable[Datastore] = ObjectTable("datastore")
        self.images: ObjectTable[Image] = ObjectTable("image")
        self.vm_groups: ObjectTable[VmGroup] = ObjectTable("vmgroup")
        self.templates: ObjectTable[VmTemplate] = ObjectTable("template")
        self.networks: ObjectTable[Network] = ObjectTable("vnet")
        self.rules: ObjectTable[AclRule] = ObjectTable("acl")
        self._listeners: list[Callable[[str, int], None]] = []

    @property
    def tables(self) -> tuple[ObjectTable[Record], ...]:
        """Every table; each refers only to tables before it."""
        return (
            self.groups,
            self.users,
            self.clusters,
            self.datastores,
            self.images,
            self.networks,
            self.hosts,
            self.vm_groups,
            self.templates,
            self.vms,
            self.rules,
        )  # type: ignore[return-value]  # a table of one kind counts as a table of records here

    def now(self) -> float:
        """Return the present in seconds, including the epoch."""
        return self.agenda.now()

    def stamp(self) -> int:
        """Return the present in whole seconds, as XML shows it."""
        return int(self.now())

    def on_change(self, listener: Callable[[str, int], None]) -> None:
        """Call a listener with the kind and id of every object that changes from now on."""
        self._listeners.append(listener)

    def changed(self, kind: str, oid: int) -> None:
        """Announce that an object has changed: the cache drops its XML, the store saves it."""
        for listener in self._listeners:
            listener(kind, oid)

    def uuid(self) -> str:
        """Return a UUID drawn from the world's random generator."""
        raw = self.rng.bytes(16).hex()
        variant = "89ab"[int(raw[16], 16) % 4]
        return f"{raw[:8]}-{raw[8:12]}-4{raw[13:16]}-{variant}{raw[17:20]}-{raw[20:]}"

    def user_name(self, uid: int) -> str:
        """Return the name of a user; empty if the user was removed."""
        user = self.users.get(uid)
        return user.name if user else ""

    def group_name(self, gid: int) -> str:
        """Return the name of a group; empty if the group was removed."""
        group = self.groups.get(gid)
        return group.name if group else ""
