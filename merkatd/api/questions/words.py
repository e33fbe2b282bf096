"""The words of a question: read once, and refused with what would be right."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from merkatd.cluster import Ints, Snapshot

Arguments = Mapping[str, Any]

LARGEST_WHOLE = 2**31 - 1
LONGEST_NAME = 128
"""OpenNebula gives nothing a longer name."""


class QuestionError(Exception):
    """A question that can't be answered; the message says what would be right."""


class NotNowError(QuestionError):
    """A question that may be answered if it is asked again."""


def whole(arguments: Arguments, name: str) -> int | None:
    """A whole number from 0 on; None where it is not given."""
    value = arguments.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= LARGEST_WHOLE:
        raise QuestionError(
            f"{name}: {shown(value)}: a whole number from 0 to {LARGEST_WHOLE} is right"
        )
    return value


def number(arguments: Arguments, name: str, most: float) -> float | None:
    """A number from 0 to `most`; None where it is not given."""
    value = arguments.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise QuestionError(f"{name}: {shown(value)}: it must be a number from 0 to {most:g}")
    if not 0 <= value <= most:  # false for NaN too
        raise QuestionError(f"{name}: {shown(value)}: it must be a number from 0 to {most:g}")
    return float(value)


def text(arguments: Arguments, name: str) -> str | None:
    """A short text; None where it is not given."""
    value = arguments.get(name)
    if value is None:
        return None
    if not isinstance(value, str) or not 1 <= len(value) <= LONGEST_NAME:
        raise QuestionError(f"{name}: {shown(value)}: 1 to {LONGEST_NAME} characters are right")
    return value


def one_of(arguments: Arguments, name: str, known: Sequence[str]) -> str | None:
    """One of these words; None where it is not given."""
    value = text(arguments, name)
    if value is not None and value not in known:
        raise QuestionError(f"{name}: {shown(value)}: one of {', '.join(known)} is right")
    return value


def vm_row(snapshot: Snapshot, arguments: Arguments) -> int:
    """The row of the VM that `vm` names."""
    return _row("VM", "vm", snapshot.vms.id, snapshot.vms.name, arguments)


def host_row(ids: Ints, names: Sequence[str], arguments: Arguments) -> int:
    """The row of the host that `host` names."""
    return _row("host", "host", ids, names, arguments)


def _row(what: str, argument: str, ids: Ints, names: Sequence[str], arguments: Arguments) -> int:
    """By id where it is a number that one has, else by name."""
    wanted = text(arguments, argument)
    if wanted is None:
        raise QuestionError(f"{argument}: the id or the name of a {what} is right")
    number_ = as_id(wanted)
    found = [row for row, id_ in enumerate(ids.tolist()) if id_ == number_]
    found = found or [row for row, name in enumerate(names) if name == wanted]
    if not found:
        raise QuestionError(f"no {what} is called {shown(wanted)}, by id or by name")
    if len(found) > 1:
        some = ", ".join(str(ids[row]) for row in found[:5])
        more = ", ..." if len(found) > 5 else ""
        raise QuestionError(
            f"{len(found)} {what}s are called {shown(wanted)}: say which by its id ({some}{more})"
        )
    return found[0]


def as_id(wanted: str) -> int | None:
    """The number that a text is; None where it is none that an id can be."""
    if not (wanted.isascii() and wanted.isdigit() and len(wanted) <= 10):
        return None
    return int(wanted)


def shown(value: object) -> str:
    """A value for a message: one line, not too long."""
    said = repr(value)
    return said if len(said) <= 60 else f"{said[:57]}..."


def finite(value: float) -> float | None:
    """JSON has neither infinity nor NaN: null stands for them."""
    return float(value) if math.isfinite(value) else None
