"""TOML texts of tenants, checked before they are parsed, so that parsing is always fast.

Note [Costs of tomllib]
    The time of `tomllib` grows with the square of the parts of a dotted key, and with the product
    of the parts of a table's header and the lines under it: 32 KB took 11 seconds. Its recursion
    grows with the nesting. So one pass of a regular expression, in time proportional to the text,
    counts the parts of each key, the nesting and the values before `tomllib` gets the text.
    The pass splits a valid text exactly as TOML does. In an invalid text, `tomllib` stops at the
    first error, and up to there the pass is exact too. Three quotes without an end are such an
    error: if the pass went on behind them, it would search for an end again and again, for seconds.
"""

import re
import tomllib
from typing import Any, Final

MOST_PARTS: Final = 12
"""The most parts of a dotted key."""
DEEPEST: Final = 12
"""The most levels of nested arrays and inline tables."""
MOST_VALUES: Final = 2_000
"""The most parts of keys, tables and elements of arrays, all together."""
_TOKEN: Final = re.compile(
    r'''
      (?P<text>
        """ (?: [^"\\] | \\. | "{1,2}(?!") )*+ "{3,5}
      | \'\'\' (?: [^\'] | \'{1,2}(?!\') )*+ \'{3,5}
      | " (?!"") (?: [^"\\\n] | \\. )*+ "
      | \' (?!\'\') [^\'\n]*+ \'
      )
    | (?P<comment> \# [^\n]*+ )
    | (?P<sign> [][{}.,=] )
    | (?P<open> ["\'] )
    ''',
    re.VERBOSE | re.DOTALL,
)
_COUNTED: Final = frozenset("=,[{.")


def read_toml(text: str) -> dict[str, Any]:
    """Return the values of a text. Raise ValueError if it is invalid or too complex."""
    _check(text)
    return parse_toml(text)


def parse_toml(text: str) -> dict[str, Any]:
    """Return the values of a text that was accepted before. Raise ValueError if it is invalid."""
    try:
        return tomllib.loads(text)
    except (RecursionError, ValueError) as error:
        raise ValueError(f"invalid TOML: {error}") from None


def _check(text: str) -> None:
    """Raise ValueError if the text has more parts, levels or values than are allowed."""
    dots = depth = values = 0
    for token in _TOKEN.finditer(text):
        if token.lastgroup == "open":
            return  # `tomllib` stops at this error
        if token.lastgroup != "sign":
            continue
        sign = token[0]
        dots = dots + 1 if sign == "." else 0
        values += sign in _COUNTED
        depth += (sign in "[{") - (depth > 0 and sign in "]}")
        # The point of a number just before the key counts too.
        if dots > MOST_PARTS:
            raise ValueError(f"{_line(text, token)}: a key must have at most {MOST_PARTS} parts")
        if depth > DEEPEST:
            raise ValueError(
                f"{_line(text, token)}: arrays and tables must be nested at most {DEEPEST} deep"
            )
        if values > MOST_VALUES:
            raise ValueError(
                f"{_line(text, token)}: a text must have at most {MOST_VALUES} keys and values"
            )


def _line(text: str, token: re.Match[str]) -> str:
    return f"line {text.count(chr(10), 0, token.start()) + 1}"
