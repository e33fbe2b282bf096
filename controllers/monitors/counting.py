"""Iterations, counted: from the lines of a log, or from what a simulated guest tells. Pure."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Any, Final, Protocol

import re2

from controllers.applications.replacing import ABSENT
from controllers.applications.shares import MADE

PATTERN: Final = r"\bstep\s+(?P<step>\d+)\b.*?(?P<seconds>\d+(?:\.\d+)?)\s*s\b"
"""A line of a log that tells of an iteration, unless the template says otherwise."""
LONGEST: Final = 1_000
"""Characters of an expression."""
MOST_KIB: Final = 128
"""Memory of a compiled expression. RE2 lets no other thread run while it compiles: what may take
8 MiB takes a fifth of a second, what may take this much some milliseconds."""
MOST_CLASSES: Final = 8
"""Classes of Unicode in an expression: each is hundreds of ranges before it is compiled."""
_CLASS: Final = re.compile(r"\\[pP]")
_TOO_LARGE: Final = "pattern too large"
_SHOWN: Final = 60
_DIGITS: Final = 40
_MOST: Final = 1e15
LATEST: Final = 5
"""An iteration's time is the median of so many: one that a suspension fell into says nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """What is known of one VM's part of the application."""

    done: int = 0
    took_s: tuple[float, ...] = ()
    """Of the latest iterations, the newest last."""
    at_s: float = 0.0
    """When a new iteration was last seen."""

    @property
    def step_s(self) -> float | None:
        """What an iteration takes lately."""
        return median(self.took_s) if self.took_s else None


class Pattern(Protocol):
    """A compiled expression."""

    def search(self, line: str, /) -> Any:
        """The first match of a line, None where there is none."""


def pattern_of(text: str) -> Pattern:
    """Return the expression. Raise ValueError if it is none, or names no `step`.

    RE2 matches in time that is proportional to the line, whatever a tenant's expression is. It
    knows neither lookarounds nor backreferences.
    """
    shown = repr(text) if len(text) <= _SHOWN else f"{text[:_SHOWN]!r}..."
    if len(text) > LONGEST:
        raise ValueError(f"pattern must have at most {LONGEST} characters (got {shown})")
    classes = len(_CLASS.findall(text))
    if classes > MOST_CLASSES:
        raise ValueError(
            f"pattern {shown}: it may have at most {MOST_CLASSES} classes \\p and \\P"
            f" (got {classes})"
        )
    options = re2.Options()
    options.log_errors = False
    options.max_mem = MOST_KIB << 10
    try:
        found = re2.compile(text, options)
    except (re2.error, UnicodeEncodeError) as error:
        raise ValueError(f"pattern {shown}: {_said(error)}") from None
    if "step" not in found.groupindex:
        raise ValueError(f"pattern {shown}: it needs a group (?P<step>...)")
    compiled: Pattern = found
    return compiled


def _said(error: Exception) -> str:
    """Return in words what RE2 refuses an expression for."""
    why = error.args[0]
    said = why.decode("utf-8", "replace") if isinstance(why, bytes) else str(error)
    if _TOO_LARGE in said:
        return f"compiled it needs more than {MOST_KIB} KiB; fewer repetitions {{n}} need less"
    return said


def counted(before: Count, lines: Iterable[str], pattern: Pattern, now_s: float) -> Count:
    """After these lines too. A step may be told again, by an application that was started anew."""
    done, took, at_s = before.done, list(before.took_s), before.at_s
    for line in lines:
        found = pattern.search(line)
        if found is None:
            continue
        groups = found.groupdict()
        step = _number(groups["step"])
        if step is None:
            continue
        done, at_s = int(step), now_s
        seconds = _number(groups.get("seconds"))
        if seconds is not None:
            took.append(seconds)
    return Count(done=done, took_s=tuple(took[-LATEST:]), at_s=at_s)


def _number(text: str | None) -> float | None:
    """The number from 0 on that a group holds, None where it holds none."""
    if text is None or len(text) > _DIGITS:
        return None
    try:
        number = float(text)
    except ValueError:
        return None
    return number if 0 <= number <= _MOST else None


def of_guest(told: Mapping[str, Any]) -> Count:
    """What the embedded cloud tells of a guest (`embedded.guest.progress`)."""
    log: Sequence[Sequence[float]] = told["log"]
    if not log:
        return Count()
    tail = log[-LATEST - 1 :]
    took = tuple(
        (later[0] - earlier[0]) / (later[1] - earlier[1])
        for earlier, later in pairwise(tail)
        if later[1] > earlier[1]
    )
    return Count(done=int(log[-1][1]), took_s=took, at_s=float(log[-1][0]))


def told(
    counts: Mapping[int, Count], absent: Mapping[int, float], now_s: float
) -> dict[str, float]:
    """What the controller is to know: an application is where its slowest part is."""
    values = {f"{ABSENT}{vm}": seconds for vm, seconds in absent.items()}
    values |= {f"{MADE}{vm}": float(one.done) for vm, one in counts.items()}
    if counts:
        slowest = min(counts.values(), key=lambda one: one.done)
        values["done"] = float(slowest.done)
        if slowest.at_s:
            values["waiting_s"] = max(0.0, now_s - slowest.at_s)
    steps = [one.step_s for one in counts.values() if one.step_s is not None]
    if steps:
        values["step_s"] = max(steps)
    return values
