"""Syntax trees of requirements and ranks; parsing the `str` of a tree gives the same tree."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

import numpy as np

Value: TypeAlias = str | int | float


class Relation(StrEnum):
    """The relation of an attribute and a value."""

    IS = "="
    IS_NOT = "!="
    ABOVE = ">"
    BELOW = "<"
    HAS = "@>"
    """Any value of the attribute is equal."""


@dataclass(frozen=True, slots=True)
class Always:
    """The empty expression, which everything satisfies."""

    def __str__(self) -> str:
        return ""


@dataclass(frozen=True, slots=True)
class Compare:
    """An attribute and a value: a glob, a whole number, or a decimal of single precision."""

    attribute: str
    relation: Relation
    value: Value

    def __str__(self) -> str:
        return f"{_name(self.attribute)} {self.relation} {_value(self.value)}"


@dataclass(frozen=True, slots=True)
class Not:
    """The negation of an expression."""

    of: "Expression"

    def __str__(self) -> str:
        return f"!{_operand(self.of)}"


@dataclass(frozen=True, slots=True)
class Chain:
    """Expressions joined from left to right: in OpenNebula, & and | have the same precedence."""

    first: "Expression"
    rest: tuple[tuple[str, "Expression"], ...]
    """The further expressions, each with the & or | before it."""

    def __str__(self) -> str:
        return " ".join(
            [_operand(self.first), *(f"{joint} {_operand(part)}" for joint, part in self.rest)]
        )


Expression: TypeAlias = Always | Compare | Not | Chain


def attributes_of(expression: Expression) -> Iterator[str]:
    """Yield the attributes that an expression compares."""
    if isinstance(expression, Compare):
        yield expression.attribute
    elif isinstance(expression, Not):
        yield from attributes_of(expression.of)
    elif isinstance(expression, Chain):
        for part in (expression.first, *(part for _, part in expression.rest)):
            yield from attributes_of(part)


@dataclass(frozen=True, slots=True)
class RankNumber:
    """A number in a rank."""

    value: int | float

    def __str__(self) -> str:
        return _value(self.value)


@dataclass(frozen=True, slots=True)
class Attribute:
    """An attribute's value; 0 if it is missing or not a number."""

    name: str

    def __str__(self) -> str:
        return _name(self.name)


@dataclass(frozen=True, slots=True)
class Minus:
    """The negative of all factors that follow: - a * b is -(a * b)."""

    of: "Rank"

    def __str__(self) -> str:
        return f"- {_enclosed(self.of, Sum)}"


@dataclass(frozen=True, slots=True)
class Product:
    """Factors joined by * and / from left to right."""

    first: "Rank"
    rest: tuple[tuple[str, "Rank"], ...]

    def __str__(self) -> str:
        factors = (("", self.first), *self.rest)
        last = len(factors) - 1
        return " ".join(
            # A minus applies to all factors after it, so enclose it if there are any.
            f"{sign} {_enclosed(part, Sum, Product, *([Minus] if at < last else []))}".lstrip()
            for at, (sign, part) in enumerate(factors)
        )


@dataclass(frozen=True, slots=True)
class Sum:
    """Terms joined by + and - from left to right."""

    first: "Rank"
    rest: tuple[tuple[str, "Rank"], ...]

    def __str__(self) -> str:
        terms = [f"{sign} {_enclosed(term, Sum)}" for sign, term in self.rest]
        return " ".join([_enclosed(self.first, Sum), *terms])


Rank: TypeAlias = RankNumber | Attribute | Minus | Product | Sum


def operands_of(rank: Rank) -> Iterator[str]:
    """Yield the attributes that a rank uses."""
    if isinstance(rank, Attribute):
        yield rank.name
    elif isinstance(rank, Minus):
        yield from operands_of(rank.of)
    elif isinstance(rank, Product | Sum):
        for part in (rank.first, *(part for _, part in rank.rest)):
            yield from operands_of(part)


def _operand(expression: Expression) -> str:
    return _enclosed(expression, Chain)


def _enclosed(part: object, *kinds: type) -> str:
    return f"({part})" if isinstance(part, kinds) else str(part)


def _name(name: str) -> str:
    plain = name.isascii() and name[:1].isalpha() and name.replace("_", "").isalnum()
    return name if plain else f'"{name}"'


def _value(value: Value) -> str:
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, float):
        return np.format_float_positional(np.float32(value), unique=True, trim="0")
    return str(value)
