"""The order of words: options may stand anywhere, also before the command and between arguments.

# Note [Words in order]
argparse reads `tenant show --csv ann` as a `show` without a tenant and an unknown word: it fills an
argument that may be missing as soon as an option interrupts the arguments. So the arguments are
moved to the front and the options, each with its value, behind them:

    show --csv ann -l ID   ->   show ann --csv -l ID

Words with `--` keep their order: all words after it are arguments.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

_NUMBER = re.compile(r"-\d+|-\d*\.\d+")
"""A negative number, which argparse accepts as a value."""
_END = "--"


@dataclass(frozen=True, slots=True)
class OptionValue:
    """Whether an option takes a value, and of which kind."""

    needed: bool = False
    optional: bool = False
    many: bool = False
    signed: bool = False
    """Whether the value may start with a minus, as in `--sort -COST`."""


Options = Mapping[str, OptionValue]
"""The values of options by their spellings."""
NONE = OptionValue()


def arguments_first(words: Sequence[str], options: Options) -> list[str]:
    """Return the words with all arguments before all options."""
    if _END in words:
        return list(words)
    arguments: list[str] = []
    others: list[str] = []
    left = list(words)
    while left:
        if not _is_option(left[0]):
            arguments.append(left.pop(0))
            continue
        others += _option(left, options)
    return [*arguments, *others]


def command_first(words: Sequence[str], commands: Iterable[str], options: Options) -> list[str]:
    """Return the words with the command before the options that precede it.

    Without a command the words are unchanged.
    """
    known, left, before = frozenset(commands), list(words), list[str]()
    while left and left[0] != _END and _is_option(left[0]):
        before += _option(left, options)
    if not left or left[0] not in known:
        return list(words)
    return [left[0], *before, *left[1:]]


def _is_option(word: str) -> bool:
    return word.startswith("-") and word != "-" and _NUMBER.fullmatch(word) is None


def _option(left: list[str], options: Options) -> list[str]:
    """Remove an option and its value from the front of the words, and return both."""
    word = left.pop(0)
    kind = _kind(word, options)
    if not left or not (kind.needed or kind.optional):
        return [word]
    value = left[0]
    if not _is_option(value):
        taken = [word, left.pop(0)]
        while kind.many and left and not _is_option(left[0]):
            taken.append(left.pop(0))
        return taken
    if kind.signed and value not in options and not value.startswith(_END):
        left.pop(0)
        return [f"{word}={value}" if word.startswith(_END) else f"{word}{value}"]
    return [word]


def _kind(word: str, options: Options) -> OptionValue:
    """Return the value that the word after this option may be: none if it contains the value."""
    if word in options:
        return options[word]
    if "=" in word or word.startswith(_END):
        return NONE
    for at, letter in enumerate(word[1:], 1):
        kind = options.get(f"-{letter}", NONE)
        if kind.needed or kind.optional:
            return kind if at == len(word) - 1 else NONE
    return NONE
