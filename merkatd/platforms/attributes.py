"""The attributes that a VM template's text consists of, read exactly as OpenNebula reads them.

Only what can be read in one way is read at all: no comment beside an attribute, no quote in a bare
word. Of anything else nothing is known, which is for who asks to judge.
"""

import re
from typing import Final

_QUOTED: Final = r'"(?:[^"\\]|\\"|\\(?!"))*"'
"""A backslash before a quote always escapes it, one before another backslash means nothing."""
_VALUE: Final = rf'(?:{_QUOTED}|[^=#\s,\[\]"]+)'
_PAIR: Final = rf"\w+[ \t]*=[ \t]*{_VALUE}"
_VECTOR: Final = rf"\[[ \t\n]*+(?:{_PAIR}(?:[ \t\n]*,[ \t\n]*{_PAIR})*)?[ \t\n]*\]"
_ATTRIBUTE: Final = re.compile(rf"(\w+)[ \t]*=[ \t]*(?:{_VECTOR}|{_VALUE}|(?=\n))", re.ASCII)
_BETWEEN: Final = re.compile(r"(?:^[ \t]*#[^\n]*\n|[ \t\n])*", re.MULTILINE)


def attributes(text: str) -> list[tuple[str, str]] | None:
    """Each attribute's name, in capitals, and its whole text; None where that is not certain."""
    found = []
    at = _end(text, 0)
    while at < len(text):
        one = _ATTRIBUTE.match(text, at)
        if one is None:
            return None
        found.append((one[1].upper(), one[0]))
        at = _end(text, one.end())
        if at == one.end() < len(text):
            return None
    return found


def escaped(text: str | None) -> str:
    """A value between quotes: a backslash escapes a quote, and is itself everywhere else.

    One at the end would escape the quote behind it.
    """
    said = (text or "").replace('"', '\\"')
    return f"{said} " if said.endswith("\\") else said


def _end(text: str, at: int) -> int:
    """Where the next attribute begins."""
    between = _BETWEEN.match(text, at)
    return at if between is None else between.end()
