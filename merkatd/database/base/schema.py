"""Common definitions of all tables, and the storage of arrays in compressed blobs."""

import json
import math
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import sqlalchemy as sa
from sqlalchemy.dialects import mysql

_MARK = b"MKA1"
_LENGTH_BYTES = 4
_KINDS = "biuf"
"""Kinds of numpy types that can be stored: flags and numbers, never objects."""
Arrays = Mapping[str, npt.NDArray[Any]]


def pack(arrays: Arrays, level: int = zlib.Z_DEFAULT_COMPRESSION) -> bytes:
    """Return the arrays with their names, types and shapes, compressed; level 0 is fastest."""
    columns = []
    parts = []
    for name, array in arrays.items():
        if array.dtype.kind not in _KINDS:
            raise TypeError(f"array {name!r} must contain flags or numbers (got {array.dtype})")
        stored = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
        columns.append([name, stored.dtype.str, list(array.shape)])
        parts.append(stored.tobytes())
    header = json.dumps(columns, separators=(",", ":")).encode()
    length = len(header).to_bytes(_LENGTH_BYTES, "little")
    return _MARK + zlib.compress(b"".join([length, header, *parts]), level)


def unpack(blob: bytes) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays of a blob. Raise ValueError if it has another format or is damaged."""
    return dict(_unpacked(blob))


# A charge and the decision after it read the same blob several times. The other is the memory of a
# strategy, which is read between them.
@lru_cache(maxsize=2)
def _unpacked(blob: bytes) -> Arrays:
    if blob[: len(_MARK)] != _MARK:
        raise ValueError(f"a blob of arrays must start with {_MARK!r} (got {blob[:4]!r})")
    try:
        data = zlib.decompress(blob[len(_MARK) :])
    except zlib.error as error:
        raise ValueError(f"a blob of arrays is damaged: {error}") from error
    length = int.from_bytes(data[:_LENGTH_BYTES], "little")
    offset = _LENGTH_BYTES + length
    arrays = {}
    for name, dtype, shape in json.loads(data[_LENGTH_BYTES:offset]):
        count = math.prod(shape)
        flat = np.frombuffer(data, dtype=dtype, count=count, offset=offset)
        arrays[name] = flat.reshape(shape)
        offset += flat.nbytes
    return arrays


Columns = TypeVar("Columns", bound=sa.TypedColumns)
Item = TypeVar("Item")
METADATA = sa.MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "uq": "uq_%(table_name)s_%(column_0_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
    }
)
SERIAL = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
"""A number that the server assigns. SQLite assigns numbers only in columns of type INTEGER."""
LONG_TEXT = sa.Text().with_variant(mysql.MEDIUMTEXT(), "mysql", "mariadb")
LONG_BLOB = sa.LargeBinary().with_variant(mysql.MEDIUMBLOB(), "mysql", "mariadb")
"""Up to 16 MiB; MySQL's TEXT and BLOB are limited to 64 KiB."""
STORAGE: dict[str, Any] = {
    "mysql_engine": "InnoDB",
    "mysql_charset": "utf8mb4",
    "mysql_collate": "utf8mb4_bin",
    "mariadb_engine": "InnoDB",
    "mariadb_charset": "utf8mb4",
    "mariadb_collate": "utf8mb4_bin",
}
"""Table options. The collation compares text byte by byte, as SQLite does by default."""
CHUNK = 500
"""Maximum number of values in an IN list, far below the limits of every server."""


def table(
    name: str, columns: type[Columns], *more: sa.schema.SchemaItem, **options: Any
) -> sa.Table[Columns]:
    """Return a table of the common metadata, with the same storage on every server."""
    return sa.Table(name, METADATA, columns, *more, **STORAGE, **options)


def chunks(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    """Yield the items in pieces that fit into an IN list."""
    for first in range(0, len(items), CHUNK):
        yield items[first : first + CHUNK]


Query = sa.Select[*tuple[Any, ...]]
_FEW = 8
"""The number of values up to which a list has a statement of its own."""


class InList:
    """A query with a list of values, such as `WHERE id IN (1, 2)`.

    SQLAlchemy inserts a list into a statement's text at each execution, which takes as long as the
    rest of a short query. So each length up to `_FEW` has its own statement.
    """

    def __init__(self, query: Callable[[Any], Query]) -> None:
        """`query` returns the query for a list of parameters."""
        self._of_any_length = query(sa.bindparam("values", expanding=True))
        self._query = query
        self._of_length: dict[int, Query] = {}

    def rows(
        self, connection: sa.Connection, values: Iterable[Any], **further: Any
    ) -> Iterator[sa.Row[*tuple[Any, ...]]]:
        """Yield the rows for these values; `further` are the query's other parameters."""
        for some in chunks(list(values)):
            if len(some) > _FEW:
                yield from connection.execute(self._of_any_length, {**further, "values": some})
                continue
            names = [f"value_{number}" for number in range(len(some))]
            if len(some) not in self._of_length:
                self._of_length[len(some)] = self._query([sa.bindparam(name) for name in names])
            given = {**further, **dict(zip(names, some, strict=True))}
            yield from connection.execute(self._of_length[len(some)], given)
