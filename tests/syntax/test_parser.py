"""Texts are read as OpenNebula reads them, in time that grows with their length alone."""

import time
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from merkatd.syntax import ParseError, Template, UnwritableError, Vector, parse, template_text
from tests.syntax.readings import Reading, readings
from tests.syntax.texts import TEXTS

_LETTERS = st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), max_size=12)
_NAMES = st.from_regex(r"[A-WYZ][A-Z0-9_]{0,6}", fullmatch=True)
_VECTORS = st.dictionaries(_NAMES, _LETTERS, min_size=1, max_size=3).map(
    lambda pairs: tuple(sorted(pairs.items()))
)
_TEMPLATES = st.lists(st.tuples(_NAMES, _LETTERS | _VECTORS), max_size=5).map(Template.of)

LONGEST = 65_536
MOST = 1000
LIMIT_S = 0.1


@pytest.mark.parametrize("reading", readings(), ids=lambda reading: repr(reading.text)[:40])
def test_each_text_is_read_as_opennebula_read_it(reading: Reading) -> None:
    """Also where OpenNebula reads what its documentation does not mention."""
    if reading.read is None:
        with pytest.raises(ParseError):
            parse(reading.text)
    else:
        assert parse(reading.text).attributes == reading.read


@given(TEXTS)
def test_what_is_read_is_written_and_read_again(text: str) -> None:
    """Nothing of a text but its meaning is passed on."""
    try:
        parsed = parse(text)
        again = template_text(parsed.attributes)
    except (ParseError, UnwritableError):
        return
    assert parse(again) == parsed
    assert parse(f'{again}NEXT="1"\n') == Template.of([*parsed.attributes, ("NEXT", "1")])


@given(_TEMPLATES)
def test_every_template_is_written_so_that_it_reads_back(template: Template) -> None:
    """Whatever its values are; what can't be written is refused and never altered."""
    values = [v for _, value in template.attributes for v in _values(value)]
    if any("]]>" in v or v.endswith("\\") for v in values):
        return
    trimmed = [
        (name, value.rstrip() if name == "NAME" and isinstance(value, str) else value)
        for name, value in template.attributes
    ]
    assert parse(template_text(template.attributes)) == Template.of(trimmed)


def _values(value: str | Vector) -> list[str]:
    return [value] if isinstance(value, str) else [text for _, text in value]


@pytest.mark.parametrize("value", ["a ]]> b", "a b\\", 'a"\\', "a,\\"])
def test_values_that_the_syntax_does_not_have_are_refused(value: str) -> None:
    """The error names the attribute; nothing is altered silently."""
    with pytest.raises(UnwritableError, match="A/B: a value"):
        template_text([("A", (("B", value),))])


def test_a_value_may_end_with_a_backslash() -> None:
    """Without quotes, which the backslash would escape."""
    assert (
        parse(template_text([("A", "C:\\"), ("B", (("C", "x\\"), ("D", "1")))])).get("A") == "C:\\"
    )


@pytest.mark.parametrize("name", ["A-B", "", "A B", "Ä", 'A="1" B'])
def test_names_that_the_syntax_does_not_have_are_refused(name: str) -> None:
    """They would be read as something else."""
    with pytest.raises(UnwritableError, match="letters, digits and _"):
        template_text([(name, "x")])
    with pytest.raises(UnwritableError, match="letters, digits and _"):
        template_text([("A", ((name, "x"),))])


@pytest.mark.parametrize(
    "unit",
    ["#", " ", "=", '"', '\\"', "[", "]", ",", "\n", "A=1 ", 'A="\\" ', "A= #", "A=, ", "# x ",
     "A=[B=1 ", "]]>", "A=]] > ", "A=x ]]>\n", "é", "\t#", "A\n", "A=#\t", 'A="x'],
)  # fmt: skip
def test_no_text_takes_long(unit: str) -> None:
    """Whatever it repeats, and whatever stands before."""
    for before in ("", "A=", "A=[", 'A="', "A=# "):
        text = before + unit * (LONGEST // len(unit))
        assert min(_seconds(text) for _ in range(3)) < LIMIT_S, (before, unit)


def _seconds(text: str) -> float:
    since = time.thread_time()
    with suppress(ParseError):
        parse(text, MOST)
    return time.thread_time() - since


def test_a_text_with_too_many_values_is_refused() -> None:
    """The message says how many there may be; as many are read. Empty values count, too."""
    assert len(parse("A=1 " * 5, 5).attributes) == 5
    with pytest.raises(ParseError, match="more than 5 values"):
        parse("A=1 " * 6, 5)
    with pytest.raises(ParseError, match="more than 5 values"):
        parse("A=[" + "B=1," * 6 + "C=1]", 5)
    with pytest.raises(ParseError, match="more than 5 values"):
        parse("A=\n" * 6, 5)
    with pytest.raises(ParseError, match="more than 5 values"):
        parse("A=[]\n" * 6, 5)
