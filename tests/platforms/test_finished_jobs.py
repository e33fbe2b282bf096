"""A job without a controller is done when each of its VMs has made all its iterations."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from twisted.logger import capturedLogs

from merkatd.database.fleets import job_run_store
from merkatd.database.scheduler.order_store import Mode
from merkatd.platforms.rules.made_iterations import (
    MOST_TIMES,
    all_finished,
    measured_part,
    measured_vms,
)
from merkatd.protocol.platform_messages import MonitorReading
from merkatd.service.base.callers import LOCAL
from tests.platforms.site import Site, platforms_at
from tests.platforms.test_application_tables import snapshot
from tests.platforms.test_declarations import JOB, MONITOR, NODES

STEPS = 400
NONE = f'[controller]\nkind = "none"\nparameters = {{ steps = {STEPS} }}'
SECOND = "\n\n" + NODES.replace('"nodes"', '"more"')


def readings(counts: Mapping[int, float], cluster: str = "nodes") -> dict[str, MonitorReading]:
    """Return what a monitor has measured."""
    values = {f"made/{vm}": float(count) for vm, count in counts.items()}
    return {cluster: MonitorReading(1.0, values | {"done": min(counts.values(), default=0.0)})}


def started(site: Site, cluster: str = NODES + MONITOR, controller: str = NONE) -> int:
    """Return a running platform without a controller."""
    platform = site.submit(application=JOB, controller=controller, cluster=cluster)
    site.until(platform, "running")
    site.periods(1)
    return platform


def measure(site: Site, platform: int, *counts: float, periods: int = 2) -> str:
    """Let the monitor report these iterations of the platform's VMs; return its state."""
    vms = dict(zip(site.vms(platform), counts, strict=False))
    site.notes.measured[platform] = readings(vms)
    site.periods(periods)
    return site.platform(platform).state


def test_it_is_done_when_each_vm_is_done(site: Site) -> None:
    """Not before: the VMs of a job that is done are ended."""
    platform = started(site)
    assert measure(site, platform, STEPS - 1, STEPS) == "running"
    assert measure(site, platform, STEPS, STEPS - 1) == "running"
    assert site.alive() == site.vms(platform)
    measure(site, platform, STEPS, STEPS)
    row = site.until(platform, "done")
    assert row.why == f"each of its VMs has made all {STEPS} iterations"
    assert site.alive() == []


def test_a_vm_that_was_not_measured_is_not_done(site: Site) -> None:
    """It may not have begun, or its log may be missing."""
    platform = started(site)
    assert measure(site, platform, STEPS, periods=5) == "running"
    measure(site, platform, STEPS, STEPS)
    site.until(platform, "done")


def test_a_vm_that_does_not_exist_yet_is_not_done(site: Site) -> None:
    """The platform wants three VMs, and the cloud creates no third one."""
    cluster = NODES.replace("initial = 2", "initial = 3") + MONITOR
    real = site.cut_off_after(2)
    platform = site.submit(application=JOB, controller=NONE, cluster=cluster)
    for _ in range(6):
        site.try_period()
        site.clock.advance(60.0)
    assert (site.platform(platform).state, len(site.vms(platform))) == ("running", 2)
    site.notes.measured[platform] = readings(dict.fromkeys(site.vms(platform), STEPS))
    for _ in range(4):
        site.try_period()
        site.clock.advance(60.0)
    assert site.platform(platform).state == "running"
    site.restore(real)
    for _ in range(60):
        site.periods(1)
        if len(site.vms(platform)) == 3:
            break
    site.notes.measured[platform] = readings(dict.fromkeys(site.vms(platform), STEPS))
    site.until(platform, "done")


def test_a_vm_that_ended_after_its_work_stays_done(site: Site) -> None:
    """Monitors report running VMs only; also a daemon that starts anew knows it."""
    platform = started(site)
    first, second = site.vms(platform)
    assert measure(site, platform, STEPS, 3) == "running"
    site.notes.measured[platform] = readings({second: 5})
    site.periods(2)
    site.start_daemon()
    site.notes.measured[platform] = readings({second: STEPS})
    site.until(platform, "done")
    assert first not in site.alive()


@pytest.mark.parametrize("other", ["", MONITOR])
def test_each_cluster_counts(site: Site, other: str) -> None:
    """VMs without a monitor are never known to be done, so such a job does not end by itself."""
    platform = started(site, NODES + MONITOR + SECOND + other)
    members = site.members(platform)
    counts = {
        name: {m.vm: STEPS for m in members if m.cluster == name and m.vm is not None}
        for name in ("nodes", "more")
    }
    site.notes.measured[platform] = readings(counts["nodes"])
    site.periods(4)
    assert site.platform(platform).state == "running"
    if other:
        site.notes.measured[platform] |= readings(counts["more"], "more")
        site.until(platform, "done")


@pytest.mark.parametrize("controller", ['[controller]\nkind = "none"', ""])
def test_a_job_without_a_number_of_iterations_goes_on(site: Site, controller: str) -> None:
    """Nothing says what all of its iterations are."""
    platform = started(site, controller=controller)
    assert measure(site, platform, 1e6, 1e6, periods=4) == "running"


def test_a_controller_ends_its_own_platform(site: Site) -> None:
    """It may have more to do than iterations."""
    controller = NONE.replace('"none"', '"notes"')
    platform = started(site, controller=controller)
    assert measure(site, platform, STEPS, STEPS, periods=4) == "running"


def test_only_jobs_end(site: Site) -> None:
    """A service goes on, whatever its VMs count."""
    service = '[service]\nresponse_goal = "1s"'
    platform = site.submit(application=service, controller=NONE, cluster=NODES + MONITOR)
    site.until(platform, "running")
    assert measure(site, platform, STEPS, STEPS, periods=4) == "running"


@pytest.mark.parametrize("count", [STEPS * MOST_TIMES + 1, 1.7e9, 1e15, 0.5 + STEPS])
def test_an_impossible_number_is_refused_with_one_warning(site: Site, count: float) -> None:
    """A date or a size that the pattern took for a number of iterations ends no job."""
    platform = started(site)
    with capturedLogs() as logs:
        assert measure(site, platform, STEPS, count, periods=5) == "running"
        assert snapshot(site).jobs.work_done.tolist() == [0.0]
    second = site.vms(platform)[1]
    said = [entry for entry in logs if "counts as none" in str(entry.get("text"))]
    assert len(said) == 1
    shown = site.wait(platforms_at(site).platform(LOCAL, platform)).actions
    texts = [action.text for action in shown if action.what == "warning"]
    assert len(texts) == 1
    assert texts[0].startswith(f"VM {second} reports ")
    measure(site, platform, STEPS, STEPS + 5)
    site.until(platform, "done")


def test_a_program_that_starts_anew_is_not_done(site: Site) -> None:
    """Its VM had made all iterations, and makes them again."""
    platform = started(site)
    assert measure(site, platform, STEPS, 10) == "running"
    assert measure(site, platform, 3, STEPS) == "running"
    measure(site, platform, STEPS, STEPS)
    site.until(platform, "done")


def test_a_daemon_that_only_watches_ends_nothing(site: Site) -> None:
    """It still records the run."""
    platform = started(site)
    site.order(Mode.SHADOW.order)
    assert measure(site, platform, STEPS, STEPS, periods=3) == "running"
    run = site.read(lambda c: job_run_store.of_platform(c, platform))
    assert run.finished == set(site.vms(platform))
    site.order(Mode.ON.order)
    site.until(platform, "done")


def test_another_platforms_vm_proves_nothing(site: Site) -> None:
    """Only the platform's own VMs must be done."""
    platform, other = started(site), started(site)
    own, others = site.vms(platform), site.vms(other)
    counts = dict.fromkeys([*others, 10**6], STEPS) | {own[0]: STEPS}
    site.notes.measured[platform] = readings(counts)
    site.periods(4)
    assert [site.platform(each).state for each in (platform, other)] == ["running"] * 2


def test_a_suspended_job_is_not_ended(site: Site) -> None:
    """It is, once it runs again."""
    platform = started(site)
    site.wait(site.manager.suspend(platform, "ann"))
    site.until(platform, "suspended")
    assert measure(site, platform, STEPS, STEPS, periods=3) == "suspended"
    site.wait(site.manager.resume(platform, "ann"))
    site.until(platform, "done")


def test_the_run_of_a_job_that_ended_by_itself_is_a_whole_one(site: Site) -> None:
    """The next platform has its stages."""
    text = "[job]"
    first = site.submit(application=text, controller=NONE, cluster=NODES + MONITOR)
    site.until(first, "running")
    for number in range(12):
        measure(site, first, 30 * number, 30 * number + 5, periods=1)
    measure(site, first, STEPS, STEPS, periods=1)
    site.until(first, "done")
    site.periods(1)
    run = site.read(lambda c: job_run_store.of_platform(c, first))
    assert len(run.stages) == 1
    assert run.now.done == 1.0


COUNTS = st.dictionaries(
    st.integers(0, 9), st.floats(0.0, 1e15) | st.integers(0, 2 * STEPS).map(float), max_size=5
)


@given(COUNTS, COUNTS)
def test_any_numbers_are_taken(nodes: dict[int, float], more: dict[int, float]) -> None:
    """The part is between nothing and all; all only if each VM is done, none is both."""
    given_ = readings(nodes) | readings(more, "more")
    part = measured_part(given_, ["nodes", "more"], STEPS)
    assert part is not None
    assert 0.0 <= part <= 1.0
    ends, refused = measured_vms(given_, STEPS)
    finished = ends.finished
    assert not finished & ends.unfinished
    assert not finished & refused.keys()
    vms = list(nodes.keys() | more.keys())
    if part == 1.0:
        assert all_finished(finished, vms, len(vms))
    assert not all_finished(finished, [*vms, None], len(vms))
    assert not all_finished(finished, vms, len(vms) + 1)
    assert not all_finished(finished, [], 0)
