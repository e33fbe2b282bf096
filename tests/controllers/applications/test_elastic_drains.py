"""Drains of a batch system: each is completed or undone, and no job is lost."""

import pytest

from controllers.monitors.ssh_pool import CommandResult
from tests.controllers.applications.batch_site import KilledError, Site


def test_no_worker_is_released_before_the_head_knows() -> None:
    """The head is told as soon as it answers again."""
    site = Site(waiting=[3])
    site.workers = {2: [], 3: [], 4: []}
    site.deaf = True
    assert [site.pass_a_period() for _ in range(5)][-1] == 3
    site.deaf = False
    for _ in range(8):
        site.pass_a_period()
    assert site.workers == {}


def test_a_job_that_starts_just_before_a_drain_is_kept() -> None:
    """Between the look and the drain the chosen worker gets a job; another is idle."""
    site = Site(parameters={"drain_limit_s": 120.0}, least=1)
    site.workers = {2: [], 3: []}
    site.blind = True
    site.pass_a_period()
    site.blind = False
    look = site.say

    async def late(command: str) -> CommandResult | None:
        if "state=drain" in command and not any(site.workers.values()):
            for vm, jobs in site.workers.items():
                if f"one-{vm}" in command:
                    jobs.append(20)
        return await look(command)

    site.say = late  # type: ignore[method-assign]
    for _ in range(15):
        site.pass_a_period()
    assert len(site.workers) == 1
    assert site.lost == 0


@pytest.mark.parametrize("fate", ["killed", "answer lost"])
def test_a_drain_with_a_lost_answer_is_undone_when_there_is_work(fate: str) -> None:
    """No worker stays closed forever, and the queue continues."""
    site = Site(least=1)
    site.workers = {2: [], 3: []}
    site.mumbles = True
    site.pass_a_period()
    assert site.drained == {3}
    if fate == "killed":
        site.begin_again()
    site.mumbles = False
    site.waiting = [4] * 12
    for _ in range(4):
        site.pass_a_period()
    assert site.drained.isdisjoint(site.workers)
    assert {2, 3} <= site.workers.keys()
    assert site.lost == 0


def test_a_worker_closed_by_an_administrator_delays_no_job() -> None:
    """Another worker is requested; the closed one is never opened and ends with the queue."""
    site = Site(least=1)
    site.workers = {2: []}
    site.drained = {2}
    site.waiting = [3]
    for _ in range(14):
        site.pass_a_period()
    assert site.waiting == []
    assert not any("state=resume" in command for command in site.heard)
    assert 2 not in site.workers


@pytest.mark.parametrize("away", ["mute", "hidden"])
def test_a_drain_is_undone_though_the_worker_is_briefly_away(away: str) -> None:
    """It is missing in one look of the head, or in one period's news."""
    site = Site(least=1)
    site.workers = {2: [], 3: []}
    site.pass_a_period()
    (drained,) = site.drained
    site.waiting = [40] * 30
    getattr(site, away).add(drained)
    site.pass_a_period()
    getattr(site, away).clear()
    for _ in range(3):
        site.pass_a_period()
    assert drained not in site.drained
    assert site.lost == 0


@pytest.mark.parametrize("off_s", [-86_400.0, -3_600.0, 3_600.0])
def test_a_clock_change_keeps_no_idle_worker(off_s: float) -> None:
    """No empty worker is paid for an hour."""
    site = Site(least=1)
    site.workers = {2: [], 3: []}
    site.pass_a_period()
    assert site.drained
    site.clock_off_s = off_s
    for _ in range(4):
        site.pass_a_period()
    assert len(site.workers) == 1


def test_a_clock_set_ahead_ends_no_job() -> None:
    """A drain that is a period old is not an hour late."""
    site = Site(waiting=[8] * 200, balance=20_000.0, parameters={"drain_limit_s": 600.0})
    for _ in range(20):
        site.pass_a_period()
    site.price = 0.05
    for _ in range(30):
        site.pass_a_period()
        if site.drained & site.workers.keys():
            break
    assert any(site.workers[vm] for vm in site.drained & site.workers.keys())
    site.clock_off_s = 3_600.0
    for _ in range(6):
        site.pass_a_period()
    assert site.lost == 0


def test_a_worker_released_by_a_dead_controller_stays_closed() -> None:
    """The next controller knows no release; the head is told to remove the worker."""
    site = Site(least=1, ends_after=3)
    site.workers = {2: [], 3: []}
    site.dies = True
    site.pass_a_period()
    with pytest.raises(KilledError):
        site.pass_a_period()
    (leaves,) = site.leaving
    site.dies = False
    site.begin_again()
    site.waiting = [9] * 8
    for _ in range(8):
        site.pass_a_period()
    assert not any(
        "state=resume" in command and f"one-{leaves}" in command for command in site.heard
    )
    assert any(
        "delete nodename" in command and f"one-{leaves}" in command for command in site.heard
    )
    assert site.lost == 0


def churned(site: Site, periods: int) -> None:
    """Let workers come and go."""
    for period in range(periods):
        if period % 5 == 0:
            site.waiting += [1] * 10
        site.pass_a_period()


def test_a_worker_that_the_head_cannot_remove_delays_no_other() -> None:
    """Its name may be in a reservation, or that of a permanent node."""
    site = Site(waiting=[1] * 2, parameters={"growth": 10})
    for _ in range(4):
        site.pass_a_period()
    site.sticky = {min(site.born)}
    churned(site, 300)
    gone = site.born.keys() - site.workers.keys()
    assert len(gone) > 300
    assert len(gone - site.forgotten) < 20
    assert site.sticky <= {*site.kept["gone"]}
    assert len(site.kept["gone"]) < 20
    site.sticky.clear()
    churned(site, 10)
    assert min(site.born) in site.forgotten


def test_commands_to_the_head_stay_short_if_it_removes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The stored memory stays short too: no worker reuses a number."""
    monkeypatch.setattr("controllers.applications.elastic.MOST_GONE", 200)
    site = Site(waiting=[1] * 2, parameters={"growth": 10})
    site.sticky = {*range(100_000)}
    churned(site, 260)
    assert len(site.born) > 300
    assert not site.forgotten
    assert max(map(len, site.heard)) < 2_500
    assert 180 < len(site.kept["gone"]) < 220
    drains = [command for command in site.heard if "delete nodename" in command]
    assert f"one-{max(site.born)};" in " ".join(drains[-100:])
