"""Messages survive writing and reading, and anything else is rejected."""

import json
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from merkatd.protocol.bus_messages import FROM_DAEMON, TO_DAEMON, VERSION, Measured
from merkatd.protocol.platform_messages import SetSize
from merkatd.protocol.wire_format import LARGEST_BYTES, Envelope, MalformedError, pack, unpack
from tests.lengths import shorten

KINDS = TO_DAEMON | FROM_DAEMON
TEXTS = st.text(st.characters(codec="utf-8"), max_size=20)
FREE = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
PLAIN: dict[Any, st.SearchStrategy[Any]] = {
    float: st.floats(allow_nan=False, allow_infinity=False),
    int: st.integers(0, 2**40),
    str: TEXTS,
    bool: st.booleans(),
    type(None): st.none(),
    Any: FREE,
}


def values(hint: Any) -> st.SearchStrategy[Any]:
    """Return a strategy for a type that messages consist of."""
    if hint in PLAIN:
        return PLAIN[hint]
    inner = get_args(hint)
    if get_origin(hint) is Mapping:
        return st.dictionaries(values(inner[0]), values(inner[1]), max_size=3)
    if get_origin(hint) is tuple:
        return st.lists(values(inner[0]), max_size=2).map(tuple)
    if inner:
        return st.one_of(*map(values, inner))
    hints = get_type_hints(hint)
    return st.builds(hint, **{field.name: values(hints[field.name]) for field in fields(hint)})


BODIES = st.sampled_from(sorted(KINDS)).flatmap(lambda name: values(KINDS[name]))


def written(**changes: Any) -> bytes:
    """Return a valid message with these changes."""
    good = {"v": VERSION, "kind": "beat", "session": "s", "number": 1, "id": "", "body": {}}
    return json.dumps(good | changes).encode()


@settings(max_examples=shorten(150, 60), deadline=None)
@given(BODIES, TEXTS, st.integers(0, 2**53 - 1))
def test_messages_survive_writing_and_reading(body: Any, session: str, number: int) -> None:
    """Every kind survives, to the last bit of its numbers."""
    envelope = Envelope(body, session, number, "an id")
    assert unpack(pack(envelope), KINDS) == envelope


@settings(max_examples=shorten(300, 80), deadline=None)
@given(st.binary(max_size=200) | FREE.map(lambda value: json.dumps(value).encode()))
def test_any_other_bytes_are_rejected(data: bytes) -> None:
    """The only error is `MalformedError`."""
    with pytest.raises(MalformedError):
        unpack(data, KINDS)


@settings(max_examples=shorten(300, 80), deadline=None)
@given(st.sampled_from(sorted(TO_DAEMON)), FREE)
def test_any_body_is_of_its_kind_or_rejected(kind: str, body: Any) -> None:
    """An accepted body has the promised type."""
    try:
        envelope = unpack(written(kind=kind, body=body), TO_DAEMON)
    except MalformedError:
        return
    assert isinstance(envelope.body, TO_DAEMON[kind])
    assert unpack(pack(envelope), TO_DAEMON) == envelope


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"\xff", "valid JSON"),
        (b"[" * 100_000, "valid JSON"),
        (b"9" * 5_000, "valid JSON"),
        (b" " * (LARGEST_BYTES + 1), "at most"),
        (written(v=1), f"speaks version 1; expected version {VERSION}"),
        (written(v=True), "version"),
        (written(kind="welcome"), "kind 'welcome' is unknown"),
        (written(kind=["beat"]), "is unknown; expected set_bids, "),
        (written(number=-1), "number must be"),
        (written(number=1.0), "must be a whole number"),
        (written(session="x" * 65), "session must be"),
        (written(extra=1), "must be an object with"),
        (written(body={"more": 1}), "has an unknown field 'more'"),
        (written(body={"\n\x1b[2J": 1}), r"has an unknown field '\\n\\x1b\[2J'$"),
        (written(v="\n\x1b"), r"speaks version '\\n\\x1b'; expected"),
        (written(kind="\u202e\n"), r"^kind '\\u202e\\n' is unknown"),
        (written(kind="set_bids", body={"bids": {"1": {"\n" * 90: "2"}}}),
         r"^body\.bids\.1\.'(\\n){40}' must be"),
        (written(kind="hello"), "lacks role"),
        (written(kind="hello", body={"role": 3}), "body.role must be a text"),
        (written(kind="set_bids", body={"bids": {"1": {"cpu": "2"}}}), "body.bids.1.cpu must be"),
        (written(kind="set_bids", body={"bids": {"01": {}}}), "have a whole number as its key"),
        (
            written(kind="set_bids", body={"bids": {str(vm): {} for vm in range(10_001)}}),
            "at most 10000 VMs",
        ),
        (written(kind="set_bids", body={"bids": {"1": {"cpu": True}}}), "must be a finite number"),
        (written(kind="set_size", body={"cluster": "a", "victims": [1.5]}), "victims.0 must be"),
        (written(kind="remember").replace(b"{}", b'{"memory":NaN}'), "NaN is not valid JSON"),
        (written(kind="remember").replace(b"{}", b'{"memory":1e999}'), "only finite numbers"),
        (written(kind="remember").replace(b"{}", b'{"memory":1,"memory":2}'), "same key twice"),
        (written(kind="remember").replace(b"{}", b'{"memory":' + b"[" * 50 + b"]" * 50 + b"}"),
         "deeper than 20"),
    ],
)  # fmt: skip
def test_errors_name_the_place_and_the_accepted_values(data: bytes, why: str) -> None:
    """Each kind of malformed message has its own error text."""
    with pytest.raises(MalformedError, match=why):
        unpack(data, TO_DAEMON)


def test_values_that_json_cannot_express_are_not_sent() -> None:
    """A monitor that measures NaN gets the error in its own process."""
    with pytest.raises(ValueError, match="not JSON compliant"):
        pack(Envelope(Measured(cluster="a", at_s=0.0, values={"v": float("nan")})))


def test_omitted_fields_have_their_defaults() -> None:
    """The defaults are those of the ports."""
    envelope = unpack(written(kind="set_size", body={"cluster": "a"}), TO_DAEMON)
    assert envelope.body == SetSize(cluster="a")
