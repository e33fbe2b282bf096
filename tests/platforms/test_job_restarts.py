"""Daemons die, records fail and clocks jump: no run of a job gets wrong amounts."""

import math
from typing import Any

import pytest

from merkatd.database.fleets import job_run_store, platform_store
from merkatd.protocol.platform_messages import MonitorReading
from tests.platforms.site import Site, template
from tests.platforms.test_application_tables import snapshot
from tests.platforms.test_clock_ahead import Clocked
from tests.platforms.test_declarations import JOB, MONITOR, NODES
from tests.platforms.test_job_profiles import CORES, PERIODS, UNKNOWN, finish, run_of


def test_a_daemon_that_dies_loses_a_period_at_most(site: Site) -> None:
    """Again and again, at any moment between two periods."""
    platform = site.submit(application=UNKNOWN)
    site.until(platform, "running")
    site.periods(2)
    before = run_of(site, platform).now
    deaths = 5
    for _ in range(deaths):
        site.start_daemon()
        site.periods(4)
    now = run_of(site, platform).now
    took_s, cpu_s = now.ran_s - before.ran_s, now.cpu_s - before.cpu_s
    assert 60.0 * 3 * deaths <= took_s <= 60.0 * 4 * deaths
    assert cpu_s == pytest.approx(CORES * took_s, rel=0.02)


@pytest.mark.parametrize("broken_part", ["add", "advance", "end"])
def test_a_daemon_that_dies_while_it_stores_loses_a_period(
    site: Site, monkeypatch: pytest.MonkeyPatch, broken_part: str
) -> None:
    """All of the period is stored, or nothing."""
    platform = site.submit(application=UNKNOWN)
    site.until(platform, "running")
    site.periods(3)
    before = run_of(site, platform).now
    with monkeypatch.context() as broken:
        broken.setattr(job_run_store, broken_part, lambda *_: math.sqrt(-1.0))
        site.periods(1)
    site.start_daemon()
    site.periods(2)
    now = run_of(site, platform).now
    assert now.ran_s - before.ran_s == pytest.approx(120.0, rel=0.02)
    assert now.cpu_s - before.cpu_s == pytest.approx(120.0 * CORES, rel=0.02)


def test_a_death_between_the_last_sample_and_the_end_loses_nothing(site: Site) -> None:
    """The next daemon finds the run whose platform has ended."""
    text = template(application=UNKNOWN)
    platform = site.take(site.ann, text)
    site.until(platform, "running")
    site.periods(PERIODS)
    samples = len(site.read(lambda c: job_run_store.samples_of(c, platform)))
    with site.engine.begin() as connection:
        platform_store.change(connection, platform, state="done")
    assert run_of(site, platform).ended_s is None
    site.start_daemon()
    site.periods(1)
    assert samples >= PERIODS - 2
    assert len(run_of(site, platform).stages) == 1


def failing(store: Any, name: str, broken: pytest.MonkeyPatch) -> Any:
    """Return a function that stores the runs of jobs while a part of the store is broken."""

    async def stored(parts: Any) -> None:
        with broken.context() as now:
            now.setattr(job_run_store, name, lambda *_: math.sqrt(-1.0))
            await store(parts)

    return stored


@pytest.mark.parametrize("broken_part", ["add", "advance", "end", "living"])
def test_a_failing_record_stops_no_period(
    site: Site, monkeypatch: pytest.MonkeyPatch, broken_part: str
) -> None:
    """What could not be stored is stored later, once, wherever the first attempt broke off."""
    platform = site.submit(application=UNKNOWN)
    site.until(platform, "running")
    site.periods(2)
    before = run_of(site, platform).now
    with monkeypatch.context() as broken:
        broken.setattr(site.jobs, "_store", failing(site.jobs._store, broken_part, broken))
        site.periods(5)
    assert run_of(site, platform).now == before
    site.periods(1)
    after = run_of(site, platform).now
    assert after.ran_s - before.ran_s == pytest.approx(360.0)
    assert after.cpu_s - before.cpu_s == pytest.approx(360.0 * CORES, rel=0.02)


@pytest.mark.parametrize("jump_s", [-7200.0, 7200.0, 500_000.0])
def test_a_jump_of_the_clock_makes_no_wrong_profile(jump_s: float) -> None:
    """The run goes on at the same speed, and its stages are those of an undisturbed run."""
    site = Clocked()
    text = template(application=UNKNOWN)
    whole = finish(site, site.take(site.ann, text), 2 * PERIODS)
    platform = site.take(site.bob, text)
    site.until(platform, "running")
    site.periods(PERIODS)
    before_s = site.period().seen.snapshot.history.at_s[-1]
    site.ahead_s = jump_s
    site.clock.advance(60.0)
    assert site.period().seen.snapshot.history.at_s[-1] == before_s + 60.0 + jump_s
    site.clock.advance(60.0)
    run = finish(site, platform, PERIODS - 2)
    (stage,), (other,) = run.stages, whole.stages
    assert stage.greatest_speed == pytest.approx(other.greatest_speed, rel=0.02)
    assert stage.work == pytest.approx(other.work, rel=0.1)
    assert run.now.ran_s == pytest.approx(whole.now.ran_s, rel=0.1)
    site.close()


def test_the_measured_progress_survives_a_restart(site: Site) -> None:
    """Until the monitors of the new daemon have looked."""
    steps = '[controller]\nkind = "none"\nparameters = { steps = 400 }'
    platform = site.submit(application=JOB, controller=steps, cluster=NODES + MONITOR)
    site.until(platform, "running")
    site.notes.measured[platform] = {"nodes": MonitorReading(1.0, {"done": 100.0})}
    assert snapshot(site).jobs.work_done.tolist() == [45_000.0]
    site.start_daemon()
    assert snapshot(site).jobs.work_done.tolist() == [45_000.0]
    site.notes.measured[platform] = {"nodes": MonitorReading(1.0, {"done": 200.0})}
    assert snapshot(site).jobs.work_done.tolist() == [90_000.0]


def test_the_cpu_time_survives_a_restart(site: Site) -> None:
    """It is the progress of a job that nothing measures."""
    text = template(application=UNKNOWN, controller='[controller]\nkind = "none"')
    platform = site.take(site.ann, text)
    site.until(platform, "running")
    site.periods(PERIODS)
    with site.engine.begin() as connection:
        platform_store.change(connection, platform, state="done")
    site.periods(2)
    second = site.take(site.ann, text)
    site.until(second, "running")
    done = float(snapshot(site, 3).jobs.work_done[-1])
    assert done > 0.0
    site.start_daemon()
    assert float(snapshot(site).jobs.work_done[-1]) >= done
