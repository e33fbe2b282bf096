"""`merkatd status` says in sentences how the daemon is."""

import json
from collections.abc import Iterator

import pytest
import sqlalchemy as sa
from twisted.internet.defer import ensureDeferred

from merkatd.base.quantities import time_text
from merkatd.database.ledger.account_store import ACCOUNTS, AccountKind
from tests.commands.asking import Daemon, Shell


@pytest.fixture
def daemon(monkeypatch: pytest.MonkeyPatch) -> Iterator[Daemon]:
    """Yield a daemon with two hosts and a VM, after three periods."""
    made = Daemon()
    made.frontend.vm(NAME="web")
    made.period(3)
    monkeypatch.setattr("merkatd.commands.socket_door.ask", made.ask)
    yield made
    made.frontend.close()


def said(shell: Shell) -> str:
    """Return the sentences on one line."""
    return " ".join(shell.ok("status").out.split())


def test_it_says_since_when_the_daemon_runs_and_what_it_manages(
    daemon: Daemon, shell: Shell
) -> None:
    """Three periods of a minute each have passed since its start."""
    status = daemon.answer("status")
    started = time_text(status["started_s"])
    text = said(shell)
    assert f"The daemon has been running for 3 min, since {started}, in mode on" in text
    assert f"Period 3 ended 1 min ago, at {time_text(status['at_s'])}." in text
    assert "A period starts every 1 min." in text
    assert "It manages 2 hosts and 1 VM; no step is under way." in text
    assert "Other programs changed nothing that the daemon manages." in text
    daemon.period(2)
    assert f"running for 5 min, since {started}," in said(shell)


def test_it_says_whether_the_books_balance(daemon: Daemon, shell: Shell) -> None:
    """A lost micro-credit is enough that they do not."""
    assert "The books balance:" in said(shell)

    def lose_credit(connection: sa.Connection) -> None:
        connection.execute(
            sa.update(ACCOUNTS)
            .where(ACCOUNTS.c.kind == AccountKind.TENANT)
            .values(balance=ACCOUNTS.c.balance - 1)
        )

    frontend = daemon.frontend
    frontend.result(ensureDeferred(frontend.scheduler.world.database.run(lose_credit)))
    assert "The books DO NOT balance" in said(shell)


def test_orders_in_force_are_shown_with_their_author(daemon: Daemon, shell: Shell) -> None:
    """They are gone after the contrary order."""
    daemon.answer("pause", who="ann")
    daemon.answer("drain", host="host001", who="bob")
    text = said(shell)
    assert "It is paused: no period starts until `merkatd resume`. ann ordered this at" in text
    assert "Host host001 is drained: it takes no VMs until `merkatd host undrain`. bob" in text
    orders = json.loads(shell.ok("status --json").out)["orders"]
    assert [(order["what"], order["who"]) for order in orders] == [
        ("pause", "ann"),
        ("drain", "bob"),
    ]
    daemon.answer("resume", who="ann")
    daemon.answer("undrain", host="host001", who="ann")
    text = said(shell)
    assert "paused" not in text
    assert "drained" not in text
    assert json.loads(shell.ok("status --json").out)["orders"] == []
