"""The time of a parser at its size limit: known worst cases, and a search for worse ones.

A text is a frame that is filled with one unit, repeated up to the size limit. A unit is a few words
of the parser's language; `{n}` stands for a number that is different each time. The search starts
from random units and changes the slowest ones that it has found.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from tests.machine_speed import slowness

LIMIT_S = 0.1
"""The time limit of every parser, whatever a tenant sends."""
PAUSES_S = (0.1, 0.5, 1.0, 2.0, 4.0)
_REFUSALS: tuple[type[Exception], ...] = (ValueError,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parser:
    """A parser of tenants' text."""

    name: str
    read: Callable[[str], object]
    bytes_: int
    """The greatest size of its input."""
    words: Sequence[str]
    """Words of its language, from which units are built."""
    frames: Sequence[tuple[str, str]] = (("", ""),)
    """The texts before and after the units."""
    known: Sequence[tuple[str, str, str]] = ()
    """Known worst cases: before, unit, after."""
    refuses: tuple[type[Exception], ...] = _REFUSALS
    """The exceptions that it may raise."""
    limit_s: float = LIMIT_S


@dataclass(frozen=True, slots=True)
class Found:
    """A text and the time that it took."""

    before: str
    unit: str
    after: str
    seconds: float

    def __str__(self) -> str:
        return f"{self.seconds * 1e3:.0f} ms: {self.before!r} + {self.unit!r} ... + {self.after!r}"


def filled(before: str, unit: str, after: str, bytes_: int) -> str:
    """Return the frame, filled with as many units as fit into the size limit."""
    room = bytes_ - len(before.encode()) - len(after.encode())
    if "{n}" not in unit:
        return before + unit * max(0, room // len(unit.encode())) + after
    units: list[str] = []
    number = 0
    while room >= 0:
        units.append(unit.replace("{n}", str(number)))
        room -= len(units[-1].encode())
        number += 1
    return before + "".join(units[:-1]) + after


def seconds_of(parser: Parser, text: str) -> float:
    """Return the CPU time of this thread, which does not include other work on the machine."""
    began_s = time.thread_time()
    with suppress(*parser.refuses):
        parser.read(text)
    return time.thread_time() - began_s


def measured(parser: Parser, before: str, unit: str, after: str) -> Found:
    """Return the least of up to three times, because the first run may find cold caches.

    If all are above the limit, measure again after pauses, in units of the machine's present speed:
    other programs that use the caches of the same core cost this thread CPU time too.
    """
    text = filled(before, unit, after, parser.bytes_)
    took_s = seconds_of(parser, text)
    for _ in range(2):
        if took_s > parser.limit_s / 2:
            took_s = min(took_s, seconds_of(parser, text))
    for pause_s in PAUSES_S:
        if took_s >= parser.limit_s:
            time.sleep(pause_s)
            slower, spent_s = slowness(), seconds_of(parser, text)
            took_s = min(took_s, spent_s / min(slower, slowness()))
    return Found(before, unit, after, took_s)


def worst(parser: Parser, tries: int, seed: int) -> Found:
    """Return the slowest text of this number of tries."""
    random = np.random.default_rng(seed)
    best: list[Found] = []
    for number in range(tries):
        if best and number % 2:
            candidate = best[int(random.integers(len(best)))]
            before, unit, after = (
                candidate.before,
                _changed(parser, candidate.unit, random),
                candidate.after,
            )
        else:
            before, after = parser.frames[int(random.integers(len(parser.frames)))]
            unit = "".join(_word(parser, random) for _ in range(int(random.integers(1, 5))))
        best = sorted(
            [*best, measured(parser, before, unit, after)],
            key=lambda worst_case: -worst_case.seconds,
        )[:5]
    return best[0]


def _changed(parser: Parser, unit: str, random: np.random.Generator) -> str:
    """Return the unit with another word before or after it, doubled, or cut in half."""
    choice = int(random.integers(4))
    if choice == 0:
        return _word(parser, random) + unit
    if choice == 1:
        return unit + _word(parser, random)
    if choice == 2 and len(unit) < 64:
        return unit + unit
    return unit[: max(1, len(unit) // 2)]


def _word(parser: Parser, random: np.random.Generator) -> str:
    return parser.words[int(random.integers(len(parser.words)))]
