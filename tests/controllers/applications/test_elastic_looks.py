"""A batch system's controller with good looks of its monitor, and without any."""

import random

import pytest

from tests.controllers.applications.batch_site import HEAD, Site


def test_useless_workers_are_replaced() -> None:
    """A powered-off one and one that never joined would otherwise block the growth."""
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
    deleted = " ".join(command for command in site.heard if "delete" in command)
    assert {"one-2", "one-3"} <= {*deleted.replace("=", " ").replace(";", " ").split()}


def test_a_worker_about_to_join_does_not_count_as_idle() -> None:
    """It may have a new job since the last look: it ends after that job."""
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


def test_a_monitor_without_data_makes_no_worker_absent() -> None:
    """A worker that joined since the last look runs jobs: it stays beyond the limit."""
    site = Site(waiting=[5] * 60, parameters={"boot_limit_s": 180.0})
    for _ in range(2):
        site.pass_a_period()
    site.blind = True
    for _ in range(12):
        site.pass_a_period()
    assert (site.undrained, site.lost) == ([], 0)


@pytest.mark.parametrize("seed", [14, 33, 61, 75])
def test_missed_looks_cost_no_job(seed: int) -> None:
    """A look from before a worker's second drain doesn't show its present jobs."""
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


def test_without_looks_for_long_the_number_of_workers_is_constant() -> None:
    """The numbers of waiting and running jobs are unknown."""
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


def test_the_head_has_a_bid_before_its_first_look() -> None:
    """After a failure its VMs bid nothing: a head without a share never answers."""
    site = Site(least=1)
    site.workers = {2: []}
    site.blind = True
    site.pass_a_period()
    assert all(sum(site.bids[vm].values()) > 0 for vm in (HEAD, 2))
    assert set(site.workers) == {2}


@pytest.mark.parametrize("silent", [2, 5, 10, 60])
@pytest.mark.parametrize("after", [1, 2])
def test_a_silent_monitor_makes_no_worker_absent(silent: int, after: int) -> None:
    """Workers absent before and after the silence were not missing in between."""
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


def test_a_worker_that_could_not_join_a_silent_head_is_kept() -> None:
    """It started just before, and joins shortly after the head answers again."""
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
    """Each look counts for its monitor's interval."""
    site = Site(waiting=[50] * 4, every_s=150.0)
    site.workers = {2: [], 3: []}
    site.mute = {2}
    for period in range(12):
        site.blind = period % 3 != 0
        site.pass_a_period()
    assert 2 not in site.workers
