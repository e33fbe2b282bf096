"""The guarantee that only one daemon acts on a state directory, and on a cloud."""

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
from merkatd.daemon.safe_files import read_or_create
from merkatd.database import Database, migrations
from merkatd.database.scheduler.lease_store import LEASES, NO_HOLDER, Lease, read_lease
from merkatd.opennebula import Client
from merkatd.opennebula.current_state import server_leads
from merkatd.scheduler.leadership import Leadership, lease_s_of

_PARTS = 3
"""The part of the lease time in which a live holder raises its counter several times."""
_log = Logger()
_MACHINE = Path("/etc/machine-id")


def lock_state_directory(directory: Path) -> Callable[[], None]:
    """Lock the state directory for this daemon; return the function that unlocks it.

    The system also unlocks it when the process ends for any reason. Raise StartError if another
    daemon has the lock.
    """
    lock = (directory / "lock").open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        raise StartError(f"{directory}: another daemon uses this state directory") from None
    return lock.close


def make_leadership(
    reactor: Any, config: Config, database: Database, client: Client
) -> Leadership | None:
    """Return the election of the leader, None for an embedded cloud: only its daemon acts on it."""
    if config.cloud.kind is not CloudKind.OPENNEBULA:
        return None
    return Leadership(
        database.first,
        reactor,
        holder_of(config.state_directory / "holder"),
        lease_s_of(config.period.interval_s),
        partial(server_leads, client),
        # This clock also counts while the machine sleeps, as the lease does.
        partial(time.clock_gettime, time.CLOCK_BOOTTIME),
        migrations.newest(),
    )


Look = Callable[[Database], Coroutine[Any, Any, None]]


def check_of_other_daemons(reactor: Any, config: Config) -> Look | None:
    """Return a check that no other daemon acts while the database's schema is changed.

    The check raises StartError if the holder of the lease raises its counter; a daemon that was
    killed while it held the lease does not. None for a cloud on which no other daemon can act.
    """
    if config.cloud.kind is not CloudKind.OPENNEBULA:
        return None
    wait_s = lease_s_of(config.period.interval_s) / _PARTS

    async def look(database: Database) -> None:
        before = await database.read(_older_lease)
        if before is None or before.holder in {
            NO_HOLDER,
            holder_of(config.state_directory / "holder"),
        }:
            return
        _log.info("Checking whether daemon {holder} still acts", holder=before.holder)
        await deferLater(reactor, wait_s)
        after = await database.read(_older_lease)
        if after is not None and after != before:
            raise StartError(
                f"daemon {after.holder} acts on this database with an older version of Merkat that"
                " can't use the new schema: stop all daemons, then start this one"
            )

    return look


def _older_lease(connection: sa.Connection) -> Lease | None:
    """Return the lease if the schema is older than this version, else None."""
    if migrations.revision_of(connection) in {None, migrations.newest()}:
        return None
    return read_lease(connection) if sa.inspect(connection).has_table(LEASES.name) else None


async def ensure_leading(leaders: Sequence[Leadership]) -> None:
    """Raise LeaseLostError unless every lease certainly is this daemon's."""
    for leader in leaders:
        await leader.certain()


def certainly_leads(leaders: Sequence[Leadership]) -> bool:
    """Return whether every lease certainly is this daemon's now; safe to call on any thread."""
    return all(leader.surely_acting for leader in leaders)


def holder_of(path: Path) -> str:
    """Return the name of the daemon with this state directory, the same after each start.

    A copy of the directory belongs to another daemon, and two daemons of the same name would take
    the lease from each other. So the name depends on the directory and on the machine.
    """
    stored = read_or_create(path, f"{socket.gethostname()[:64]}-{secrets.token_hex(8)}\n")
    machine = _MACHINE.read_text() if _MACHINE.exists() else ""
    where = f"{stored} {machine} {socket.gethostname()} {path.parent.stat().st_ino}"
    return f"{stored[:96]}-{sha256(where.encode()).hexdigest()[:8]}"
