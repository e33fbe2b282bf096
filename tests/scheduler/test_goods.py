"""Network and disk as goods, tested with the whole daemon on the embedded cloud."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from twisted.internet.defer import ensureDeferred

from merkatd.commands.list_command import VMS
from merkatd.commands.status_commands import frame
from merkatd.commands.terminal.table_columns import column_text
from merkatd.currency.credits import month_of
from merkatd.currency.settings import MoneySettings
from merkatd.ledger import statement
from merkatd.scheduler.base.settings import GoodsSettings, MarketRules
from merkatd.scheduler.phases.announce import Announcement
from merkatd.service.base.errors import InvalidRequestError
from tests.scheduler.frontend import Frontend
from tests.served import questions_at

BOTH = GoodsSettings(network=True, disk=True, host_network_mbit_s=1000.0, host_disk_mib_s=200.0)
MONEY = MoneySettings(supply=1e6, starting_credits=1e4)
ONES = dict.fromkeys(BOTH.resources, 1.0)


@pytest.fixture
def frontend() -> Iterator[Frontend]:
    """Return a frontend with one host that sells network and disk."""
    made = Frontend(hosts=1, goods=BOTH, money=MONEY, markets=(MarketRules(default_bid=ONES),))
    yield made
    made.close()


def ask(frontend: Frontend, question: str, **arguments: Any) -> Any:
    """Return the daemon's answer to a question."""
    questions = questions_at(frontend.scheduler)
    return frontend.result(ensureDeferred(questions.answer(question, arguments)))


def run(frontend: Frontend, periods: int) -> Announcement:
    """Run several periods and make the last one the subject of questions."""
    frontend.scheduler.latest = latest = frontend.periods(periods)
    return latest


def network_and_disk_limits(frontend: Frontend, vm: int) -> tuple[int, int]:
    """Return the VM's limits of network and disk on its host."""
    limits = frontend.limits(vm)
    return limits.network_kb_s, limits.disk_kib_s


def test_bids_divide_a_hosts_bandwidth(frontend: Frontend) -> None:
    """The host enforces a ratio of 1 to 3, and `explain` gives the reason."""
    light = frontend.vm(MERKAT_BID_NETWORK=1)
    heavy = frontend.vm(MERKAT_BID_NETWORK=3)
    run(frontend, 3)
    assert network_and_disk_limits(frontend, light) == (250 * 125, 100 * 1024)
    assert network_and_disk_limits(frontend, heavy) == (750 * 125, 100 * 1024)
    explained = ask(frontend, "explain", vm=str(heavy))["resources"]
    (part,) = [resource for resource in explained if resource["resource"] == "network"]
    assert part["share"] == pytest.approx(750.0)
    assert part["price"] == pytest.approx(4 / 1000)
    why = "its bid of 3 is 75 % of the 4 that 2 VMs bid there for 1,000"
    assert part["why_not_more"] == why
    shown = {row["id"]: row for row in ask(frontend, "limits")}
    assert (shown[light]["network"], shown[light]["set_network"]) == (250.0, 250.0)
    assert (shown[light]["disk"], shown[light]["set_disk"]) == (100.0, 100.0)
    (host,) = ask(frontend, "hosts")
    assert (host["network"], host["bids_network"]) == (1000.0, 4.0)
    assert host["given_network"] == pytest.approx(1000.0)
    frontend.agree()


def test_all_goods_are_charged_and_recorded(frontend: Frontend) -> None:
    """A VM that gets its share pays its bid for each good; the statement agrees."""
    frontend.vm(2.0, owner=frontend.user("ann"), MERKAT_BID_NETWORK=3, MERKAT_BID_DISK=4)
    frontend.vm(2.0, owner=frontend.user("bob"), VCPU=4)
    run(frontend, 12)
    ann = next(owner for owner in frontend.balances() if owner)
    month = month_of(frontend.clock.seconds())
    account = frontend.read(lambda c: statement(c, ann, month))
    assert account.difference == 0
    (line,) = account.lines
    assert line.network_cost == pytest.approx(3 * 1e6 * line.seconds / 60, rel=1e-6)
    assert line.disk_cost == pytest.approx(4 * 1e6 * line.seconds / 60, rel=1e-6)
    assert line.network_mbit == pytest.approx(750 * line.seconds, rel=1e-6)
    assert line.disk_mib == pytest.approx(160 * line.seconds, rel=1e-6)
    assert line.cost > line.network_cost + line.disk_cost, "together they request six cores"
    assert account.charged == 10_000_000_000 - round(frontend.balances()[ann] * 1e6)
    frontend.agree()


def test_hosts_and_vms_can_set_their_capacity_and_limits(frontend: Frontend) -> None:
    """They are MERKAT_NETWORK, MERKAT_DISK and MAX; the bid bounds a claim (MIN)."""
    frontend.bench.ok("one.host.update", 0, 'MERKAT_NETWORK="400"\nMERKAT_DISK="none"', 1)
    capped = frontend.vm(MERKAT_BID_NETWORK=9, MERKAT_MAX_NETWORK=50, MERKAT_MIN_DISK=150)
    rest = frontend.vm(MERKAT_BID_NETWORK=1, MERKAT_BID_DISK=9)
    run(frontend, 3)
    assert network_and_disk_limits(frontend, capped) == (50 * 125, 20 * 1024)
    assert network_and_disk_limits(frontend, rest) == (350 * 125, 180 * 1024)


def test_a_vm_resumed_between_two_periods_is_limited_within_seconds(
    frontend: Frontend,
) -> None:
    """The limit is what its bids buy; without one the VM could use the whole host."""
    off = frontend.vm(MERKAT_BID_NETWORK=1, MERKAT_BID_DISK=1)
    frontend.vm(MERKAT_BID_NETWORK=3, MERKAT_BID_DISK=3)
    run(frontend, 3)
    frontend.bench.ok("one.vm.action", "poweroff-hard", off)
    run(frontend, 3)
    frontend.bench.ok("one.vm.action", "resume", off)
    for _ in range(4):
        frontend.clock.advance(5)
    network, disk = network_and_disk_limits(frontend, off)
    assert 0 < network <= 350 * 125
    assert 0 < disk <= 70 * 1024


def test_a_vm_that_bids_nothing_stays_reachable(frontend: Frontend) -> None:
    """It keeps one Mbit/s."""
    silent = frontend.vm(MERKAT_BID_NETWORK=0)
    frontend.vm(MERKAT_BID_NETWORK=1)
    run(frontend, 3)
    assert network_and_disk_limits(frontend, silent)[0] == 125


def test_bids_and_quotes_cover_all_goods(frontend: Frontend) -> None:
    """The bid gets what the quote promised, and the next period applies it."""
    vm = frontend.vm(MERKAT_BID_NETWORK=1)
    frontend.vm(MERKAT_BID_NETWORK=3)
    run(frontend, 3)
    quoted = ask(frontend, "quote", vm=str(vm), want_network=500.0)
    (part,) = [resource for resource in quoted["resources"] if resource["resource"] == "network"]
    assert part["bid"] == pytest.approx(3.0)
    ask(frontend, "bid", vm=str(vm), network=3.0)
    run(frontend, 2)
    assert network_and_disk_limits(frontend, vm)[0] == 500 * 125
    prices = {row["resource"]: row["price"] for row in ask(frontend, "price")}
    assert prices["network"] == pytest.approx(6 / 1000)
    assert prices["disk"] == pytest.approx(2 / 200)


def test_tables_show_only_goods_that_are_sold(frontend: Frontend) -> None:
    """With CPU and memory alone they have no further columns."""
    frontend.vm(MERKAT_BID_NETWORK=3)
    run(frontend, 3)
    sold = ask(frontend, "overview")
    text = "\n".join(frame(sold, 300, None))
    assert "NETWORK" in text
    assert "BID_DISK" in text
    for rows in (sold["hosts"], sold["vms"]):
        for row in rows:
            for name in [good for good in row if "network" in good or "disk" in good]:
                del row[name]
    plain = "\n".join(frame(sold, 300, None))
    assert "BID_NETWORK" not in plain
    assert "DISK" not in plain
    names = [column.name for column in column_text(VMS.default(), sold["vms"])]
    assert names == [column.name for column in VMS.default() if not column.sometimes]


def test_a_limit_changed_on_the_host_is_restored(frontend: Frontend) -> None:
    """The next period restores it."""
    vm = frontend.vm()
    run(frontend, 3)
    frontend.cloud.guests.set_limits(vm, network_kb_s=-1, disk_kib_s=7)
    run(frontend, 1)
    assert network_and_disk_limits(frontend, vm) == (1000 * 125, 200 * 1024)


def test_release_removes_the_limits(frontend: Frontend) -> None:
    """None of Merkat's limits remains on the host."""
    vm = frontend.vm()
    run(frontend, 3)
    ask(frontend, "release")
    ask(frontend, "release", vms=[vm])
    assert network_and_disk_limits(frontend, vm) == (-1, -1)


def test_without_further_goods_none_is_sold_or_limited() -> None:
    """Once the goods are enabled, bids that templates already contain count."""
    plain = Frontend(hosts=1, money=MONEY)
    try:
        light, heavy = plain.vm(MERKAT_BID_NETWORK=1), plain.vm(MERKAT_BID_NETWORK=3)
        seen = run(plain, 3).seen
        assert seen.snapshot.resources == ("cpu", "memory")
        assert network_and_disk_limits(plain, heavy) == (-1, -1)
        with pytest.raises(InvalidRequestError, match="network is not sold; sold: cpu, memory"):
            ask(plain, "bid", vm=str(light), network=3.0)
        assert "network" not in ask(plain, "vms")[0]
        plain.world_settings |= {"goods": BOTH, "markets": (MarketRules(default_bid=ONES),)}
        plain.start_daemon()
        seen = run(plain, 3).seen
        assert seen.snapshot.resources == ("cpu", "memory", "network", "disk")
        assert np.array_equal(seen.snapshot.vms.bid[:, 2], [1.0, 3.0])
        assert network_and_disk_limits(plain, light)[0] == 250 * 125
        assert network_and_disk_limits(plain, heavy)[0] == 750 * 125
        plain.agree()
    finally:
        plain.close()


def test_one_further_good_can_be_enabled_alone() -> None:
    """Disk is enabled without network and has its own charges."""
    made = Frontend(
        hosts=1,
        goods=GoodsSettings(disk=True),
        money=MONEY,
        markets=(MarketRules(default_bid=ONES),),
    )
    try:
        vm = made.vm(owner=made.user("ann"), MERKAT_BID_DISK=5)
        made.vm(owner=made.user("bob"), MERKAT_BID_DISK=5)
        run(made, 12)
        assert network_and_disk_limits(made, vm) == (-1, 100 * 1024)
        ann = next(owner for owner in made.balances() if owner)
        month = month_of(made.clock.seconds())
        account = made.read(lambda c: statement(c, ann, month))
        (line,) = account.lines
        assert (line.network_cost, line.network_mbit) == (0, 0.0)
        assert line.disk_cost == pytest.approx(5 * 1e6 * line.seconds / 60, rel=1e-6)
        assert account.difference == 0
    finally:
        made.close()


def test_a_vm_of_any_market_can_use_as_much_as_its_largest_host_has() -> None:
    """Hosts of another market, or of none, don't count."""
    first, second = MarketRules(name="first", clusters=frozenset({9})), MarketRules(name="second")
    made = Frontend(hosts=2, goods=BOTH, money=MONEY, markets=(first, second))
    vm = made.vm(MERKAT_MARKET="second", MERKAT_BID_NETWORK=1, MERKAT_BID_DISK=1)
    run(made, 3)
    assert network_and_disk_limits(made, vm) == (1000 * 125, 200 * 1024)
    allocation = run(made, 1).decided.decision.allocations[0]
    assert allocation[2:].tolist() == [1000.0, 200.0]
    made.close()


def test_a_spending_rate_replaces_bids_in_a_market_that_charges_use() -> None:
    """It doesn't divide memory; network and disk follow the rate of CPU."""
    made = Frontend(hosts=1, goods=BOTH, money=MONEY, markets=(MarketRules(strategy="groups"),))
    made.vm(3.0, MERKAT_BID_MEMORY=7, MERKAT_BID_NETWORK=9)
    bid = run(made, 2).seen.snapshot.vms.bid[0]
    assert bid[0] > 0
    assert bid.tolist() == [bid[0], 0.0, bid[0], bid[0]]
    made.close()
