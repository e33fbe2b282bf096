"""Messages as bytes: JSON in an envelope with version, session and number, strictly parsed."""

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
"""The size of a message around the controller's memory."""


_PARTS, _BYTES_OF_A_PART = 60_000, 24
"""The limit of names and values in a message: a constant, and one more for each 24 bytes that the
message may have. A short value costs the daemon as much time as a long one. A bid for four goods
has ten names and values for each VM."""
_PARTED_BY = (b",", b":", b"[", b"{")


def largest_bytes(vms: int) -> int:
    """Return the size limit of a message to the daemon from a platform of `vms` VMs.

    The longest message is the one that stores the controller's memory.
    """
    return longest_memory(vms) + _ENVELOPE_BYTES


LARGEST_BYTES = largest_bytes(MOST_VMS)
"""The size limit of any message to the daemon."""
LARGEST_NEWS_BYTES = LARGEST_BYTES + (MOST_VMS << 10)
"""The size limit of messages to a process: its memory, and about half a KiB for each VM."""


TOPIC_END = b"/"


def topic_of(platform: int) -> bytes:
    """Return the prefix of all publications for a platform; no topic is a prefix of another."""
    return b"%d" % platform + TOPIC_END


def market_topic(market: str) -> bytes:
    """Return the prefix of all publications for a market."""
    return b"market " + market.encode() + TOPIC_END


class MalformedError(ValueError):
    """The bytes are no valid message; the text gives the reason."""


class OtherVersionError(MalformedError):
    """The message has another version than this program."""


@dataclass(frozen=True, slots=True)
class Envelope:
    """A message with the data for its delivery."""

    body: Any
    session: str = ""
    number: int = 0
    """The message's number, rising within a session. An answer has its request's number."""
    id: str = ""
    """The action's id, which stays the same in every retry."""


_KIND_OF = {kind: name for name, kind in (TO_DAEMON | FROM_DAEMON).items()}


@dataclass(frozen=True, slots=True)
class Packed:
    """The JSON of a message's body, encoded once and sent many times."""

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
    """A cache of the JSON of the latest value."""

    def __init__(self) -> None:
        self._value: Any = None
        self._packed = pack_body(None)

    def pack(self, value: Any) -> Packed:
        """Return the JSON of an immutable value; encode it only if the value is a new object."""
        if value is not self._value:
            self._value, self._packed = value, pack_body(value)
        return self._packed


def pack(envelope: Envelope) -> bytes:
    """Return the bytes of a message; raise ValueError for numbers that JSON can't carry."""
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
        return dict(value)  # a mapping other than `dict`
    names, values = _columns(cast("Hashable", kind))
    return dict(zip(names, values(value), strict=True))


@cache
def _columns(kind: Any) -> tuple[tuple[str, ...], Any]:
    names = tuple(field.name for field in fields(kind))
    if len(names) > 1:
        return names, attrgetter(*names)
    return names, lambda value: [getattr(value, name) for name in names]


_ENCODER = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_written
)


def unpack(data: bytes, kinds: Mapping[str, type], largest: int = LARGEST_BYTES) -> Envelope:
    """Parse a message of one of these kinds; raise MalformedError if it is invalid."""
    if len(data) > largest:
        raise MalformedError(f"a message must have at most {largest} bytes (got {len(data)})")
    parts, most = sum(map(data.count, _PARTED_BY)), _PARTS + largest // _BYTES_OF_A_PART
    if parts > most:
        raise MalformedError(f"a message must have at most {most} names and values (got {parts})")
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
        raise MalformedError(f"a message must be valid JSON: {str(error)[:80]}") from None


def head_of(data: bytes) -> Envelope:
    """Return the session and number of an invalid message, if its head has the form of `pack`."""
    match = _HEAD.match(data)
    return Envelope(None) if match is None else Envelope(None, match[1].decode(), int(match[2]))


_HEAD = re.compile(
    rb'{"v":\d{1,9},"kind":"\w{1,40}","session":"([\w-]{0,64})","number":(\d{1,15}),'
)
_ESCAPED = re.compile(rb"\\u[dD][89a-fA-F]")
"""The only form in which valid UTF-8 can contain a surrogate."""


def _refuse_surrogates(given: Any) -> None:
    """Raise MalformedError if a text has a lone surrogate: it can't be stored or forwarded."""
    try:
        json.dumps(given, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise MalformedError("a text has a lone surrogate") from None


def _envelope(given: Any, kinds: Mapping[str, type]) -> Envelope:
    if not isinstance(given, dict) or given.keys() != _KEYS:
        raise MalformedError(f"a message must be an object with {', '.join(sorted(_KEYS))}")
    if given["v"] != VERSION or type(given["v"]) is not int:
        version = ascii(given["v"])[:20]
        raise OtherVersionError(f"speaks version {version}; expected version {VERSION}")
    kind = given["kind"]
    if not isinstance(kind, str) or kind not in kinds:
        raise MalformedError(f"kind {str(kind)[:40]!a} is unknown; expected {', '.join(kinds)}")
    number = _INTEGER(given["number"])
    if not 0 <= number < 2**53:
        raise MalformedError(f"number must be at least 0 and below 2^53 (got {number})")
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
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ShapeError("an object has the same key twice")
    return members


def _no_constant(text: str) -> float:
    raise ShapeError(f"{text} is not valid JSON")


_DECODER = json.JSONDecoder(object_pairs_hook=_once, parse_constant=_no_constant)
