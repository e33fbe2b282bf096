"""The events of a run of the kernel, replayed in the daemon: the same placements and prices."""

from collections.abc import Container

import numpy as np
import pytest

from merkatd.cluster import FailureRates
from merkatd.market.price import PriceRule
from merkatd.opennebula import current_state
from merkatd.placement.contract import Charge, Pricing
from merkatd.placement.registry import BASELINES, STRATEGIES
from simulator.kernel.data_center import DataCenter, tree_of_hosts
from simulator.kernel.event_queue import EventKind
from simulator.model.simulated_cloud import OperationCosts
from simulator.workloads.vm_requests import VmRequests
from tests.lengths import pair, shorten
from tests.scheduler.frontend import START_S
from tests.simulator.kernel.small_centers import YEARLY, requests
from tests.simulator.kernel_replay.daemon_replay import DaemonReplay
from tests.simulator.kernel_replay.recorded_run import RecordedRun, differences, record_run

SPAN_S = 2_400.0
CLEARING = Pricing(reserve={"cpu": 0.001, "memory": 1e-6})
PAPER = Pricing(rule=PriceRule.PAPER, whole_bids=True)
PLACED = [
    name
    for name, entry in STRATEGIES.items()
    if entry.charges is not Charge.USE and name not in BASELINES
]
"""Guests of the kernel are not limited to their shares, so used CPU has no price there if cores are
scarce."""
AMPLE_MIB, SCARCE_MIB = 32_768.0, 8_192.0


def four_hosts(memory_mib: float, failures_an_hour: float = 0.0) -> DataCenter:
    """Return four hosts of eight cores; the columns are those of hosts of the embedded cloud."""
    hosts = tree_of_hosts(
        (1, 1, 1, 4), [800.0, memory_mib], link_mbps=10_000.0, idle_watts=80.0, full_watts=160.0
    )
    costs = OperationCosts(
        suspend_s_per_mib=0.01,
        resume_s_per_mib=0.01,
        migrate_s_per_mib=0.01,
        migrating_speed=1.0,
    )
    rates = FailureRates(kind=("host",), per_year=np.array([failures_an_hour * YEARLY / 3600.0]))
    return DataCenter(hosts=hosts, costs=costs, rates=rates, repair_s={"host": 300.0})


def bidding_vms(seed: int, count: int) -> VmRequests:
    """Return VMs that together want more cores than there are; tenants bid differently for them.

    Nothing happens at the time of a period, where the order of both would be chance.
    """
    rng = np.random.default_rng(seed)
    cores, mib = (
        rng.choice([100.0, 200.0, 400.0], count),
        rng.choice([512.0, 1024.0, 2048.0], count),
    )
    size = np.stack([cores, mib], axis=1)
    return requests(
        np.sort(rng.integers(0, 1500, count) + 0.5),
        rng.integers(200, 1500, count) + 0.25,
        size,
        floor=size * [0.0, 1.0],
        bid=size * [0.01, 0.001] * rng.choice([0.5, 1.0, 2.0, 4.0], (count, 1)),
        owner=rng.integers(0, 3, count),
    )


def both(
    strategy: str, pricing: Pricing, center: DataCenter, seed: int, vms: int
) -> tuple[RecordedRun, DaemonReplay]:
    """Run the kernel and then the daemon; return what each did."""
    asked = bidding_vms(seed, vms)
    run = record_run(center, asked, STRATEGIES[strategy], pricing, SPAN_S, seed)
    replay = DaemonReplay(center, asked, strategy, pricing, seed)
    try:
        replay.replay(run.events, SPAN_S)
    finally:
        replay.close()
    return run, replay


def require_equal(run: RecordedRun, replay: DaemonReplay, but: Container[str] = ()) -> None:
    """Require the same observations, decisions and prices in each period, and the same starts."""
    assert len(run.periods) == len(replay.decided) == SPAN_S / 60.0
    for one, other in zip(run.periods, replay.decided, strict=True):
        assert one.at_s == other.at_s
        assert differences(one, other, START_S, but) == [], f"in the period at {one.at_s:g} s"
    assert run.hosts.keys() == replay.hosts.keys()
    for vm, places in run.hosts.items():
        assert replay.hosts[vm] == pytest.approx(np.array(places), abs=1e-6), f"of VM {vm}"


def count(run: RecordedRun, kind: str) -> int:
    """Return the number of steps of a kind."""
    return sum(step[0] == kind for period in run.periods for step in period.steps)


@pytest.fixture(autouse=True)
def quick_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the kernel calls to the cloud take no time."""
    monkeypatch.setattr(current_state, "_MOMENT_S", 0.0)


@pytest.mark.parametrize("seed", range(shorten(4, 1)))
@pytest.mark.parametrize("pricing", [CLEARING, PAPER], ids=["clearing", "paper rule"])
@pytest.mark.parametrize("strategy", PLACED)
def test_the_daemon_decides_as_the_kernel(strategy: str, pricing: Pricing, seed: int) -> None:
    """With too few cores for all, each strategy, under both price rules."""
    run, replay = both(strategy, pricing, four_hosts(AMPLE_MIB), seed, 40)
    require_equal(run, replay)
    assert count(run, "Deploy") >= 40
    prices = {tuple(period.decision.prices[0].tolist()) for period in run.periods}
    assert (len(prices) > 10) == (STRATEGIES[strategy].charges is Charge.SHARES)


@pytest.mark.parametrize("strategy", PLACED)
def test_vms_wait_for_memory_in_both(strategy: str) -> None:
    """Where the memory of hosts is used up, the same VMs wait."""
    run, replay = both(strategy, PAPER, four_hosts(SCARCE_MIB), 2, 50)
    require_equal(run, replay)
    waits = [(period.snapshot.vms.state == 0).sum() for period in run.periods]
    assert max(waits[1:]) > 3


@pytest.mark.parametrize("strategy", PLACED)
def test_hosts_fail_and_return_in_both(strategy: str) -> None:
    """OpenNebula's hook lets the VMs of a failed host wait for another one.

    The kernel cancels a migration at the failure, the cloud at the end of the migration: only the
    time of the guest's record tells.
    """
    run, replay = both(strategy, CLEARING, four_hosts(4 * AMPLE_MIB, 2.0), 4, 30)
    require_equal(run, replay, ("started_s",))
    kinds = [event.kind for event in run.events]
    assert kinds.count(EventKind.UNIT_FAILS) >= 2
    assert EventKind.UNIT_REPAIRED in kinds
    assert max(len(places) for places in run.hosts.values()) > 1


@pytest.mark.parametrize(("strategy", "pricing"), pair(BASELINES, [CLEARING, PAPER]))
def test_the_daemon_decides_as_the_kernel_under_baselines(strategy: str, pricing: Pricing) -> None:
    """With too few cores for all, so that VMs wait for room for their whole sizes."""
    run, replay = both(strategy, pricing, four_hosts(AMPLE_MIB), 0, 40)
    require_equal(run, replay)
    assert count(run, "Deploy") >= 20
    waits = [(period.snapshot.vms.state == 0).sum() for period in run.periods]
    assert max(waits[1:]) > 3


@pytest.mark.parametrize("seed", range(shorten(4, 1)))
def test_used_cpu_has_the_same_price_in_both(seed: int) -> None:
    """While there are cores for all, each guest gets all that it computes in both."""
    run, replay = both("groups", CLEARING, four_hosts(AMPLE_MIB), seed, 8)
    require_equal(run, replay)
    assert count(run, "Deploy") >= 8


@pytest.mark.parametrize("strategy", ["paper", "tabu"])
@pytest.mark.parametrize("seed", range(1, shorten(4, 2)))
def test_neighbours_keep_their_shares_until_withheld_migrations_begin(
    strategy: str, seed: int
) -> None:
    """Where memory is used up, migrations wait for each other; hosts are divided without them."""
    run, replay = both(strategy, PAPER, four_hosts(SCARCE_MIB), seed, 60)
    require_equal(run, replay)
    assert sum(period.withheld for period in run.periods) > 0
