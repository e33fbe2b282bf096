"""Messages as bytes: JSON in an envelope with version, session and number, read strictly."""

import json
import re
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from operator import attrgetter
from typing import Any, cast

from merkatd.base.decoder import Reader, ShapeError, decoder_of
from merkatd.protocol.bus_messages import FROM_DAEMON, TO_DAEMON, VERSION
from merkatd.protocol.message_limits import longest_memory
from merkatd.protocol.platform_messages import MOST_VMS

_ENVELOPE_BYTES = 1 << 12
"""Around what is to be remembered."""


_PARTS, _BYTES_OF_A_PART = 60_000, 24
"""Names and values in a message: so many, and one more for so many bytes that it may have. To read
a short one costs the daemon as much as a long one; a bid for four goods has ten for each VM."""
_PARTED_BY = (b",", b":", b"[", b"{")


def largest_bytes(vms: int) -> int:
    """How large a message to the daemon may be, of a platform of so many VMs.

    What it may have remembered can be said, and is the longest that there is to say.
    """
    return longest_memory(vms) + _ENVELOPE_BYTES


LARGEST_BYTES = largest_bytes(MOST_VMS)
"""Of all that the daemon takes."""
LARGEST_NEWS_BYTES = LARGEST_BYTES + (MOST_VMS << 10)
"""Of what a process takes: its memory, and how each of its VMs stands in half a KiB."""


TOPIC_END = b"/"


def topic_of(platform: int) -> bytes:
    """What begins each publication for a platform; no topic begins another."""
    return b"%d" % platform + TOPIC_END


def market_topic(market: str) -> bytes:
    """What begins each publication for all in a market."""
    return b"market " + market.encode() + TOPIC_END


class MalformedError(ValueError):
    """These bytes are no message; the message says why."""


class OtherVersionError(MalformedError):
    """This is a message of another version than ours."""


@dataclass(frozen=True, slots=True)
class Envelope:
    """A message with what it needs on its way."""

    body: Any
    session: str = ""
    number: int = 0
    """Rises within a session. An answer has that of what it answers."""
    id: str = ""
    """Of an action: the same however often it is asked for."""


_KIND_OF = {kind: name for name, kind in (TO_DAEMON | FROM_DAEMON).items()}


@dataclass(frozen=True, slots=True)
class Packed:
    """The JSON of a body: written once, and sent as often as it is asked for."""

    kind: type
    data: bytes


def pack_body(body: Any) -> Packed:
    """Return the JSON of a value; raise ValueError for numbers that JSON can't carry."""
    return Packed(type(body), _ENCODER.encode(body).encode())


def pack_fields(kind: type, **values: Any) -> Packed:
    """Return the JSON of a `kind` with these fields, of which some are packed already."""
    parts = (
        b'"%s":%s'
        % (name.encode(), (value if isinstance(value, Packed) else pack_body(value)).data)
        for name, value in values.items()
    )
    return Packed(kind, b"{%s}" % b",".join(parts))


class PackedOnce:
    """Packs a value when it is first asked for; another value replaces it."""

    def __init__(self) -> None:
        self._value: Any = None
        self._packed = pack_body(None)

    def pack(self, value: Any) -> Packed:
        """Return the JSON of a value that nobody changes."""
        if value is not self._value:
            self._value, self._packed = value, pack_body(value)
        return self._packed


def pack(envelope: Envelope) -> bytes:
    """The bytes of a message; ValueError where it has numbers that nobody can read."""
    body = envelope.body if isinstance(envelope.body, Packed) else pack_body(envelope.body)
    head = {
        "v": VERSION,
        "kind": _KIND_OF[body.kind],
        "session": envelope.session,
        "number": envelope.number,
        "id": envelope.id,
    }
    return b'%s,"body":%s}' % (_ENCODER.encode(head).encode()[:-1], body.data)


def _written(value: Any) -> Mapping[str, Any]:
    kind = type(value)
    if not is_dataclass(kind):
        return dict(value)  # a mapping that is no dictionary
    names, values = _columns(cast("Hashable", kind))
    return dict(zip(names, values(value), strict=True))


@cache
def _columns(kind: Any) -> tuple[tuple[str, ...], Any]:
    names = tuple(one.name for one in fields(kind))
    if len(names) > 1:
        return names, attrgetter(*names)
    return names, lambda value: [getattr(value, name) for name in names]


_ENCODER = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_written
)


def unpack(data: bytes, kinds: Mapping[str, type], largest: int = LARGEST_BYTES) -> Envelope:
    """The message that these bytes are, if it is one of these kinds; MalformedError otherwise."""
    if len(data) > largest:
        raise MalformedError(f"{len(data)} bytes are more than the {largest} that are taken")
    parts, most = sum(map(data.count, _PARTED_BY)), _PARTS + largest // _BYTES_OF_A_PART
    if parts > most:
        raise MalformedError(f"{parts} names and values are more than the {most} that are taken")
    try:
        given = _DECODER.decode(data.decode())
        if _ESCAPED.search(data) is not None:
            _refuse_surrogates(given)
        return _envelope(given, kinds)
    except ShapeError as error:
        raise MalformedError(f"body{error}" if str(error).startswith(".") else str(error)) from None
    except MalformedError:
        raise
    except (ValueError, RecursionError) as error:
        raise MalformedError(f"no JSON that can be taken: {str(error)[:80]}") from None


def head_of(data: bytes) -> Envelope:
    """The session and number of a message that can't be taken, where it begins as `pack` writes."""
    found = _HEAD.match(data)
    return Envelope(None) if found is None else Envelope(None, found[1].decode(), int(found[2]))


_HEAD = re.compile(
    rb'{"v":\d{1,9},"kind":"\w{1,40}","session":"([\w-]{0,64})","number":(\d{1,15}),'
)
_ESCAPED = re.compile(rb"\\u[dD][89a-fA-F]")
"""The only way in which a surrogate can be written in UTF-8."""


def _refuse_surrogates(given: Any) -> None:
    """Raise MalformedError if a text has half a pair: nothing could store it, or send it on."""
    try:
        json.dumps(given, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise MalformedError("a text has a lone surrogate") from None


def _envelope(given: Any, kinds: Mapping[str, type]) -> Envelope:
    if not isinstance(given, dict) or given.keys() != _KEYS:
        raise MalformedError(f"must be an object with {', '.join(sorted(_KEYS))}")
    if given["v"] != VERSION or type(given["v"]) is not int:
        said = ascii(given["v"])[:20]
        raise OtherVersionError(f"speaks version {said}, here it is {VERSION}")
    kind = given["kind"]
    if not isinstance(kind, str) or kind not in kinds:
        raise MalformedError(f"{str(kind)[:40]!a} is no kind of message here")
    number = _INTEGER(given["number"])
    if not 0 <= number < 2**53:
        raise MalformedError("number must be from 0 to 2^53")
    return Envelope(
        _reader(kinds[kind])(given["body"]),
        _short(given["session"], "session"),
        number,
        _short(given["id"], "id"),
    )


_KEYS = {"v", "kind", "session", "number", "id", "body"}
_INTEGER: Reader = decoder_of(int)


@cache
def _reader(kind: Hashable) -> Reader:
    return decoder_of(kind)


def _short(value: Any, name: str) -> str:
    if isinstance(value, str) and len(value) <= 64:
        return value
    raise MalformedError(f"{name} must be a text of at most 64 characters")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if not pairs:
        return {}
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ShapeError("names a key twice")
    return found


def _no_constant(text: str) -> float:
    raise ShapeError(f"{text} is no JSON")


_DECODER = json.JSONDecoder(object_pairs_hook=_once, parse_constant=_no_constant)
