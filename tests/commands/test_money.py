"""The commands about money: tenants, budgets, statements."""

import csv
import json

import pytest

from merkatd.commands import ask_daemon
from merkatd.database.database import transaction
from merkatd.ledger import MICRO, open_application
from tests.commands.asking import Daemon, Shell


class TestTenant:
    def test_the_list_shows_all_tenants_and_the_supply(self, asked: Shell) -> None:
        """It also has the treasury, and credits add up."""
        out = asked.ok("tenant list").out
        assert "Supply: 1,000,000 credits" in out
        assert " 0  oneadmin  oneadmin " in out
        row = json.loads(asked.ok("tenant list --json").out)[0]
        assert (row["id"], row["weight"]) == (0, 1.0)
        assert row["holdings"] == row["balance"] + row["applications"]

    @pytest.mark.usefixtures("daemon")
    def test_weights_divide_the_next_renewal(self, shell: Shell) -> None:
        """Tenants' and groups' weights can be set and removed."""
        shell.ok("tenant weight 7 3")
        shell.ok("tenant weight 8 1.5")
        shell.ok("tenant renew")
        rows = {row["id"]: row for row in json.loads(shell.ok("tenant list -j").out)}
        assert rows[7]["holdings"] == pytest.approx(2 * rows[8]["holdings"], rel=1e-5)
        shell.ok("tenant weight 8 default")
        assert json.loads(shell.ok("tenant show 8 -j").out)["own_weight"] is None
        assert "weight 1.5 -> 1" in shell.ok("tenant show 8").out
        shell.ok("tenant weight 0 0")
        shell.ok("tenant weight 2.5 --group oneadmin")
        assert json.loads(shell.ok("tenant show 0 -j").out)["weight"] == 0.0

    @pytest.mark.usefixtures("daemon")
    def test_grants_come_from_the_treasury_and_return_to_it(self, shell: Shell) -> None:
        """They are exact, and the error for too large ones has the available amount."""
        before = json.loads(shell.ok("tenant show 0 -j").out)["micro"]
        shell.ok("tenant grant 0 12.5")
        after = json.loads(shell.ok("tenant show 0 -j").out)["micro"]
        assert after - before == 12_500_000
        shell.ok("tenant grant 0 -12.5")
        assert json.loads(shell.ok("tenant show 0 -j").out)["micro"] == before
        assert "tenant 0 has" in shell.refused("tenant grant 0 -2000000")
        assert "the treasury has" in shell.refused("tenant grant 0 3e12")

    def test_a_void_period_is_refunded_once(self, daemon: Daemon, shell: Shell) -> None:
        """The reason is on record."""
        daemon.period(2)
        before = json.loads(shell.ok("tenant show 0 -j").out)["micro"]
        assert "Refunded " in shell("tenant", "refund", "2", "--why", "power cut").out
        after = json.loads(shell.ok("tenant show 0 -j").out)["micro"]
        assert after > before
        shell("tenant", "refund", "2", "--why", "power cut")
        assert json.loads(shell.ok("tenant show 0 -j").out)["micro"] == after

    @pytest.mark.parametrize(
        ("words", "says"),
        [
            ("tenant show", "expected: merkatd tenant show TENANT"),
            ("tenant list 5", "expected: merkatd tenant list"),
            ("tenant weight 5", "expected: merkatd tenant weight TENANT X"),
            ("tenant weight 5 many", "expected a number"),
            ("tenant grant 5 nan", "expected a number"),
            ("tenant grant 5 1e40", "expected a number"),
            ("tenant list --group 5", "--group can be used only with weight"),
            ("tenant refund 5", "refund needs --why TEXT"),
        ],
    )
    def test_wrong_arguments_are_errors(self, asked: Shell, words: str, says: str) -> None:
        """They fail before the daemon is asked."""
        assert says in asked.refused(words, 2)

    @pytest.mark.parametrize(
        ("words", "says"),
        [
            ("tenant show nobody", "no tenant has the id or name 'nobody'"),
            ("tenant show 99", "user 99 is not a tenant"),
            ("tenant weight 0 -1", "a number from 0"),
            ("tenant grant 0 0", "the amount of a grant must not be 0"),
        ],
    )
    def test_impossible_orders_are_errors(self, asked: Shell, words: str, says: str) -> None:
        """The error is one line with the accepted values."""
        assert says in asked.refused(words)


@pytest.mark.parametrize(
    "words",
    ["tenant grant 0 10", "tenant renew", "budget 1 --amount 5", "platform submit - --tenant 0"],
)
def test_changes_are_not_repeated(
    asked: Shell, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With --delay, a grant was made again and again, and a platform was submitted anew."""

    def repeat(_delay_s: float) -> None:
        raise AssertionError("the change was made, and would be made again")

    monkeypatch.setattr(ask_daemon, "sleep", repeat)
    assert "--delay would repeat the change" in asked.refused(f"{words} --delay 5", 2)


class TestBudget:
    def test_budgets_are_shown_and_changed(self, daemon: Daemon, shell: Shell) -> None:
        """Missing credits come from the tenant, and excess returns to it."""
        opened = transaction(
            daemon.frontend.engine,
            lambda c: open_application(c, 0, "web", 100 * MICRO, 5 * MICRO, 0.0),
        )
        row = json.loads(shell.ok("budget -j").out)[0]
        assert (row["name"], row["budget"], row["balance"]) == ("web", 100.0, 100.0)
        shell.ok(f"budget {opened.application} --amount 40 --replenishment 2")
        row = json.loads(shell.ok(f"budget {opened.application} -j").out)[0]
        assert (row["budget"], row["replenishment"], row["balance"]) == (40.0, 2.0, 40.0)
        by_name = json.loads(shell.ok("budget web --amount 41 -j").out)[0]
        assert (by_name["name"], by_name["budget"]) == ("web", 41.0)
        assert "no application is called webb" in shell.refused("budget webb")
        shell.ok("budget web --amount 40")
        assert "budget 40, replenishment 2" in shell.ok("tenant show 0").out
        assert "can't be moved" in shell.refused(f"budget {opened.application} --amount 1e12")
        assert "there is no application 99" in shell.refused("budget 99")
        assert "--replenishment need an APPLICATION" in shell.refused("budget --amount 5", 2)


class TestStatement:
    def test_statements_have_showbacks_columns_and_exact_sums(self, asked: Shell) -> None:
        """CSV, JSON and text have the same content."""
        answer = json.loads(asked.ok("statement 0 -j").out)
        assert answer["difference"] == 0
        assert answer["opening"] + sum(answer["movements"].values()) == answer["closing"]
        lines = asked.ok(
            "statement 0 --csv -l UID,USER_NAME,GID,VM_ID,VM_NAME,MONTH,YEAR,HOURS,RUNNING_HOURS,"
            "COST,MICRO"
        ).lines
        rows = list(csv.DictReader(lines))
        assert {row["VM_NAME"] for row in rows} == {f"web-{number}" for number in range(5)}
        assert sum(int(row["MICRO"]) for row in rows) == -answer["movements"]["charge"]
        # Three periods of a minute are charged, and each VM from its first second on.
        assert all(3 / 60 <= float(row["HOURS"]) < 3 / 60 + 3 / 3600 for row in rows)
        assert "Every credit is accounted for" in asked.ok("statement 0").out

    def test_a_month_without_charges_is_empty(self, asked: Shell) -> None:
        """An invalid month is an error."""
        answer = json.loads(asked.ok("statement 0 --month 1970-03 -j").out)
        assert (answer["lines"], answer["movements"]) == ([], {})
        assert answer["opening"] == answer["closing"]
        assert "a month must look like 2026-05" in asked.refused("statement 0 --month 2026-13")
        assert "no tenant" in asked.refused("statement eve")
