"""Answers as bytes. A member without a value is left out: XML-RPC has no null."""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from math import isfinite
from typing import Any

from merkatd.api.xmlrpc.words import Refusal, RpcFault

_SPECIAL = re.compile("[&<>\x00-\x08\x0b-\x0c\x0e-\x1f\r\ud800-\udfff\ufffe\uffff]")
_ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "\r": "&#13;"}
_HEAD = b'<?xml version="1.0" encoding="UTF-8"?>\r\n<methodResponse>'
_VALUE = _HEAD + b"<params><param><value>"
_VALUE_TAIL = b"</value></param></params></methodResponse>\r\n"
_DONE = _VALUE + b"<array><data><value><boolean>1</boolean></value><value>"
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


def refused(method: str, refusal: Refusal) -> bytes:
    """The call was not done."""
    said = [False, f"[{method}] {refusal.text}", int(refusal.code), refusal.oid]
    return b"".join((_VALUE, encoded(said), _VALUE_TAIL))


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
