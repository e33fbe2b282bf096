"""Whoever acts, acts alone: on a state directory, and on a cloud that others may act on too."""

import fcntl
import secrets
import socket
import time
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from twisted.internet.task import deferLater
from twisted.logger import Logger

from merkatd.config.configuration import Config
from merkatd.config.process_sections import CloudKind
from merkatd.daemon.errors import StartError
from merkatd.daemon.safe_files import once_written
from merkatd.database import Database, migrations
from merkatd.database.scheduler.lease_store import LEASES, NOBODY, Lease, read_lease
from merkatd.opennebula import Client
from merkatd.opennebula.current_state import server_leads
from merkatd.scheduler.leadership import Leading, lease_s_of

_PARTS = 3
"""A holder raises its counter several times in such a part of the time of a lease."""
_log = Logger()
_MACHINE = Path("/etc/machine-id")


def lock_state_directory(directory: Path) -> Callable[[], None]:
    """Take the state directory for this daemon alone; what is returned gives it back.

    The system gives it back too, however the process ends.
    """
    lock = (directory / "lock").open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        raise StartError(f"{directory}: another daemon has this state directory") from None
    return lock.close


def leading_of(reactor: Any, config: Config, database: Database, client: Client) -> Leading | None:
    """What other daemons may act on the same cloud; nobody else can on one of our own."""
    if config.cloud.kind is not CloudKind.OPENNEBULA:
        return None
    return Leading(
        database.first,
        reactor,
        holder_of(config.state_directory / "holder"),
        lease_s_of(config.period.interval_s),
        partial(server_leads, client),
        # Goes on while the machine sleeps, as the lease does.
        partial(time.clock_gettime, time.CLOCK_BOOTTIME),
        migrations.newest(),
    )


Look = Callable[[Database], Coroutine[Any, Any, None]]


def older_ended(reactor: Any, config: Config) -> Look | None:
    """What makes sure that no other daemon acts on a schema that is about to be changed.

    It raises StartError where one does; a daemon that was killed and left the lease behind does
    not raise its counter. None where no other daemon can act on the cloud.
    """
    if config.cloud.kind is not CloudKind.OPENNEBULA:
        return None
    wait_s = lease_s_of(config.period.interval_s) / _PARTS

    async def look(database: Database) -> None:
        before = await database.read(_in_the_way)
        if before is None or before.holder in {
            NOBODY,
            holder_of(config.state_directory / "holder"),
        }:
            return
        _log.info("Waiting to see whether daemon {holder} still acts", holder=before.holder)
        await deferLater(reactor, wait_s)
        after = await database.read(_in_the_way)
        if after is not None and after != before:
            raise StartError(
                f"daemon {after.holder} acts on this database, with an older version of Merkat that"
                " could not go on with the new schema: stop all daemons, then start this one"
            )

    return look


def _in_the_way(connection: sa.Connection) -> Lease | None:
    """The lease, where the schema is an older one."""
    if migrations.revision_of(connection) in {None, migrations.newest()}:
        return None
    return read_lease(connection) if sa.inspect(connection).has_table(LEASES.name) else None


async def ensure_leading(leaders: Sequence[Leading]) -> None:
    """Return only where every lease is surely ours. Raises LeaseLostError."""
    for one in leaders:
        await one.certain()


def surely(leaders: Sequence[Leading]) -> bool:
    """Whether every lease is surely ours at this moment; may be asked on any thread."""
    return all(one.surely_acting for one in leaders)


def holder_of(path: Path) -> str:
    """Return the name of the daemon with this state directory, the same after each start.

    A copy of the directory is another daemon's: two of one name would take the lease from each
    other. So the name also says which directory it is, and on which machine.
    """
    said = once_written(path, f"{socket.gethostname()[:64]}-{secrets.token_hex(8)}\n")
    machine = _MACHINE.read_text() if _MACHINE.exists() else ""
    where = f"{said} {machine} {socket.gethostname()} {path.parent.stat().st_ino}"
    return f"{said[:96]}-{sha256(where.encode()).hexdigest()[:8]}"
