"""Array types, how a column is declared, the row of an id, and the one constant for no host.

A table is a frozen dataclass whose fields are columns. Each field says its form once,
here; the JSON form, the compact form and the checks all follow from it.
"""

from dataclasses import MISSING, Field, dataclass, field, fields
from enum import IntEnum
from typing import Any, ClassVar, TypeVar

import numpy as np
import numpy.typing as npt

Scalar = TypeVar("Scalar", bound=np.generic)
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


def read_only(array: npt.NDArray[Scalar]) -> npt.NDArray[Scalar]:
    """The same values, in an array that refuses to be changed."""
    if not array.flags.writeable:
        return array
    view = array.view()
    view.flags.writeable = False
    return view


@dataclass(frozen=True, slots=True)
class ColumnType:
    """What the values of a column are.

    `what` is one of: whole, number, flag, text, choice, vector (a number per resource),
    reference (a row of the table named by `target`), members (any rows of it), scores (a
    number for each row of it), pairs (two whole numbers per name) and levels (a row of whole
    numbers). A column with a default may be left out by whoever writes a snapshot by hand, and
    one that came `later` by whoever makes a table: files written before it have none.
    """

    what: str
    default: Any = MISSING
    choices: type[IntEnum] | None = None
    target: str = ""
    later: bool = False

    @property
    def needed(self) -> bool:
        """Whether every row must give a value."""
        return self.default is MISSING

    def column(self, rows: int) -> Any:
        """A column of so many rows of which nothing is known but the default."""
        if self.what == "scores" or (self.what == "vector" and self.later):
            return np.zeros((rows, 0))
        return np.full(rows, -1 if self.what == "reference" else self.default)


def whole(default: Any = MISSING) -> Any:
    """A whole number; None as default means that null is allowed and stored as -1."""
    return field(metadata={"form": ColumnType("whole", default)})


def number(default: Any = MISSING, *, later: bool = False) -> Any:
    """A number; None as default means that null is allowed and stored as NaN."""
    return _column(ColumnType("number", default, later=later))


def flag(default: Any = MISSING, *, later: bool = False) -> Any:
    """True or false."""
    return _column(ColumnType("flag", default, later=later))


def text(default: Any = MISSING) -> Any:
    """Words, kept as a tuple of strings."""
    return field(metadata={"form": ColumnType("text", default)})


def choice(choices: type[IntEnum], default: Any = MISSING) -> Any:
    """One of a few named values."""
    return field(metadata={"form": ColumnType("choice", default, choices)})


def vector(default: Any = MISSING, *, later: bool = False) -> Any:
    """A number per resource; None as default means that null is allowed and stored as NaN.

    One that came later has no columns at all where a table is made without it.
    """
    return _column(ColumnType("vector", default, later=later))


def reference(target: str, default: Any = None, *, later: bool = False) -> Any:
    """A row of another table, -1 where there is none."""
    return _column(ColumnType("reference", default, None, target, later))


def members(target: str) -> Any:
    """Any rows of another table, as a truth value for each."""
    return field(metadata={"form": ColumnType("members", MISSING, None, target)})


def scores(target: str) -> Any:
    """A number for each row of another table; no columns at all where nobody scores anything."""
    return _column(ColumnType("scores", None, None, target, later=True))


def pairs() -> Any:
    """Two whole numbers per name: a domain and the redundant one, -1 where there is none."""
    return field(metadata={"form": ColumnType("pairs", None)})


def levels() -> Any:
    """A fixed number of whole numbers a row."""
    return field(metadata={"form": ColumnType("levels", None)})


def _column(form: ColumnType) -> Any:
    if form.later:
        return field(default=None, metadata={"form": form})
    return field(metadata={"form": form})


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Rows kept as columns: every field has one entry a row."""

    key: ClassVar[str] = "name"
    """The column that names a row in the JSON form."""

    def __len__(self) -> int:
        return len(getattr(self, self.key))

    def __post_init__(self) -> None:
        for name, form in column_types(type(self)).items():
            value = getattr(self, name)
            if value is None and form.later:
                value = form.column(len(self))
            if isinstance(value, np.ndarray):
                object.__setattr__(self, name, read_only(value))


def column_types(table: type[Table]) -> dict[str, ColumnType]:
    """The form of each column of a table, by name and in order."""
    return {entry.name: entry.metadata["form"] for entry in _fields(table)}


def _fields(table: type[Table]) -> tuple[Field[Any], ...]:
    return tuple(entry for entry in fields(table) if "form" in entry.metadata)


def _row(ids: Ints, wanted: int) -> int:
    row = int(np.searchsorted(ids, wanted))
    if row == len(ids) or ids[row] != wanted:
        raise KeyError(wanted)
    return row


NOWHERE = -1
