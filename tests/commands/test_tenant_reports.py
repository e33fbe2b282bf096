"""`merkatd report` and `merkatd share`: the months of all tenants, and their parts of the cloud."""

import csv
import json
from collections.abc import Iterator

import pytest

from merkatd.currency.credits import Month, month_of
from tests.commands.asking import Daemon, Shell, competing


@pytest.fixture
def daemon(monkeypatch: pytest.MonkeyPatch) -> Iterator[Daemon]:
    """Yield a daemon whose tenants ann and bob compete; ann bids three times as much."""
    with competing(monkeypatch, ann=3.0, bob=1.0) as made:
        yield made


def rows(shell: Shell, words: str) -> dict[str, dict[str, float]]:
    """Return the rows of a command by the tenants' names."""
    return {row["user"]: row for row in json.loads(shell.ok(f"{words} --json").out)}


def test_the_report_adds_up_to_the_statements(daemon: Daemon, shell: Shell) -> None:
    """Of each tenant, to the micro-credit; the parts of all tenants are one whole."""
    report = rows(shell, "report")
    assert {"ann", "bob"} <= set(report)
    for name in ("ann", "bob"):
        statement = json.loads(shell.ok(f"statement {name} --json").out)
        assert report[name]["micro"] == statement["charged"] > 0
        assert report[name]["vms"] == 2
        hours = sum(line["cpu_hours"] for line in statement["lines"])
        assert report[name]["cpu_hours"] == pytest.approx(hours)
    assert sum(row["part"] or 0 for row in report.values()) == pytest.approx(1.0)
    assert report["ann"]["part"] > report["bob"]["part"]
    assert daemon.answer("report")[0]["difference"] == 0


def test_the_report_names_its_months(daemon: Daemon, shell: Shell) -> None:
    """A charge belongs to the month in which it was posted."""
    this = month_of(daemon.answer("status")["now_s"])
    before = shell.ok("report ann --csv").lines
    days = (this.end_s - daemon.answer("status")["now_s"]) / 86_400
    daemon.frontend.clock.advance((days + 1) * 86_400)
    daemon.period(3)
    later = list(csv.DictReader(shell.ok("report ann --months 2 --csv").lines))
    assert [row["MONTH"] for row in later] == [str(this), str(this.next)]
    assert later[0]["VMS"] == next(iter(csv.DictReader(before)))["VMS"]
    assert shell.ok(f"report ann --month {this} --csv -l MONTH").lines == ["MONTH", str(this)]
    text = shell.ok("report --months 2").out
    assert f"\n{this}: " in text
    assert f"\n{this.next}: " in text
    assert "Nothing was used" in shell.ok(f"report --month {Month(2001, 1)}").out


def test_the_share_is_of_all_hosts(daemon: Daemon, shell: Shell) -> None:
    """A tenant with three times the bids gets three times as much; together they have all of it."""
    share = rows(shell, "share")
    ann, bob = share["ann"], share["bob"]
    hosts = daemon.answer("hosts")
    capacity = sum(host["cpu"] for host in hosts)
    assert ann["part_cpu"] == pytest.approx(ann["cpu"] / capacity)
    assert ann["cpu"] == pytest.approx(3 * bob["cpu"], rel=0.01)
    assert sum(row["part_cpu"] for row in share.values()) == pytest.approx(1.0)
    assert sum(row["entitled"] for row in share.values()) == pytest.approx(1.0)
    assert ann["used"] > bob["used"] > 0
    assert ann["lasts"] == pytest.approx(ann["left"] / ann["cost"])
    assert rows(shell, "share ann") == {"ann": ann}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("report --month may", "month: "),
        ("report --months 25", "months: must be a whole number from 1 to 24 (got 25)"),
        ("report nobody", "no tenant has the id or name 'nobody'"),
        ("share nobody", "no tenant has the id or name 'nobody'"),
        ("share 77", "77"),
    ],
)
def test_wrong_questions_are_refused(words: str, says: str, asked: Shell) -> None:
    """With what is accepted."""
    assert says in asked.refused(words)
