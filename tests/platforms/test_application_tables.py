"""The snapshot has the tables of the applications that platforms declare."""

import math
from dataclasses import replace

import numpy as np
import pytest

from merkatd.base.quantities import utc_text
from merkatd.cluster import Snapshot, VmKind
from merkatd.cluster.snapshot_json import dumps, loads
from merkatd.cluster.snapshot_npz import from_npz, to_npz
from merkatd.database.fleets import platform_store
from merkatd.platforms import declared_applications
from merkatd.platforms.declarations.template_time import TemplateTime
from merkatd.platforms.declared_applications import DeclaredApplications
from merkatd.platforms.lifecycle.platform_template import PlatformTemplate
from merkatd.platforms.lifecycle.template_reader import parsed
from merkatd.platforms.tenant_orders import Update
from merkatd.protocol.platform_messages import MonitorReading, ProgressReport
from merkatd.service.base.callers import LOCAL
from tests.platforms.site import Site, platforms_at
from tests.platforms.test_declarations import JOB, MONITOR, NODES, REPLICATED, SERVICE

NO_CONTROLLER = '[controller]\nkind = "none"'


def snapshot(site: Site, periods: int = 1) -> Snapshot:
    """Return the snapshot of the last of some periods."""
    return site.periods(periods).seen.snapshot


def account_of(site: Site, platform: int) -> int:
    """Return the id of a platform's application."""
    account = site.platform(platform).account
    assert account is not None
    return account


def kinds_of(site: Site, seen: Snapshot, platform: int) -> set[int]:
    """Return the kinds of a platform's VMs."""
    rows = [seen.vm_row(vm) for vm in site.vms(platform)]
    return set(seen.vms.kind[rows].tolist())


def test_a_job_is_in_the_tables_with_its_stages(site: Site) -> None:
    """Work is in percent of a core times seconds there, and its VMs have its id and its kind."""
    submitted_s = site.wall_s()
    platform, other = site.submit(application=JOB), site.submit()
    site.until(platform, "running")
    ran_s = site.platform(platform).first_ran_s
    assert ran_s is not None
    seen = snapshot(site)
    account = account_of(site, platform)
    assert seen.jobs.application.tolist() == [account]
    assert seen.jobs.submitted_s.tolist() == [submitted_s]
    assert seen.jobs.started_s.tolist() == [ran_s]
    assert seen.jobs.goal_s.tolist() == [submitted_s + 7200.0]
    assert seen.jobs.work_done.tolist() == [0.0]
    assert seen.stages.job.tolist() == [0, 0]
    assert seen.stages.work.tolist() == [60_000.0, 120_000.0]
    assert seen.stages.least_speed.tolist() == [0.0, 50.0]
    assert seen.stages.greatest_speed.tolist() == [100.0, 200.0]
    assert seen.stages.memory_mib.tolist() == [512.0, 0.0]
    own = seen.vms.application == account
    assert sorted(seen.vms.id[own].tolist()) == sorted(site.vms(platform))
    assert kinds_of(site, seen, platform) == {VmKind.BATCH}
    assert kinds_of(site, seen, other) == {VmKind.SERVICE}


def test_a_job_has_no_start_before_its_vms_run(site: Site) -> None:
    """The time at which the daemon creates them is none: they may wait for hosts."""
    for host in range(3):
        site.bench.ok("one.host.status", host, 1)
    platform = site.submit(application=JOB)
    seen = snapshot(site, 4)
    assert site.platform(platform).state == "starting"
    assert np.isnan(seen.jobs.started_s).tolist() == [True]
    for host in range(3):
        site.bench.ok("one.host.status", host, 0)
    site.until(platform, "running")
    first_s = snapshot(site).jobs.started_s.tolist()
    site.wait(site.manager.suspend(platform, "ann"))
    site.until(platform, "suspended")
    assert snapshot(site).jobs.application.tolist() == [account_of(site, platform)]
    site.wait(site.manager.resume(platform, "ann"))
    site.until(platform, "running")
    assert snapshot(site).jobs.started_s.tolist() == first_s


def test_a_job_without_a_goal_has_the_deadline(site: Site) -> None:
    """The tenant may change it; without both the goal is unknown."""
    platform = site.submit(application="[job]", slo='[slo]\ndeadline = "5h"')
    site.submit(application="[job]")
    submitted_s = site.wall_s()
    site.until(platform, "running")
    goals = snapshot(site).jobs.goal_s
    assert goals[0] == submitted_s + 5 * 3600.0
    assert math.isnan(goals[1])
    site.update(platform, Update(deadline=TemplateTime(after_s=3600.0)))
    assert snapshot(site).jobs.goal_s[0] == site.platform(platform).deadline_s


def test_a_job_without_stages_has_no_rows_of_stages(site: Site) -> None:
    """The stages of others keep their jobs."""
    first, second = site.submit(application="[job]"), site.submit(application=JOB)
    site.until(second, "running")
    seen = snapshot(site)
    accounts = [account_of(site, platform) for platform in (first, second)]
    assert seen.jobs.application.tolist() == accounts
    assert seen.stages.job.tolist() == [1, 1]
    site.wait(site.manager.stop(first, "ann"))
    site.until(first, "cancelled")
    seen = snapshot(site, 2)
    assert seen.jobs.application.tolist() == accounts[1:]
    assert seen.stages.job.tolist() == [0, 0]


@pytest.mark.parametrize(("done", "work"), [(None, 0.0), (0.25, 45_000.0), (1.0, 180_000.0)])
def test_the_controller_reports_the_progress(site: Site, done: float | None, work: float) -> None:
    """As a part of the work of all stages."""
    platform = site.submit(application=JOB)
    site.until(platform, "running")
    assert site.act(platform, ProgressReport(done=done)).accepted
    assert snapshot(site).jobs.work_done.tolist() == [work]


@pytest.mark.parametrize(("done", "work"), [(7.0, 180_000.0), (-3.0, 0.0)])
def test_an_earlier_daemon_stored_any_report(site: Site, done: float, work: float) -> None:
    """Between nothing and all is done; today's daemon refuses such a report."""
    platform = site.submit(application=JOB)
    site.until(platform, "running")
    assert not site.act(platform, ProgressReport(done=done)).accepted
    site.read(lambda c: platform_store.change(c, platform, report={"done": done}))
    assert snapshot(site).jobs.work_done.tolist() == [work]


def test_the_monitors_tell_the_progress_without_a_controller(site: Site) -> None:
    """The cluster with the fewest iterations counts; `steps` says how many there are.

    An impossible number counts as none.
    """
    two = NODES + MONITOR + "\n\n" + NODES.replace("nodes", "more") + MONITOR
    steps = f"{NO_CONTROLLER}\nparameters = {{ steps = 400 }}"
    platform = site.submit(application=JOB, controller=steps, cluster=two)
    site.until(platform, "running")
    site.notes.measured[platform] = {"nodes": MonitorReading(5e5, {"done": 100.0})}
    assert snapshot(site).jobs.work_done.tolist() == [0.0]
    site.notes.measured[platform]["more"] = MonitorReading(1.0, {"done": 300.0})
    assert snapshot(site).jobs.work_done.tolist() == [45_000.0]
    site.notes.measured[platform]["nodes"] = MonitorReading(1.0, {"done": 4000.0})
    assert snapshot(site).jobs.work_done.tolist() == [135_000.0]
    site.notes.measured[platform]["nodes"] = MonitorReading(1.0, {"done": 1e15})
    assert snapshot(site).jobs.work_done.tolist() == [0.0]
    values = {"made/1": 400.0, "made/2": 1e12, "done": 400.0}
    site.notes.measured[platform]["nodes"] = MonitorReading(1.0, values)
    assert snapshot(site).jobs.work_done.tolist() == [0.0]
    site.notes.measured[platform]["nodes"] = MonitorReading(1.0, values | {"made/2": 200.0})
    assert snapshot(site).jobs.work_done.tolist() == [90_000.0]


def test_without_any_report_the_cpu_time_is_the_progress(site: Site) -> None:
    """Up to almost all of the work: CPU time proves no end."""
    platform = site.submit(application=JOB, controller=NO_CONTROLLER)
    site.until(platform, "running")
    done = [float(snapshot(site).jobs.work_done[0]) for _ in range(40)]
    assert done == sorted(done)
    moved = np.diff(done)
    # Two VMs that use two cores each: in 60 s, 240 core-seconds.
    assert np.median(moved[moved > 0.0]) == pytest.approx(24_000.0, rel=0.01)
    assert done[-1] == pytest.approx(0.99 * 180_000.0)


def test_monitors_run_without_a_controller_only_for_a_declared_application(site: Site) -> None:
    """A platform whose tenant bids by hand has no processes, as before."""
    declared = site.submit(application=SERVICE, controller=NO_CONTROLLER, cluster=NODES + MONITOR)
    plain = site.submit(controller=NO_CONTROLLER, cluster=NODES + MONITOR)
    for platform in (declared, plain):
        site.until(platform, "running")
    assert list(site.notes.running) == [declared]
    assert site.notes.running[declared].controller == "none"
    site.wait(site.manager.stop(declared, "ann"))
    site.until(declared, "cancelled")
    assert not site.notes.running


def test_a_service_has_what_its_monitor_measures(site: Site) -> None:
    """Unknown numbers are NaN, also when the monitor has been silent for too long."""
    text = f"{SERVICE}\nwork_per_request = 0.02"
    platform = site.submit(application=text, cluster=NODES + MONITOR)
    site.until(platform, "running")
    services = snapshot(site).services
    assert services.application.tolist() == [account_of(site, platform)]
    assert services.response_goal_s.tolist() == [0.25]
    assert np.isnan(services.arrivals_per_s).all()
    assert np.isnan(services.response_s).all()
    assert services.work_per_request.tolist() == [2.0]
    values = {"arrivals_per_s": 12.5, "response_s": 0.3, "work_per_request": 0.05, "p99_s": 2.0}
    site.notes.measured[platform] = {"nodes": MonitorReading(300.0, values)}
    services = snapshot(site).services
    assert services.arrivals_per_s.tolist() == [12.5]
    assert services.response_s.tolist() == [0.3]
    assert services.work_per_request.tolist() == [5.0]
    site.notes.measured[platform] = {"nodes": MonitorReading(301.0, values)}
    services = snapshot(site).services
    assert np.isnan(services.arrivals_per_s).all()
    assert services.work_per_request.tolist() == [2.0]


def test_a_slow_monitor_counts_for_longer(site: Site) -> None:
    """It is not silent before the time of three measurements has passed."""
    slow = MONITOR.replace('log = "l"', 'log = "l", every_s = 200')
    platform = site.submit(application=SERVICE, cluster=NODES + slow)
    site.until(platform, "running")
    site.notes.measured[platform] = {"nodes": MonitorReading(599.0, {"arrivals_per_s": 2.0})}
    assert snapshot(site).services.arrivals_per_s.tolist() == [2.0]
    site.notes.measured[platform] = {"nodes": MonitorReading(601.0, {"arrivals_per_s": 2.0})}
    assert np.isnan(snapshot(site).services.arrivals_per_s).all()


def test_owners_do_not_change_the_kind_of_declared_vms(site: Site) -> None:
    """Their user templates state another one."""
    job = site.submit(application=JOB)
    service = site.submit(application=SERVICE, cluster=NODES + MONITOR)
    tasks = site.submit(application=REPLICATED)
    for platform, kind in ((job, "SERVICE"), (service, "BATCH"), (tasks, "BATCH")):
        site.until(platform, "running")
        for vm in site.vms(platform):
            site.bench.ok("one.vm.update", vm, f'MERKAT_KIND="{kind}"', 1)
    seen = snapshot(site)
    assert kinds_of(site, seen, job) == {VmKind.BATCH}
    assert kinds_of(site, seen, service) == {VmKind.SERVICE}
    assert kinds_of(site, seen, tasks) == {VmKind.BATCH}, "nothing is declared of it"


def test_replicated_tasks_are_in_their_table(site: Site) -> None:
    """They need as many tasks as declared, also while fewer VMs exist."""
    platform = site.submit(application=REPLICATED)
    site.until(platform, "running")
    tasks = snapshot(site).replicated
    assert tasks.application.tolist() == [account_of(site, platform)]
    assert (tasks.needed.tolist(), len(site.vms(platform))) == ([3], 2)
    assert tasks.run_time_s.tolist() == [21_600.0]
    assert tasks.reliability.tolist() == [0.99]


def test_an_application_without_vms_is_in_no_table(site: Site) -> None:
    """A declaration alone reserves nothing and displaces no VM."""
    late = '[start]\nnot_before = "1h"'
    for text in ('[job]\ngoal = "2h"', REPLICATED):
        site.submit(application=text, start=late)
    seen = snapshot(site, 3)
    assert (len(seen.jobs), len(seen.replicated)) == (0, 0)


def test_saved_snapshots_have_the_tables(site: Site) -> None:
    """Both forms return the same cloud."""
    platform = site.submit(application=SERVICE, cluster=NODES + MONITOR)
    for text in (JOB, "[job]", REPLICATED):
        site.submit(application=text)
    site.until(platform, "running")
    site.notes.measured[platform] = {"nodes": MonitorReading(1.0, {"arrivals_per_s": 2.0})}
    seen = snapshot(site, 4)
    assert [len(table) for table in (seen.jobs, seen.stages, seen.services, seen.replicated)] == [
        *(2, 2, 1, 1)
    ]
    text = dumps(seen)
    assert dumps(loads(text)) == text
    assert dumps(from_npz(to_npz(seen))) == text


def test_a_stored_declaration_that_can_not_be_read_stops_no_period(site: Site) -> None:
    """Neither do impossible numbers in a stored report."""
    platform, other = site.submit(application=JOB), site.submit(application=JOB)
    site.until(other, "running")
    spoiled = site.platform(platform).template.replace("600", "1e300")
    with site.engine.begin() as connection:
        platform_store.change(connection, platform, template=spoiled)
        platform_store.change(connection, other, report={"done": 1e308})
    tables = DeclaredApplications(site.notes.readings).tables
    site.scheduler.world = replace(site.scheduler.world, applications=tables)
    seen = snapshot(site)
    assert seen.jobs.application.tolist() == [account_of(site, other)]
    assert seen.jobs.work_done.tolist() == [180_000.0]
    assert kinds_of(site, seen, platform) == {VmKind.SERVICE}


def test_each_template_is_looked_up_once(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """A period with many platforms reads no template again."""
    seen: list[str] = []

    def counting(text: str) -> PlatformTemplate:
        seen.append(text)
        return parsed(text)

    monkeypatch.setattr(declared_applications, "parsed", counting)
    platforms = [site.submit(application=JOB), site.submit()]
    site.periods(5)
    assert len(seen) == 2
    site.wait(site.manager.stop(platforms[0], "ann"))
    site.until(platforms[0], "cancelled")
    site.submit(application=REPLICATED)
    assert len(snapshot(site, 4).replicated) == 1
    assert len(seen) == 3


def words_of(site: Site, platform: int) -> tuple[str | None, str | None]:
    """Return what the platform's view says of its application."""
    site.scheduler.latest = site.period()
    view = site.wait(platforms_at(site).platform(LOCAL, platform))
    return view.declares, view.declared_state


def test_the_tenant_sees_the_declaration_and_its_state(site: Site) -> None:
    """Both are short texts, in the units of the template."""
    job = site.submit(application=JOB)
    service = site.submit(application=SERVICE, cluster=NODES + MONITOR)
    tasks, plain = site.submit(application=REPLICATED), site.submit()
    unknown = site.submit(application="[job]")
    view = site.wait(platforms_at(site).platform(LOCAL, job))
    assert (view.declares, view.declared_state) == (
        "job: 1800 core-seconds in 2 stages, goal 1970-01-12T15:46:40Z",
        "no VM of it exists yet",
    )
    for platform in (job, service, tasks, unknown):
        site.until(platform, "running")
    assert words_of(site, job)[1] == "its progress is unknown"
    assert words_of(site, unknown) == ("job: unknown work", "its progress is unknown")
    assert words_of(site, service) == (
        "service: answers within 0.25 s, measured in cluster nodes",
        "its monitor has not reported its requests lately",
    )
    site.act(job, ProgressReport(done=0.25))
    values = {"arrivals_per_s": 12.5, "response_s": 0.3}
    site.notes.measured[service] = {"nodes": MonitorReading(1.0, values)}
    started = utc_text(site.platform(job).first_ran_s or 0.0)
    assert words_of(site, job)[1] == f"25% of its work is done, started {started}"
    assert words_of(site, service)[1] == "12.5 requests per second, answered in 0.3 s"
    assert words_of(site, tasks) == (
        "replicated: 3 live tasks for 6 h with reliability 0.99",
        "2 of 3 needed tasks run",
    )
    site.bench.ok("one.vm.action", "poweroff-hard", site.vms(tasks)[0])
    site.periods(1)
    assert words_of(site, tasks)[1] == "1 of 3 needed tasks run"
    assert words_of(site, plain) == (None, None)
    site.periods(3)  # a migration that balances the hosts ends meanwhile
