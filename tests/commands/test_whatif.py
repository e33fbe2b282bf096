"""`merkatd whatif`: the plan and the prices of the cloud with other hosts or budgets."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from merkatd.database.scheduler import journal
from tests.commands.asking import Daemon, Shell, competing
from tests.migrated import content_of


@pytest.fixture
def daemon(monkeypatch: pytest.MonkeyPatch) -> Iterator[Daemon]:
    """Yield a daemon whose tenants ann and bob compete; ann bids twice as much."""
    with competing(monkeypatch, ann=2.0, bob=1.0) as made:
        yield made


def answer(shell: Shell, words: str) -> Any:
    """Return the whole answer."""
    return json.loads(shell.ok(f"whatif {words} --json").out)


def price(compared: Any, moment: str, resource: str = "cpu") -> float:
    """Return a price of an answer."""
    (row,) = [row for row in compared["prices"] if row["resource"] == resource]
    return float(row[moment])


def test_a_host_less_is_what_a_drain_does(daemon: Daemon, shell: Shell) -> None:
    """The same moves and prices follow when the host is drained."""
    compared = answer(shell, "--without host001")
    assert price(compared, "then") == pytest.approx(2 * price(compared, "now"), rel=0.01)
    moved = {step["vm"] for step in compared["then"]["steps"] if step["kind"] == "migrate"}
    assert moved
    assert compared["now"]["steps"] == []
    daemon.answer("drain", host="host001", who="ann")
    daemon.period()
    steps = daemon.answer("steps", kind="migrate", limit=10)
    assert {step["vm"] for step in steps if step["period"] == 5} == moved
    assert daemon.answer("price")[0]["price"] == pytest.approx(price(compared, "then"))


@pytest.mark.usefixtures("daemon")
def test_a_host_more_takes_vms_and_lowers_the_price(shell: Shell) -> None:
    """Three hosts divide what two did; the new one has a name of its own."""
    compared = answer(shell, "--more host000")
    assert price(compared, "then") < price(compared, "now")
    assert compared["more"] == ["host000-new1"]
    moves = [step for step in compared["then"]["steps"] if step["kind"] == "migrate"]
    assert "host000-new1" in {step["host"] for step in moves}
    text = shell.ok("whatif --more host000").out
    assert "with one more host, host000-new1" in " ".join(text.split())
    assert "Price of cpu in market default:" in text


def test_twice_the_budget_is_twice_the_bid(daemon: Daemon, shell: Shell) -> None:
    """The prices and shares are those after the tenant has really doubled its bids."""
    compared = answer(shell, "--budget bob=2")
    rows = {row["name"]: row for row in compared["vms"]}
    assert rows["bob-0"]["cpu_then"] > rows["bob-0"]["cpu_now"]
    assert rows["ann-0"]["cpu_then"] < rows["ann-0"]["cpu_now"]
    for vm in daemon.answer("vms"):
        if vm["owner_name"] == "bob":
            daemon.answer("bid", vm=str(vm["id"]), cpu=2.0, memory=2 * vm["bid_memory"])
    daemon.period()
    for vm in daemon.answer("vms"):
        assert vm["cpu"] == pytest.approx(rows[vm["name"]]["cpu_then"])
    assert daemon.answer("price")[0]["price"] == pytest.approx(price(compared, "then"))
    assert answer(shell, "--budget bob=1")["vms"][0]["host_then"] is not None


def test_nothing_is_sent_stored_or_remembered(daemon: Daemon, shell: Shell) -> None:
    """The next period decides as if the question had not been asked."""
    frontend = daemon.frontend
    before = content_of(frontend.engine)
    twin = [(vm["host"], vm["cpu"]) for vm in daemon.answer("vms")]
    for words in ("--without host000", "--more host001 --more host001", "--budget ann=9"):
        shell.ok(f"whatif {words}")
    assert content_of(frontend.engine) == before
    assert frontend.read(journal.outstanding) == ()
    daemon.period()
    assert [(vm["host"], vm["cpu"]) for vm in daemon.answer("vms")] == twin
    assert len(daemon.answer("hosts")) == 2


def test_without_enough_hosts_vms_wait(daemon: Daemon, shell: Shell) -> None:
    """The text counts them, and says that nothing is done."""
    daemon.frontend.vm(1.0, NAME="new")
    text = " ".join(shell.ok("whatif --without host000 --without host001").out.split())
    assert "VMs without a host after it: 1; without the change: 0." in text
    assert "nothing is done or stored" in text


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        ("whatif", 1, "at least one change must be given"),
        ("whatif --without nowhere", 1, "no host has the id or name 'nowhere'"),
        ("whatif --more nowhere", 1, "no host has the id or name 'nowhere'"),
        ("whatif --budget nobody=2", 1, "no tenant has the id or name 'nobody'"),
        ("whatif --budget ann", 2, "expected a tenant and a factor"),
        ("whatif --budget ann=nan", 2, "expected a tenant and a factor"),
    ],
)
def test_wrong_changes_are_refused(words: str, code: int, says: str, asked: Shell) -> None:
    """With what is accepted."""
    assert says in asked.refused(words, code)


@pytest.mark.parametrize("factor", ["0", "0.5", "1e-9", "1e6"])
def test_a_budget_changes_limits_of_orders_too(daemon: Daemon, shell: Shell, factor: str) -> None:
    """Without credits a limit order waits or is displaced: the question still has an answer."""
    vms = [vm["id"] for vm in daemon.answer("vms") if vm["owner_name"] == "bob"]
    daemon.answer("limit_order_set", vms=vms[:1], limit=3.5)
    daemon.period(2)
    assert answer(shell, f"--budget bob={factor}")["budgets"] == {"bob": float(factor)}
