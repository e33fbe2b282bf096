"""Two batch frameworks on one cloud: Algorithm 4 in virtual time (Figures 11 and 12)."""

from collections import deque
from collections.abc import Sequence
from statistics import fmean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from merkatd.policies.batch_queue import QueueAim
from simulator.kernel.kernel_run import UnfinishedRunError
from simulator.market.batch_frameworks import Framework, FrameworkSetup, Job
from simulator.market.framework_market import simulate
from simulator.model.simulated_cloud import CORE

VMS = 20
SETTING = FrameworkSetup(units=VMS * CORE)


def framework(jobs: Sequence[Job], name: str = "one", fixed: int | None = None) -> Framework:
    """Return a framework that aims at throughput."""
    return Framework(name, QueueAim.THROUGHPUT, deque(jobs), fixed)


def equal_jobs(count: int, at_s: float = 0.0, run_s: float = 300.0) -> list[Job]:
    """Return equal jobs of one worker each."""
    return [Job(at_s, 1, run_s)] * count


def test_a_framework_alone_takes_all_workers_and_returns_them() -> None:
    """It uses the whole cloud while there is work, and no workers afterwards."""
    alone = framework([*equal_jobs(400), *equal_jobs(1, at_s=20_000.0)])
    simulate([alone], SETTING)
    vms = [seen.vms for seen in alone.seen]
    assert max(vms) >= VMS - 1
    assert [seen.vms for seen in alone.seen if 15_000 < seen.at_s < 20_000] == [0] * 83
    assert alone.lost == 0


def test_two_frameworks_with_full_demand_get_half_each() -> None:
    """Each gets half of the workers and of the CPU, whichever started first."""
    first, second = framework(equal_jobs(600)), framework(equal_jobs(600, at_s=2_400.0), "two")
    simulate([first, second], SETTING)
    both = [
        (left.part, other.part)
        for left, other in zip(first.seen, second.seen, strict=True)
        if left.at_s > 3_600 and min(left.useful, other.useful) >= VMS
    ]
    assert len(both) > 30
    for parts in zip(*both, strict=True):
        assert abs(fmean(parts) - 0.5) < 0.1


def test_fixed_halves_stay_fixed() -> None:
    """Without a market, one framework cannot use the idle half of the other."""
    busy, idle = framework(equal_jobs(100), fixed=10), framework([], "two", fixed=10)
    simulate([busy, idle], SETTING)
    assert {seen.vms for seen in busy.seen} == {10}
    assert busy.end_s == 100 / 10 * 300.0


JOBS = st.lists(
    st.builds(
        Job,
        submit_s=st.floats(0, 5_000),
        workers=st.integers(1, 5),
        run_s=st.floats(1, 2_000),
    ),
    max_size=25,
)


@given(first=JOBS, second=JOBS)
@settings(max_examples=25)
def test_every_job_is_done(first: list[Job], second: list[Job]) -> None:
    """This holds for any arrivals, within the CPU capacity; interrupted jobs start again."""
    both = [
        framework(sorted(first, key=lambda job: job.submit_s)),
        framework(sorted(second, key=lambda job: job.submit_s), "two"),
    ]
    simulate(both, SETTING)
    for run, jobs in zip(both, (first, second), strict=True):
        assert run.begun - run.lost == len(jobs)
    for sights in zip(*(framework.seen for framework in both), strict=True):
        assert sum(sight.part for sight in sights) <= 1.0 + 1e-9


def test_a_framework_that_never_ends_is_an_error() -> None:
    """A job that needs more workers than there are would wait for ever."""
    with pytest.raises(UnfinishedRunError, match="had not ended"):
        simulate([framework([Job(0.0, 2, 60.0)], fixed=1)], SETTING)
