"""The lease: of several daemons on one database, only the leader acts.

# Note [The lease]
No clocks are compared. The leader raises a counter (`beat`) again and again. A standby daemon
measures with its own clock how long the counter stands still, and takes the lease after long
enough. Each taking raises the token. Every transaction of the leader starts with `renew_lease`,
which locks the row and fails if the token has changed. So a leader that was suspended, and
meanwhile replaced, can write nothing more.

Example: daemon A takes the lease (token 1, beat 0) and renews it (beat 1). A is suspended; B sees
token 1, beat 1 stand still and takes the lease (token 2, beat 0). When A continues, `renew_lease`
with token 1 raises LeaseLostError and A's transaction is rolled back. If B had been late and A had
renewed first (beat 2), B's `take_lease` would have returned None.
"""

from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy import Column, Named, TypedColumns

from merkatd.database.base.schema import table
from merkatd.database.base.transactions import LostRaceError

_PERIODS = "periods"
"""The name of the only lease."""

NO_HOLDER = ""
"""The holder of a lease that was given back."""


class LeaseColumns(TypedColumns):
    """The columns of `leases`."""

    name: Named[str] = Column(sa.String(32), primary_key=True)
    holder: Named[str] = Column(sa.String(128))
    token: Named[int] = Column(sa.BigInteger())
    beat: Named[int] = Column(sa.BigInteger())


LEASES = table("leases", LeaseColumns)


_READ = sa.select(LEASES.c.holder, LEASES.c.token, LEASES.c.beat).where(LEASES.c.name == _PERIODS)
_RENEW = (
    sa.update(LEASES)
    .where(
        LEASES.c.name == _PERIODS,
        LEASES.c.token == sa.bindparam("held"),
        LEASES.c.holder != NO_HOLDER,
    )
    .values(beat=LEASES.c.beat + 1)
)
"""Built once: the leader runs it in each of its transactions."""


class LeaseLostError(Exception):
    """Another daemon has the lease; the transaction is rolled back."""


@dataclass(frozen=True, slots=True)
class Lease:
    """The state of the lease."""

    holder: str
    """The daemon that leads; empty if the last leader gave the lease back."""
    token: int
    beat: int
    """The counter that the leader raises: as long as it changes, the leader is alive."""


def read_lease(connection: sa.Connection) -> Lease | None:
    """Return the state of the lease, None if no daemon ever had it."""
    row = connection.execute(_READ).one_or_none()
    return None if row is None else Lease(row.holder, row.token, row.beat)


def take_lease(connection: sa.Connection, holder: str, seen: Lease | None) -> int | None:
    """Take the lease and return its new token, or None if its state is not `seen` any more.

    The token is new even for the same holder, so that transactions of an earlier process of that
    daemon fail.
    """
    if seen is None:
        if read_lease(connection) is not None:
            return None
        row = {"name": _PERIODS, "holder": holder, "token": 1, "beat": 0}
        try:
            connection.execute(sa.insert(LEASES), row)
        except sa.exc.IntegrityError as error:
            raise LostRaceError("another daemon took the lease first") from error
        return 1
    token = seen.token + 1
    moved = connection.execute(
        sa.update(LEASES)
        .where(LEASES.c.name == _PERIODS, LEASES.c.token == seen.token, LEASES.c.beat == seen.beat)
        .values(holder=holder, token=token, beat=0)
    )
    return token if moved.rowcount == 1 else None


def renew_lease(connection: sa.Connection, token: int) -> None:
    """Raise the counter and lock the lease until the transaction ends.

    Raise LeaseLostError if another daemon has the lease.
    """
    moved = connection.execute(_RENEW, {"held": token})
    if moved.rowcount != 1:
        raise LeaseLostError("another daemon has the lease on this database")


def give_back(connection: sa.Connection, token: int) -> None:
    """Give the lease back, so that a standby daemon can take it at once; ignore a lost lease."""
    connection.execute(
        sa.update(LEASES)
        .where(LEASES.c.name == _PERIODS, LEASES.c.token == token)
        .values(holder=NO_HOLDER, beat=LEASES.c.beat + 1)
    )
