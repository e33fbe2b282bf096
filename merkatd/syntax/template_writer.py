"""Templates as unambiguous text: a line for each attribute, each value quoted."""

import re
from collections.abc import Iterable
from typing import Final

from merkatd.syntax.one_template import Attribute, Vector
from merkatd.syntax.template_lexer import CDATA_END, VARIABLE

_BARE: Final = re.compile(r"[^=# \t\r\n,\[\]\"]+")


class UnwritableError(ValueError):
    """A value that OpenNebula's syntax can't express; the message names its attribute."""


def template_text(attributes: Iterable[Attribute]) -> str:
    """Return the text of the attributes; more lines may be appended. Raise UnwritableError."""
    return "".join(f"{_line(name, value)}\n" for name, value in attributes)


def _line(name: str, value: str | Vector) -> str:
    if isinstance(value, str):
        return _pair(name, value)
    inside = ", ".join(_pair(key, text, f"{name}/") for key, text in value)
    return f"{_checked(name)}=[ {inside} ]"


def _checked(name: str, where: str = "") -> str:
    if VARIABLE.fullmatch(name) is None:
        raise UnwritableError(f"{where}{name}: a name may contain only letters, digits and _")
    return name


def _pair(name: str, text: str, where: str = "") -> str:
    return f"{_checked(name, where)}={_value(f'{where}{name}', text)}"


def _value(name: str, text: str) -> str:
    if CDATA_END in text:
        raise UnwritableError(f"{name}: a value may not contain {CDATA_END}")
    # A backslash before a quote always escapes it, even after another backslash. So the closing
    # quote can't follow a backslash: a value that ends with one must be written without quotes.
    if text.endswith("\\"):
        if _BARE.fullmatch(text) is None:
            raise UnwritableError(
                f"{name}: a value that ends with a backslash may not contain blanks, quotes,"
                " commas, brackets, = or #"
            )
        return text
    escaped = text.replace('"', '\\"')
    return f'"{escaped}"'
