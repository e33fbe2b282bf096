"""What a batch system's controller makes of the looks of its monitor, and does without them."""

import random

import pytest

from tests.controllers.applications.batch_site import HEAD, Site


def test_workers_that_are_of_no_use_make_room_for_others() -> None:
    """One that went out, and one that never joined: they would keep it from growing for ever."""
    site = Site(waiting=[5] * 30, parameters={"off_limit_s": 60.0, "boot_limit_s": 240.0})
    site.workers = {2: [], 3: [], 4: []}
    site.off, site.mute = {2}, {3}
    for _ in range(3):
        site.pass_a_period()
    assert set(site.workers) == {3, 4}
    for _ in range(57):
        site.pass_a_period()
    assert site.waiting == []
    assert site.workers == {}
    assert site.lost == 0
    deleted = " ".join(one for one in site.heard if "delete" in one)
    assert {"one-2", "one-3"} <= {*deleted.replace("=", " ").replace(";", " ").split()}


def test_one_that_is_about_to_join_is_not_taken_for_idle() -> None:
    """It may have been given a job since the last look: it goes when that has ended."""
    site = Site()
    site.workers = {2: [9]}
    site.mute = {2}
    for _ in range(3):
        site.pass_a_period()
    assert site.workers == {2: [6]}
    site.mute = set()
    for _ in range(15):
        site.pass_a_period()
    assert site.workers == {}
    assert site.lost == 0


def test_a_monitor_that_hears_nothing_does_not_make_workers_absent() -> None:
    """A worker that joined since the last look runs jobs: it stays beyond the boot limit."""
    site = Site(waiting=[5] * 60, parameters={"boot_limit_s": 180.0})
    for _ in range(2):
        site.pass_a_period()
    site.blind = True
    for _ in range(12):
        site.pass_a_period()
    assert (site.undrained, site.lost) == ([], 0)


@pytest.mark.parametrize("seed", [14, 33, 61, 75])
def test_looks_that_are_missed_cost_no_job(seed: int) -> None:
    """A look from before a worker was drained again says nothing of the jobs that it has now."""
    drawn = random.Random(seed)  # noqa: S311 - a test
    waiting = [drawn.randint(6, 30) for _ in range(300)]
    site = Site(waiting=waiting, balance=20_000.0, parameters={"drain_limit_s": 1e9})
    for period in range(100):
        if period > 12 and drawn.random() < 0.4:
            site.price = drawn.choice([0.01, 0.05, 0.03])
        if period % 3 == 0:
            site.blind = period > 12 and drawn.random() < 0.5
        if drawn.random() < 0.3:
            site.waiting = []
        elif drawn.random() < 0.3:
            site.waiting += [drawn.randint(6, 30) for _ in range(40)]
        site.pass_a_period()
        assert site.lost == 0


def test_without_looks_for_long_there_are_neither_more_workers_nor_fewer() -> None:
    """Nobody knows how many jobs wait, or run."""
    site = Site(waiting=[50] * 300, balance=20_000.0, parameters={"drain_limit_s": 180.0})
    for _ in range(6):
        site.pass_a_period()
    site.blind = True
    sizes = [site.pass_a_period() for _ in range(10)]
    assert len(set(sizes[3:])) == 1, sizes
    site.price = 1.0
    assert {site.pass_a_period() for _ in range(10)} == {sizes[-1]}
    assert site.lost == 0
    site.blind = False
    for _ in range(3):
        site.pass_a_period()
    assert site.drained


def test_the_head_has_a_bid_before_anything_was_seen_of_it() -> None:
    """After a failure its VMs bid nothing: a head without a share never answers a look."""
    site = Site(least=1)
    site.workers = {2: []}
    site.blind = True
    site.pass_a_period()
    assert all(sum(site.bids[vm].values()) > 0 for vm in (HEAD, 2))
    assert set(site.workers) == {2}


@pytest.mark.parametrize("silent", [2, 5, 10, 60])
@pytest.mark.parametrize("after", [1, 2])
def test_a_silence_makes_no_worker_absent(silent: int, after: int) -> None:
    """Workers away at the look before it and at those after it were not missed in between."""
    site = Site(waiting=[100] * 4)
    for _ in range(8):
        site.pass_a_period()
    busy = {vm for vm, jobs in site.workers.items() if jobs}
    assert len(busy) == 4
    site.mute = set(busy)
    site.pass_a_period()
    site.blind = True
    for _ in range(silent):
        site.pass_a_period()
    site.blind = False
    for _ in range(after):
        site.pass_a_period()
    site.mute = set()
    for _ in range(5):
        site.pass_a_period()
    assert site.lost == 0
    assert busy <= site.workers.keys()


def test_a_worker_that_could_not_join_a_silent_head_is_not_released() -> None:
    """It was made just before, and joins a moment after the head answers again."""
    site = Site(waiting=[50] * 4, least=1, joins_after=2)
    site.pass_a_period()
    born = {*site.workers}
    assert born
    site.blind = True
    site.mute = set(born)
    for _ in range(12):
        site.pass_a_period()
    site.blind = False
    for _ in range(2):
        site.pass_a_period()
    site.mute = set()
    for _ in range(6):
        site.pass_a_period()
    assert born <= site.workers.keys()
    assert site.lost == 0


def test_a_worker_that_never_joins_is_released_though_looks_are_rare() -> None:
    """Each look at the batch system counts for as long as its monitor rests between two."""
    site = Site(waiting=[50] * 4, every_s=150.0)
    site.workers = {2: [], 3: []}
    site.mute = {2}
    for period in range(12):
        site.blind = period % 3 != 0
        site.pass_a_period()
    assert 2 not in site.workers
