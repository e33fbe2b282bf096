"""A page by headings: the commands of each section, in order and unchanged."""

import itertools
import re
from collections.abc import Iterator
from pathlib import Path

from tests.docs.pages import FOREIGN, SHELL, Block, bare, no_commands, program

_HEADING = re.compile(r"#{1,6} (.+)")
_FENCE = re.compile(r"```([\w+-]*)")
_COMMENT = re.compile(r"\s+#\s.*$")
_PROMPT = "$ "
_INLINE = re.compile(r"`([^`]+)`")
ELSE = ("make", "python")
"""Programs of the repository that are not Merkat's commands."""


def sections(page: Path) -> dict[str, tuple[str, ...]]:
    """Return the commands by heading; equal headings are merged."""
    commands_by_heading: dict[str, tuple[str, ...]] = {}
    for heading, lines in _parts(page):
        commands_by_heading[heading] = (
            *commands_by_heading.get(heading, ()),
            *_commands(page, lines),
        )
    return commands_by_heading


def foreign(command: str) -> bool:
    """Return whether the program of the command is not Merkat's."""
    return program(bare(command)) in {*FOREIGN, *ELSE}


def _parts(page: Path) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Yield headings, each with its lines and their kinds."""
    heading, lines, fence = "", list[tuple[str, str]](), ""
    for line in page.read_text(encoding="utf-8").splitlines():
        marked = _FENCE.match(line)
        if marked:
            fence = "" if fence else f"fence {marked[1]}"
        elif title := None if fence else _HEADING.fullmatch(line):
            yield heading, lines
            heading, lines = title[1], []
        elif fence:
            lines.append((fence, line))
        elif line.startswith("    "):
            lines.append(("indented", line[4:]))
        elif line or not lines or lines[-1][0] != "indented":
            lines.append(("prose", line))
    yield heading, lines


def _commands(page: Path, lines: list[tuple[str, str]]) -> Iterator[str]:
    for kind, group in itertools.groupby(lines, key=lambda line: line[0]):
        text = [line for _, line in group]
        if kind == "prose":
            yield from _in_sentences("\n".join(text))
        elif kind == "indented" or kind.removeprefix("fence ") in SHELL:
            block = Block(page, tuple(text))
            if any(text) and not no_commands(block):
                yield from _in_block(text)


def _in_sentences(text: str) -> Iterator[str]:
    """Yield commands for other programs with arguments; `pages.inline` has Merkat's own."""
    for inline in _INLINE.findall(text):
        command = re.sub(r"\s+", " ", inline.replace("\\|", "|")).strip()
        if " " in command and foreign(command):
            yield command


def _in_block(lines: list[str]) -> Iterator[str]:
    """Join lines that end with a backslash, and yield the typed commands."""
    joined = re.sub(r"\s*\\\n\s*", " ", "\n".join(lines))
    shown = [line for line in joined.splitlines() if line.strip()]
    typed = [line[2:] for line in shown if line.startswith(_PROMPT)]
    for line in typed or shown:
        yield _COMMENT.sub("", line).strip()
