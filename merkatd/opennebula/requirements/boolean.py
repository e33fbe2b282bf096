"""Requirements from their text, by the grammar of OpenNebula's scheduler."""

from merkatd.opennebula.requirements.tokens import (
    OF_USERS,
    Kind,
    Limits,
    Reading,
    RequirementError,
)
from merkatd.opennebula.requirements.tree import (
    Always,
    Chain,
    Compare,
    Expression,
    Not,
    Relation,
)

DEEPEST = 100
"""So many brackets and negations may stand inside one another."""

_NUMBERS = (Kind.WHOLE, Kind.DECIMAL)


def parse(text: str, limits: Limits = OF_USERS) -> Expression:
    """The requirement that the text states. Raises RequirementError."""
    reading = Reading(text, limits)
    if reading.over():
        return Always()
    expression = _chain(reading, 0)
    if not reading.over():
        raise reading.refuse("&, | or the end")
    return expression


def _chain(reading: Reading, depth: int) -> Expression:
    first = _operand(reading, depth)
    rest: list[tuple[str, Expression]] = []
    while joint := reading.taken("&", "|"):
        if reading.comes(joint):
            raise reading.refuse(f"a comparison, after a single {joint},")
        rest.append((joint, _operand(reading, depth)))
    return Chain(first, tuple(rest)) if rest else first


def _operand(reading: Reading, depth: int) -> Expression:
    if depth > DEEPEST:
        raise RequirementError(
            f"at character {reading.ahead.at}: more than {DEEPEST} brackets and negations"
            " stand inside one another"
        )
    if reading.taken("!"):
        return Not(_operand(reading, depth + 1))
    if reading.taken("("):
        inside = _chain(reading, depth + 1)
        if not reading.taken(")"):
            raise reading.refuse("&, | or )")
        return inside
    if reading.ahead.kind is not Kind.NAME or not reading.ahead.value:
        raise reading.refuse("an attribute, ! or (")
    return _comparison(reading)


def _comparison(reading: Reading) -> Compare:
    reading.count_term()
    attribute = str(reading.take().value)
    relation = _relation(reading)
    ordered = relation in {Relation.ABOVE, Relation.BELOW}
    if reading.ahead.kind not in (_NUMBERS if ordered else (*_NUMBERS, Kind.NAME)):
        raise reading.refuse("a number" if ordered else "a number or a text")
    return Compare(attribute, relation, reading.take_value())


def _relation(reading: Reading) -> Relation:
    first = reading.taken("=", "!", ">", "<", "@")
    # The scanner sees two signs, so blanks may stand between them.
    second = {"!": "=", "@": ">"}.get(first, "")
    if not first:
        raise reading.refuse("=, !=, >, < or @>")
    if second and not reading.taken(second):
        raise reading.refuse(f"the {second} of {first}{second}")
    return Relation(first + second)
