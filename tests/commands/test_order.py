"""`merkatd order`: its questions and its output."""

import json

import pytest

from merkatd.cluster.orders import LimitOrder, OrderOutcome
from merkatd.database.database import transaction
from merkatd.database.scheduler import limit_order_store
from tests.commands.asking import Daemon, Shell


def stored(daemon: Daemon) -> tuple[LimitOrder, ...]:
    """Return all stored limit orders."""
    orders: tuple[LimitOrder, ...] = daemon.frontend.read(limit_order_store.living)
    return orders


def decided(daemon: Daemon, *, runs: bool, cost: float, why: str = "") -> None:
    """Store an outcome of limit order 1."""
    outcome = OrderOutcome(1, runs, cost, why)
    at_s = daemon.frontend.clock.seconds()
    transaction(
        daemon.frontend.engine,
        lambda c: limit_order_store.record_outcomes(c, [outcome], at_s),
    )


class TestOrder:
    def test_an_order_is_stated_changed_and_deleted(self, daemon: Daemon, shell: Shell) -> None:
        """VMs are named by id or name; the text says what the order does."""
        assert shell.ok("order set web-1 0 --limit 3.5 --least-run 10m --factor 2").lines == [
            (
                "Limit order 1: VMs 0, 1 run together while they cost at most 3.5 credits a period,"
                " and at most 7 for 10 min after a start."
            ),
            "The next period decides whether they run.",
        ]
        (order,) = stored(daemon)
        assert (order.vms, order.limit, order.least_run_s, order.factor) == (
            (0, 1),
            3.5,
            600.0,
            2.0,
        )
        assert "VM 0 is already in limit order 1" in shell.refused("order set 0 --limit 3.5")
        assert shell.ok("order change 1 --limit 4 --factor 1").lines[0] == (
            "Limit order 1: VMs 0, 1 run together while they cost at most 4 credits a period."
        )
        assert stored(daemon)[0].limit == 4.0
        assert shell.ok("order delete 1").lines == [
            "Limit order 1 of VMs 0, 1 is deleted: their own bids count again."
        ]
        assert stored(daemon) == ()
        assert "Error getting limit order [1]." in shell.refused("order delete 1")

    def test_the_text_has_the_outcome(self, daemon: Daemon, shell: Shell) -> None:
        """It says whether the VMs run, since when, and why not."""
        shell.ok("order set 0 --limit 3.5")
        decided(daemon, runs=False, cost=9.0, why="the price is above its limit")
        assert shell.ok("order set 0 --limit 3.5").lines == [
            "Limit order 1: VM 0 runs while it costs at most 3.5 credits a period.",
            (
                "The order waits: the price is above its limit. A change applies from the next"
                " period on."
            ),
        ]
        decided(daemon, runs=True, cost=2.0)
        line = shell.ok("order change 1 --limit 3.5").lines[1]
        assert line.startswith("The order runs since 1970-01-1")
        assert shell.ok("order delete 1").lines == [
            "Limit order 1 of VM 0 is deleted: its own bid counts again."
        ]
        assert shell.ok("order set 0 --limit 1").lines[1] == (
            "The next period decides whether it runs."
        )

    def test_many_vms_are_counted(self, daemon: Daemon, shell: Shell) -> None:
        """A sentence names at most ten."""
        names = [f"w{number}" for number in range(11)]
        for name in names:
            daemon.frontend.vm(1.0, NAME=name)
        daemon.period()
        text = shell.ok(f"order set {' '.join(names)} --limit 1").out
        assert text.startswith("Limit order 1: 11 VMs run together while")

    def test_lists_have_a_row_for_each_order(self, daemon: Daemon, shell: Shell) -> None:
        """JSON has the values of all columns, and a change's JSON is the whole answer."""
        made = json.loads(shell.ok("order set 0 1 --limit 3.5 --least-run 60s -j").out)
        shell.ok("order set 2 --limit 20")
        decided(daemon, runs=True, cost=2.5)
        rows = json.loads(shell.ok("order list -j").out)
        assert [(row["id"], row["user"], row["vms"], row["limit"]) for row in rows] == [
            (1, "oneadmin", [0, 1], 3.5),
            (2, "oneadmin", [2], 20.0),
        ]
        assert (made["id"], made["vms"], made["least_run_s"], made["runs"]) == (
            1,
            [0, 1],
            60.0,
            False,
        )
        lines = shell.ok("order list").lines
        assert lines[0].split() == [
            "ID",
            "USER",
            "VMS",
            "LIMIT",
            "NOW",
            "COST",
            "RUNS",
            "SINCE",
            "WHY",
        ]
        assert lines[1].split()[:7] == ["1", "oneadmin", "0,1", "3.5", "3.5", "2.5", "true"]
        book = json.loads(shell.ok("order book -j").out)
        assert book == daemon.answer("limit_order_book")
        assert [row["limit"] for row in book] == [20.0, 3.5]
        assert shell.ok("order book --market default --csv -l LIMIT,RUNS").lines == [
            "LIMIT,RUNS",
            "20.0,false",
            "3.5,true",
        ]
        assert "must be one of default" in shell.refused("order book --market other")

    def test_the_bid_and_the_explanation_say_so(self, daemon: Daemon, shell: Shell) -> None:
        """Only those of a VM in an order do."""
        daemon.answer("limit_order_set", vms=[0], limit=3.5)
        note = "VM 0 is in limit order 1: its own bid counts again when the order is deleted"
        assert shell.ok("bid 0").lines[-1] == note
        assert shell.ok("bid 0 --cpu 2").lines[-1] == note
        assert json.loads(shell.ok("bid 0 -j").out)["limit_order"] == 1
        assert "limit order" not in shell.ok("bid 1").out
        assert (
            "Limit order  1: its own bid counts again when the order is deleted"
            in shell.ok("explain 0").lines
        )
        assert "Limit order" not in shell.ok("explain 1").out

    @pytest.mark.parametrize(
        ("words", "text"),
        [
            ("set --limit 3", "expected: merkatd order set VM ... --limit CREDITS"),
            ("set 0", "set needs --limit CREDITS"),
            ("change --limit 3", "expected: merkatd order change ID"),
            ("change 1 2 --limit 3", "expected: merkatd order change ID"),
            ("change 1", "change needs --limit, --least-run or --factor"),
            ("change web-0 --limit 3", "'web-0': expected a whole number"),
            ("delete", "expected: merkatd order delete ID"),
            ("delete 1 --limit 3", "can be used only with set and change"),
            ("list 1", "expected: merkatd order list"),
            ("list --factor 3", "can be used only with set and change"),
            ("list --market default", "--market can be used only with book"),
            ("book 1", "expected: merkatd order book"),
            ("book --least-run 3m", "can be used only with set and change"),
            ("set 0 --limit x", "expected credits a period"),
            ("set 0 --limit 3 --least-run 10", "expected a duration like 90s, 10m, 2h or 7d"),
            ("set 0 --limit 3 --least-run 9e9d", "expected a duration"),
            ("set 0 --limit 3 --factor nan", "'nan': expected a number from 1 to 100"),
            ("set 0 --limit 3 --factor 101", "'101': expected a number from 1 to 100"),
            ("set 0 --limit 3 -d 1", "use it only to show"),
            ("withdraw 1", "unknown value 'withdraw'; expected one of: set"),
        ],
    )
    def test_wrong_words_are_refused(self, asked: Shell, words: str, text: str) -> None:
        """The daemon is not asked."""
        assert text in asked.refused(f"order {words}", 2)

    def test_a_wrong_term_is_refused_by_the_daemon(self, daemon: Daemon, shell: Shell) -> None:
        """The line has the value and what is accepted."""
        assert "limit: must be a number above 0" in shell.refused("order set 0 --limit 0")
        assert "30 days (got 2678400.0)" in shell.refused("order set 0 --limit 1 --least-run 31d")
        assert stored(daemon) == ()
