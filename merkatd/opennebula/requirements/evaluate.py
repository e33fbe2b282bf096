"""Evaluation of requirements and ranks, on a single host and on all hosts at once."""

import operator
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

import numpy as np
import numpy.typing as npt

from merkatd.cluster import Bools, Ints
from merkatd.opennebula.requirements.grammar import parse, parse_rank
from merkatd.opennebula.requirements.host_columns import (
    CURRENT_VMS,
    Answer,
    FactTable,
    Ranked,
    Values,
)
from merkatd.opennebula.requirements.literals import decimal, glob, whole
from merkatd.opennebula.requirements.syntax_tree import (
    Attribute,
    Chain,
    Compare,
    Expression,
    Minus,
    Not,
    Rank,
    RankNumber,
    Relation,
    Value,
    attributes_of,
    operands_of,
)
from merkatd.opennebula.requirements.tokens import MAX_NUMBER, MIN_NUMBER, Limits, RequirementError

_NO_VM = -1
COMBINED: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
}


def holds(expression: Expression, values: Values, vms: AbstractSet[int] = frozenset()) -> bool:
    """Return whether a host with these values and VMs satisfies the expression."""
    if isinstance(expression, Compare):
        return _compare_one(expression, values, vms)
    if isinstance(expression, Not):
        return not holds(expression.of, values, vms)
    if isinstance(expression, Chain):
        result = holds(expression.first, values, vms)
        for joint, part in expression.rest:
            if result is (joint == "&"):
                result = holds(part, values, vms)
        return result
    return True


def _compare_one(wanted: Compare, values: Values, vms: AbstractSet[int]) -> bool:
    attribute, relation, value = wanted.attribute, wanted.relation, wanted.value
    if attribute == CURRENT_VMS and relation is not Relation.HAS:
        return current_vms(wanted, has=value in vms)
    texts = values.get(attribute, ())
    if relation is Relation.HAS:
        return _has_one(value, texts)
    if isinstance(value, str):
        if not texts or not value:
            return False
        return glob(value)(texts[0]) is (relation is Relation.IS)
    number = _first(decimal if isinstance(value, float) else whole, texts)
    return number is not None and _holds_of(number, relation, value)


def _first(read: Callable[[str], float | None], texts: Sequence[str]) -> float | None:
    for text in texts:
        number = read(text)
        if number is not None:
            return number
    return None


def _holds_of(actual: float, relation: Relation, required: float) -> bool:
    if relation is Relation.ABOVE:
        return actual > required
    if relation is Relation.BELOW:
        return actual < required
    return (actual == required) is (relation is Relation.IS)


def _has_one(value: Value, texts: Sequence[str]) -> bool:
    if isinstance(value, str):
        return bool(value) and any(map(glob(value), texts))
    read = decimal if isinstance(value, float) else whole
    return any(read(text) == value for text in texts)


def current_vms(wanted: Compare, *, has: bool) -> bool:
    """Return whether a comparison of CURRENT_VMS holds on a host that has the VM or not.

    In OpenNebula, CURRENT_VMS is the VM's id if the host has the VM, and -1 if not. The host's VMs
    are searched only for whole numbers, and only by = and !=.
    """
    value, relation = wanted.value, wanted.relation
    if isinstance(value, str):
        return relation is Relation.IS_NOT and bool(value)
    looked_for = isinstance(value, int) and relation in {Relation.IS, Relation.IS_NOT}
    return _holds_of(value if has and looked_for else _NO_VM, relation, value)


def rank_of(rank: Rank, values: Values) -> int:
    """Return a host's rank, truncated to a whole number as in OpenNebula."""
    with np.errstate(all="ignore"):
        return int(cut_off(np.asarray(_worth_one(rank, values))))


def _worth_one(rank: Rank, values: Values) -> np.float32:
    if isinstance(rank, RankNumber):
        return np.float32(rank.value)
    if isinstance(rank, Attribute):
        return np.float32(_first(decimal, values.get(rank.name, ())) or 0.0)
    if isinstance(rank, Minus):
        return -_worth_one(rank.of, values)
    result = _worth_one(rank.first, values)
    for sign, part in rank.rest:
        result = COMBINED[sign](result, _worth_one(part, values))
    return result


def cut_off(worth: npt.NDArray[np.float32]) -> Ints:
    """Return the values as whole numbers in the range of 32 bits, NaN as the smallest number.

    OpenNebula defines no rank for values outside this range.
    """
    limited = np.clip(worth.astype(np.float64), MIN_NUMBER, MAX_NUMBER)
    cut: Ints = np.where(np.isnan(limited), MIN_NUMBER, limited).astype(np.int64)
    return cut


_COMPARED: Mapping[Relation, Callable[[Any, Any], Any]] = {
    Relation.IS: operator.eq,
    Relation.IS_NOT: operator.ne,
    Relation.ABOVE: operator.gt,
    Relation.BELOW: operator.lt,
}


def hosts_where(expression: Expression, table: FactTable) -> Bools:
    """Return for each row whether the expression holds."""
    if isinstance(expression, Compare):
        key = (expression, type(expression.value))
        known = table.compared(key)
        if known is None:
            known = table.known[key] = _compare_all(expression, table)
        return known
    if isinstance(expression, Not):
        return ~hosts_where(expression.of, table)
    if isinstance(expression, Chain):
        result = hosts_where(expression.first, table)
        for joint, part in expression.rest:
            there = hosts_where(part, table)
            result = result & there if joint == "&" else result | there
        return result
    return np.ones(len(table), dtype=bool)


def answered(text: str, limits: Limits, table: FactTable) -> Answer:
    """Return the result of a requirement, from the table's cache if nothing has changed."""
    answer = table.answer((text, limits))
    if answer is None:
        answer = table.answers[text, limits] = _answer(text, limits, table)
    return answer


def _answer(text: str, limits: Limits, table: FactTable) -> Answer:
    try:
        expression = parse(text, limits)
    except RequirementError as error:
        return Answer(None, str(error), frozenset(), np.zeros(len(table), dtype=bool))
    asked = frozenset(attributes_of(expression))
    return Answer(expression, "", asked, hosts_where(expression, table))


def ranked(text: str, table: FactTable) -> Ranked:
    """Return each row's rank by a text, from the table's cache if nothing has changed."""
    ranking = table.ranked(text)
    if ranking is None:
        ranking = table.ranks[text] = _ranked(text, table)
    return ranking


def _ranked(text: str, table: FactTable) -> Ranked:
    try:
        rank = parse_rank(text)
    except RequirementError as error:
        return Ranked(str(error), frozenset(), np.zeros(len(table), dtype=np.int64))
    return Ranked("", frozenset(operands_of(rank)), host_ranks_of(rank, table))


def _compare_all(wanted: Compare, table: FactTable) -> Bools:
    attribute, relation, value = wanted.attribute, wanted.relation, wanted.value
    if attribute == CURRENT_VMS and relation is not Relation.HAS:
        return _current_vms(wanted, table)
    if relation is Relation.HAS:
        return _has_all(attribute, value, table)
    if isinstance(value, str):
        return _text(attribute, value, table, same=relation is Relation.IS)
    column = table.decimals(attribute) if isinstance(value, float) else table.wholes(attribute)
    kind = column.value.dtype.type
    fulfilled: Bools = column.known & _COMPARED[relation](column.value, kind(value))
    return fulfilled


def _text(attribute: str, pattern: str, table: FactTable, *, same: bool) -> Bools:
    fulfilled = np.zeros(len(table), dtype=bool)
    texts = table.firsts(attribute)
    if pattern and texts.different:
        matches = glob(pattern)
        fits = np.array([matches(text) is same for text in texts.different])
        fulfilled[texts.row] = fits[texts.code]
    return fulfilled


def _has_all(attribute: str, value: Value, table: FactTable) -> Bools:
    fulfilled = np.zeros(len(table), dtype=bool)
    texts = table.everything(attribute)
    if isinstance(value, str):
        matches = glob(value)
        fits = [bool(value) and matches(text) for text in texts.different]
    else:
        read = decimal if isinstance(value, float) else whole
        fits = [read(text) == value for text in texts.different]
    if fits:
        fulfilled[texts.row[np.array(fits)[texts.code]]] = True
    return fulfilled


def _current_vms(wanted: Compare, table: FactTable) -> Bools:
    there = table.with_vm(wanted.value) if isinstance(wanted.value, int) else False
    fulfilled: Bools = np.where(
        np.broadcast_to(there, len(table)),
        current_vms(wanted, has=True),
        current_vms(wanted, has=False),
    )
    return fulfilled


def host_ranks_of(rank: Rank, table: FactTable) -> Ints:
    """Return each row's rank."""
    with np.errstate(all="ignore"):
        worth: Ints = np.broadcast_to(cut_off(np.asarray(_worth_all(rank, table))), len(table))
    return worth


def _worth_all(rank: Rank, table: FactTable) -> npt.NDArray[Any]:
    if isinstance(rank, RankNumber):
        return np.full(len(table), np.float32(rank.value))
    if isinstance(rank, Attribute):
        return table.decimals(rank.name).value
    if isinstance(rank, Minus):
        return -_worth_all(rank.of, table)
    result = _worth_all(rank.first, table)
    for sign, part in rank.rest:
        result = COMBINED[sign](result, _worth_all(part, table))
    return result
