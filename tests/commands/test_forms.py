"""Every command that shows rows, in every form: text, CSV, JSON, XML."""

import csv
import io
import json

import pytest
from lxml import etree

from merkatd.cli import parser
from merkatd.commands.terminal.command_model import Command, model_of
from merkatd.commands.terminal.screen_text import width
from tests.commands.asking import Daemon, Shell

VIEWS = {
    "list hosts": (2, "ID"),
    "list vms": (6, "ID"),
    "list applications": (1, "NAME"),
    "price": (2, "MARKET"),
    "price --history 3": (3, "PERIOD"),
    "log --limit 7": (7, "PERIOD"),
    "explain web-0": (2, "RESOURCE"),
    "bid web-0": (2, "RESOURCE"),
    "quote web-0": (2, "RESOURCE"),
    "status": (1, "PERIOD"),
    "report": (1, "MONTH"),
    "share": (1, "USER"),
    "capacity": (2, "HOST"),
    "whatif --more host000": (6, "ID"),
    "plan": (0, "KIND"),
}
SHOWS_ROWS = [command for command in model_of(parser()).commands if command.tables]
WHOLE = {
    "explain web-0",
    "bid web-0",
    "quote web-0",
    "status",
    "plan",
    "capacity",
    "whatif --more host000",
}
"""Their JSON is the whole answer, an object."""


@pytest.mark.parametrize("words", VIEWS)
def test_csv_has_a_header_and_a_line_for_each_row(words: str, asked: Shell) -> None:
    """--no-header omits the header."""
    rows, first = VIEWS[words]
    lines = list(csv.reader(io.StringIO(asked.ok(f"{words} --csv").out)))
    assert lines[0][0] == first
    assert len(lines) == 1 + rows
    assert {len(line) for line in lines} == {len(lines[0])}
    bare = asked.ok(f"{words} --csv --no-header").out
    assert len(bare.splitlines()) == rows


@pytest.mark.parametrize("words", VIEWS)
def test_json_is_rows_or_the_whole_answer(words: str, asked: Shell) -> None:
    """With chosen columns it always contains rows."""
    rows, first = VIEWS[words]
    answer = json.loads(asked.ok(f"{words} --json").out)
    assert isinstance(answer, dict if words in WHOLE else list)
    chosen = json.loads(asked.ok(f"{words} -j -l {first.lower()}").out)
    assert [list(row) for row in chosen] == [[first.lower()]] * rows


@pytest.mark.parametrize("words", VIEWS)
def test_xml_has_an_element_for_each_row(words: str, asked: Shell) -> None:
    """The root element is named like OpenNebula's pools."""
    rows, first = VIEWS[words]
    root = etree.fromstring(asked.ok(f"{words} --xml").out)
    assert root.tag.endswith("_POOL")
    assert len(root) == rows
    assert all(row.find(first) is not None for row in root)
    assert {f"{row.tag}_POOL" for row in root} <= {root.tag}


@pytest.mark.parametrize("cells", [40, 80, 120, 200])
@pytest.mark.parametrize("words", [*VIEWS, "top --once"])
def test_text_fits_the_screen(
    words: str, cells: int, asked: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This holds for every width that allows a table."""
    monkeypatch.setenv("COLUMNS", str(cells))
    lines = asked.ok(words).lines
    assert lines
    if cells >= 80:
        assert max(map(width, lines)) <= cells
    assert not any(line != line.rstrip() for line in lines if "MEMORY" not in line)


def test_columns_appear_in_the_requested_order(asked: Shell) -> None:
    """Their names may be in any case."""
    assert asked.ok("list vms -l name,ID --csv").lines[:2] == ["NAME,ID", "web-0,0"]


@pytest.mark.parametrize(
    ("filters", "names"),
    [
        ("STATE=PENDING", ["big"]),
        ("state!=running", ["big"]),
        ("CPU>100,CPU<200", ["web-1", "web-2"]),
        ("NAME~WEB,BID_CPU>=4", ["web-2", "web-4"]),
        ("HOST=host001 -f BID_CPU<=2", ["web-3"]),
        ("HOST=", ["big"]),
        ("NAME=nothing", []),
    ],
)
def test_filters_are_combined(filters: str, names: list[str], asked: Shell) -> None:
    """Numbers are compared as numbers, and texts without regard to case."""
    assert asked.ok(f"list vms --csv --no-header -l NAME -f {filters}").lines == names


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("list vms -l ID,NOPE", "--list: unknown column 'NOPE'; expected one of: ID, NAME"),
        ("list vms -l ,", "unknown column ''"),
        ("list vms -f CPU", "expected a column, one of = != < <= > >= ~, and a value"),
        ("list vms -f CPU=lots", "CPU is a number; expected a number"),
        ("list vms -f CPU>nan", "CPU is a number; expected a number"),
        ("list vms -f CPU~1", "CPU is a number"),
        ("list vms -f NOPE=1", "unknown column 'NOPE'"),
        ("list vms -d 0", "seconds from 0.1"),
        ("list vms --csv --json", "not allowed with argument"),
        ("plan --strategy tabu", "only with --snapshot"),
    ],
)
def test_wrong_arguments_are_one_line(words: str, message: str, asked: Shell) -> None:
    """The exit code is 2."""
    assert message in asked.refused(words, 2)


@pytest.mark.parametrize("command", SHOWS_ROWS, ids=lambda command: command.name)
def test_columns_are_described_without_a_daemon(command: Command, shell: Shell) -> None:
    """Every command that shows rows does so, without other arguments."""
    out = shell.ok(f"{command.name} --describe").out
    for table in command.tables.values():
        for column in table.columns:
            assert f" {column.name} " in out
            assert column.doc


def test_following_refreshes_until_it_is_interrupted(
    asked: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The exit code is 130, as in shells."""
    waits: list[float] = []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr("merkatd.commands.ask_daemon.sleep", sleep)
    result = asked("list", "hosts", "--csv", "--no-header", "-l", "ID", "-d", "5")
    assert (result.code, result.lines, waits) == (130, ["0", "1"] * 3, [5.0] * 3)


def test_names_with_control_characters_do_not_reach_the_terminal(
    daemon: Daemon, shell: Shell
) -> None:
    """Text and CSV have question marks, and XML has the original characters."""
    daemon.frontend.vm(1.0, NAME="a\x9b2Jb,c")
    daemon.period()
    assert "a?2Jb,c" in shell.ok("list vms").out
    assert "\x9b" not in shell.ok("top --once").out + shell.ok("explain 6").out
    row = shell.ok("list vms --csv -l NAME -f ID=6").lines[1]
    assert row == '"a?2Jb,c"'
    assert etree.fromstring(shell.ok("list vms -x -f ID=6").out).findtext("VM/NAME") == "a\x9b2Jb,c"
