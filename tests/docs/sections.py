"""A page by its headings: the commands of each section in their order, as they stand."""

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
"""Programs of the repository that are no commands of Merkat's."""


def sections(page: Path) -> dict[str, tuple[str, ...]]:
    """By heading, what stands below it until the next one; a name that comes twice is one."""
    found: dict[str, tuple[str, ...]] = {}
    for heading, lines in _parts(page):
        found[heading] = (*found.get(heading, ()), *_commands(page, lines))
    return found


def foreign(command: str) -> bool:
    """Whether it is for a program that is not Merkat's."""
    return program(bare(command)) in {*FOREIGN, *ELSE}


def _parts(page: Path) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Headings, each with its lines and what kind of line each is."""
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
    for kind, group in itertools.groupby(lines, key=lambda one: one[0]):
        text = [line for _, line in group]
        if kind == "prose":
            yield from _in_sentences("\n".join(text))
        elif kind == "indented" or kind.removeprefix("fence ") in SHELL:
            block = Block(page, tuple(text))
            if any(text) and not no_commands(block):
                yield from _in_block(text)


def _in_sentences(text: str) -> Iterator[str]:
    """Those for other programs, with their arguments; ours are in `pages.inline`."""
    for one in _INLINE.findall(text):
        command = re.sub(r"\s+", " ", one.replace("\\|", "|")).strip()
        if " " in command and foreign(command):
            yield command


def _in_block(lines: list[str]) -> Iterator[str]:
    """A line that ends with a backslash goes on in the next one."""
    joined = re.sub(r"\s*\\\n\s*", " ", "\n".join(lines))
    shown = [line for line in joined.splitlines() if line.strip()]
    typed = [line[2:] for line in shown if line.startswith(_PROMPT)]
    for line in typed or shown:
        yield _COMMENT.sub("", line).strip()
