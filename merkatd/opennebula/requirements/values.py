"""What a text is worth: globs as C's fnmatch takes them, numbers as C++'s streams read them."""

import re
from collections.abc import Callable
from functools import lru_cache
from math import inf
from struct import Struct

from merkatd.opennebula.requirements.tokens import LEAST, MOST

_WHOLE = re.compile(r"[ \t\n\v\f\r]*([+-]?[0-9]+)")
_DECIMAL = re.compile(
    r"[ \t\n\v\f\r]*(?P<mantissa>[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))"
    r"(?P<scaled>[eE](?P<exponent>[+-]?[0-9]*))?"
)
_SINGLE = Struct("<f")
_LONGEST = 300
"""Digits in a number; longer ones are outside of every range."""


def whole(text: str) -> int | None:
    """The whole number that the text begins with, if it fits 32 bits."""
    match = _WHOLE.match(text)
    if match is None:
        return None
    digits = match[1]
    number = int(digits) if len(digits) <= _LONGEST else MOST + 1
    return number if LEAST <= number <= MOST else None


def decimal(text: str) -> float | None:
    """The number that the text begins with, in single precision."""
    match = _DECIMAL.match(text)
    if match is None or (match["scaled"] and not match["exponent"].lstrip("+-")):
        return None
    try:
        return single(float(match[0]))
    except OverflowError:
        return None


def single(number: float) -> float:
    """The number in single precision. Raises OverflowError where it has none."""
    if number in {inf, -inf}:
        raise OverflowError
    value: float = _SINGLE.unpack(_SINGLE.pack(number))[0]
    return value


_CLASSES = {
    "alpha": "a-zA-Z",
    "digit": "0-9",
    "alnum": "a-zA-Z0-9",
    "upper": "A-Z",
    "lower": "a-z",
    "space": r"\s",
    "blank": r"\ \t",
    "punct": re.escape("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"),
    "xdigit": "0-9A-Fa-f",
    "cntrl": r"\x00-\x1f\x7f",
    "print": r"\x20-\x7e",
    "graph": r"\x21-\x7e",
}


@lru_cache(maxsize=4096)
def glob(pattern: str) -> Callable[[str], bool]:
    """Whether a whole text matches the pattern.

    Between stars only the leftmost match is tried, which is enough and keeps a pattern of many
    stars from taking forever.
    """
    parts = _parts(pattern)
    if parts is None:
        return lambda _text: False
    if len(parts) == 1 and pattern.isascii() and pattern.replace("_", "").isalnum():
        return pattern.__eq__
    first, *later = ("".join(part) for part in parts)
    if later:
        *middle, last = later
        first += "".join(f"(?>.*?{part})" for part in middle) + f".*{last}"
    compiled = re.compile(first + r"\Z", re.DOTALL)
    return lambda text: compiled.match(text) is not None


def _parts(pattern: str) -> list[list[str]] | None:
    """The pieces between stars, a regular expression a character; None: nothing matches."""
    parts: list[list[str]] = [[]]
    at = 0
    while at < len(pattern):
        char = pattern[at]
        at += 1
        if char == "*":
            parts.append([])
        elif char == "?":
            parts[-1].append(".")
        elif char == "\\":
            if at == len(pattern):
                return None
            parts[-1].append(re.escape(pattern[at]))
            at += 1
        elif char == "[" and (bracket := _bracket(pattern, at)):
            expression, at = bracket
            parts[-1].append(expression)
        else:
            parts[-1].append(re.escape(char))
    return parts


def _bracket(pattern: str, at: int) -> tuple[str, int] | None:
    """A bracket's regular expression and where it ends; None where it has no end."""
    negated = pattern[at : at + 1] in {"!", "^"}
    at += negated
    members: list[str] = []
    begin = at
    while at < len(pattern):
        if pattern[at] == "]" and at > begin:
            return _one_of(members, negated=negated), at + 1
        named = re.compile(r"\[:([a-z]+):\]").match(pattern, at)
        if named is not None and named[1] in _CLASSES:
            members.append(_CLASSES[named[1]])
            at = named.end()
            continue
        low, at = _member(pattern, at)
        if pattern[at : at + 1] == "-" and pattern[at + 1 : at + 2] not in {"", "]"}:
            high, at = _member(pattern, at + 1)
            members.append(f"{re.escape(low)}-{re.escape(high)}" if low <= high else "")
        else:
            members.append(re.escape(low))
    return None


def _member(pattern: str, at: int) -> tuple[str, int]:
    if pattern[at] == "\\" and at + 1 < len(pattern):
        at += 1
    return pattern[at], at + 1


def _one_of(members: list[str], *, negated: bool) -> str:
    inside = "".join(members)
    if not inside:
        return "." if negated else "(?!)"
    return f"[{'^' if negated else ''}{inside}]"
