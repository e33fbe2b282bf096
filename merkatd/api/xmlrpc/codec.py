"""The XML of XML-RPC: calls from bytes, answers to bytes."""

import html
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from math import isfinite
from typing import Any, NamedTuple
from xml.parsers.expat import ExpatError, ParserCreate

from merkatd.api.http.http_request import MANY_AT_ONCE
from merkatd.api.xmlrpc.errors import Code, FaultCode, Refusal, RpcFault

_SCALARS = frozenset({"string", "int", "i4", "i8", "boolean", "double"})
_NEVER_TAKEN = frozenset({"base64", "dateTime.iso8601", "nil", "ex:nil"})
_VALUE_TAG = _SCALARS | {"array", "struct"}
_INSIDE = {
    "": frozenset({"methodCall"}),
    "methodCall": frozenset({"methodName", "params"}),
    "params": frozenset({"param"}),
    "param": frozenset({"value"}),
    "value": _VALUE_TAG,
    "array": frozenset({"data"}),
    "data": frozenset({"value"}),
    "struct": frozenset({"member"}),
    "member": frozenset({"name", "value"}),
}
_NOTHING: frozenset[str] = frozenset()
_TAGS_PER_LEVEL = 3
_TAGS_AROUND = 5
_WHOLE = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)
_DOUBLE = re.compile(
    r"[+-]?([0-9.]{1,400}([eE][+-]?[0-9]{1,4})?|nan|inf|infinity)", re.ASCII | re.IGNORECASE
)
_UNSAID: Any = object()
_FIRST_TEXT = re.compile(
    rb"<params>\s*<param>\s*<value>(?:\s*<string>)?([^<]*)</(?:string|value)>", re.ASCII
)
_LOOKED_AT = 8_192
"""The bytes of a call in which `claimed_session` searches for the session string."""


class RpcCall(NamedTuple):
    """A call: the method's name and its arguments."""

    method: str
    arguments: list[Any]


def call_of(body: bytes, depth: int) -> RpcCall:
    """Return the call in these bytes. Raise RpcFault."""
    taking = Taking(depth)
    taking.feed(body, last=True)
    return taking.call()


def claimed_session(body: bytes) -> str:
    """Return the session string in a call's first bytes, or an empty text if it is not found.

    This takes microseconds for any bytes. It proves nothing, since the call is not parsed yet.
    """
    match = _FIRST_TEXT.search(body, 0, _LOOKED_AT)
    try:
        return "" if match is None else html.unescape(match[1].decode("utf-8", "replace"))
    except ValueError:  # a character's number has thousands of digits
        return ""


class Taking:
    """A parser of a call, fed piece by piece."""

    def __init__(self, depth: int) -> None:
        self._reading = reading = _Reading(_TAGS_AROUND + _TAGS_PER_LEVEL * depth)
        self._parser = parser = ParserCreate()
        parser.buffer_text = True
        parser.StartElementHandler = reading.start
        parser.EndElementHandler = reading.end
        parser.CharacterDataHandler = reading.text.append
        parser.StartDoctypeDeclHandler = _no_doctype

    def feed(self, piece: bytes, *, last: bool) -> None:
        """Parse the next bytes. Raise RpcFault."""
        try:
            self._parser.Parse(piece, last)
        except ExpatError as error:
            raise RpcFault(FaultCode.NO_CALL, f"the call is not valid XML: {error}") from None
        except (LookupError, ValueError):  # unknown encodings
            raise RpcFault(FaultCode.NO_CALL, "the call must be XML in UTF-8") from None

    def call(self) -> RpcCall:
        """Return the call after its last piece. Raise RpcFault."""
        if not self._reading.method:
            raise RpcFault(FaultCode.NO_CALL, "the call names no method")
        return RpcCall(self._reading.method, self._reading.arguments)


def _no_doctype(*_arguments: Any) -> None:
    raise RpcFault(FaultCode.NO_CALL, "a call must not have a document type or its own entities")


class _Reading:
    """The state of the parser: the part of the call that was read."""

    def __init__(self, most_tags: int) -> None:
        self.method = ""
        self.arguments: list[Any] = []
        self.text: list[str] = []
        self._most_tags = most_tags
        self._path = [""]
        self._values: list[Any] = []
        self._inside: list[Any] = []
        self._names: list[str | None] = []

    def start(self, tag: str, _attributes: Any) -> None:
        """Read the start of an element."""
        path = self._path
        if tag not in _INSIDE.get(path[-1], _NOTHING):
            raise _misplaced(tag, path[-1])
        path.append(tag)
        if len(path) > self._most_tags:
            raise RpcFault(FaultCode.NO_CALL, "arrays and structs are nested too deep")
        if tag == "value":
            self._values.append(_UNSAID)
        elif tag == "array":
            self._inside.append([])
        elif tag == "struct":
            self._inside.append({})
        elif tag == "member":
            self._names.append(None)
        self.text.clear()

    def end(self, tag: str) -> None:
        """Read the end of an element."""
        self._path.pop()
        if tag in _SCALARS:
            self._say(_scalar(tag, "".join(self.text)))
        elif tag == "value":
            self._keep(self._values.pop())
        elif tag in {"array", "struct"}:
            self._say(self._inside.pop())
        elif tag == "name":
            self._names[-1] = "".join(self.text)
        elif tag == "member":
            if self._names.pop() is not None:
                raise RpcFault(
                    FaultCode.NO_CALL, "each member of a struct needs a name and a value"
                )
        elif tag == "methodName":
            self.method = "".join(self.text).strip()
        self.text.clear()

    def _say(self, value: Any) -> None:
        if self._values[-1] is not _UNSAID:
            raise RpcFault(FaultCode.NO_CALL, "a value element must contain a single value")
        self._values[-1] = value

    def _keep(self, value: Any) -> None:
        """Store a complete value in its parameter, array or member."""
        if value is _UNSAID:  # without a type it is a string
            value = "".join(self.text)
        where = self._path[-1]
        if where == "param":
            self.arguments.append(value)
        elif where == "data":
            self._inside[-1].append(value)
        else:
            name, self._names[-1] = self._names[-1], None
            if name is None or name in self._inside[-1]:
                raise RpcFault(FaultCode.NO_CALL, "each member of a struct needs a unique name")
            self._inside[-1][name] = value


def _misplaced(tag: str, where: str) -> RpcFault:
    shown = tag[:20]
    if where == "value" and tag in _NEVER_TAKEN:
        return RpcFault(FaultCode.WRONG_TYPE, f"no method accepts a value of the type {shown}")
    inside = f"inside {where}" if where else "at the top"
    return RpcFault(FaultCode.NO_CALL, f"a call must not have {shown!r} {inside}")


def _scalar(tag: str, text: str) -> Any:
    if tag == "string":
        return text
    text = text.strip()
    if tag == "boolean":
        if text in {"0", "1"}:
            return text == "1"
    elif tag == "double":
        if _DOUBLE.fullmatch(text):
            try:
                return float(text)
            except ValueError:
                pass
    elif _WHOLE.fullmatch(text):
        return int(text)
    raise RpcFault(FaultCode.WRONG_TYPE, f"{text[:40]!r} is not a valid {tag}")


_SPECIAL = re.compile("[&<>\x00-\x08\x0b-\x0c\x0e-\x1f\r\ud800-\udfff\ufffe\uffff]")
_ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "\r": "&#13;"}
_HEAD = b'<?xml version="1.0" encoding="UTF-8"?>\r\n<methodResponse>'
_VALUE_BYTES = _HEAD + b"<params><param><value>"
_VALUE_TAIL = b"</value></param></params></methodResponse>\r\n"
_DONE = _VALUE_BYTES + b"<array><data><value><boolean>1</boolean></value><value>"
_DONE_TAIL = b"</value><value><int>0</int></value></data></array>" + _VALUE_TAIL
_LARGEST = 2**31
_MANY = 200
"""The number of rows from which on encoding takes some milliseconds."""


class Encoded(bytes):
    """A value that is encoded already."""

    __slots__ = ()


def answer(value: Any) -> bytes:
    """Return the answer of a successful call with this value."""
    return b"".join((_DONE, encoded(value), _DONE_TAIL))


def is_large(value: Any) -> bool:
    """Return whether the value has so many rows that encoding it would delay other calls."""
    parts = value.values() if isinstance(value, dict) else ()
    return any(
        isinstance(part, list | tuple | dict) and len(part) > _MANY for part in (value, *parts)
    )


def refused(method: str, refusal: Refusal) -> bytes:
    """Return the answer of a failed call."""
    parts = [False, f"[{method}] {refusal.text}", int(refusal.code), refusal.oid]
    return b"".join((_VALUE_BYTES, encoded(parts), _VALUE_TAIL))


def fault(wrong: RpcFault) -> bytes:
    """Return the fault for an invalid call."""
    content = encoded({"faultCode": int(wrong.code), "faultString": wrong.text})
    return b"".join((_HEAD, b"<fault><value>", content, b"</value></fault></methodResponse>\r\n"))


def encoded(value: Any) -> Encoded:
    """Return the contents of the element of a value."""
    if isinstance(value, Encoded):
        return value
    return Encoded(_text(value).encode())


def _text(value: Any) -> str:
    writer = _WRITERS.get(type(value))
    if writer is None:  # members of a string enumeration are strings too
        kinds = (kind for kind in type(value).__mro__ if kind in _WRITERS)
        writer = _WRITERS.get(next(kinds, object))
    if writer is None:
        raise TypeError(f"XML-RPC carries no {type(value).__name__}")
    return writer(value)


def _string(value: str) -> str:
    safe = value if value.isalnum() else _SPECIAL.sub(_escape, value)
    return f"<string>{safe}</string>"


def _number(value: int) -> str:
    if -_LARGEST <= value < _LARGEST:
        return f"<int>{value}</int>"
    return f"<double>{float(value)!r}</double>"


def _struct(value: Mapping[str, Any]) -> str:
    pieces = ["<struct>"]
    for name, member in value.items():
        if not (member is None or (type(member) is float and not isfinite(member))):
            pieces += (_before(name), _text(member), "</value></member>")
    pieces.append("</struct>")
    return "".join(pieces)


@lru_cache(maxsize=1000)
def _before(name: str) -> str:
    """Return the XML before a member's value. There are few names, so a cache helps."""
    return f"<member><name>{_SPECIAL.sub(_escape, name)}</name><value>"


def _array(value: Sequence[Any]) -> str:
    items = [f"<value>{_text(item)}</value>" for item in value]
    return f"<array><data>{''.join(items)}</data></array>"


_WRITERS: Mapping[type, Callable[[Any], str]] = {
    str: _string,
    bool: lambda value: f"<boolean>{value:d}</boolean>",
    int: _number,
    float: lambda value: f"<double>{value!r}</double>",
    dict: _struct,
    list: _array,
    tuple: _array,
}


def _escape(match: re.Match[str]) -> str:
    return _ESCAPES.get(match[0], "?")


class XmlBodies:
    """The error bodies of a connection, as XML-RPC."""

    def too_large(self, most: int) -> bytes:
        """Return the body for a call of more than `most` bytes."""
        return fault(RpcFault(FaultCode.TOO_LARGE, f"a call must have at most {most} bytes"))

    def too_many(self) -> bytes:
        """Return the body for a call of an address that has too many unanswered calls."""
        return refused("merkat", Refusal(Code.ACTION, MANY_AT_ONCE))

    def late(self) -> bytes:
        """Return the body for an answer that takes too long; the call may still take effect."""
        text = "No answer in time: the call may have taken effect or not."
        return refused("merkat", Refusal(Code.INTERNAL, text))

    def failed(self) -> bytes:
        """Return the body for a call that failed."""
        text = "the daemon failed to answer; its log says why"
        return refused("merkat", Refusal(Code.INTERNAL, text))
