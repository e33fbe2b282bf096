"""Requirements on hosts, and the reasons if no host satisfies them."""

from collections.abc import Iterator, Sequence

import numpy as np

from merkatd.cluster import Bools
from merkatd.opennebula.constraints.candidates import Constraint
from merkatd.opennebula.requirements import (
    CURRENT_VMS,
    OF_USERS,
    Chain,
    Compare,
    Expression,
    FactTable,
    Limits,
    answered,
    hosts_where,
    ranked,
)

_LONGEST = 120
_MOST_VALUES = 3


def requirement_constraint(
    name: str, text: str, table: FactTable, what: str, limits: Limits = OF_USERS
) -> Constraint:
    """Return which rows satisfy a requirement; `name` is its attribute, `what` a row is."""
    answer = answered(text, limits, table)
    expression = answer.expression
    if expression is None:
        wrong = f"{name} can't be understood: {answer.wrong}"
        return Constraint(answer.holds, lambda _left: wrong)
    return Constraint(answer.holds, lambda left: _unmet(name, text, expression, table, left, what))


def rank_error(name: str, text: str, table: FactTable) -> str:
    """Return why a rank is ignored, empty if it is not."""
    wrong = ranked(text, table).wrong
    return f"{name} can't be understood and is ignored: {wrong}" if wrong else ""


def _unmet(
    name: str, text: str, expression: Expression, table: FactTable, left: Bools, what: str
) -> str:
    """Return why no row is left, with the first part of a conjunction that no row satisfies."""
    parts = list(_all_of(expression))
    for part in parts:
        if not (hosts_where(part, table) & left).any():
            problem = f"no {what} satisfies {name} {shortened(str(part))}"
            if not isinstance(part, Compare) or part.attribute == CURRENT_VMS:
                return problem
            return f"{problem}: {_said(part, table, left, what)}"
    counts = ", ".join(
        f"{np.count_nonzero(hosts_where(part, table) & left)} satisfy {shortened(str(part), 40)}"
        for part in parts[:4]
    )
    return f"no {what} satisfies all of {name} {shortened(text)}: {counts}"


def _all_of(expression: Expression) -> Iterator[Expression]:
    """Yield the parts of a conjunction."""
    if isinstance(expression, Chain) and all(joint == "&" for joint, _ in expression.rest):
        for part in (expression.first, *(part for _, part in expression.rest)):
            yield from _all_of(part)
    else:
        yield expression


def _said(part: Compare, table: FactTable, left: Bools, what: str) -> str:
    """Return how many rows lack the attribute, and the values of the others."""
    rows = np.flatnonzero(left).tolist()
    having = [table.rows[row].get(part.attribute, ()) for row in rows]
    missing = sum(not values for values in having)
    words = []
    if missing:
        words.append(f"{hosts_have(missing, what)} no attribute {part.attribute}")
    values = sorted({text for texts in having for text in texts})
    if values:
        shown = ", ".join(repr(shortened(text, 30)) for text in values[:_MOST_VALUES])
        more = f" and {len(values) - _MOST_VALUES} more" if len(values) > _MOST_VALUES else ""
        words.append(f"existing values: {shown}{more}")
    return "; ".join(words)


def hosts_have(count: int, what: str) -> str:
    """Return the beginning of a sentence on a number: `1 host has`, `12 hosts have`."""
    return f"1 {what} has" if count == 1 else f"{count} {what}s have"


def shortened(text: str, most: int = _LONGEST) -> str:
    """Return the text, cut to `most` characters."""
    return text if len(text) <= most else text[: most - 3] + "..."


def listed(names: Sequence[str]) -> str:
    """Return the first few names, and the number of the others."""
    shown = ", ".join(names[:_MOST_VALUES])
    return f"{shown} and {len(names) - _MOST_VALUES} more" if len(names) > _MOST_VALUES else shown


def size(mib: float) -> str:
    """Return an amount of space in readable form."""
    return f"{mib / 1024:,.1f} GiB" if abs(mib) >= 1024 else f"{mib:,.0f} MiB"
