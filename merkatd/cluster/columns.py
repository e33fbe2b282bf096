"""How a column is declared: what its values mean, so that readers and writers need no list.

A table is a frozen dataclass whose fields are columns. Each field says its form once,
here; the JSON form, the compact form and the checks all follow from it.
"""

from dataclasses import MISSING, Field, dataclass, field, fields
from enum import IntEnum
from typing import Any, ClassVar

import numpy as np

from merkatd.cluster.arrays import frozen


@dataclass(frozen=True, slots=True)
class Form:
    """What the values of a column are.

    `what` is one of: whole, number, flag, text, choice, vector (a number per resource),
    reference (a row of the table named by `target`), members (any rows of it), pairs (two
    whole numbers per name) and levels (a row of whole numbers). A column with a default may
    be left out by whoever writes a snapshot by hand.
    """

    what: str
    default: Any = MISSING
    choices: type[IntEnum] | None = None
    target: str = ""

    @property
    def needed(self) -> bool:
        """Whether every row must give a value."""
        return self.default is MISSING


def whole(default: Any = MISSING) -> Any:
    """A whole number; None as default means that null is allowed and stored as -1."""
    return field(metadata={"form": Form("whole", default)})


def number(default: Any = MISSING) -> Any:
    """A number; None as default means that null is allowed and stored as NaN."""
    return field(metadata={"form": Form("number", default)})


def flag(default: Any = MISSING) -> Any:
    """True or false."""
    return field(metadata={"form": Form("flag", default)})


def text(default: Any = MISSING) -> Any:
    """Words, kept as a tuple of strings."""
    return field(metadata={"form": Form("text", default)})


def choice(choices: type[IntEnum], default: Any = MISSING) -> Any:
    """One of a few named values."""
    return field(metadata={"form": Form("choice", default, choices)})


def vector(default: Any = MISSING) -> Any:
    """A number per resource; None as default means that null is allowed and stored as NaN."""
    return field(metadata={"form": Form("vector", default)})


def reference(target: str, default: Any = None) -> Any:
    """A row of another table, -1 where there is none."""
    return field(metadata={"form": Form("reference", default, None, target)})


def members(target: str) -> Any:
    """Any rows of another table, as a truth value for each."""
    return field(metadata={"form": Form("members", MISSING, None, target)})


def pairs() -> Any:
    """Two whole numbers per name: a domain and the redundant one, -1 where there is none."""
    return field(metadata={"form": Form("pairs", None)})


def levels() -> Any:
    """A fixed number of whole numbers a row."""
    return field(metadata={"form": Form("levels", None)})


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Rows kept as columns: every field has one entry a row."""

    key: ClassVar[str] = "name"
    """The column that names a row in the JSON form."""

    def __len__(self) -> int:
        return len(getattr(self, self.key))

    def __post_init__(self) -> None:
        for name in forms(type(self)):
            value = getattr(self, name)
            if isinstance(value, np.ndarray):
                object.__setattr__(self, name, frozen(value))


def forms(table: type[Table]) -> dict[str, Form]:
    """The form of each column of a table, by name and in order."""
    return {entry.name: entry.metadata["form"] for entry in _columns(table)}


def _columns(table: type[Table]) -> tuple[Field[Any], ...]:
    return tuple(entry for entry in fields(table) if "form" in entry.metadata)
