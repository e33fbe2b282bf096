"""A table without rows says why it is empty, and what to do next."""

from collections.abc import Iterator

import pytest

from tests.commands.asking import Daemon, Shell

EMPTY = (
    ("list vms", "`merkat vm create FILE --cpu 2`"),
    ("list applications", "`merkatd platform submit FILE`"),
    ("log", "when it places"),
    ("log --kind order", "no administrator gave such an order"),
    ("order list", "`merkatd order set VM --limit CREDITS`"),
    ("order book", "`merkatd order set VM --limit CREDITS`"),
    ("budget", "its first VM"),
    ("tenant list", "its first VM"),
    ("share", "its first VM"),
    ("limits", "`merkatd status`"),
    ("explain refusal", "a restart of the daemon clears this list"),
)
"""Commands on a cloud without VMs, and what they say of it."""


@pytest.fixture
def empty(monkeypatch: pytest.MonkeyPatch) -> Iterator[Daemon]:
    """Yield a daemon after a period without VMs."""
    made = Daemon()
    made.period()
    monkeypatch.setattr("merkatd.commands.socket_door.ask", made.ask)
    yield made
    made.frontend.close()


@pytest.fixture
def shell(empty: Daemon, capsys: pytest.CaptureFixture[str]) -> Shell:
    """Return a shell beside that daemon."""
    del empty
    return Shell(capsys)


@pytest.mark.parametrize(("command", "next_step"), EMPTY)
def test_an_empty_table_says_what_to_do(command: str, next_step: str, shell: Shell) -> None:
    """On standard error, so that programs read the table alone."""
    shown = shell(*command.split())
    assert shown.code == 0
    assert next_step in shown.err, shown
    assert shown.err.startswith("merkatd: ")
    assert next_step not in shown.out


@pytest.mark.parametrize("options", ["--csv", "--csv-del ;", "-j", "-x", "--yaml", "--no-header"])
def test_output_for_programs_has_no_such_line(options: str, shell: Shell) -> None:
    """In all formats."""
    assert shell.ok(f"list vms {options}").err == ""


def test_a_filter_without_a_match_is_named(empty: Daemon, shell: Shell) -> None:
    """The table has rows, and none meets the filter."""
    empty.frontend.vm(1.0, NAME="web")
    empty.period()
    assert shell("list", "vms", "-f", "NAME=nothing").err == "merkatd: no row meets the filter\n"
    assert shell.ok("list vms -f NAME=web").err == ""


def test_a_user_without_vms_learns_how_to_become_a_tenant(shell: Shell) -> None:
    """Statements, shares and budgets begin with the first VM."""
    assert "a user becomes one with its first VM" in shell("statement", "99").err
