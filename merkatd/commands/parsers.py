"""Parsers of the command line that complain in one line."""

import argparse
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from merkatd.commands.complaints import WRONG_WORDS, one_line


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
