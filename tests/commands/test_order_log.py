"""`merkatd log --kind order`: who paused, drained, or changed the mode, when, and from where."""

import json

import pytest

from merkatd.base.quantities import time_text
from tests.commands.asking import Daemon, Shell


def test_orders_have_their_author_time_and_origin(daemon: Daemon, shell: Shell) -> None:
    """The newest is last; each kind can be asked for alone."""
    at = time_text(daemon.answer("status")["now_s"])
    daemon.answer("pause", who="ann")
    daemon.answer("drain", host="host001", who="bob")
    daemon.answer("mode", to="ask", who="cid")
    daemon.answer("resume", who="ann")
    rows = json.loads(shell.ok("log --kind order --json").out)
    assert [(row["order"], row["host"], row["who"], row["from"]) for row in rows] == [
        ("pause", None, "ann", "control socket"),
        ("drain", "host001", "bob", "control socket"),
        ("mode ask", None, "cid", "control socket"),
        ("resume", None, "ann", "control socket"),
    ]
    assert at in shell.ok("log --kind pause").lines[1]
    for kind, orders in (("pause", ["pause"]), ("mode", ["mode ask"]), ("undrain", [])):
        lines = shell.ok(f"log --kind {kind} --csv -l ORDER").lines
        assert lines == ["ORDER", *orders]
    assert shell.ok("log --kind order --host host001 --csv -l WHO").lines == ["WHO", "bob"]
    daemon.frontend.clock.advance(7200)
    daemon.answer("undrain", host="host001", who="ann")
    assert shell.ok("log --kind order --since 1h --csv -l ORDER").lines == ["ORDER", "undrain"]
    assert shell.ok("log --kind order --limit 2 --csv -l ORDER").lines == [
        "ORDER",
        "resume",
        "undrain",
    ]


@pytest.mark.parametrize("option", ["--vm 0", "--state sent", "--period 3"])
def test_conditions_on_steps_do_not_fit(option: str, asked: Shell) -> None:
    """The error names the option."""
    message = asked.refused(f"log --kind pause {option}", 2)
    assert f"{option.partition(' ')[0]} can't be combined" in message


def test_steps_are_shown_as_before(asked: Shell) -> None:
    """Without a kind of an order."""
    assert asked.ok("log --kind deploy").lines[0].startswith("PERIOD")
