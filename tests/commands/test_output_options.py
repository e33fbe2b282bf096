"""The output options: YAML, separators, order, sets of columns, screens, the pager."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from merkatd.cli import parser
from merkatd.commands.screens import pager
from merkatd.commands.screens.row_order import sorted_rows
from merkatd.commands.terminal import Column, ColumnFormat, ScreenTable, to_text, yaml_of
from merkatd.commands.terminal.command_model import model_of
from merkatd.commands.terminal.screen_text import width
from tests.commands.asking import Shell
from tests.commands.test_forms import VIEWS

TABLES = [
    (f"{command.name} {what}", table)
    for command in model_of(parser()).commands
    for what, table in command.tables.items()
]
MATTER = {"COST", "NEW_COST", "REASON", "WHY", "PRICE", "PROBLEM", "MESSAGE", "NOTE"}
"""The columns for which people read a table."""
_KEYS = st.text(st.characters(min_codepoint=33, max_codepoint=126))
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(min_codepoint=32, exclude_categories=("Cs", "Cc", "Cn", "Zl", "Zp"))),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.text(st.characters(min_codepoint=33, max_codepoint=126)), inner, max_size=4
        )
    ),
    max_leaves=12,
)


def read_yaml(text: str) -> Any:
    """Return the value of a text in YAML, read by another program."""
    return pytest.importorskip("yaml").safe_load(text)


@given(JSON)
def test_yaml_of_any_answer_has_the_values_of_json(value: Any) -> None:
    """Numbers stay numbers, and texts that look like numbers stay texts."""
    assert read_yaml("\n".join(yaml_of(value))) == value


@pytest.mark.parametrize("words", VIEWS)
def test_yaml_says_what_json_says(words: str, asked: Shell) -> None:
    """For whole answers, and for rows with chosen columns."""
    first = VIEWS[words][1]
    if not words.startswith(("plan", "whatif")):  # each plan has another time
        assert read_yaml(asked.ok(f"{words} --yaml").out) == json.loads(asked.ok(f"{words} -j").out)
    chosen = f"{words} -l {first}"
    assert read_yaml(asked.ok(f"{chosen} -y").out) == json.loads(asked.ok(f"{chosen} -j").out)


@pytest.mark.parametrize(("given_", "separator"), [(";", ";"), ("tab", "\t"), ("|", "|")])
def test_csv_del_separates_values(given_: str, separator: str, asked: Shell) -> None:
    """It means --csv, which may be there too."""
    for also in ("", " --csv"):
        text = asked.ok(f"list vms -l ID,NAME,COST --csv-del {given_}{also}").out
        rows = list(csv.reader(io.StringIO(text), delimiter=separator))
        assert rows[0] == ["ID", "NAME", "COST"]
        assert len(rows) == 7
    assert "expected one character" in asked.refused("list vms --csv-del ab", 2)


@pytest.mark.parametrize("form", ["--json", "--xml", "--yaml"])
def test_contradictory_options_are_refused(
    form: str, asked: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one line that names both, before the command asks the daemon."""

    def ask(*_: object) -> None:
        raise AssertionError("the daemon was asked")

    monkeypatch.setattr("merkatd.commands.socket_door.ask", ask)
    assert "not allowed with" in asked.refused(f"list vms --csv {form}", 2)
    for option in ("--csv-del ;", "--no-header"):
        message = f"{option.split()[0]} can't be combined with {form}"
        assert message in asked.refused(f"list vms {option} {form}", 2)
        assert message in asked.refused(f"list vms {form} {option}", 2)
    assert "--list can't be combined with --listconf" in asked.refused(
        "list vms -l ID --listconf all", 2
    )


@pytest.mark.parametrize(
    ("order", "ids"),
    [
        ("BID_CPU", "0 3 1 5 2 4"),
        ("-BID_CPU", "4 2 1 5 3 0"),
        ("name", "5 0 1 2 3 4"),
        ("-STATE,-ID", "4 3 2 1 0 5"),
    ],
)
def test_sort_orders_rows(order: str, ids: str, asked: Shell) -> None:
    """In each format, by several columns, downwards with a minus."""
    expected = ids.split()
    assert asked.ok(f"list vms --sort {order} --csv --no-header -l ID").lines == expected
    assert asked.ok(f"list vms --csv --no-header -l ID -s {order}").lines == expected
    rows = json.loads(asked.ok(f"--sort {order} list vms --json").out)
    assert [str(row["id"]) for row in rows] == expected


@given(st.lists(st.none() | st.integers(-3, 3)), st.booleans())
def test_rows_without_a_value_come_last(values: list[int | None], down: bool) -> None:
    """In both directions, and rows with equal values keep their order."""
    table = ScreenTable("T", (Column("N", "n", ColumnFormat.WHOLE, "n"),))
    rows = [{"n": value, "at": at} for at, value in enumerate(values)]
    result = sorted_rows(table, "-N" if down else "N", rows)
    known = [value for value in values if value is not None]
    assert [row["n"] for row in result] == [
        *sorted(known, reverse=down),
        *[None] * (len(values) - len(known)),
    ]
    for value in set(values):
        places = [row["at"] for row in result if row["n"] == value]
        assert places == sorted(places)


def test_sets_of_columns(asked: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`all`, `default`, and those of the user's file; mistakes name the file."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    file = tmp_path / "merkat" / "columns.toml"
    file.parent.mkdir()
    file.write_text('mine = "NAME,COST"\nwrong = "NAME,CSOT"\nnumber = 4\n')
    assert asked.ok("list vms --listconf mine --csv").lines[0] == "NAME,COST"
    everything = asked.ok("list vms --listconf all --csv").lines[0].split(",")
    assert {"FLOOR_CPU", "GROUP", "TIME", "HELD_MEMORY"} <= set(everything)
    assert asked.ok("list vms --listconf default").out
    assert "did you mean mine?" in asked.refused("list vms --listconf mne", 2)
    assert f"{file}: wrong: unknown column 'CSOT'" in asked.refused("list vms --listconf wrong", 2)
    assert "must be a text like ID,NAME" in asked.refused("list vms --listconf number", 2)
    file.write_text("[")
    assert f"{file}: expected TOML" in asked.refused("list vms --listconf mine", 2)


def test_vms_have_their_group_and_the_time_that_they_have_run(asked: Shell) -> None:
    """A VM that waits for a host has no time."""
    rows = json.loads(asked.ok("list vms --json").out)
    by_name = {row["name"]: row for row in rows}
    assert {row["group"] for row in rows} == {"oneadmin"}
    assert by_name["web-0"]["time"] > 0
    assert by_name["big"]["time"] is None


@pytest.mark.parametrize(("what", "table"), TABLES, ids=[what for what, _ in TABLES])
def test_columns_that_matter_stay_at_80_cells(what: str, table: ScreenTable) -> None:
    """Costs and reasons are there however wide all values are; other columns make room."""
    del what
    wide: dict[str, Any] = {}
    for column in table.columns:
        number = column.kind.right or column.kind is ColumnFormat.TIME
        text = "some text" if column.least is None else "a text of some length " * 3
        wide[column.key] = 12_345_678.9 if number else text
        if column.kind in {ColumnFormat.LIST, ColumnFormat.TREND}:
            wide[column.key] = [1.0, 2.0] * 9
        if column.kind is ColumnFormat.WHOLE:
            wide[column.key] = 123_456
    lines = to_text(table.default(), [wide], 80)
    assert max(map(width, lines)) <= 80
    shown = lines[0].split()
    for column in table.default():
        if column.kept or column.name in MATTER:
            assert column.name in shown, (column.name, lines[0])


def test_expand_shows_everything(asked: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a narrow screen as in a file."""
    whole = asked.ok("list vms").out
    monkeypatch.setenv("COLUMNS", "60")
    assert asked.ok("list vms").out != whole
    assert asked.ok("list vms --expand").out == whole


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Return the file to which the pager of a terminal of three lines writes."""
    script = tmp_path / "pager"
    script.write_text(f"#!/bin/sh\ncat > {tmp_path}/seen\n")
    script.chmod(0o755)
    monkeypatch.setattr(pager, "_is_terminal", lambda: True)
    for name, value in {"LINES": "3", "COLUMNS": "100", "PAGER": str(script)}.items():
        monkeypatch.setenv(name, value)
    return tmp_path / "seen"


def test_long_tables_open_the_pager(seen: Path) -> None:
    """Lines that fit, and an unknown pager, are left to the command itself."""
    assert pager.paged(["a", "b", "c"])
    assert seen.read_text() == "a\nb\nc\n"
    assert not pager.paged(["a"])
    assert not pager.paged(["a"] * 9, {"PAGER": "no-such-pager"})
    assert not pager.paged(["a"] * 9, {"MERKAT_PAGER": "", "PAGER": "cat"})
    assert not pager.paged(["a"] * 9, {"PAGER": "'"})


def test_no_pager_prints_at_once(seen: Path, asked: Shell) -> None:
    """Its output is the table."""
    assert "web-0" in asked.ok("list vms --no-pager").out
    assert not seen.exists()
    assert "web-0" not in asked.ok("list vms").out
    assert "web-0" in seen.read_text()


def test_into_a_file_no_pager_opens(
    seen: Path, asked: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only a terminal has one."""
    monkeypatch.setattr(pager, "_is_terminal", lambda: False)
    assert "web-0" in asked.ok("list vms").out
    assert not seen.exists()
