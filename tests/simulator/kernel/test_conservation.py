"""No VM is lost or in two places, floors fit and volumes add up, at every event of any run."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from merkatd.cluster.snapshot import checked_snapshot
from merkatd.placement.registry import STRATEGIES
from simulator.baselines.placement.best_fit import BestFit
from simulator.baselines.placement.ffd_sum import FfdSum
from simulator.baselines.placement.first_fit import FirstFit
from simulator.baselines.placement.random_fit import RandomFit
from simulator.baselines.placement.worst_fit import WorstFit
from simulator.kernel.data_center import DataCenter, tree_of_hosts
from simulator.kernel.event_queue import EventKind
from simulator.kernel.kernel_deciders import (
    KernelDecider,
    KernelMoment,
    KernelOrders,
    PlacerDecider,
    StrategyDecider,
)
from simulator.kernel.kernel_run import KernelRun
from simulator.kernel.kernel_state import (
    ConservationError,
    GuestPhase,
    KernelState,
    check_conservation,
)
from simulator.kernel.migration_volume import MIB_S_PER_MBPS
from simulator.workloads.vm_requests import VmRequests
from tests.lengths import shorten
from tests.simulator.kernel.small_centers import (
    SPAN_S,
    RandomOrders,
    centers,
    random_center,
    random_requests,
    requests,
    workloads,
)

PLACERS: dict[str, Callable[[], KernelDecider]] = {
    "first fit": lambda: PlacerDecider(FirstFit()),
    "best fit": lambda: PlacerDecider(BestFit()),
    "worst fit": lambda: PlacerDecider(WorstFit()),
    "random fit": lambda: PlacerDecider(RandomFit()),
    "FFD-sum": lambda: PlacerDecider(FfdSum()),
}
REST = (GuestPhase.ENDED, GuestPhase.REJECTED)


def checked_run(
    center: DataCenter, asked: VmRequests, decider: KernelDecider, seed: int
) -> KernelRun:
    """Run to the end, and check everything after each event."""
    run = KernelRun(center, asked, decider, span_s=SPAN_S, seed=seed)
    gone = np.zeros(len(asked), dtype=bool)
    at_s = 0.0
    while (batch := run.step()) is not None:
        assert batch.at_s >= at_s
        at_s = batch.at_s
        check_conservation(run.state)
        now = np.isin(run.state.phase, REST)
        assert not (gone & ~now).any(), "a VM that has ended stays so"
        gone = now
        arrived = run.state.phase != GuestPhase.AWAITED
        due = asked.arrival_s < at_s
        assert arrived[due].all(), "each request becomes a VM"
        assert not (gone & ~due & ~arrived).any()
    return run


@settings(max_examples=shorten(150, 40), deadline=None)
@given(center=centers, asked=workloads, seed=st.integers(0, 1000))
def test_random_orders_break_nothing(center: DataCenter, asked: VmRequests, seed: int) -> None:
    """Whatever is ordered of whatever is possible or not: impossible steps change nothing."""
    run = checked_run(center, asked, RandomOrders(seed), seed)
    volumes_add_up(run, asked)


@settings(max_examples=shorten(60, 15), deadline=None)
@given(
    center=centers, asked=workloads, seed=st.integers(0, 1000), name=st.sampled_from(list(PLACERS))
)
def test_placers_break_nothing(center: DataCenter, asked: VmRequests, seed: int, name: str) -> None:
    """And none of their placements is refused: they know all room."""
    run = checked_run(center, asked, PLACERS[name](), seed)
    assert run.operations.totals.refused == 0


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("seed", range(shorten(6, 3)))
def test_strategies_break_nothing(strategy: str, seed: int) -> None:
    """Every strategy of the registry gets valid snapshots at every period."""

    class Checked(StrategyDecider):
        def decide(self, moment: KernelMoment) -> KernelOrders:
            assert checked_snapshot(moment.snapshot(np.zeros(2))) is not None
            return super().decide(moment)

    asked = random_requests(seed, 20)
    run = checked_run(random_center(seed), asked, Checked(STRATEGIES[strategy]), seed)
    volumes_add_up(run, asked)


def volumes_add_up(run: KernelRun, asked: VmRequests) -> None:
    """The data volume is the sum over all migrations, each in one kind and at one distance."""
    totals = run.operations.totals
    moves = totals.live_migrations + totals.cold_migrations
    assert moves == len(run.operations.volumes) == sum(totals.by_distance.values())
    volume = totals.live_volume_mib + totals.cold_volume_mib
    assert volume == pytest.approx(sum(run.operations.volumes))
    least = float(asked.size[:, 1].min()) if len(asked) else 0.0
    assert volume >= moves * least
    assert MIB_S_PER_MBPS > 0


def test_random_orders_reach_every_operation() -> None:
    """The property above is about something: each kind of operation and of event takes place."""
    seen = dict.fromkeys(set(EventKind) - {EventKind.CALL}, 0)
    counts: dict[str, float] = {}
    for seed in range(12):
        run = KernelRun(
            random_center(seed),
            random_requests(seed, 25),
            RandomOrders(seed),
            span_s=SPAN_S,
            seed=seed,
        )
        while (batch := run.step()) is not None:
            seen[batch.kind] += 1
        for name in run.operations.totals.__slots__:
            value = getattr(run.operations.totals, name)
            counts[name] = counts.get(name, 0) + (value if not isinstance(value, dict) else 1)
    assert all(seen.values()), seen
    assert all(counts.values()), counts


class TestTheCheck:
    """The check itself finds what it is for."""

    def state(self) -> KernelState:
        """| Return a state with a VM on a host."""
        run = KernelRun(
            random_center(0),
            requests([0.0, 0.0], np.inf, [50.0, 100.0]),
            PlacerDecider(FirstFit()),
            span_s=SPAN_S,
        )
        while run.state.phase[0] != GuestPhase.RUNNING:
            run.step()
        check_conservation(run.state)
        return run.state

    def test_a_lost_vm(self) -> None:
        """A running VM without a host."""
        state = self.state()
        state.host[0] = -1
        with pytest.raises(ConservationError, match="a VM on a host has one host"):
            check_conservation(state)

    def test_a_vm_in_two_places(self) -> None:
        """A running VM with a source."""
        state = self.state()
        state.source[0] = 1
        with pytest.raises(ConservationError, match="one source"):
            check_conservation(state)

    def test_room_that_is_not_there(self) -> None:
        """Free room that differs by the least amount."""
        state = self.state()
        state.free[0, 0] += 1.0
        with pytest.raises(ConservationError, match="free room"):
            check_conservation(state)

    def test_a_host_that_does_not_work(self) -> None:
        """A VM on a host that has failed."""
        state = self.state()
        state.is_cut_off[state.host[0]] = True
        with pytest.raises(ConservationError, match="does not work"):
            check_conservation(state)


@pytest.mark.parametrize(("size", "capacity"), [(0.1, 1.0), (3.24, 32.4), (0.001, 0.01)])
def test_equal_parts_fill_a_host(size: float, capacity: float) -> None:
    """Ten VMs of a tenth fit, although the sum of ten such numbers may be more; eleven do not."""
    center = DataCenter(hosts=tree_of_hosts((1,), [capacity, capacity]))
    asked = requests(np.zeros(11), np.inf, [size, size])
    run = KernelRun(center, asked, PlacerDecider(FirstFit()), span_s=600.0)
    outcome = run.run()
    assert outcome.last("running") == 10
    assert outcome.last("pending") == 1
    assert outcome.last("reserved_cpu") == 1.0
    assert outcome.last("overloaded_hosts") == 0
    check_conservation(run.state)


def test_enormous_amounts_are_reported() -> None:
    """Their sums would not be exact."""
    center = DataCenter(hosts=tree_of_hosts((1,), [1e10, 1.0]))
    with pytest.raises(ValueError, match=r"capacity: must be less than 2\^33 \(got 1e\+10\)"):
        KernelRun(center, requests([], 1.0, [1.0, 1.0]), RandomOrders(0), span_s=1.0)
