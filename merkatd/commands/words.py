"""The words of a command line: read once, and refused with what would be right."""

import argparse
import math
import time

from merkatd.commands.table.columns import short

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
            f"{short(text)}: a whole number from 0 to {LARGEST_WHOLE} is right"
        )
    return int(text)


def count(text: str) -> int:
    """A whole number from 1 to 10,000."""
    if not (text.isascii() and text.isdigit() and len(text) <= 5 and 1 <= int(text) <= 10_000):
        raise argparse.ArgumentTypeError(f"{short(text)}: a whole number from 1 to 10000 is right")
    return int(text)


def bid(text: str) -> float:
    """Credits a period."""
    value = _number(text)
    if not 0 <= value <= MOST_CREDITS:
        raise argparse.ArgumentTypeError(
            f"{short(text)}: credits a period, a number from 0 to {MOST_CREDITS:g}, are right"
        )
    return value


def delay(text: str) -> float:
    """Seconds between two looks."""
    value = _number(text)
    if not 0.1 <= value <= LONGEST_DELAY_S:
        raise argparse.ArgumentTypeError(
            f"{short(text)}: seconds from 0.1 to {LONGEST_DELAY_S:g} are right"
        )
    return value


def reference(text: str) -> str:
    """The id or the name of something."""
    if not 1 <= len(text) <= LONGEST_NAME or not text.isprintable():
        raise argparse.ArgumentTypeError(
            f"{short(text)}: an id or a name of 1 to {LONGEST_NAME} characters is right"
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
            f"{short(text)}: a period like 7, or the first and the last like 7-9, are right"
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
        f"{short(text)}: how long ago, like 30s, 90m, 2h or 7d, or a time like"
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
