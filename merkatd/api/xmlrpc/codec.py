"""Calls and answers to bytes and back."""

import html
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from math import isfinite
from typing import Any, NamedTuple
from xml.parsers.expat import ExpatError, ParserCreate

from merkatd.api.http.http_request import MANY_AT_ONCE
from merkatd.api.xmlrpc.errors import FaultCode, RpcFault
from merkatd.service.base.errors import Code, RequestError, TooManyRequestsError

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
"""Within so many bytes the session string ends, as clients write it."""


class RpcCall(NamedTuple):
    """A method's name and what goes with it."""

    method: str
    arguments: list[Any]


def call_of(body: bytes, depth: int) -> RpcCall:
    """The call in these bytes. Raises RpcFault."""
    taking = Taking(depth)
    taking.feed(body, last=True)
    return taking.call()


def claimed_session(body: bytes) -> str:
    """Return the session string as a call's first bytes have it; nothing where it isn't plain.

    It costs microseconds whatever the bytes are, and proves nothing: the call is still to be read.
    """
    found = _FIRST_TEXT.search(body, 0, _LOOKED_AT)
    return "" if found is None else html.unescape(found[1].decode("utf-8", "replace"))


class Taking:
    """Takes a call apart, a piece after the other."""

    def __init__(self, depth: int) -> None:
        self._reading = reading = _Reading(_TAGS_AROUND + _TAGS_PER_LEVEL * depth)
        self._parser = parser = ParserCreate()
        parser.buffer_text = True
        parser.StartElementHandler = reading.start
        parser.EndElementHandler = reading.end
        parser.CharacterDataHandler = reading.text.append
        parser.StartDoctypeDeclHandler = _no_doctype

    def feed(self, piece: bytes, *, last: bool) -> None:
        """Read the next bytes. Raises RpcFault."""
        try:
            self._parser.Parse(piece, last)
        except ExpatError as error:
            raise RpcFault(FaultCode.NO_CALL, f"the call is no XML: {error}") from None
        except (LookupError, ValueError):  # unknown encodings
            raise RpcFault(FaultCode.NO_CALL, "the call is no XML in UTF-8") from None

    def call(self) -> RpcCall:
        """Return the call, once all of it was fed. Raises RpcFault."""
        if not self._reading.method:
            raise RpcFault(FaultCode.NO_CALL, "the call names no method")
        return RpcCall(self._reading.method, self._reading.arguments)


def _no_doctype(*_arguments: Any) -> None:
    raise RpcFault(FaultCode.NO_CALL, "a call has no document type, and no entities of its own")


class _Reading:
    """What was read until now."""

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
        """An element begins."""
        path = self._path
        if tag not in _INSIDE.get(path[-1], _NOTHING):
            raise _misplaced(tag, path[-1])
        path.append(tag)
        if len(path) > self._most_tags:
            raise RpcFault(FaultCode.NO_CALL, "arrays and structs stand too deep in each other")
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
        """An element ends."""
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
                raise RpcFault(FaultCode.NO_CALL, "a member of a struct has a name and a value")
        elif tag == "methodName":
            self.method = "".join(self.text).strip()
        self.text.clear()

    def _say(self, value: Any) -> None:
        if self._values[-1] is not _UNSAID:
            raise RpcFault(FaultCode.NO_CALL, "a value holds one value")
        self._values[-1] = value

    def _keep(self, value: Any) -> None:
        """A value is whole: it belongs to a parameter, an array, or a member."""
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
                raise RpcFault(FaultCode.NO_CALL, "each member of a struct has a name of its own")
            self._inside[-1][name] = value


def _misplaced(tag: str, where: str) -> RpcFault:
    shown = tag[:20]
    if where == "value" and tag in _NEVER_TAKEN:
        return RpcFault(FaultCode.WRONG_TYPE, f"no method takes a value of the type {shown}")
    inside = f"inside {where}" if where else "at the top"
    return RpcFault(FaultCode.NO_CALL, f"a call has no {shown!r} {inside}")


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
    raise RpcFault(FaultCode.WRONG_TYPE, f"{text[:40]!r} is no {tag}")


_SPECIAL = re.compile("[&<>\x00-\x08\x0b-\x0c\x0e-\x1f\r\ud800-\udfff\ufffe\uffff]")
_ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "\r": "&#13;"}
_HEAD = b'<?xml version="1.0" encoding="UTF-8"?>\r\n<methodResponse>'
_VALUE_BYTES = _HEAD + b"<params><param><value>"
_VALUE_TAIL = b"</value></param></params></methodResponse>\r\n"
_DONE = _VALUE_BYTES + b"<array><data><value><boolean>1</boolean></value><value>"
_DONE_TAIL = b"</value><value><int>0</int></value></data></array>" + _VALUE_TAIL
_LARGEST = 2**31
_MANY = 200
"""Rows; to write so many takes some milliseconds."""


class Encoded(bytes):
    """A value that is written already."""

    __slots__ = ()


def answer(value: Any) -> bytes:
    """The call was done, and this came of it."""
    return b"".join((_DONE, encoded(value), _DONE_TAIL))


def is_large(value: Any) -> bool:
    """Return whether it has so many rows that writing it would hold others up."""
    parts = value.values() if isinstance(value, dict) else ()
    return any(isinstance(one, list | tuple | dict) and len(one) > _MANY for one in (value, *parts))


def refused(method: str, refusal: RequestError) -> bytes:
    """The call was not done."""
    said = [False, f"[{method}] {refusal.text}", int(refusal.code), refusal.oid]
    return b"".join((_VALUE_BYTES, encoded(said), _VALUE_TAIL))


def fault(wrong: RpcFault) -> bytes:
    """It was no call."""
    said = encoded({"faultCode": int(wrong.code), "faultString": wrong.text})
    return b"".join((_HEAD, b"<fault><value>", said, b"</value></fault></methodResponse>\r\n"))


def encoded(value: Any) -> Encoded:
    """What stands inside a value's element."""
    if isinstance(value, Encoded):
        return value
    return Encoded(_text(value).encode())


def _text(value: Any) -> str:
    writer = _WRITERS.get(type(value))
    if writer is None:  # words of an enumeration are strings too
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
    """What stands before a member's value; there are few names, but for kinds of movements."""
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


def _escape(found: re.Match[str]) -> str:
    return _ESCAPES.get(found[0], "?")


class XmlBodies:
    """What a connection answers by itself, as XML-RPC."""

    def too_large(self, most: int) -> bytes:
        """A call has more bytes than it may have."""
        return fault(RpcFault(FaultCode.TOO_LARGE, f"a call may have {most} bytes at most"))

    def too_many(self) -> bytes:
        """The address has as many calls in hand as it may have."""
        return refused("merkat", TooManyRequestsError(MANY_AT_ONCE))

    def late(self) -> bytes:
        """An answer takes too long; the call may take effect all the same."""
        text = "No answer in time: what was asked for may have been done or not."
        return refused("merkat", RequestError(Code.INTERNAL, text))

    def failed(self) -> bytes:
        """An answer could not be made."""
        text = "the daemon failed to answer; its log says why"
        return refused("merkat", RequestError(Code.INTERNAL, text))
