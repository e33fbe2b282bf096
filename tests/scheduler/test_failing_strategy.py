"""The failure of a strategy is reported and affects no other market."""

import itertools
from typing import Any

import pytest
from twisted.logger import capturedLogs

from merkatd.cluster import Decision
from merkatd.placement.contract import StrategyEntry
from merkatd.placement.market import settlement
from merkatd.placement.registry import STRATEGIES
from merkatd.scheduler.base.settings import MarketRules
from merkatd.scheduler.phases import decide as deciding
from merkatd.scheduler.phases import market_decisions
from tests.lengths import pair
from tests.scheduler.frontend import Frontend

_ENABLED, _OFFLINE = 0, 2


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> dict[str, bool]:
    """Return a switch that makes strategy `tabu` fail; other strategies never fail."""
    now = {"fails": False}
    real = StrategyEntry.decide

    def decide(entry: StrategyEntry, *given: Any) -> Decision:
        if now["fails"] and entry.name == "tabu":
            raise IndexError("3 is out of bounds")
        return real(entry, *given)

    monkeypatch.setattr(StrategyEntry, "decide", decide)
    return now


def two_markets() -> Frontend:
    """Return host 0 in the default market and host 1 in another, with another strategy."""
    other = MarketRules(name="other", strategy="paper", cluster_names=frozenset({"other"}))
    frontend = Frontend(hosts=2, markets=(MarketRules(), other))
    bench = frontend.bench
    cluster = bench.ok("one.cluster.allocate", "other")
    bench.ok("one.cluster.adddatastore", cluster, 0)
    bench.ok("one.cluster.addhost", cluster, 1)
    return frontend


def broken(*_given: Any) -> Any:
    """Raise an error for any arguments."""
    raise ValueError("broken")


def test_a_failed_strategy_leaves_vms_in_place_and_other_markets_running(
    failing: dict[str, bool],
) -> None:
    """Its market places and migrates no VM until the strategy works again; VMs still pay."""
    frontend = two_markets()
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
    assert "strategy of market default failed" in latest.decided.decision.reasons[waits]
    assert sum(event.get("market") == "default" for event in logs) == 1
    failing["fails"] = False
    latest = frontend.periods(2)
    assert frontend.state(waits) == "RUNNING"
    assert latest.decided.decision.failed == {}
    frontend.close()


@pytest.mark.parametrize("name", STRATEGIES)
def test_no_strategy_fails_without_an_open_host(name: str) -> None:
    """VMs wait or stay, and continue when the hosts are back."""
    frontend = Frontend(hosts=2, markets=(MarketRules(strategy=name),))
    vms = []
    for _ in range(5):
        vms.append(frontend.vm(VCPU=1))
        frontend.periods(1)
    for host in (0, 1):
        frontend.bench.ok("one.host.status", host, _OFFLINE)
    waits = frontend.vm(VCPU=1)
    for bid in (3, 4):
        frontend.bench.ok("one.vm.update", vms[0], f"MERKAT_BID_CPU={bid}", 1)
        assert frontend.periods(1).decided.decision.failed == {}
    for host in (0, 1):
        frontend.bench.ok("one.host.status", host, _ENABLED)
    frontend.periods(3)
    assert frontend.state(waits) == "RUNNING"
    frontend.close()


def test_vms_keep_their_limits_where_hosts_cannot_be_divided(
    failing: dict[str, bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The strategy and its replacement fail in one market; the other market continues."""
    frontend = two_markets()
    cheap, dear = (frontend.vm(bid, SCHED_REQUIREMENTS="ID = 0", VCPU=4) for bid in (1, 3))
    frontend.periods(4)
    before = [frontend.limits(vm) for vm in (cheap, dear)]
    assert before[0].vcpu_quota == 25_000
    there = frontend.vm(SCHED_REQUIREMENTS="ID = 1")
    waits = frontend.vm(SCHED_REQUIREMENTS="ID = 0")
    failing["fails"] = True
    with monkeypatch.context() as patch, capturedLogs() as logs:
        patch.setattr(market_decisions, "stay", broken)
        latest = frontend.periods(3)
    assert frontend.state(there) == "RUNNING"
    assert frontend.state(waits) == "PENDING"
    assert [frontend.limits(vm) for vm in (cheap, dear)] == before
    decision, snapshot = latest.decided.decision, latest.seen.snapshot
    given = [decision.allocations[snapshot.vm_row(vm), 0] for vm in (cheap, dear)]
    assert given == pytest.approx([100.0, 300.0])
    assert decision.failed == {"default": "IndexError: 3 is out of bounds; then ValueError: broken"}
    assert sum("can't be divided" in str(event.get("log_format")) for event in logs) == 1
    failing["fails"] = False
    frontend.periods(2)
    assert frontend.state(waits) == "RUNNING"
    frontend.close()


@pytest.mark.parametrize(
    ("text", "name"),
    pair(["why_pending", "why_stays", "why_deployed", "why_migrated"], [*STRATEGIES]),
)
def test_a_failure_in_a_reason_stops_no_decision(
    name: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The decision is carried out; the text says that no reason is available."""
    frontend = Frontend(hosts=2, markets=(MarketRules(strategy=name),))
    stays, leaves = frontend.vm(SCHED_REQUIREMENTS="ID = 0"), frontend.vm()
    frontend.periods(2)
    source = frontend.host_of(leaves)
    monkeypatch.setattr(settlement, text, broken)
    for vm in (stays, leaves):
        frontend.bench.ok("one.vm.action", "resched", vm)
    large = frontend.vm(MEMORY=99_999, MERKAT_MIN_MEMORY=99_999)
    new = frontend.vm()
    latest = frontend.periods(1)
    decision = latest.decided.decision
    assert decision.failed == {}
    assert (decision.reasons[large].endswith("(ValueError: broken)")) == (text == "why_pending")
    frontend.periods(1)
    assert frontend.state(new) == "RUNNING"
    assert frontend.host_of(leaves) != source
    frontend.close()


def test_a_failure_in_another_text_stops_no_decision(monkeypatch: pytest.MonkeyPatch) -> None:
    """The log contains the failure."""
    frontend = Frontend(hosts=1)
    monkeypatch.setattr(deciding, "outside_markets", broken)
    new = frontend.vm()
    with capturedLogs() as logs:
        frontend.periods(2)
    assert frontend.state(new) == "RUNNING"
    assert sum("Some reasons" in str(event.get("log_format")) for event in logs) == 2
    frontend.close()


@pytest.mark.parametrize(
    ("case", "name"), pair(itertools.product([False, True], repeat=2), [*STRATEGIES])
)
def test_a_vm_that_should_leave_the_only_open_host_stays(
    name: str, case: tuple[bool, bool]
) -> None:
    """Its reason names no other VM's requirement, and new VMs start."""
    disabled, classes = case
    frontend = Frontend(hosts=2 if disabled else 1, markets=(MarketRules(strategy=name),))
    stays = frontend.vm()
    frontend.periods(2)
    frontend.bench.ok("one.vm.action", "resched", stays)
    if disabled:
        frontend.bench.ok("one.host.status", 1 - frontend.host_of(stays), 1)
    if classes:
        frontend.vm(SCHED_REQUIREMENTS="ID = 77")
    new = frontend.vm()
    latest = frontend.periods(2)
    assert latest.decided.decision.failed == {}
    assert "no other host of market default takes VMs now" in latest.decided.decision.reasons[stays]
    assert frontend.state(new) == "RUNNING"
    frontend.close()


def test_a_vm_that_should_leave_the_only_host_it_requires_stays() -> None:
    """The reason names its own requirement and its request for another host."""
    frontend = Frontend(hosts=2)
    stays = frontend.vm(SCHED_REQUIREMENTS="ID = 0")
    frontend.periods(2)
    frontend.bench.ok("one.vm.action", "resched", stays)
    reason = frontend.periods(2).decided.decision.reasons[stays]
    assert "no other host of market default that takes VMs meets its requirements" in reason
    assert "ID = 0" in reason
    frontend.close()
