"""Workers missing in a batch system: others do their work meanwhile, and no job is lost."""

import random

import pytest

from merkatd.protocol.platform_messages import SetSize
from tests.controllers.applications.batch_site import Site


def pass_periods(site: Site, periods: int) -> None:
    """Run several periods."""
    for _ in range(periods):
        site.pass_a_period()


def released(site: Site) -> set[int]:
    """Return all workers that the controller chose to end."""
    return {vm for message in site.asked if isinstance(message, SetSize) for vm in message.victims}


@pytest.mark.parametrize("state", ["busy", "running"])
def test_a_worker_that_hangs_during_its_start_is_released(state: str) -> None:
    """It copies or boots longer than `boot_limit_s`, so others replace it."""
    site = Site(waiting=[30] * 300, parameters={"boot_limit_s": 300.0})
    pass_periods(site, 2)
    stuck = max(site.workers)
    site.states[stuck], site.mute = state, {stuck}
    pass_periods(site, 4)
    assert stuck in site.workers
    pass_periods(site, 16)
    assert stuck not in site.workers
    assert len(site.workers) > 10
    assert site.lost == 0


def test_a_joined_worker_is_kept_during_a_migration() -> None:
    """The batch system misses it for long, and its job continues."""
    site = Site(waiting=[100] * 4)
    pass_periods(site, 8)
    moved = min(site.workers)
    site.states[moved], site.mute = "busy", {moved}
    pass_periods(site, 30)
    site.states, site.mute = {}, set()
    pass_periods(site, 2)
    assert site.workers[moved]
    assert moved not in released(site)


@pytest.mark.parametrize("state", ["busy", "suspended", "absent"])
def test_a_worker_that_is_away_for_long_delays_no_other_request(state: str) -> None:
    """It may return, and is left as it is."""
    site = Site(waiting=[30] * 300)
    pass_periods(site, 2)
    away = min(site.workers)
    site.states[away], site.mute = state, {away}
    size = len(site.workers)
    pass_periods(site, 5)
    assert len(site.workers) == size
    pass_periods(site, 15)
    assert len(site.workers) > 10
    assert away not in released(site)


def test_workers_that_wait_for_room_are_kept_while_there_is_work() -> None:
    """Others would find no room either: once there is room they do the work."""
    site = Site(waiting=[30] * 300, room=3)
    pass_periods(site, 20)
    assert len(site.placed) == 3
    assert released(site) == set()
    # The system requests no more at once, and only after the last ones waited for long.
    assert 2 <= len(site.roomless) <= 2 * (1 + 20 // 5)
    site.room = None
    pass_periods(site, 10)
    assert site.roomless == set()
    assert len(site.placed) > 10
    assert released(site) == set()


def test_workers_that_wait_for_room_are_given_up_without_work() -> None:
    """They end at once; busy workers finish their jobs."""
    site = Site(waiting=[30] * 300, room=3)
    pass_periods(site, 10)
    waits = set(site.roomless)
    assert waits
    site.waiting = []
    pass_periods(site, 2)
    assert len(site.workers) == 3
    assert site.forgotten == waits
    pass_periods(site, 40)
    assert site.workers == {}
    assert (site.undrained, site.lost) == ([], 0)


def test_a_worker_that_waits_for_room_is_ended_before_a_busy_one() -> None:
    """With less money no job is ended with its worker."""
    site = Site(waiting=[40] * 4, balance=20_000.0, room=2, parameters={"drain_limit_s": 60.0})
    pass_periods(site, 4)
    assert (len(site.placed), len(site.roomless)) == (2, 2)
    site.price = 0.03
    pass_periods(site, 6)
    assert site.roomless == set()
    assert len(site.placed) == 2
    assert (site.drained, site.lost) == (set(), 0)


def test_a_worker_that_has_a_host_now_is_kept() -> None:
    """It may have joined by then, so it is drained instead."""
    site = Site(waiting=[30] * 4, room=2)
    pass_periods(site, 4)
    waits = set(site.roomless)
    assert waits
    site.waiting, site.room = [], None
    site.states = dict.fromkeys(waits, "pending")
    site.mute = set(waits)
    pass_periods(site, 1)
    assert waits <= site.workers.keys()
    site.states, site.mute = {}, set()
    pass_periods(site, 3)
    assert not waits & site.workers.keys()
    assert (site.undrained, site.lost) == ([], 0)


@pytest.mark.parametrize("seed", range(12))
def test_changing_room_costs_no_job(seed: int) -> None:
    """A changing queue doesn't either; at the end no worker is left."""
    drawn = random.Random(seed)  # noqa: S311 - a test
    site = Site(balance=20_000.0, parameters={"drain_limit_s": 1e9})
    for _ in range(150):
        if drawn.random() < 0.2:
            site.room = drawn.choice([0, 1, 3, 8, None])
        if drawn.random() < 0.1:
            site.price = drawn.choice([0.01, 0.03, 0.05])
        if drawn.random() < 0.15:
            site.waiting += [drawn.randint(1, 12) for _ in range(drawn.randint(1, 30))]
        elif drawn.random() < 0.1:
            site.waiting = []
        site.pass_a_period()
    site.room, site.price = None, 0.01
    pass_periods(site, 250)
    assert (site.waiting, site.workers) == ([], {})
    assert (site.undrained, site.lost) == ([], 0)
