"""Columns and tables: array types, column declarations, lookup by id, the constants for none.

A table is a frozen dataclass whose fields are columns. Each field declares its type once, here. The
JSON form, the compact form and the checks all follow from it.
"""

from collections.abc import Collection, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from enum import IntEnum
from functools import cache, reduce
from operator import or_
from typing import Any, ClassVar, Final, TypeVar

import numpy as np
import numpy.typing as npt

Scalar = TypeVar("Scalar", bound=np.generic)
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
AnyInts = npt.NDArray[np.integer[Any]]
Bools = npt.NDArray[np.bool_]


def read_only(array: npt.NDArray[Scalar]) -> npt.NDArray[Scalar]:
    """Return the same values in a read-only array."""
    if not array.flags.writeable:
        return array
    view = array.view()
    view.flags.writeable = False
    return view


@dataclass(frozen=True, slots=True)
class ColumnType:
    """The type of a column's values.

    `what` is one of: whole, number, flag, text, choice, vector (a number per resource),
    reference (a row of the table named by `target`), members (any rows of it), scores (a
    number for each row of it), pairs (two whole numbers per name) and levels (a row of whole
    numbers). A hand-written snapshot may omit a column with a default. A table may omit a `later`
    column: files from before the column lack it.
    """

    what: str
    default: Any = MISSING
    choices: type[IntEnum] | None = None
    target: str = ""
    later: bool = False
    from_0: bool = False
    """Whether each number in a file must be at least 0; those of a vector always must."""

    @property
    def needed(self) -> bool:
        """Return whether every row must have a value."""
        return self.default is MISSING

    def column(self, rows: int) -> Any:
        """Return a column with the default in each of `rows` rows."""
        if self.what == "scores" or (self.what == "vector" and self.later):
            return np.zeros((rows, 0))
        missing = NO_ROW if self.what == "reference" else np.nan
        is_known = self.what != "reference" and self.default is not None
        return np.full(rows, self.default if is_known else missing)


def whole(default: Any = MISSING) -> Any:
    """Declare a column of whole numbers; with default None, null is allowed and stored as -1."""
    return field(metadata={"form": ColumnType("whole", default)})


def number(default: Any = MISSING, *, later: bool = False, from_0: bool = False) -> Any:
    """Declare a column of numbers; with default None, null is allowed and stored as NaN."""
    return _column(ColumnType("number", default, later=later, from_0=from_0))


def flag(default: Any = MISSING, *, later: bool = False) -> Any:
    """Declare a column of true or false."""
    return _column(ColumnType("flag", default, later=later))


def text(default: Any = MISSING) -> Any:
    """Declare a column of texts, stored as a tuple of strings."""
    return field(metadata={"form": ColumnType("text", default)})


def choice(choices: type[IntEnum], default: Any = MISSING) -> Any:
    """Declare a column of named values."""
    return field(metadata={"form": ColumnType("choice", default, choices)})


def vector(default: Any = MISSING, *, later: bool = False) -> Any:
    """Declare a number per resource; with default None, null is allowed and stored as NaN.

    A `later` vector that a table omits has no columns at all.
    """
    return _column(ColumnType("vector", default, later=later))


def reference(target: str, default: Any = None, *, later: bool = False) -> Any:
    """Declare a column of rows of another table, -1 for none."""
    return _column(ColumnType("reference", default, None, target, later))


def members(target: str) -> Any:
    """Declare a set of rows of another table, stored as true or false for each row."""
    return field(metadata={"form": ColumnType("members", MISSING, None, target)})


def scores(target: str) -> Any:
    """Declare a number for each row of another table; no columns at all without any scores."""
    return _column(ColumnType("scores", None, None, target, later=True))


def pairs() -> Any:
    """Declare two whole numbers per name: a domain and the redundant domain, -1 for none."""
    return field(metadata={"form": ColumnType("pairs", None)})


def levels() -> Any:
    """Declare a fixed number of whole numbers per row."""
    return field(metadata={"form": ColumnType("levels", None)})


def _column(form: ColumnType) -> Any:
    if form.later:
        return field(default=None, metadata={"form": form})
    return field(metadata={"form": form})


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Rows stored as columns: every field has an entry per row."""

    key: ClassVar[str] = "name"
    """The column that identifies a row in the JSON form."""

    def __len__(self) -> int:
        return len(getattr(self, self.key))

    def __post_init__(self) -> None:
        for name, form in column_types(type(self)).items():
            value = getattr(self, name)
            if value is None and form.later:
                value = form.column(len(self))
            if isinstance(value, np.ndarray):
                object.__setattr__(self, name, read_only(value))


def column_types(table: type[Table]) -> Mapping[str, ColumnType]:
    """Return the type of each column of a table, by name and in order."""
    kind: Any = table  # mypy takes classes for unhashable
    return _column_types(kind)


@cache
def _column_types(table: Any) -> Mapping[str, ColumnType]:
    return {entry.name: entry.metadata["form"] for entry in _fields(table)}


def no_rows(table: type[Table]) -> Any:
    """Return an empty table of this type."""
    columns: dict[str, Any] = {}
    for name, form in column_types(table).items():
        if form.what == "text":
            columns[name] = ()
        elif form.what in {"number", "vector"}:
            columns[name] = np.zeros(0)
        elif form.what == "scores":
            columns[name] = np.zeros((0, 0))
        elif form.what == "flag":
            columns[name] = np.zeros(0, dtype=bool)
        elif form.what == "members":
            columns[name] = np.zeros((0, 0), dtype=bool)
        else:
            columns[name] = np.zeros(0, dtype=np.int64)
    return table(**columns)


def _fields(table: type[Table]) -> tuple[Field[Any], ...]:
    return tuple(entry for entry in fields(table) if "form" in entry.metadata)


NO_ROW: Final = -1
"""A reference to no row of another table."""
NO_HOST: Final = NO_ROW
NO_MARKET: Final = NO_ROW
NO_OWNER: Final = -1
"""The id of no user and of no account."""


def row_of(ids: AnyInts, wanted: int) -> int | None:
    """Return the row of an id, None if it is missing; `ids` ascend."""
    row = int(np.searchsorted(ids, wanted))
    return row if row < len(ids) and ids[row] == wanted else None


_FEW = 8
"""The number of members up to which comparing with each is faster than `np.isin`."""


def is_one_of(values: AnyInts, members: Collection[int] | AnyInts) -> Bools:
    """Return which values are among the members. A period asks this some hundred times."""
    if len(members) > _FEW:
        known = members if isinstance(members, np.ndarray) else np.array(list(members))
        among: Bools = np.isin(values, known)
        return among
    each = [values == int(member) for member in members]  # numpy asks enumerations slowly
    return reduce(or_, each) if each else np.zeros(values.shape, dtype=bool)


def rows_of(ids: Ints, wanted: Ints) -> Ints:
    """Return the row of each wanted id, NO_ROW for missing ones; `ids` ascend."""
    if not len(ids):
        return np.full(len(wanted), NO_ROW)
    rows = np.minimum(ids.searchsorted(wanted), len(ids) - 1)
    return np.where(ids[rows] == wanted, rows, NO_ROW)


def values_of(ids: Ints, values: Any, wanted: Ints, missing: float) -> Any:
    """Return the value of each wanted id, `missing` for missing ones; `ids` ascend."""
    if not len(ids):
        return np.full(len(wanted), missing)
    rows = rows_of(ids, wanted)
    return np.where(rows != NO_ROW, values[rows], missing)
