"""One expression on all hosts at once: a comparison is a few operations on columns."""

import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from merkatd.cluster import Bools, Ints
from merkatd.opennebula.requirements.boolean import parse
from merkatd.opennebula.requirements.facts import CURRENT_VMS, Answer, FactTable, Ranked
from merkatd.opennebula.requirements.one_by_one import COMBINED, current_vms, cut_off
from merkatd.opennebula.requirements.ranking import parse_rank
from merkatd.opennebula.requirements.tokens import Limits, RequirementError
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
    attributes_of,
    operands_of,
)
from merkatd.opennebula.requirements.values import decimal, glob, whole

_COMPARED: Mapping[Relation, Callable[[Any, Any], Any]] = {
    Relation.IS: operator.eq,
    Relation.IS_NOT: operator.ne,
    Relation.ABOVE: operator.gt,
    Relation.BELOW: operator.lt,
}


def holding(expression: Expression, table: FactTable) -> Bools:
    """[rows]: where the expression holds."""
    if isinstance(expression, Compare):
        key = (expression, type(expression.value))
        known = table.compared(key)
        if known is None:
            known = table.known[key] = _compare(expression, table)
        return known
    if isinstance(expression, Not):
        return ~holding(expression.of, table)
    if isinstance(expression, Chain):
        result = holding(expression.first, table)
        for joint, part in expression.rest:
            there = holding(part, table)
            result = result & there if joint == "&" else result | there
        return result
    return np.ones(len(table), dtype=bool)


def answered(text: str, limits: Limits, table: FactTable) -> Answer:
    """What a text comes to, worked out once until the text changes, or what it asks about."""
    found = table.answer((text, limits))
    if found is None:
        found = table.answers[text, limits] = _answer(text, limits, table)
    return found


def _answer(text: str, limits: Limits, table: FactTable) -> Answer:
    try:
        expression = parse(text, limits)
    except RequirementError as error:
        return Answer(None, str(error), frozenset(), np.zeros(len(table), dtype=bool))
    asked = frozenset(attributes_of(expression))
    return Answer(expression, "", asked, holding(expression, table))


def ranked(text: str, table: FactTable) -> Ranked:
    """What each row is worth by a text, worked out once like the answer to a requirement."""
    found = table.ranked(text)
    if found is None:
        found = table.ranks[text] = _ranked(text, table)
    return found


def _ranked(text: str, table: FactTable) -> Ranked:
    try:
        rank = parse_rank(text)
    except RequirementError as error:
        return Ranked(str(error), frozenset(), np.zeros(len(table), dtype=np.int64))
    return Ranked("", frozenset(operands_of(rank)), worths(rank, table))


def _compare(wanted: Compare, table: FactTable) -> Bools:
    attribute, relation, value = wanted.attribute, wanted.relation, wanted.value
    if attribute == CURRENT_VMS and relation is not Relation.HAS:
        return _current_vms(wanted, table)
    if relation is Relation.HAS:
        return _has(attribute, value, table)
    if isinstance(value, str):
        return _text(attribute, value, table, same=relation is Relation.IS)
    column = table.decimals(attribute) if isinstance(value, float) else table.wholes(attribute)
    kind = column.value.dtype.type
    found: Bools = column.known & _COMPARED[relation](column.value, kind(value))
    return found


def _text(attribute: str, pattern: str, table: FactTable, *, same: bool) -> Bools:
    found = np.zeros(len(table), dtype=bool)
    texts = table.firsts(attribute)
    if pattern and texts.different:
        matches = glob(pattern)
        fits = np.array([matches(text) is same for text in texts.different])
        found[texts.row] = fits[texts.code]
    return found


def _has(attribute: str, value: Value, table: FactTable) -> Bools:
    found = np.zeros(len(table), dtype=bool)
    texts = table.everything(attribute)
    if isinstance(value, str):
        matches = glob(value)
        fits = [bool(value) and matches(text) for text in texts.different]
    else:
        read = decimal if isinstance(value, float) else whole
        fits = [read(text) == value for text in texts.different]
    if fits:
        found[texts.row[np.array(fits)[texts.code]]] = True
    return found


def _current_vms(wanted: Compare, table: FactTable) -> Bools:
    there = table.with_vm(wanted.value) if isinstance(wanted.value, int) else False
    found: Bools = np.where(
        np.broadcast_to(there, len(table)),
        current_vms(wanted, has=True),
        current_vms(wanted, has=False),
    )
    return found


def worths(rank: Rank, table: FactTable) -> Ints:
    """[rows]: what each is worth by the rank."""
    with np.errstate(all="ignore"):
        worth: Ints = np.broadcast_to(cut_off(np.asarray(_worth(rank, table))), len(table))
    return worth


def _worth(rank: Rank, table: FactTable) -> npt.NDArray[Any]:
    if isinstance(rank, Number):
        return np.full(len(table), np.float32(rank.value))
    if isinstance(rank, Attribute):
        return table.decimals(rank.name).value
    if isinstance(rank, Minus):
        return -_worth(rank.of, table)
    result = _worth(rank.first, table)
    for sign, part in rank.rest:
        result = COMBINED[sign](result, _worth(part, table))
    return result
