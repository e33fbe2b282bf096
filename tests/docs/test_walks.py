"""Every command for another program is run as shown by some test, or has a reason."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import OURS, PAGES, ROOT, bare, inline, program
from tests.docs.sections import foreign, sections
from tests.docs.test_commands import RUN_BY
from tests.docs.walks import ALONE, LEFT, WALKED, reason, standing, walk

TAKING = ("walk", "command", "standing", "left", "typed")
"""Functions by which tests on real systems take a page's section or command."""


def listed(test: str) -> set[str]:
    """Return the headings and commands that a test is listed with."""
    return {
        command
        for table in (WALKED, ALONE)
        for several in table.get(test, {}).values()
        for command in several
    }


def walked() -> set[str]:
    """Return every command that some test runs as shown."""
    commands_of = {
        command
        for pages in WALKED.values()
        for page, headings in pages.items()
        for heading in headings
        for command in walk(page, heading)
    }
    return commands_of | {
        command for pages in ALONE.values() for several in pages.values() for command in several
    }


def unwalked() -> Iterator[tuple[str, str, str]]:
    """Yield page, heading and command of commands for other programs that no test runs."""
    there = walked()
    for page in PAGES:
        for heading, commands in sections(page).items():
            for command in commands:
                if foreign(command) and command not in there:
                    yield page.name, heading, command


def test_a_command_that_no_test_runs_has_a_reason() -> None:
    """The command, its program, or the page as a whole is covered."""
    left = [
        command for command in unwalked() if not reason(command[2]) and command[0] not in RUN_WHOLE
    ]
    assert not left


RUN_WHOLE = {"tour.md"} & RUN_BY.keys()
"""Of the pages that other tests run, those that run completely."""


def test_every_reason_is_needed() -> None:
    """Each reason is for a command on a page that no test runs."""
    left = {command for _, _, command in unwalked()}
    needed = left | {program(bare(command)) for command in left}
    assert LEFT.keys() <= needed, LEFT.keys() - needed


@pytest.mark.parametrize("test", sorted({*WALKED, *ALONE}))
def test_a_test_takes_exactly_its_listed_commands(test: str) -> None:
    """The words in the test and in the table are the same."""
    tree = ast.parse((ROOT / test).read_text())
    words = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    pages = {page for table in (WALKED, ALONE) for page in table.get(test, {})}
    assert listed(test) | pages <= words, (listed(test) | pages) - words
    for call in ast.walk(tree):
        if isinstance(call, ast.Call) and _name(call.func) in TAKING:
            taken = {node.value for node in call.args if isinstance(node, ast.Constant)}
            assert taken <= listed(test) | pages | {None}, taken - listed(test) - pages


def _name(called: ast.expr) -> str:
    return called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_line_among_commands_is_a_command(page: Path) -> None:
    """No line is for an unknown program, which would be skipped."""
    for commands in sections(page).values():
        for command in commands:
            assert foreign(command) or program(bare(command)) in OURS, command


def test_missing_sections_and_commands_are_detected() -> None:
    """A section without commands and an unknown command raise errors."""
    with pytest.raises(AssertionError, match="no commands below"):
        walk("install.md", "9. Nowhere")
    with pytest.raises(AssertionError, match="has no 'apt instal"):
        standing("install.md", "apt instal ./dist/merkat_*.deb")
    assert inline(ROOT / "docs/install.md")


def test_tests_on_real_systems_take_only_listed_commands() -> None:
    """Every test that takes commands from a page is in the table."""
    for file in sorted((ROOT / "tests/real").rglob("*.py")):
        taking = "tests.docs.walks import" in file.read_text()
        name = str(file.relative_to(ROOT))
        assert not taking or name in {*WALKED, *ALONE, "tests/real/walking.py"}, name
