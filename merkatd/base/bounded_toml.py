"""TOML texts of tenants: parsed only where the parser's time is known to be short.

Note [Costs of tomllib]
    The time that `tomllib` takes grows with the square of the parts of a dotted key, and with
    the product of the parts of a table's header and the lines under it: 32 KB took 11 seconds.
    Its recursion grows with the nesting. One pass of a regular expression, whose time is
    proportional to the text, therefore counts the parts of each key, the nesting, and the values
    before `tomllib` sees the text. The pass reads a valid text exactly as TOML does. Where a
    text is not valid, `tomllib` stops at the first error, and so up to there the pass is exact.
"""

import re
import tomllib
from typing import Any, Final

MOST_PARTS: Final = 12
"""Parts of a dotted key."""
DEEPEST: Final = 12
"""Arrays and inline tables inside one another."""
MOST_VALUES: Final = 2_000
"""Parts of keys, tables and elements of arrays, all together."""
_TOKEN: Final = re.compile(
    r'''
      (?P<text>
        """ (?: [^"\\] | \\. | "{1,2}(?!") )*+ "{3,5}
      | \'\'\' (?: [^\'] | \'{1,2}(?!\') )*+ \'{3,5}
      | " (?: [^"\\\n] | \\. )*+ "
      | \' [^\'\n]*+ \'
      )
    | (?P<comment> \# [^\n]*+ )
    | (?P<sign> [][{}.,=] )
    | (?P<open> ["\'] )
    ''',
    re.VERBOSE | re.DOTALL,
)
_COUNTED: Final = frozenset("=,[{.")


def read_toml(text: str) -> dict[str, Any]:
    """Return the values of a text. Raise ValueError for what is wrong with it."""
    _check(text)
    return parse_toml(text)


def parse_toml(text: str) -> dict[str, Any]:
    """Return the values of a text that was accepted before. Raise ValueError."""
    try:
        return tomllib.loads(text)
    except (RecursionError, ValueError) as error:
        raise ValueError(f"it is no TOML: {error}") from None


def _check(text: str) -> None:
    """Raise ValueError if the text has more parts, levels or values than are allowed."""
    dots = depth = values = 0
    for token in _TOKEN.finditer(text):
        if token.lastgroup == "open":
            return  # the parser stops here
        if token.lastgroup != "sign":
            continue
        sign = token[0]
        dots = dots + 1 if sign == "." else 0
        values += sign in _COUNTED
        depth += (sign in "[{") - (depth > 0 and sign in "]}")
        # The point of a number before the key is among them.
        if dots > MOST_PARTS:
            raise ValueError(f"{_line(text, token)}: a key of at most {MOST_PARTS} parts is right")
        if depth > DEEPEST:
            raise ValueError(
                f"{_line(text, token)}: at most {DEEPEST} arrays and tables inside one another"
                " are right"
            )
        if values > MOST_VALUES:
            raise ValueError(
                f"{_line(text, token)}: at most {MOST_VALUES} keys and values are right"
            )


def _line(text: str, token: re.Match[str]) -> str:
    return f"line {text.count(chr(10), 0, token.start()) + 1}"
