"""Templates as text that OpenNebula reads in one way only: a line each, every value quoted."""

import re
from collections.abc import Iterable
from typing import Final

from merkatd.syntax.one_template import Attribute, Vector
from merkatd.syntax.template_lexer import CDATA_END

_NAME: Final = re.compile(r"[A-Za-z0-9_]+")
_BARE: Final = re.compile(r"[^=# \t\r\n,\[\]\"]+")


class UnwritableError(ValueError):
    """A value that OpenNebula's syntax has no way to write; the message names its attribute."""


def written(attributes: Iterable[Attribute]) -> str:
    """Return the attributes' text, which may be followed by more. Raise UnwritableError."""
    return "".join(f"{_line(name, value)}\n" for name, value in attributes)


def _line(name: str, value: str | Vector) -> str:
    if isinstance(value, str):
        return _pair(name, value)
    inside = ", ".join(_pair(key, text, f"{name}/") for key, text in value)
    return f"{_checked(name)}=[ {inside} ]"


def _checked(name: str, where: str = "") -> str:
    if _NAME.fullmatch(name) is None:
        raise UnwritableError(f"{where}{name}: a name consists of letters, digits and _")
    return name


def _pair(name: str, text: str, where: str = "") -> str:
    return f"{_checked(name, where)}={_value(f'{where}{name}', text)}"


def _value(name: str, text: str) -> str:
    if CDATA_END in text:
        raise UnwritableError(f"{name}: a value may not contain {CDATA_END}")
    # A backslash in front of a quote escapes it, whatever stands in front of the backslash: a
    # value that has both can't be told from one that has a quote alone.
    if text.endswith("\\"):
        if _BARE.fullmatch(text) is None:
            raise UnwritableError(
                f"{name}: a value that ends with a backslash may have no blanks, quotes,"
                " commas, brackets, = or # in it"
            )
        return text
    escaped = text.replace('"', '\\"')
    return f'"{escaped}"'
