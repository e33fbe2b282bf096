"""Stages come from whole runs of the same template and owner."""

from typing import Any

import pytest

from merkatd.cluster import Snapshot
from merkatd.database.base.engine import make_engine
from merkatd.database.fleets import job_run_store, platform_store
from merkatd.database.fleets.job_run_store import JobRun
from merkatd.protocol.platform_messages import MonitorReading, ProgressReport, WorkDone
from merkatd.service.base.callers import LOCAL
from tests.platforms.site import Site, platforms_at, template
from tests.platforms.test_application_tables import account_of, snapshot
from tests.platforms.test_declarations import JOB, MONITOR, NODES
from tests.servers import MARIADBD, MariaDb

UNKNOWN = "[job]"
PERIODS = 14
CORES = 4.0
"""What both VMs of a platform use together."""


def run_of(site: Site, platform: int) -> JobRun:
    """Return the stored run of a platform."""
    run: JobRun | None = site.read(lambda c: job_run_store.of_platform(c, platform))
    assert run is not None
    return run


def finish(site: Site, platform: int, periods: int = PERIODS) -> JobRun:
    """Let a platform run for some periods, and then say that its work is done."""
    site.until(platform, "running")
    site.periods(periods)
    assert site.act(platform, WorkDone(reason="the work is done"), "end").accepted
    site.until(platform, "done")
    site.periods(1)
    return run_of(site, platform)


def stages_in(site: Site, seen: Snapshot, platform: int) -> list[tuple[float, float, float]]:
    """Return work, greatest speed and memory of a platform's stages in a snapshot."""
    (job,) = (seen.jobs.application == account_of(site, platform)).nonzero()[0]
    rows = (seen.stages.job == job).nonzero()[0]
    columns = (seen.stages.work, seen.stages.greatest_speed, seen.stages.memory_mib)
    return [tuple(float(column[row]) for column in columns) for row in rows]  # type: ignore[misc]


def later_stages(site: Site, text: str, owner: int | None = None) -> list[Any]:
    """Return the stages of a new platform in the first snapshot with its VMs."""
    platform = site.take(site.ann if owner is None else owner, text)
    for _ in range(5):
        seen = snapshot(site)
        if len(seen.jobs) and account_of(site, platform) in seen.jobs.application:
            return stages_in(site, seen, platform)
    raise AssertionError("it has no VM")


def words(site: Site, platform: int) -> str | None:
    """Return what the platform's view says of its job."""
    declares: str | None = site.wait(platforms_at(site).platform(LOCAL, platform)).declares
    return declares


def test_the_next_platform_has_the_stages_of_the_runs_before(site: Site) -> None:
    """From the first period with VMs on; its tenant reads how many runs they come from."""
    text = template(application=UNKNOWN)
    first = finish(site, site.take(site.ann, text))
    used_s = first.now.cpu_s
    assert used_s == pytest.approx(PERIODS * 60.0 * CORES, rel=0.15)
    ((work, speed, memory),) = later_stages(site, text)
    assert work == pytest.approx(100.0 * used_s, rel=1e-6)
    assert speed == pytest.approx(100.0 * CORES, rel=0.02)
    assert memory == 512.0
    second = max(row.id for row in site.read(platform_store.living))
    said = "core-seconds in 1 stage, from 1 earlier run"
    assert said in (words(site, second) or "")
    assert not (words(site, second) or "").endswith("runs")
    finish(site, second)
    third = site.take(site.ann, text)
    assert "in 1 stage, from 2 earlier runs" in (words(site, third) or ""), "before it begins"
    site.until(third, "running")
    assert "in 1 stage, from 2 earlier runs" in (words(site, third) or "")


def test_samples_are_kept_only_while_a_job_runs(site: Site) -> None:
    """A run that is over has its stages."""
    platform = site.submit(application=UNKNOWN)
    site.until(platform, "running")
    site.periods(5)
    samples = site.read(lambda c: job_run_store.samples_of(c, platform))
    assert len(samples) >= 4
    assert [sample.cpu_s for sample in samples] == sorted(sample.cpu_s for sample in samples)
    finish(site, platform)
    assert site.read(lambda c: job_run_store.samples_of(c, platform)) == ()
    assert len(run_of(site, platform).stages) == 1


@pytest.mark.parametrize(
    ("changes", "same"),
    [
        ({"budget": "[budget]\ncredits = 49999"}, True),
        ({"slo": '[slo]\ndeadline = "90h"'}, True),
        ({"application": '[job]\ngoal = "80h"'}, True),
        ({"top": 'name = "climate"'}, False),
        ({"controller": '[controller]\nkind = "notes"\nparameters = { steps = 7 }'}, False),
        ({"cluster": NODES.replace("initial = 2", "initial = 1")}, False),
        ({"cluster": NODES.replace('WORK="1000000"', 'WORK="1000001"')}, False),
    ],
)
def test_only_what_decides_the_work_makes_another_job(
    site: Site, changes: dict[str, str], same: bool
) -> None:
    """Each run has another deadline and budget; another program has other stages."""
    finish(site, site.submit(application=UNKNOWN))
    text = template(**({"application": UNKNOWN} | changes))
    assert len(later_stages(site, text)) == same


def test_stages_in_the_template_come_first(site: Site) -> None:
    """The tenant knows better."""
    finish(site, site.submit(application=UNKNOWN))
    stages = later_stages(site, template(application=JOB))
    assert [work for work, _, _ in stages] == [60_000.0, 120_000.0]


def test_runs_with_stages_in_the_template_count_too(site: Site) -> None:
    """A tenant that leaves them out later has the measured ones."""
    finish(site, site.submit(application=JOB))
    assert len(later_stages(site, template(application=UNKNOWN))) == 1


def test_another_tenants_runs_give_nothing(site: Site) -> None:
    """With the same text: neither can a tenant change what others get, nor learn what they use."""
    text = template(application=UNKNOWN)
    finish(site, site.take(site.bob, text))
    assert later_stages(site, text, site.ann) == []
    assert len(later_stages(site, text, site.bob)) == 1


@pytest.mark.parametrize("how", ["stopped", "deadline"])
def test_a_run_whose_work_was_not_done_gives_nothing(site: Site, how: str) -> None:
    """It would make the work look small."""
    text = template(application=UNKNOWN)
    platform = site.take(site.ann, text)
    site.until(platform, "running")
    site.periods(PERIODS)
    if how == "stopped":
        site.wait(site.manager.stop(platform, "ann"))
    else:
        site.read(lambda c: platform_store.change(c, platform, deadline_s=site.wall_s()))
    site.until(platform, "cancelled" if how == "stopped" else "failed")
    assert later_stages(site, text) == []
    assert run_of(site, platform).stages == ()


def test_a_run_without_its_beginning_gives_nothing(site: Site) -> None:
    """It ran before the daemon kept runs."""
    text = template(application=UNKNOWN)
    platform = site.take(site.ann, text)
    site.until(platform, "running")
    with site.engine.begin() as connection:
        connection.exec_driver_sql("DELETE FROM job_samples")
        connection.exec_driver_sql("DELETE FROM job_runs")
    assert len(finish(site, platform).stages) == 1
    assert later_stages(site, text) == []


def test_a_job_that_claims_its_end_at_once_gives_nothing(site: Site) -> None:
    """Its next run is as unknown as before, and others are as they were."""
    text = template(application=UNKNOWN)
    finish(site, site.take(site.bob, text))
    other = site.take(site.bob, text)
    site.until(other, "running")
    before = stages_in(site, snapshot(site), other)
    platform = site.take(site.ann, text)
    site.until(platform, "running")
    assert site.act(platform, ProgressReport(done=1.0), "lie").accepted
    site.periods(PERIODS)
    assert stages_in(site, snapshot(site), other) == before
    assert finish(site, platform, 1).stages == ()
    assert later_stages(site, text) == []


def test_a_job_that_claims_to_be_ahead_changes_no_stages(site: Site) -> None:
    """The work of a run is what its VMs used, whatever they say."""
    text = template(application=UNKNOWN)
    honest = finish(site, site.take(site.ann, text))
    platform = site.take(site.bob, text)
    site.until(platform, "running")
    for number in range(PERIODS):
        report = ProgressReport(done=(0.9, 1.0, 0.999)[number % 3])
        assert site.act(platform, report, f"lie {number}").accepted
        site.periods(1)
    assert site.act(platform, ProgressReport(done=0.5), "truth").accepted
    ahead = finish(site, platform, 1)
    (mine,), (theirs,) = honest.stages, ahead.stages
    assert theirs.work == pytest.approx(ahead.now.cpu_s, rel=0.01)
    assert theirs.greatest_speed == pytest.approx(mine.greatest_speed, rel=0.02)


def test_stages_stay_the_same_while_a_job_runs(site: Site) -> None:
    """Other runs that end meanwhile change them only for later ones."""
    text = template(application=UNKNOWN)
    finish(site, site.take(site.ann, text))
    running, other = site.take(site.ann, text), site.take(site.ann, text)
    site.until(running, "running")
    before = stages_in(site, snapshot(site), running)
    finish(site, other, 3 * PERIODS)
    assert stages_in(site, snapshot(site), running) == before
    site.start_daemon()
    assert stages_in(site, snapshot(site, 2), running) == before
    assert later_stages(site, text) != before


@pytest.mark.skipif(MARIADBD is None, reason="mariadb-server is not here")
def test_the_whole_way_on_mariadb(mariadb: MariaDb) -> None:
    """From the first sample to the stages of the next run, and the end of a job."""
    engine = make_engine(mariadb.make("jobs"))
    site = Site(engine=engine)
    text = template(application=UNKNOWN)
    finish(site, site.take(site.ann, text))
    assert len(later_stages(site, text)) == 1
    steps = '[controller]\nkind = "none"\nparameters = { steps = 400 }'
    job = site.submit(application=UNKNOWN, controller=steps, cluster=NODES + MONITOR)
    site.until(job, "running")
    values = {f"made/{vm}": 400.0 for vm in site.vms(job)}
    site.notes.measured[job] = {"nodes": MonitorReading(1.0, values)}
    site.until(job, "done")
    site.close()
    engine.dispose()
    mariadb.drop(str(engine.url.database))
