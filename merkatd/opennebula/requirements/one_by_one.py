"""One expression on one host: the plain reading that the columns must agree with."""

import operator
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

import numpy as np
import numpy.typing as npt

from merkatd.cluster import Ints
from merkatd.opennebula.requirements.facts import CURRENT_VMS, Values
from merkatd.opennebula.requirements.tokens import LEAST, MOST
from merkatd.opennebula.requirements.tree import (
    Attribute,
    Chain,
    Compare,
    Expression,
    Minus,
    Not,
    Number,
    Rank,
    Relation,
    Value,
)
from merkatd.opennebula.requirements.values import decimal, glob, whole

_NOBODY = -1

COMBINED: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
}


def holds(expression: Expression, values: Values, vms: AbstractSet[int] = frozenset()) -> bool:
    """Whether a host with these values and VMs satisfies the expression."""
    if isinstance(expression, Compare):
        return _compare(expression, values, vms)
    if isinstance(expression, Not):
        return not holds(expression.of, values, vms)
    if isinstance(expression, Chain):
        result = holds(expression.first, values, vms)
        for joint, part in expression.rest:
            if result is (joint == "&"):
                result = holds(part, values, vms)
        return result
    return True


def _compare(wanted: Compare, values: Values, vms: AbstractSet[int]) -> bool:
    attribute, relation, value = wanted.attribute, wanted.relation, wanted.value
    if attribute == CURRENT_VMS and relation is not Relation.HAS:
        return current_vms(wanted, has=value in vms)
    texts = values.get(attribute, ())
    if relation is Relation.HAS:
        return _has(value, texts)
    if isinstance(value, str):
        if not texts or not value:
            return False
        return glob(value)(texts[0]) is (relation is Relation.IS)
    found = _first(decimal if isinstance(value, float) else whole, texts)
    return found is not None and _holds_of(found, relation, value)


def _first(read: Callable[[str], float | None], texts: Sequence[str]) -> float | None:
    for text in texts:
        number = read(text)
        if number is not None:
            return number
    return None


def _holds_of(found: float, relation: Relation, value: float) -> bool:
    if relation is Relation.ABOVE:
        return found > value
    if relation is Relation.BELOW:
        return found < value
    return (found == value) is (relation is Relation.IS)


def _has(value: Value, texts: Sequence[str]) -> bool:
    if isinstance(value, str):
        return bool(value) and any(map(glob(value), texts))
    read = decimal if isinstance(value, float) else whole
    return any(read(text) == value for text in texts)


def current_vms(wanted: Compare, *, has: bool) -> bool:
    """OpenNebula shows the VM's number where the host has it, and -1 where it has not.

    Only a whole number is looked for, and only by = and !=.
    """
    value, relation = wanted.value, wanted.relation
    if isinstance(value, str):
        return relation is Relation.IS_NOT and bool(value)
    looked_for = isinstance(value, int) and relation in {Relation.IS, Relation.IS_NOT}
    return _holds_of(value if has and looked_for else _NOBODY, relation, value)


def worth(rank: Rank, values: Values) -> int:
    """A host's rank: whole, as OpenNebula cuts it off."""
    with np.errstate(all="ignore"):
        return int(cut_off(np.asarray(_worth(rank, values))))


def _worth(rank: Rank, values: Values) -> np.float32:
    if isinstance(rank, Number):
        return np.float32(rank.value)
    if isinstance(rank, Attribute):
        return np.float32(_first(decimal, values.get(rank.name, ())) or 0.0)
    if isinstance(rank, Minus):
        return -_worth(rank.of, values)
    result = _worth(rank.first, values)
    for sign, part in rank.rest:
        result = COMBINED[sign](result, _worth(part, values))
    return result


def cut_off(worth: npt.NDArray[np.float32]) -> Ints:
    """Whole numbers of 32 bits: the last one where it is larger, the first where it is no number.

    What is not in that range has no defined rank in OpenNebula.
    """
    limited = np.clip(worth.astype(np.float64), LEAST, MOST)
    cut: Ints = np.where(np.isnan(limited), LEAST, limited).astype(np.int64)
    return cut
