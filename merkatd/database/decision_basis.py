"""What a decision depends on besides the cloud: the strategies' memories, and the seed.

A row of `strategy_memories` is the memory after a market's last decision. It belongs to one version
of one strategy: another strategy or version begins without a memory. The seed never changes, so a
period's decision draws the same random numbers whenever it is made.
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
)
_DELETE = sa.delete(STRATEGY_MEMORIES)
_INSERT = sa.insert(STRATEGY_MEMORIES)
_SEED = sa.select(sa.func.max(DECISION_SEEDS.c.seed))


class MemoryOwner(NamedTuple):
    """A strategy in a market: only this version of it reads its memory."""

    market: str
    strategy: str
    version: int


def memories(
    connection: sa.Connection, owners: Iterable[MemoryOwner]
) -> dict[str, Mapping[str, Any]]:
    """Return the memories of these strategies by market, without those that have none."""
    wanted = set(owners)
    return {
        market: _memory(data)
        for market, strategy, version, data in connection.execute(_ALL)
        if MemoryOwner(market, strategy, version) in wanted
    }


def keep(
    connection: sa.Connection, period: int, after: Mapping[MemoryOwner, Mapping[str, Any]]
) -> None:
    """Store the memories after a period's decision in place of all earlier ones."""
    connection.execute(_DELETE)
    rows = [
        {**owner._asdict(), "period": period, "data": _data(memory)}
        for owner, memory in after.items()
        if memory
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
