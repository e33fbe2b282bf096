"""The grammar of requirements and ranks: from texts to trees."""

from merkatd.opennebula.requirements.syntax_tree import (
    Always,
    Attribute,
    Chain,
    Compare,
    Expression,
    Minus,
    Not,
    Product,
    Rank,
    RankNumber,
    Relation,
    Sum,
)
from merkatd.opennebula.requirements.tokens import (
    OF_USERS,
    Limits,
    RequirementError,
    TokenKind,
    TokenReader,
)

DEEPEST = 100
"""The deepest nesting of brackets and negations."""
_NUMBERS = (TokenKind.WHOLE, TokenKind.DECIMAL)


def parse(text: str, limits: Limits = OF_USERS) -> Expression:
    """Parse a requirement. Raise RequirementError."""
    reading = TokenReader(text, limits)
    if reading.over():
        return Always()
    expression = _chain(reading, 0)
    if not reading.over():
        raise reading.refuse("&, | or the end")
    return expression


def _chain(reading: TokenReader, depth: int) -> Expression:
    first = _operand(reading, depth)
    rest: list[tuple[str, Expression]] = []
    while joint := reading.taken("&", "|"):
        if reading.comes(joint):
            raise reading.refuse(f"a comparison, after a single {joint},")
        rest.append((joint, _operand(reading, depth)))
    return Chain(first, tuple(rest)) if rest else first


def _operand(reading: TokenReader, depth: int) -> Expression:
    if depth > DEEPEST:
        raise RequirementError(
            f"at character {reading.ahead.at}: brackets and negations must be nested at most"
            f" {DEEPEST} deep"
        )
    if reading.taken("!"):
        return Not(_operand(reading, depth + 1))
    if reading.taken("("):
        inside = _chain(reading, depth + 1)
        if not reading.taken(")"):
            raise reading.refuse("&, | or )")
        return inside
    if reading.ahead.kind is not TokenKind.NAME or not reading.ahead.value:
        raise reading.refuse("an attribute, ! or (")
    return _comparison(reading)


def _comparison(reading: TokenReader) -> Compare:
    reading.count_term()
    attribute = str(reading.take().value)
    relation = _relation(reading)
    ordered = relation in {Relation.ABOVE, Relation.BELOW}
    if reading.ahead.kind not in (_NUMBERS if ordered else (*_NUMBERS, TokenKind.NAME)):
        raise reading.refuse("a number" if ordered else "a number or a text")
    return Compare(attribute, relation, reading.take_value())


def _relation(reading: TokenReader) -> Relation:
    first = reading.taken("=", "!", ">", "<", "@")
    # OpenNebula's scanner reads two signs, so there may be blanks between them.
    second = {"!": "=", "@": ">"}.get(first, "")
    if not first:
        raise reading.refuse("=, !=, >, < or @>")
    if second and not reading.taken(second):
        raise reading.refuse(f"the {second} of {first}{second}")
    return Relation(first + second)


def parse_rank(text: str) -> Rank:
    """Parse a rank; an empty text is the rank 0. Raise RequirementError."""
    reading = TokenReader(text, OF_USERS)
    if reading.over():
        return RankNumber(0)
    rank = _sum(reading, 0)
    if not reading.over():
        raise reading.refuse("+, -, *, / or the end (with a blank after a minus)")
    return rank


def _sum(reading: TokenReader, depth: int) -> Rank:
    first = _product(reading, depth)
    rest: list[tuple[str, Rank]] = []
    while sign := reading.taken("+", "-"):
        rest.append((sign, _product(reading, depth)))
    return Sum(first, tuple(rest)) if rest else first


def _product(reading: TokenReader, depth: int) -> Rank:
    first = _factor(reading, depth)
    rest: list[tuple[str, Rank]] = []
    while sign := reading.taken("*", "/"):
        rest.append((sign, _factor(reading, depth)))
    return Product(first, tuple(rest)) if rest else first


def _factor(reading: TokenReader, depth: int) -> Rank:
    if depth > DEEPEST:
        raise RequirementError(
            f"at character {reading.ahead.at}: brackets and signs must be nested at most"
            f" {DEEPEST} deep"
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
    if reading.ahead.kind is TokenKind.NAME and value:
        return Attribute(str(reading.take().value))
    if isinstance(value, str):
        raise reading.refuse("an attribute, a number, - or (")
    reading.take()
    return RankNumber(value)
