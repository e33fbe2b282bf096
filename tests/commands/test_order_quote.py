"""`merkatd order quote`: the limit that starts VMs now, and what the recorded past says."""

import json

import pytest
from twisted.internet.defer import ensureDeferred

from merkatd.service.room_recorder import RoomRecorder
from tests.commands.asking import Daemon, Shell


def recorded(daemon: Daemon, hours: float) -> None:
    """Run periods for so many hours, five minutes apart, and record each."""
    recorder = RoomRecorder(daemon.frontend.scheduler)
    for _ in range(round(hours * 12)):
        latest = daemon.frontend.period()
        daemon.frontend.scheduler.latest = latest
        daemon.frontend.result(ensureDeferred(recorder.record(latest)))
        daemon.frontend.clock.advance(300)


def test_a_quote_reads_like_a_sentence_and_a_table(daemon: Daemon, shell: Shell) -> None:
    """With a deadline it has the chance to be done in time, and says how much is known."""
    recorded(daemon, 2)
    assert shell.ok("order quote web-0 --work 10m --within 30m").lines == [
        "VM 0 (400 % CPU, 2,048 MiB) would start now with a limit of 17.01 credits a period.",
        "The recorded past is 4 times as long as the time to the deadline.",
        "The last 2 h, and 10 min of work in the next 30 min:",
        "LIMIT   RAN  COST  STOPS  IN_TIME",
        " 8.51    0%     -      0       0%",
        " 12.8    0%     -      0       0%",
        "17.01    0%     -      0       0%",
        " 25.5  100%    18      0     100%",
        "   34  100%    18      0     100%",
    ]


def test_vms_that_do_not_exist_yet_are_quoted_by_their_size(daemon: Daemon, shell: Shell) -> None:
    """CSV and JSON have all numbers; a limit can be asked for alone."""
    recorded(daemon, 1)
    words = "order quote --cpu 200 --memory 2048 --limit 7"
    assert shell.ok(words).lines == [
        (
            "New VMs (200 % CPU, 2,048 MiB) would start together now with a limit of 6.001 credits"
            " a period."
        ),
        "The last 1 h:",
        "LIMIT   RAN  COST  STOPS",
        "    7  100%     6      0",
    ]
    answer = json.loads(shell.ok(f"{words} -j").out)
    assert answer == daemon.answer("limit_order_quote", cpu=200.0, memory=2048.0, limits=[7.0])
    assert (answer["market"], answer["history_s"], answer["why"]) == ("default", 3600.0, "")
    assert shell.ok(f"{words} --csv -l LIMIT,RAN").lines == ["LIMIT,RAN", "7.0,1.0"]


def test_too_short_a_past_is_said(daemon: Daemon, shell: Shell) -> None:
    """The limit of now needs no past; odds need an hour, and chances three times the deadline."""
    daemon.period()
    assert shell.ok("order quote 0 1").lines == [
        "VMs 0, 1 (800 % CPU, 4,096 MiB): no limit would start them together now.",
        "Too little is known: the recorded past covers 0 s, and odds need at least 1 h.",
    ]
    recorded(daemon, 1)
    lines = shell.ok("order quote 0 --work 10m --within 30m").lines
    assert lines[1] == (
        "Too little is known: the recorded past covers 1 h, and the chance for a deadline in 30 min"
        " needs at least 3 times as much, 1 h 30 min."
    )
    assert lines[2:4] == ["The last 1 h:", "LIMIT   RAN  COST  STOPS"]


def test_an_order_counts_beside_all_others_and_not_beside_itself(
    daemon: Daemon, shell: Shell
) -> None:
    """The quote of a VM that has an order is what it would take now without that order."""
    before = daemon.answer("limit_order_quote", vms=[0])["limit_to_start"]
    daemon.answer("limit_order_set", vms=[0], limit=30.0)
    daemon.period()
    assert daemon.answer("limit_order_quote", vms=[0])["limit_to_start"] <= before
    (row,) = json.loads(shell.ok("order list -j").out)
    assert row["runs"]
    other = daemon.answer("limit_order_quote", cpu=400.0, memory=2048.0)
    assert other["limit_to_start"] is not None
    assert other["limit_to_start"] > 30.0


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("quote", "expected: merkatd order quote VM ..., or quote --cpu UNITS --memory MIB"),
        ("quote 0 --cpu 100", "expected: merkatd order quote VM ..., or quote"),
        ("quote 0 --work 1h", "a deadline needs both --work and --within"),
        ("quote 0 --factor 2", "can be used only with set and change, and --limit with quote"),
        ("quote 0 --market default", "--market can be used only with book, and with quote without"),
        ("list --cpu 100", "--work, --within and the sizes can be used only with quote"),
        ("book --within 1h", "--work, --within and the sizes can be used only with quote"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(shell: Shell, words: str, text: str) -> None:
    """The message says what fits."""
    assert text in shell.refused(f"order {words}", 2)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("quote 99", "no VM has the id or name '99'"),
        ("quote 0 0", "vms: must name each VM once"),
        ("quote 0 --work 0s --within 1h", "work_s: must be a number above 0 if within_s is given"),
        ("quote --disk 5", "disk: disk is not sold"),
        ("quote --cpu 0", "the amount of at least one of cpu, memory is needed"),
        ("quote --cpu 1 --market other", "market: must be one of default"),
    ],
)
def test_what_the_daemon_refuses(daemon: Daemon, shell: Shell, words: str, text: str) -> None:
    """The message names the argument and what is accepted."""
    daemon.period()
    assert text in shell.refused(f"order {words}")
