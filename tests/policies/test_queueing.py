"""How a queue and its workers are judged, by both aims."""

from dataclasses import replace

import pytest

from merkatd.policies.batch_queue import QueueAim, QueueLoad, queue_performance

TARGET_S = 60.0
CALM = QueueLoad(waiting=0, wanted=0, longest_s=0.0, busy=4)
QUEUE = QueueLoad(waiting=3, wanted=6, longest_s=30.0, busy=4, slots=4)


def test_a_worker_with_some_free_processors_counts_as_one() -> None:
    """Six processors take two workers of four."""
    assert QUEUE.useful == 6
    assert replace(QUEUE, wanted=8).useful == 6
    assert replace(QUEUE, wanted=9).useful == 7
    assert replace(QUEUE, slots=1).useful == 10
    assert replace(QUEUE, slots=0).useful == 10


@pytest.mark.parametrize("aim", list(QueueAim))
def test_workers_with_nothing_to_do_are_too_many(aim: QueueAim) -> None:
    """One is enough for that; where each has a job, nothing changes."""
    assert queue_performance(CALM, aim, 5, TARGET_S).fast
    busy = queue_performance(CALM, aim, 4, TARGET_S)
    assert not busy.fast
    assert not busy.slow


def test_for_throughput_any_job_that_waits_is_too_slow() -> None:
    """Also one that has just come, and beside an idle worker."""
    assert queue_performance(replace(QUEUE, longest_s=0.0), QueueAim.THROUGHPUT, 9, TARGET_S).slow


@pytest.mark.parametrize(("longest_s", "slow"), [(0.0, False), (56.0, False), (58.0, True)])
@pytest.mark.parametrize("target_s", [60.0, 6_000.0])
def test_for_short_waits_only_long_ones_are_too_slow(
    longest_s: float, slow: bool, target_s: float
) -> None:
    """From 95 % of the target on; while a job waits no worker is idle for good."""
    times = target_s / TARGET_S
    performance = queue_performance(
        replace(QUEUE, longest_s=longest_s * times), QueueAim.WAIT, 9, target_s
    )
    assert performance.slow is slow
    assert not performance.fast
