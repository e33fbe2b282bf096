"""The lease: of several daemons on one database one acts, and one that lost it can't go on.

No two clocks are compared. The holder raises a counter again and again; whoever waits for the
lease watches the counter by its own clock, and takes the lease once it has stood still for
long enough. Each taking raises the token. Whatever a period writes goes through `hold`, in the
same transaction: it locks the row and fails where the token has moved on, so that a daemon
that slept through its successor's beginning writes nothing more.
"""

from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy import Column, Named, TypedColumns

from merkatd.database.base.schema import table
from merkatd.database.base.transactions import LostRaceError

_PERIODS = "periods"
"""What the only lease is for."""

NOBODY = ""


class LeaseColumns(TypedColumns):
    """The columns of `leases`."""

    name: Named[str] = Column(sa.String(32), primary_key=True)
    holder: Named[str] = Column(sa.String(128))
    token: Named[int] = Column(sa.BigInteger())
    beat: Named[int] = Column(sa.BigInteger())


LEASES = table("leases", LeaseColumns)


class LeaseLostError(Exception):
    """Another daemon has the lease now; nothing of this transaction was kept."""


@dataclass(frozen=True, slots=True)
class Lease:
    """The lease as it stands."""

    holder: str
    """Who acts; empty where the last one gave it back."""
    token: int
    beat: int
    """Raised by the holder: as long as it moves the holder lives."""


def read_lease(connection: sa.Connection) -> Lease | None:
    """The lease as it stands; None where there was never a holder."""
    query = sa.select(LEASES.c.holder, LEASES.c.token, LEASES.c.beat)
    row = connection.execute(query.where(LEASES.c.name == _PERIODS)).one_or_none()
    return None if row is None else Lease(row.holder, row.token, row.beat)


def take_lease(connection: sa.Connection, holder: str, seen: Lease | None) -> int | None:
    """The token of the new holder; None where the lease is not any more as it was seen.

    Taken again by the same holder it has a new token: what an earlier process of that holder
    has left under way can write nothing more.
    """
    if seen is None:
        if read_lease(connection) is not None:
            return None
        row = {"name": _PERIODS, "holder": holder, "token": 1, "beat": 0}
        try:
            connection.execute(sa.insert(LEASES), row)
        except sa.exc.IntegrityError as error:
            raise LostRaceError("somebody else was the first to take the lease") from error
        return 1
    token = seen.token + 1
    moved = connection.execute(
        sa.update(LEASES)
        .where(LEASES.c.name == _PERIODS, LEASES.c.token == seen.token, LEASES.c.beat == seen.beat)
        .values(holder=holder, token=token, beat=0)
    )
    return token if moved.rowcount == 1 else None


def renew_lease(connection: sa.Connection, token: int) -> None:
    """Raise the counter, and keep others out until the transaction ends. Raises LeaseLostError."""
    moved = connection.execute(
        sa.update(LEASES)
        .where(LEASES.c.name == _PERIODS, LEASES.c.token == token, LEASES.c.holder != NOBODY)
        .values(beat=LEASES.c.beat + 1)
    )
    if moved.rowcount != 1:
        raise LeaseLostError("another daemon has the lease on this database")


def give_back(connection: sa.Connection, token: int) -> None:
    """Let the next one take it at once; nothing where it is another's already."""
    connection.execute(
        sa.update(LEASES)
        .where(LEASES.c.name == _PERIODS, LEASES.c.token == token)
        .values(holder=NOBODY, beat=LEASES.c.beat + 1)
    )
