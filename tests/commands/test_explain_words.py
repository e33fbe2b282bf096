"""`explain price`, `explain refusal`, the queue of a VM that waits, and `plan reverse`."""

import pytest

from tests.commands.asking import Daemon, Shell


def test_prices_are_explained_for_people_and_programs(asked: Shell) -> None:
    """A table with one row a resource, and a sentence for each."""
    result = asked("explain", "price")
    assert result.code == 0
    assert "credits per core-hour" in " ".join(result.out.split())
    rows = asked("explain", "price", "cpu", "--csv", "-l", "RESOURCE,BIDDERS,WHY").lines
    assert len(rows) == 2
    assert rows[1].startswith("cpu,5,")
    assert "cpu" in asked("explain", "price", "gold").err


@pytest.mark.usefixtures("daemon")
def test_refused_requests_are_shown(shell: Shell) -> None:
    """With the request and its reason; none is an empty table."""
    assert shell("explain", "refusal", "--csv", "--no-header").lines == []
    refused = shell("bid", "web-77", "--cpu", "4")
    assert refused.code == 1
    (row,) = shell("explain", "refusal", "--csv", "--no-header", "-l", "REQUEST,REASON").lines
    assert row.startswith("bid,")
    assert "web-77" in row


def test_a_vm_that_waits_has_a_line_about_its_queue(asked: Shell) -> None:
    """`big` is the only one that waits; a VM with a host has no such line."""
    assert "no other VM waits" in " ".join(asked("explain", "big").out.split())
    assert "Queue" not in asked("explain", "web-0").out


def test_a_reversal_says_why_it_is_impossible(daemon: Daemon, shell: Shell) -> None:
    """Its number is an argument, and only of this action."""
    assert "only in mode ask" in shell.refused("plan reverse")
    shell("mode", "ask")
    daemon.period()
    assert "there is no plan 7" in shell.refused("plan reverse 7")
    assert "only with reverse" in shell("plan", "show", "7").err
