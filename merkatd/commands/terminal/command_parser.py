"""Parsers of command lines: argument types, exit codes and one-line errors."""

import argparse
import math
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from merkatd.base.quantities import LONGEST_S, SECONDS
from merkatd.commands.terminal.screen_text import plain
from merkatd.commands.terminal.table_columns import shortened
from merkatd.commands.words.suggestions import hint, similar
from merkatd.commands.words.word_order import (
    OptionValue,
    arguments_first,
    command_first,
)

DONE, NOT_DONE, WRONG_WORDS = 0, 1, 2
"""Exit codes; an interrupted command has 130."""
CONFIGURATION = 78
"""EX_CONFIG of sysexits.h: with this configuration, every start of the daemon will fail."""
LONGEST_COMPLAINT = 500


def print_failure(command: str, why: str, code: int = NOT_DONE, program: str = "merkatd") -> int:
    """Print one line with the reason of a failure; return the exit code."""
    print(one_line(f"{program} {command}: {why}"), file=sys.stderr)
    return code


def one_line(text: str) -> str:
    """Return the text without control characters, and without its middle if it is too long.

    The end is kept because it often states the reason.
    """
    line = plain(text)
    if len(line) <= LONGEST_COMPLAINT:
        return line
    half = LONGEST_COMPLAINT // 2
    return f"{line[:half]} ... {line[-half:]}"


class NotDoneError(Exception):
    """A command failed; the message says why, with a line for each reason."""

    def __init__(self, *reasons: str) -> None:
        super().__init__("\n".join(reasons))
        self.reasons = reasons


class _Paragraphs(argparse.HelpFormatter):
    """Help formatter that fills each paragraph of a description, except indented ones."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        parts = text.strip("\n").split("\n\n")
        return "\n\n".join(
            part
            if part.startswith(" ")
            else super(_Paragraphs, self)._fill_text(part, width, indent)
            for part in parts
        )


class Parser(argparse.ArgumentParser):
    """argparse's parser with one-line errors, suggestions, and options at any place."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **{"formatter_class": _Paragraphs, **options})
        self.checks: list[Callable[[argparse.Namespace], str | None]] = []
        """Functions that return why options don't fit together, None if they do."""

    def actions(self) -> Sequence[argparse.Action]:
        """Return all arguments and options, in the order in which they were added."""
        return self._actions

    def commands(self) -> Mapping[str, "Parser"]:
        """Return the parsers of the commands by name; none for a command itself."""
        for action in self._actions:
            if isinstance(action.choices, dict):
                return action.choices
        return {}

    def option_values(self) -> dict[str, OptionValue]:
        """Return the values of the options, including those of the commands, by spelling."""
        values: dict[str, OptionValue] = {}
        for command in self.commands().values():
            values.update(command.option_values())
        for action in self._actions:
            kind = OptionValue(
                needed=action.nargs in (None, "+"),
                optional=action.nargs in ("?", "*"),
                many=action.nargs in ("+", "*"),
                signed=getattr(action, "signed", False),
            )
            values.update(dict.fromkeys(action.option_strings, kind))
        return values

    def parse_known_args(  # type: ignore[override]  # argparse's overloads say no more
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        """Parse the words. Without words, print the help if a command is needed."""
        words = list(sys.argv[1:] if args is None else args)
        if commands := self.commands():
            if not words:
                self.print_help()
                self.exit(DONE)
            own = {flag for action in self._actions for flag in action.option_strings}
            if words[0].startswith("-") and words[0] not in own:
                words = command_first(words, commands, self.option_values())
            return super().parse_known_args(words, namespace)
        words = arguments_first(words, self.option_values())
        parsed, unknown = super().parse_known_args(words, namespace)
        if unknown:
            self.error(self._unknown(unknown))
        for check in self.checks:
            if (problem := check(parsed)) is not None:
                self.error(problem)
        return parsed, unknown

    def _unknown(self, words: Sequence[str]) -> str:
        """Return the message about words that are neither options nor arguments."""
        known = [flag for flag in self.option_values() if flag.startswith("--")]
        for word in words:
            flag = word.partition("=")[0]
            if flag.startswith("-") and (near := similar(flag, known)) is not None:
                return f"unknown option {shortened(flag)}; did you mean {near}?"
        return f"unrecognized arguments: {' '.join(words)}"

    def _print_message(self, message: str, file: Any = None) -> None:
        """Write the message, and raise OSError on a full disk, which argparse would ignore."""
        if message:
            (file or sys.stderr).write(message)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Raise ArgumentError with the most similar value for a value that is not a choice."""
        if action.choices is None or value in action.choices:
            return
        what = "command" if isinstance(action.choices, dict) else "value"
        known = hint(str(value), map(str, action.choices))
        raise argparse.ArgumentError(action, f"unknown {what} {shortened(str(value))}; {known}")

    def error(self, message: str) -> NoReturn:
        """Exit with code 2 after one line: the error, and the command that shows the help."""
        line = one_line(f"{self.prog}: error: {message}")
        self.exit(WRONG_WORDS, f"{line} (see {self.prog} --help)\n")

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        """Write the message to standard error as it is, without argparse's formatting, and exit."""
        if message:
            sys.stderr.write(message)
        sys.exit(status)


def flags_of(parser: argparse.ArgumentParser) -> list[str]:
    """Return the spellings of the options of a parser."""
    return [flag for action in parser._actions for flag in action.option_strings]  # noqa: SLF001


LARGEST_WHOLE = 2**31 - 1
LONGEST_NAME = 128
MOST_LISTED = 1_000
"""The most ids that a range or a list has."""
MOST_CREDITS = 1e15
MOST_FACTOR = 100.0
LONGEST_DELAY_S = 86_400.0
_UNITS = {**SECONDS, "w": 604_800}
_TIMES = ("%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M", "%Y-%m-%d")


def whole(text: str) -> int:
    """Return a whole number of at least 0."""
    if not (text.isascii() and text.isdigit() and len(text) <= 10 and int(text) <= LARGEST_WHOLE):
        raise argparse.ArgumentTypeError(
            f"{shortened(text)}: expected a whole number from 0 to {LARGEST_WHOLE}"
        )
    return int(text)


def count(text: str) -> int:
    """Return a whole number from 1 to 10,000."""
    if not (text.isascii() and text.isdigit() and len(text) <= 5 and 1 <= int(text) <= 10_000):
        raise argparse.ArgumentTypeError(
            f"{shortened(text)}: expected a whole number from 1 to 10000"
        )
    return int(text)


def bid(text: str) -> float:
    """Return a number of credits a period."""
    value = _number(text)
    if not 0 <= value <= MOST_CREDITS:
        raise argparse.ArgumentTypeError(
            f"{shortened(text)}: expected credits a period, from 0 to {MOST_CREDITS:,.0f}"
        )
    return value


def factor(text: str) -> float:
    """Return a factor of a limit."""
    value = _number(text)
    if not 1 <= value <= MOST_FACTOR:
        raise argparse.ArgumentTypeError(
            f"{shortened(text)}: expected a number from 1 to {MOST_FACTOR:g}"
        )
    return value


def delay(text: str) -> float:
    """Return the seconds between two refreshes."""
    value = _number(text)
    if not 0.1 <= value <= LONGEST_DELAY_S:
        raise argparse.ArgumentTypeError(
            f"{shortened(text)}: expected seconds from 0.1 to {LONGEST_DELAY_S:g}"
        )
    return value


def duration(text: str) -> float:
    """Return the seconds of a duration."""
    value = _number(text[:-1]) * _UNITS.get(text[-1:], math.nan)
    if not 0 <= value <= LONGEST_S:
        raise argparse.ArgumentTypeError(
            f"{shortened(text)}: expected a duration like 90s, 10m, 2h or 7d"
        )
    return value


def references(text: str) -> list[str]:
    """Return the ids or names of a list like 4, web-0,web-1 or 0..2.

    A name with a comma is split, so its VM must be given by its id.
    """
    listed = [word for part in text.split(",") for word in _range(part)]
    if len(listed) > MOST_LISTED:
        raise argparse.ArgumentTypeError(f"{shortened(text)}: lists more than {MOST_LISTED}")
    return [reference(word) for word in listed]


def _range(text: str) -> list[str]:
    """Return the ids of a range like 0..2; any other text is itself the only word."""
    first, dots, last = text.partition("..")
    if not dots or not (_is_id(first) and _is_id(last)):
        return [text]
    if not 0 <= int(last) - int(first) < MOST_LISTED:
        raise argparse.ArgumentTypeError(
            f"{shortened(text)}: expected a range like 0..2, of at most {MOST_LISTED} ids"
        )
    return [str(id_) for id_ in range(int(first), int(last) + 1)]


def _is_id(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 10


def separator(text: str) -> str:
    """Return the character between the values of CSV; `tab` is a tabulator."""
    character = "\t" if text == "tab" else text
    if len(character) == 1 and (character.isprintable() or character == "\t") and character != '"':
        return character
    raise argparse.ArgumentTypeError(
        f"{shortened(text)}: expected one character, or tab for a tabulator"
    )


def reference(text: str) -> str:
    """Return an id or a name, unchanged."""
    if not 1 <= len(text) <= LONGEST_NAME or not text.isprintable():
        raise argparse.ArgumentTypeError(
            f"{shortened(text)}: expected an id or a name of 1 to {LONGEST_NAME} characters"
        )
    return text


def periods(text: str) -> tuple[int, int]:
    """Return the first and the last period of a range: 7 or 7-9."""
    first, dash, last = text.partition("-")
    try:
        bounds = whole(first), whole(last if dash else first)
    except argparse.ArgumentTypeError:
        bounds = (1, 0)
    if bounds[0] > bounds[1]:
        raise argparse.ArgumentTypeError(
            f"{shortened(text)}: expected a period like 7 or a range like 7-9"
        )
    return bounds


def since(text: str) -> tuple[str, float]:
    """Return ("ago", seconds) for 90m, ("at", seconds since the epoch) for a date and time."""
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
        f"{shortened(text)}: expected an age like 30s, 90m, 2h or 7d, or a time like"
        " 2026-05-01 12:00"
    )


def _number(text: str) -> float:
    """Return the number, or NaN if the text is none: NaN is in no range."""
    if len(text) > 40:
        return math.nan
    try:
        return float(text)
    except ValueError:
        return math.nan
