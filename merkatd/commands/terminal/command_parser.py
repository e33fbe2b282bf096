"""Parsers, the types of their arguments, and what is wrong said in one line."""

import argparse
import math
import sys
import time
from collections.abc import Sequence
from typing import Any, NoReturn

from merkatd.commands.terminal.screen_text import plain
from merkatd.commands.terminal.table_columns import shortened

DONE, NOT_DONE, WRONG_WORDS = 0, 1, 2
"""Exit codes; 130 is a command's that was interrupted."""
CONFIGURATION = 78
"""EX_CONFIG of sysexits.h: the daemon can't be started with this one, however often."""
LONGEST_COMPLAINT = 500


def complain(command: str, why: str, code: int = NOT_DONE, program: str = "merkatd") -> int:
    """Say in one line why it could not be done; the exit code."""
    print(one_line(f"{program} {command}: {why}"), file=sys.stderr)
    return code


def one_line(text: str) -> str:
    """Without control characters; a long one loses its middle, for the reason stands at the end."""
    said = plain(text)
    if len(said) <= LONGEST_COMPLAINT:
        return said
    half = LONGEST_COMPLAINT // 2
    return f"{said[:half]} ... {said[-half:]}"


class NotDoneError(Exception):
    """What was asked for could not be done; the message says why."""


class _Paragraphs(argparse.HelpFormatter):
    """Fills each paragraph of a description by itself, and leaves indented ones alone."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        parts = text.strip("\n").split("\n\n")
        return "\n\n".join(
            part
            if part.startswith(" ")
            else super(_Paragraphs, self)._fill_text(part, width, indent)
            for part in parts
        )


class Parser(argparse.ArgumentParser):
    """argparse's, but for what it says to wrong words: one line instead of the whole usage."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **{"formatter_class": _Paragraphs, **options})

    def actions(self) -> Sequence[argparse.Action]:
        """All arguments and options, in the order in which they were added."""
        return self._actions

    def error(self, message: str) -> NoReturn:
        """Say what was wrong and where to read more; exit code 2."""
        said = one_line(f"{self.prog}: error: {message}")
        self.exit(WRONG_WORDS, f"{said} (see {self.prog} --help)\n")

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        """Say it on standard error, whatever characters it has, and end."""
        if message:
            sys.stderr.write(message)
        sys.exit(status)


LARGEST_WHOLE = 2**31 - 1
LONGEST_NAME = 128
MOST_CREDITS = 1e15
LONGEST_DELAY_S = 86_400.0
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_TIMES = ("%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M", "%Y-%m-%d")


def whole(text: str) -> int:
    """A whole number from 0 on."""
    if not (text.isascii() and text.isdigit() and len(text) <= 10 and int(text) <= LARGEST_WHOLE):
        raise argparse.ArgumentTypeError(
            f"{shortened(text)}: a whole number from 0 to {LARGEST_WHOLE} is right"
        )
    return int(text)


def count(text: str) -> int:
    """A whole number from 1 to 10,000."""
    if not (text.isascii() and text.isdigit() and len(text) <= 5 and 1 <= int(text) <= 10_000):
        raise argparse.ArgumentTypeError(
            f"{shortened(text)}: a whole number from 1 to 10000 is right"
        )
    return int(text)


def bid(text: str) -> float:
    """Credits a period."""
    value = _number(text)
    if not 0 <= value <= MOST_CREDITS:
        raise argparse.ArgumentTypeError(
            f"{shortened(text)}: credits a period, a number from 0 to {MOST_CREDITS:g}, are right"
        )
    return value


def delay(text: str) -> float:
    """Seconds between two looks."""
    value = _number(text)
    if not 0.1 <= value <= LONGEST_DELAY_S:
        raise argparse.ArgumentTypeError(
            f"{shortened(text)}: seconds from 0.1 to {LONGEST_DELAY_S:g} are right"
        )
    return value


def reference(text: str) -> str:
    """The id or the name of something."""
    if not 1 <= len(text) <= LONGEST_NAME or not text.isprintable():
        raise argparse.ArgumentTypeError(
            f"{shortened(text)}: an id or a name of 1 to {LONGEST_NAME} characters is right"
        )
    return text


def periods(text: str) -> tuple[int, int]:
    """One period or the first and the last of several: 7, 7-9."""
    first, dash, last = text.partition("-")
    try:
        found = whole(first), whole(last if dash else first)
    except argparse.ArgumentTypeError:
        found = (1, 0)
    if found[0] > found[1]:
        raise argparse.ArgumentTypeError(
            f"{shortened(text)}: a period like 7, or the first and the last like 7-9, are right"
        )
    return found


def since(text: str) -> tuple[str, float]:
    """("ago", seconds) for 90m, ("at", seconds since the epoch) for a date and time."""
    number, unit = text[:-1], text[-1:]
    if unit in _UNITS:
        value = _number(number) * _UNITS[unit]
        if 0 <= value <= 1e12:
            return "ago", value
    for form in _TIMES:
        try:
            return "at", time.mktime(time.strptime(text, form))
        except (ValueError, OverflowError):
            continue
    raise argparse.ArgumentTypeError(
        f"{shortened(text)}: how long ago, like 30s, 90m, 2h or 7d, or a time like"
        " 2026-05-01 12:00 is right"
    )


def _number(text: str) -> float:
    """NaN for what is none, so that it is in no range."""
    if len(text) > 40:
        return math.nan
    try:
        return float(text)
    except ValueError:
        return math.nan
