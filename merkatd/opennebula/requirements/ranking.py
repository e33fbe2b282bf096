"""Ranks from their text, by the grammar of OpenNebula's scheduler."""

from merkatd.opennebula.requirements.boolean import DEEPEST
from merkatd.opennebula.requirements.tokens import OF_USERS, Kind, Reading, RequirementError
from merkatd.opennebula.requirements.tree import Attribute, Minus, Number, Product, Rank, Sum


def parse_rank(text: str) -> Rank:
    """The rank that the text states, 0 for none. Raises RequirementError."""
    reading = Reading(text, OF_USERS)
    if reading.over():
        return Number(0)
    rank = _sum(reading, 0)
    if not reading.over():
        raise reading.refuse("+, -, *, / or the end (with a blank after a minus)")
    return rank


def _sum(reading: Reading, depth: int) -> Rank:
    first = _product(reading, depth)
    rest: list[tuple[str, Rank]] = []
    while sign := reading.taken("+", "-"):
        rest.append((sign, _product(reading, depth)))
    return Sum(first, tuple(rest)) if rest else first


def _product(reading: Reading, depth: int) -> Rank:
    first = _factor(reading, depth)
    rest: list[tuple[str, Rank]] = []
    while sign := reading.taken("*", "/"):
        rest.append((sign, _factor(reading, depth)))
    return Product(first, tuple(rest)) if rest else first


def _factor(reading: Reading, depth: int) -> Rank:
    if depth > DEEPEST:
        raise RequirementError(
            f"at character {reading.ahead.at}: more than {DEEPEST} brackets and signs"
            " stand inside one another"
        )
    if reading.taken("-"):
        return Minus(_product(reading, depth + 1))
    if reading.taken("("):
        inside = _sum(reading, depth + 1)
        if not reading.taken(")"):
            raise reading.refuse("+, -, *, / or )")
        return inside
    reading.count_term()
    value = reading.ahead.value
    if reading.ahead.kind is Kind.NAME and value:
        return Attribute(str(reading.take().value))
    if isinstance(value, str):
        raise reading.refuse("an attribute, a number, - or (")
    reading.take()
    return Number(value)
