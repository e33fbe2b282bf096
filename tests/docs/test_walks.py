"""Every command for another program is run as it stands by some test, or says why not."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import OURS, PAGES, ROOT, bare, inline, program
from tests.docs.sections import foreign, sections
from tests.docs.test_commands import RUN_BY
from tests.docs.walks import ALONE, LEFT, WALKED, reason, standing, walk

TAKING = ("walk", "command", "standing", "left", "typed")
"""What tests on real systems take a page's section or command by."""


def listed(test: str) -> set[str]:
    """The headings and commands that a test is said to take."""
    return {
        one
        for table in (WALKED, ALONE)
        for several in table.get(test, {}).values()
        for one in several
    }


def walked() -> set[str]:
    """Every command that is run somewhere, as it stands."""
    found = {
        command
        for pages in WALKED.values()
        for page, headings in pages.items()
        for heading in headings
        for command in walk(page, heading)
    }
    return found | {
        one for pages in ALONE.values() for several in pages.values() for one in several
    }


def unwalked() -> Iterator[tuple[str, str, str]]:
    """Page, heading and command of those for other programs that nobody runs."""
    there = walked()
    for page in PAGES:
        for heading, commands in sections(page).items():
            for command in commands:
                if foreign(command) and command not in there:
                    yield page.name, heading, command


def test_a_command_that_no_test_runs_says_why() -> None:
    """Its program or it itself has a reason, or the whole page is run by a test."""
    left = [one for one in unwalked() if not reason(one[2]) and one[0] not in RUN_WHOLE]
    assert not left


RUN_WHOLE = {"tour.md"} & RUN_BY.keys()
"""Of the pages that other tests run, those of which they run all."""


def test_no_reason_is_one_too_many() -> None:
    """Each is for a command that stands somewhere and that no test runs."""
    left = {command for _, _, command in unwalked()}
    needed = left | {program(bare(command)) for command in left}
    assert LEFT.keys() <= needed, LEFT.keys() - needed


@pytest.mark.parametrize("test", sorted({*WALKED, *ALONE}))
def test_what_a_test_is_said_to_run_it_takes_from_the_page(test: str) -> None:
    """Its words are those of the table, and the other way round."""
    tree = ast.parse((ROOT / test).read_text())
    words = {one.value for one in ast.walk(tree) if isinstance(one, ast.Constant)}
    pages = {page for table in (WALKED, ALONE) for page in table.get(test, {})}
    assert listed(test) | pages <= words, (listed(test) | pages) - words
    for call in ast.walk(tree):
        if isinstance(call, ast.Call) and _name(call.func) in TAKING:
            taken = {one.value for one in call.args if isinstance(one, ast.Constant)}
            assert taken <= listed(test) | pages | {None}, taken - listed(test) - pages


def _name(called: ast.expr) -> str:
    return called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_line_among_commands_is_one(page: Path) -> None:
    """None is for a program that no table knows, and would be passed over."""
    for commands in sections(page).values():
        for command in commands:
            assert foreign(command) or program(bare(command)) in OURS, command


def test_what_no_page_says_is_found() -> None:
    """A section without commands, and a command that stands nowhere."""
    with pytest.raises(AssertionError, match="no commands below"):
        walk("install.md", "9. Nowhere")
    with pytest.raises(AssertionError, match="has no 'apt instal"):
        standing("install.md", "apt instal ./dist/merkat_*.deb")
    assert inline(ROOT / "docs/install.md")


def test_tests_on_real_systems_take_commands_of_the_table_alone() -> None:
    """A test that takes any from a page is in it."""
    for file in sorted((ROOT / "tests/real").rglob("*.py")):
        taking = "tests.docs.walks import" in file.read_text()
        name = str(file.relative_to(ROOT))
        assert not taking or name in {*WALKED, *ALONE, "tests/real/walking.py"}, name
