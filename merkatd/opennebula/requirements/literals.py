"""The meaning of literals: globs as in C's fnmatch, numbers as C++'s streams read them."""

import re
from collections.abc import Callable
from functools import lru_cache
from math import inf
from struct import Struct

from merkatd.opennebula.requirements.tokens import MAX_NUMBER, MIN_NUMBER

_WHOLE = re.compile(r"[ \t\n\v\f\r]*([+-]?[0-9]+)")
_DECIMAL = re.compile(
    r"[ \t\n\v\f\r]*(?P<mantissa>[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))"
    r"(?P<scaled>[eE](?P<exponent>[+-]?[0-9]*))?"
)
_SINGLE = Struct("<f")
_LONGEST = 300
"""The most digits of a number; longer numbers are outside every range."""


def whole(text: str) -> int | None:
    """Return the whole number at the beginning of a text, None without one that fits 32 bits."""
    match = _WHOLE.match(text)
    if match is None:
        return None
    digits = match[1]
    number = int(digits) if len(digits) <= _LONGEST else MAX_NUMBER + 1
    return number if MIN_NUMBER <= number <= MAX_NUMBER else None


def decimal(text: str) -> float | None:
    """Return the number at the beginning of a text in single precision, None without one."""
    match = _DECIMAL.match(text)
    if match is None or (match["scaled"] and not match["exponent"].lstrip("+-")):
        return None
    try:
        return single(float(match[0]))
    except OverflowError:
        return None


def single(number: float) -> float:
    """Return the number in single precision. Raise OverflowError if it is too large."""
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
    """Return a function that checks whether a whole text matches the pattern.

    For each part between stars only the leftmost match is tried. This is sufficient, and bounds the
    time for patterns with many stars.
    """
    plain = _without_regex(pattern)
    if plain is not None:
        return plain
    parts = _parts(pattern)
    if parts is None:
        return lambda _text: False
    first, *later = ("".join(part) for part in parts)
    if later:
        *middle, last = later
        first += "".join(f"(?>.*?{part})" for part in middle if part) + f".*{last}"
    compiled = re.compile(first + r"\Z", re.DOTALL)
    return lambda text: compiled.match(text) is not None


def _without_regex(pattern: str) -> Callable[[str], bool] | None:
    """Return a faster function for the usual patterns `a`, `a*`, `*a`, `*a*`; None for others."""
    text = pattern.strip("*")
    if _SPECIAL.search(text) is not None:
        return None
    begins, ends = pattern.startswith("*"), pattern.endswith("*")
    if begins and ends:
        return lambda given: text in given
    if begins:
        return lambda given: given.endswith(text)
    return (lambda given: given.startswith(text)) if ends else text.__eq__


def _parts(pattern: str) -> list[list[str]] | None:
    """Return the parts between stars, as a regular expression for each character.

    Return None if nothing can match.
    """
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


_SPECIAL = re.compile(r"[*?\[\\]")
_MEMBER = rf"\[:(?:{'|'.join(_CLASSES)}):\]|(?:\\.|.)(?:-(?=[^\]])(?:\\.|.))?"
_BRACKET = re.compile(rf"[!^]?+(?:{_MEMBER})?+(?:(?!\])(?:{_MEMBER}))*+\]", re.DOTALL)
"""The text after an opening bracket up to its closing bracket, found before it is parsed."""
_NEXT = re.compile(
    rf"\[:(?P<named>{'|'.join(_CLASSES)}):\]|(?P<low>\\.|.)(?:-(?=[^\]])(?P<high>\\.|.))?",
    re.DOTALL,
)


def _bracket(pattern: str, at: int) -> tuple[str, int] | None:
    """Return a bracket's regular expression and its end, None if the bracket is not closed."""
    bracket = _BRACKET.match(pattern, at)
    if bracket is None:
        return None
    end = bracket.end() - 1
    negated = pattern[at] in {"!", "^"}
    at += negated
    members: list[str] = []
    while at < end:
        match = _NEXT.match(pattern, at, end)
        if match is None:
            break
        members.append(_member(match))
        at = match.end()
    return _one_of(members, negated=negated), end + 1


def _member(match: re.Match[str]) -> str:
    """Return a class, a range or a character in the form of a regular expression's brackets."""
    if match["named"] is not None:
        return _CLASSES[match["named"]]
    low = match["low"][-1]
    if match["high"] is None:
        return re.escape(low)
    high = match["high"][-1]
    return f"{re.escape(low)}-{re.escape(high)}" if low <= high else ""


def _one_of(members: list[str], *, negated: bool) -> str:
    inside = "".join(members)
    if not inside:
        return "." if negated else "(?!)"
    return f"[{'^' if negated else ''}{inside}]"
