"""A strategy that fails ends nobody else's period, and is noticed."""

from typing import Any

import pytest
from twisted.logger import capturedLogs

from merkatd.cluster import Decision
from merkatd.placement.registry import STRATEGIES, Entry
from merkatd.scheduler.settings import Market
from tests.scheduler.frontend import Frontend

_ENABLED, _OFFLINE = 0, 2


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> dict[str, bool]:
    """Whether strategy `tabu` fails now; other strategies never do."""
    now = {"fails": False}
    real = Entry.decide

    def decide(entry: Entry, *given: Any) -> Decision:
        if now["fails"] and entry.name == "tabu":
            raise IndexError("3 is out of bounds")
        return real(entry, *given)

    monkeypatch.setattr(Entry, "decide", decide)
    return now


def test_vms_stay_and_pay_and_other_markets_go_on(failing: dict[str, bool]) -> None:
    """In the market of the strategy nothing is placed or moved, until it works again."""
    other = Market(name="other", strategy="paper", cluster_names=frozenset({"other"}))
    markets = (Market(), other)
    frontend = Frontend(hosts=2, markets=markets)
    bench = frontend.bench
    cluster = bench.ok("one.cluster.allocate", "other")
    bench.ok("one.cluster.adddatastore", cluster, 0)
    bench.ok("one.cluster.addhost", cluster, 1)
    here = frontend.vm(SCHED_REQUIREMENTS="ID = 0")
    frontend.periods(2)
    assert frontend.host_of(here) == 0
    failing["fails"] = True
    there = frontend.vm(SCHED_REQUIREMENTS="ID = 1")
    waits = frontend.vm(SCHED_REQUIREMENTS="ID = 0")
    with capturedLogs() as logs:
        latest = frontend.periods(3)
    assert frontend.host_of(there) == 1
    assert frontend.state(waits) == "PENDING"
    row = latest.seen.snapshot.vm_row(here)
    assert latest.decided.decision.allocations[row, 0] > 0
    assert latest.decided.decision.failed == {"default": "IndexError: 3 is out of bounds"}
    assert sum(one.get("market") == "default" for one in logs) == 3
    failing["fails"] = False
    latest = frontend.periods(2)
    assert frontend.state(waits) == "RUNNING"
    assert latest.decided.decision.failed == {}
    frontend.close()


@pytest.mark.parametrize("name", STRATEGIES)
def test_no_strategy_fails_where_no_host_is_left(name: str) -> None:
    """VMs wait or stay, and go on when the hosts are back."""
    frontend = Frontend(hosts=2, markets=(Market(strategy=name),))
    vms = []
    for _ in range(5):
        vms.append(frontend.vm())
        frontend.periods(1)
    for host in (0, 1):
        frontend.bench.ok("one.host.status", host, _OFFLINE)
    waits = frontend.vm()
    for bid in (3, 4):
        frontend.bench.ok("one.vm.update", vms[0], f"MERKAT_BID_CPU={bid}", 1)
        assert frontend.periods(1).decided.decision.failed == {}
    frontend.bench.ok("one.host.status", 0, _ENABLED)
    frontend.periods(3)
    assert frontend.state(waits) == "RUNNING"
    frontend.close()
