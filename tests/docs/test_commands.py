"""Every command in every page is valid: Merkat's own are parsed by their own parsers.

`test_running.py` runs those that read and order; the pages in RUN_BY are run elsewhere as a whole.
"""

import argparse
import importlib.util
import re
from pathlib import Path

import pytest

from merkat.cli import parser as merkat_parser
from merkatd.cli import COMMANDS, parser
from onegroup.cli import VERBS, verb_first
from onegroup.cli import parser as onegroup_parser
from tests.docs.pages import FOREIGN, PAGES, ROOT, blocks, inline, no_commands, program, words

RUN_BY = {
    "limits.md": "tests/real/test_page.py",
    "merkat.md": "tests/merkat/test_page.py",
    "money.md": "tests/ledger/test_page.py",
    "onegroup.md": "tests/onegroup/test_page.py",
    "platforms.md": "tests/commands/test_platform_page.py",
    "tour.md": "tests/demo/test_tour.py",
}
"""Pages whose commands another test runs as shown."""

UNKNOWN = ("onegroup quota",)
"""The page says that this verb does not exist."""
WHOLE = parser()
BY_PAGE = [pytest.param(page, id=page.name) for page in PAGES]


@pytest.mark.parametrize("page", BY_PAGE)
def test_every_block_has_commands_or_is_known_to_have_none(page: Path) -> None:
    """A command of an unknown program would never be run."""
    for block in blocks(page):
        assert block.commands or no_commands(block), block.lines


@pytest.mark.parametrize("page", BY_PAGE)
def test_every_command_is_valid(page: Path) -> None:
    """Its program accepts its words."""
    commands_below = [
        command for block in blocks(page) if not no_commands(block) for command in block.commands
    ]
    for command in [*commands_below, *inline(page)]:
        check(command)


def check(command: str) -> None:
    """Raise an error if the command is invalid."""
    name = program(command)
    if name == "merkatd":
        for typed in each(words(command)):
            understood(WHOLE, typed)
    elif name == "merkat":
        for typed in each(words(command)):
            understood(merkat_parser(), typed)
    elif name in {"onegroup", "merkat-onegroup"}:
        for typed in each(words(command)) if command not in UNKNOWN else ():
            understood(onegroup_parser(), verb_first(typed))
    elif name == "make":
        targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
        assert set(words(command)) <= set(targets), command
    elif name == "python":
        _python(words(command))
    else:
        assert name in FOREIGN, command


def understood(program: argparse.ArgumentParser, typed: list[str]) -> None:
    """Check that the words parse; a name alone or a command that shows help is valid too."""
    if typed in [[name] for name in (*COMMANDS, *VERBS)]:
        return
    try:
        program.parse_args(typed)
    except SystemExit as stopped:
        assert stopped.code == 0, typed  # noqa: PT017 - it stops for --describe too


def each(typed: list[str]) -> list[list[str]]:
    """Return each alternative of `host drain|undrain HOST`."""
    for at, word in enumerate(typed):
        if re.fullmatch(r"[a-z]+([|/][a-z]+)+", word):
            return [[*typed[:at], choice, *typed[at + 1 :]] for choice in re.split(r"[|/]", word)]
    return [typed]


def _python(typed: list[str]) -> None:
    """Check that a module or a file exists."""
    if typed[0] == "-m":
        assert importlib.util.find_spec(typed[1]) is not None, typed[1]
        files = [word for word in typed[2:] if word.startswith("tests/")]
    else:
        files = typed[:1]
    for name in files:
        assert (ROOT / name.partition("::")[0]).exists(), name


def test_every_page_run_elsewhere_is_read_by_its_test() -> None:
    """The named tests exist and mention the page."""
    names = {page.name for page in PAGES}
    for page, test in RUN_BY.items():
        assert page in names
        assert page in (ROOT / test).read_text(), test


def test_an_invalid_command_is_detected(tmp_path: Path) -> None:
    """Unknown words and unknown programs are found in each kind of block."""
    page = tmp_path / "page.md"
    page.write_text("Text\n\n    sudo merkatd explian VM\n\n```sh\nfrobnicate --all\n```\n")
    first, second = blocks(page)
    assert first.commands == ("merkatd explian VM",)
    with pytest.raises(AssertionError):
        check(first.commands[0])
    assert second.commands == ()
    assert not no_commands(second)


def test_make_bench_runs_every_benchmark() -> None:
    """All but the one that needs an OpenNebula of its own."""
    makefile = (ROOT / "Makefile").read_text()
    named = re.search(r"^BENCHMARKS := (.*)$", makefile, re.MULTILINE)
    assert named is not None
    assert "benchmarks/bench_$$name.py" in makefile
    there = {path.stem.removeprefix("bench_") for path in ROOT.glob("benchmarks/bench_*.py")}
    assert set(named[1].split()) == there - {"place"}
