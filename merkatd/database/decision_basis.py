"""What a decision depends on besides the cloud: the strategies' memories, and the seed.

A row of `strategy_memories` is the memory after a market's last decision. It belongs to one version
of one strategy: another strategy or version begins without a memory. The seed never changes, so a
period's decision draws the same random numbers whenever it is made.

# Note [Memory of modes that watch]

In modes dry and shadow no decision is carried out. What their strategies remember is stored beside
the memory of the modes that act, in rows of their own (`watches`), and never read by those. A
strategy that begins to watch starts from the memory of the last decision that acted. Example: mode
on stores memory 8 of market `gold`. Two periods in mode dry read 8 and 9, and store 9 and 10. Mode
on then reads 8, and the rows of mode dry end with its first decision.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import sqlalchemy as sa
from sqlalchemy import Column, Named, TypedColumns

from merkatd.database.base.schema import LONG_BLOB, pack, table, unpack

_PLAIN = ""
"""The name of the part of a stored memory that contains all values except arrays, as JSON."""


class StrategyMemoryColumns(TypedColumns):
    """The columns of `strategy_memories`."""

    market: Named[str] = Column(sa.String(64), primary_key=True)
    watches: Named[bool] = Column(sa.Boolean(), primary_key=True)
    strategy: Named[str] = Column(sa.String(64))
    version: Named[int] = Column(sa.Integer())
    period: Named[int] = Column(sa.Integer())
    data: Named[bytes] = Column(LONG_BLOB)


class DecisionSeedColumns(TypedColumns):
    """The columns of `decision_seeds`, a table with one row."""

    seed: Named[int] = Column(sa.BigInteger(), primary_key=True, autoincrement=False)


STRATEGY_MEMORIES = table("strategy_memories", StrategyMemoryColumns)
DECISION_SEEDS = table("decision_seeds", DecisionSeedColumns)

_ALL = sa.select(
    STRATEGY_MEMORIES.c.market,
    STRATEGY_MEMORIES.c.strategy,
    STRATEGY_MEMORIES.c.version,
    STRATEGY_MEMORIES.c.data,
).order_by(STRATEGY_MEMORIES.c.watches)
_DELETE = sa.delete(STRATEGY_MEMORIES)
_INSERT = sa.insert(STRATEGY_MEMORIES)
_SEED = sa.select(sa.func.max(DECISION_SEEDS.c.seed))


class MemoryOwner(NamedTuple):
    """A strategy in a market: only this version of it reads its memory."""

    market: str
    strategy: str
    version: int


def memories(
    connection: sa.Connection, owners: Iterable[MemoryOwner], *, watches: bool = False
) -> dict[str, Mapping[str, Any]]:
    """Return the memories of these strategies by market, without those that have none.

    See Note [Memory of modes that watch].
    """
    wanted = set(owners)
    rows = _ALL if watches else _ALL.where(~STRATEGY_MEMORIES.c.watches)
    # A row of a mode that watches comes behind that of one that acts, and replaces it.
    return {
        market: _memory(data)
        for market, strategy, version, data in connection.execute(rows)
        if MemoryOwner(market, strategy, version) in wanted
    }


def keep(
    connection: sa.Connection,
    period: int,
    after: Mapping[MemoryOwner, Mapping[str, Any]],
    *,
    watches: bool = False,
) -> None:
    """Store the memories after a period's decision in place of all earlier ones.

    Where a mode watches, the memories of modes that act stay.
    """
    connection.execute(_DELETE.where(STRATEGY_MEMORIES.c.watches) if watches else _DELETE)
    rows = [
        {**owner._asdict(), "watches": watches, "period": period, "data": _data(memory)}
        for owner, memory in after.items()
        if memory or watches  # An empty one stands before that of the mode that acts.
    ]
    if rows:
        connection.execute(_INSERT, rows)


def seed(connection: sa.Connection) -> int:
    """Return the cloud's seed, 0 in a database without one."""
    stored: int | None = connection.scalar(_SEED)
    return stored or 0


def _data(memory: Mapping[str, Any]) -> bytes:
    arrays = {name: value for name, value in memory.items() if isinstance(value, np.ndarray)}
    plain = {name: value for name, value in memory.items() if name not in arrays}
    text = json.dumps(plain, separators=(",", ":"), allow_nan=False).encode()
    return pack({_PLAIN: np.frombuffer(text, dtype=np.uint8), **arrays}, level=0)


def _memory(data: bytes) -> dict[str, Any]:
    arrays = unpack(data)
    plain: dict[str, Any] = json.loads(arrays.pop(_PLAIN).tobytes())
    return {**plain, **arrays}
