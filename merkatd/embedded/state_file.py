"""The state of a cloud in SQLite: answered calls survive a `kill -9`."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

from merkatd.base.decoder import from_plain, to_plain
from merkatd.embedded.machines.guest_simulation import SimulatedGuest
from merkatd.embedded.machines.host_failures import FailedDomain
from merkatd.embedded.machines.power_meter import PowerRecord
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

if TYPE_CHECKING:
    from pathlib import Path

    from merkatd.embedded.cloud import EmbeddedCloud

FORMAT = 2
_KINDS: dict[str, type] = {
    "acl": AclRule,
    "cluster": Cluster,
    "datastore": Datastore,
    "domain": FailedDomain,
    "group": UserGroup,
    "guest": SimulatedGuest,
    "host": Host,
    "image": Image,
    "power": PowerRecord,
    "template": VmTemplate,
    "user": User,
    "vm": Vm,
    "vmgroup": VmGroup,
    "vnet": Network,
}


class StateError(Exception):
    """A state file that this version can't read."""


def _opened(path: Path) -> sqlite3.Connection:
    """Return the database with its tables. Raise sqlite3.Error."""
    database = sqlite3.connect(path, isolation_level=None)
    try:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = OFF")
        database.executescript(
            "CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;"
            "CREATE TABLE IF NOT EXISTS objects (kind TEXT, id INTEGER, body TEXT,"
            " PRIMARY KEY (kind, id)) WITHOUT ROWID;"
        )
    except sqlite3.Error:
        database.close()
        raise
    return database


class SqliteStore:
    """A store with one row per object, rewritten on change, and one transaction per call.

    SQLite gives its writes to the operating system and doesn't wait for the disk. The state
    survives a crash of the process at any moment, but not of the machine.
    """

    def __init__(self, path: Path) -> None:
        try:
            self._database = _opened(path)
        except sqlite3.Error as error:
            raise StateError(
                f"{path}: {error}; the state must be a file of `merkatd embedded`, or a new file in"
                " a folder that can be written"
            ) from None
        self._cloud: EmbeddedCloud | None = None
        self._stale: dict[tuple[str, int], None] = {}
        stored = self.fact("format", str(FORMAT))
        if stored != str(FORMAT):
            raise StateError(
                f"{path} has state format {stored}; this version reads format {FORMAT}"
            )

    def fact(self, name: str, default: str) -> str:
        """Return a value of the whole cloud; store the default if the value is missing."""
        row = self._database.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
        if row is not None:
            return str(row[0])
        self._database.execute("INSERT INTO facts VALUES (?, ?)", (name, default))
        return default

    def set_fact(self, name: str, value: str) -> None:
        """Set a value of the whole cloud."""
        self._database.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, value))

    @property
    def empty(self) -> bool:
        """Whether the file contains no cloud yet."""
        return self._database.execute("SELECT 1 FROM objects LIMIT 1").fetchone() is None

    def restore(self, cloud: EmbeddedCloud) -> None:
        """Load the stored objects into a new cloud, follow it, and resume its operations."""
        tables = {table.kind: table for table in cloud.world.tables}
        for kind, body in self._database.execute(
            "SELECT kind, body FROM objects ORDER BY kind, id"
        ):
            record: Any = from_plain(_KINDS[kind], body)
            if kind == "guest":
                cloud.guests.restore(record)
            elif kind == "power":
                cloud.power.rows[record.id] = record
            elif kind == "domain":
                cloud.failures.failed[record.id] = record
            else:
                tables[kind].add(record)
        for table in cloud.world.tables:
            table.next_id = max(table.next_id, int(self.fact(f"next {table.kind}", "0")))
        cloud.requests = int(self.fact("requests", "0"))
        self.follow(cloud)
        cloud.lifecycle.resume_all()
        cloud.failures.resume_all()
        # Overdue events run before the first call: otherwise it would see them half done.
        cloud.world.agenda.catch_up()

    def follow(self, cloud: EmbeddedCloud) -> None:
        """Store every change of a cloud from now on."""
        self._cloud = cloud
        cloud.store = self
        cloud.world.on_change(self._note)

    def commit(self) -> None:
        """Store all changes."""
        cloud = self._cloud
        if cloud is None or not self._stale:
            return
        rows: dict[str, dict[int, Any]] = {table.kind: table.rows for table in cloud.world.tables}
        rows["guest"] = cloud.guests.guests
        rows["power"] = cloud.power.rows
        rows["domain"] = cloud.failures.failed
        run = self._database.execute
        run("BEGIN IMMEDIATE")
        for kind, oid in self._stale:
            record = rows[kind].get(oid)
            if record is None:
                run("DELETE FROM objects WHERE kind = ? AND id = ?", (kind, oid))
            else:
                run(
                    "INSERT OR REPLACE INTO objects VALUES (?, ?, ?)", (kind, oid, to_plain(record))
                )
        facts = [(f"next {table.kind}", table.next_id) for table in cloud.world.tables]
        facts.append(("requests", cloud.requests))
        self._database.executemany("INSERT OR REPLACE INTO facts VALUES (?, ?)", facts)
        run("COMMIT")
        self._stale.clear()

    def close(self) -> None:
        """Stop following the cloud, and close the file."""
        self._cloud = None
        self._database.close()

    def _note(self, kind: str, oid: int) -> None:
        self._stale[kind, oid] = None


def stored_clusters(path: Path) -> list[tuple[Cluster, list[Host]]]:
    """Return the clusters in a state file, each with its hosts; the file stays as it is.

    Raise StateError if the file is of another kind, or can't be read.
    """
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as database:
            stored = database.execute(
                "SELECT kind, body FROM objects WHERE kind IN ('cluster', 'host') ORDER BY id"
            ).fetchall()
        records: list[Any] = [from_plain(_KINDS[kind], body) for kind, body in stored]
    except (sqlite3.Error, ValueError) as error:
        raise StateError(f"{path}: {error}; it must be the state of an embedded cloud") from None
    hosts = [record for record in records if isinstance(record, Host)]
    return [
        (record, [host for host in hosts if host.cluster == record.id])
        for record in records
        if isinstance(record, Cluster)
    ]
