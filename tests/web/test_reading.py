"""Forms and queries are parsed as browsers write them, in linear time."""

import time
from urllib.parse import parse_qs, unquote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from merkatd.web.base.form_reader import MOST_FIELDS, MOST_LONG_BYTES, Form, decoded, fields_of

_N = MOST_LONG_BYTES
_WORDS = [
    "%",
    "%4",
    "%41",
    "%C3%A9",
    "%c3",
    "%ff",
    "%26",
    "%3D",
    "%25",
    "+",
    "&",
    "=",
    "a",
    "b",
    ";",
]


@given(st.lists(st.sampled_from(_WORDS), max_size=30).map("".join))
@example("")
@example("%")
@example("%4")
@example("a=%%41")
@example("=&==&a")
@example("a=1&a=2&a")
@example("%41=%26&%3D==")
def test_a_form_is_parsed_like_by_the_standard_library(text: str) -> None:
    """Half escapes, invalid text and fields without names have equal results."""
    assert fields_of(text.encode()) == parse_qs(text, keep_blank_values=True)
    assert decoded(text.encode()) == unquote(text)


@given(st.binary(max_size=200))
def test_any_bytes_are_parsed_or_are_no_form(text: bytes) -> None:
    """Non-ASCII bytes are no form, and in a path they are decoded somehow."""
    assert text.isascii() or fields_of(text) == {}
    decoded(text)


def test_too_many_fields_are_no_form() -> None:
    """Each field takes time, so their number is limited."""
    assert (
        len(fields_of(b"&".join(b"%d=" % number for number in range(MOST_FIELDS)))) == MOST_FIELDS
    )
    assert fields_of(b"&" * MOST_FIELDS) == {}


def test_a_form_is_parsed_once_on_demand() -> None:
    """The first value of a field counts."""
    form = Form(b"a=1&a=2&b=")
    assert form._fields is None
    assert (form.field("a"), form.field("b"), form.field("c")) == ("1", "", "")
    assert form.fields is form.fields


@pytest.mark.parametrize(
    "text",
    [
        b"%" * _N,
        b"%41" * (_N // 3),
        b"%C3%A9" * (_N // 6),
        b"%FF" * (_N // 3),
        b"+" * _N,
        b"=" * _N,
        b"&".join(b"%d=%s" % (number, b"%" * 60) for number in range(MOST_FIELDS)),
        b"&".join(b"%%41%d=" % number for number in range(MOST_FIELDS)),
    ],
    ids=["percent", "escapes", "letters", "no_text", "plus", "equals", "fields", "names"],
)
def test_the_longest_form_is_parsed_in_milliseconds(text: bytes) -> None:
    """No visitor's input blocks the daemon."""

    def took_s() -> float:
        began_s = time.thread_time()
        fields_of(b"a=" + text[:_N])
        return time.thread_time() - began_s

    assert min(took_s() for _ in range(5)) < 0.05
