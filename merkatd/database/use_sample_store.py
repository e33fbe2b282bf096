"""The table of the newest samples of use, so that a restarted daemon knows the recent use.

A row is one observation of all VMs: see `RecentUse` in `merkatd/scheduler/observation/observed.py`.
"""

from collections.abc import Mapping

import sqlalchemy as sa
from sqlalchemy import Column, Named, TypedColumns

from merkatd.database.base.schema import LONG_BLOB, Arrays, pack, table, unpack


class UseSampleColumns(TypedColumns):
    """The columns of `use_samples`."""

    at_s: Named[float] = Column(sa.Double(), primary_key=True, autoincrement=False)
    data: Named[bytes] = Column(LONG_BLOB)


USE_SAMPLES = table("use_samples", UseSampleColumns)

_TIMES = sa.select(USE_SAMPLES.c.at_s)
_ALL = sa.select(USE_SAMPLES.c.at_s, USE_SAMPLES.c.data).order_by(USE_SAMPLES.c.at_s)


def keep_samples(connection: sa.Connection, samples: Mapping[float, Arrays]) -> None:
    """Store these samples, by their times, in place of all others; known ones stay as they are."""
    stored = set(connection.scalars(_TIMES))
    gone = [{"gone": at_s} for at_s in stored - samples.keys()]
    if gone:
        delete = sa.delete(USE_SAMPLES).where(USE_SAMPLES.c.at_s == sa.bindparam("gone"))
        connection.execute(delete, gone)
    new = [
        {"at_s": at_s, "data": pack(arrays, level=1)}
        for at_s, arrays in samples.items()
        if at_s not in stored
    ]
    if new:
        connection.execute(sa.insert(USE_SAMPLES), new)


def stored_samples(connection: sa.Connection) -> dict[float, Arrays]:
    """Return the stored samples by their times, oldest first."""
    return {at_s: unpack(data) for at_s, data in connection.execute(_ALL)}
