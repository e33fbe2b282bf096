"""A strategy that fails ends nobody else's period, and is noticed."""

from typing import Any

import pytest
from twisted.logger import capturedLogs

from merkatd.cluster import Decision
from merkatd.placement.registry import Entry
from merkatd.scheduler.settings import Market
from tests.scheduler.frontend import Frontend


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
