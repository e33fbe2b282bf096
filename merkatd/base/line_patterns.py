"""Regular expressions of tenants, matched in linear time (RE2)."""

import re
from typing import Any, Final, Protocol

import re2

LONGEST: Final = 1_000
"""The longest expression, in characters."""
MOST_KIB: Final = 128
"""The memory limit of a compiled expression. RE2 blocks all other threads while it compiles: an
expression of 8 MiB takes 0.2 s, and one of 128 KiB some milliseconds."""
MOST_CLASSES: Final = 8
"""The most Unicode classes in an expression: each expands to hundreds of ranges."""
_CLASS: Final = re.compile(r"\\[pP]")
_TOO_LARGE: Final = "pattern too large"
_SHOWN: Final = 60


class Pattern(Protocol):
    """A compiled expression."""

    def search(self, line: str, /) -> Any:
        """Return the first match in a line, or None."""


def pattern_of(text: str) -> Pattern:
    """Return the compiled expression. Raise ValueError if it is invalid or has no group `step`.

    RE2 matches in time proportional to the line, for every expression that a tenant may write.
    It supports neither lookarounds nor backreferences.
    """
    shown = repr(text) if len(text) <= _SHOWN else f"{text[:_SHOWN]!r}..."
    if len(text) > LONGEST:
        raise ValueError(f"pattern must have at most {LONGEST} characters (got {shown})")
    classes = len(_CLASS.findall(text))
    if classes > MOST_CLASSES:
        raise ValueError(
            f"pattern {shown}: must have at most {MOST_CLASSES} classes \\p and \\P (got {classes})"
        )
    options = re2.Options()
    options.log_errors = False
    options.max_mem = MOST_KIB << 10
    try:
        expression = re2.compile(text, options)
    except (re2.error, UnicodeEncodeError) as error:
        raise ValueError(f"pattern {shown}: {_reason(error)}") from None
    if "step" not in expression.groupindex:
        raise ValueError(f"pattern {shown}: needs a group (?P<step>...)")
    compiled: Pattern = expression
    return compiled


def _reason(error: Exception) -> str:
    """Return RE2's reason for rejecting an expression."""
    why = error.args[0]
    message = why.decode("utf-8", "replace") if isinstance(why, bytes) else str(error)
    if _TOO_LARGE in message:
        return f"needs more than {MOST_KIB} KiB when compiled; use fewer repetitions {{n}}"
    return message
