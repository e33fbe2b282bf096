"""A strategy that states what each VM gets saves VMs of platforms, and resumes them itself."""

from collections.abc import Callable, Iterator, Sequence

import pytest

from merkatd.cluster import Resume, Snapshot, Stop, Suspend, VmState
from merkatd.cluster.plan import Step
from merkatd.database.scheduler import journal
from merkatd.placement.contract import Allocation, Charge
from tests.platforms.site import Site
from tests.platforms.test_application_tables import snapshot
from tests.platforms.test_declarations import JOB, MONITOR, NODES
from tests.platforms.test_finished_jobs import NONE, STEPS, readings
from tests.scheduler.scripted_strategy import Script, scripted


@pytest.fixture
def script() -> Iterator[Script]:
    """Yield the script of a strategy that owns allocations and charges nothing."""
    with scripted(allocates=Allocation.OWN, charges=Charge.NONE) as made:
        yield made


@pytest.fixture
def site(script: Script) -> Iterator[Site]:  # noqa: ARG001 - the strategy comes first
    """Yield a frontend whose market runs it."""
    made = Site()
    yield made
    made.agree()
    made.close()


def started(site: Site) -> tuple[int, list[int]]:
    """Return a running job without a controller, and its VMs."""
    platform = site.submit(application=JOB, controller=NONE, cluster=NODES + MONITOR)
    site.until(platform, "running")
    site.periods(2)
    return platform, site.vms(platform)


def state(snapshot: Snapshot, vm: int) -> VmState:
    """Return the state of a VM."""
    return VmState(int(snapshot.vms.state[snapshot.vm_row(vm)]))


def saves(vm: int, kind: type[Suspend] | type[Stop]) -> Callable[[Snapshot], Sequence[Step]]:
    """Return a script that saves a VM while it runs."""

    def steps(snapshot: Snapshot) -> Sequence[Step]:
        if state(snapshot, vm) is not VmState.RUNNING:
            return ()
        return [kind(period=snapshot.period, vm=vm, reason="others are more urgent")]

    return steps


def resumes(vm: int, host: int | None = None) -> Callable[[Snapshot], Sequence[Step]]:
    """Return a script that resumes a VM."""

    def steps(snapshot: Snapshot) -> Sequence[Step]:
        if state(snapshot, vm) not in {VmState.SUSPENDED, VmState.ABSENT}:
            return ()
        return [Resume(period=snapshot.period, vm=vm, reason="its turn comes", host=host)]

    return steps


def resumptions(site: Site) -> int:
    """Return how many VMs were resumed."""
    rows = site.read(lambda c: journal.recent(c, journal.StepFilter(kind=Resume.kind), 9999))
    return len(rows)


def test_a_vm_stays_suspended_until_its_strategy_resumes_it(script: Script, site: Site) -> None:
    """Also after a restart of the daemon; it goes on on another host, and the job ends."""
    platform, (first, second) = started(site)
    before = site.host_of(first)
    script.steps = saves(first, Suspend)
    site.periods(3)
    script.steps = lambda _snapshot: ()
    site.periods(5)
    site.start_daemon()
    site.periods(5)
    assert (site.state(first), site.state(second)) == ("SUSPENDED", "RUNNING")
    assert resumptions(site) == 0
    assert site.platform(platform).state == "running"
    (other, *_) = {0, 1, 2} - {before}
    script.steps = resumes(first, other)
    site.periods(6)
    assert (site.state(first), site.host_of(first)) == ("RUNNING", other)
    script.steps = lambda _snapshot: ()
    site.notes.measured[platform] = readings({first: STEPS, second: STEPS})
    site.until(platform, "done")
    assert site.alive() == []


def test_a_stopped_vm_waits_for_its_strategy(script: Script, site: Site) -> None:
    """It has no host, and gets one when it is resumed."""
    platform, (first, _) = started(site)
    site.placed_again.add(first)
    script.steps = saves(first, Stop)
    site.periods(8)
    assert site.state(first) == "STOPPED"
    assert resumptions(site) == 0
    script.steps = resumes(first)
    site.periods(5)
    assert site.state(first) == "RUNNING"
    assert site.platform(platform).state == "running"


def test_what_its_owner_suspends_stays_so(script: Script, site: Site) -> None:
    """Neither the platform nor the strategy resumes it."""
    _, (first, second) = started(site)
    script.steps = resumes(first)
    site.bench.ok("one.vm.action", "suspend", first)
    site.periods(6)
    assert (site.state(first), site.state(second)) == ("SUSPENDED", "RUNNING")
    assert not snapshot(site).vms.placeable.all()
    site.bench.ok("one.vm.action", "resume", first)
    site.periods(3)
    assert site.state(first) == "RUNNING"
    assert snapshot(site).vms.placeable.all()
    script.steps = saves(first, Suspend)
    site.periods(3)
    script.steps = resumes(first)
    site.periods(3)
    assert site.state(first) == "RUNNING"


def test_a_suspended_platform_stays_suspended(script: Script, site: Site) -> None:
    """Its tenant resumes it, and all its VMs, also the one that the strategy has saved."""
    platform, (first, second) = started(site)
    script.steps = saves(first, Suspend)
    site.periods(3)
    site.wait(site.manager.suspend(platform, "ann"))
    site.until(platform, "suspended")
    while {site.state(vm) for vm in (first, second)} != {"SUSPENDED"}:
        site.periods(1)
    asked: list[int] = []

    def resume_both(seen: Snapshot) -> Sequence[Step]:
        steps = [*resumes(first)(seen), *resumes(second)(seen)]
        asked.extend(step.vm for step in steps)
        return steps

    script.steps = resume_both
    for _ in range(6):
        site.periods(1)
        assert [site.state(vm) for vm in (first, second)] == ["SUSPENDED"] * 2
        assert resumptions(site) == 0, "the manager would suspend a resumed VM again"
    assert {first, second} <= set(asked)
    script.steps = lambda _snapshot: ()
    site.wait(site.manager.resume(platform, "ann"))
    site.until(platform, "running")
    site.periods(3)
    assert [site.state(vm) for vm in (first, second)] == ["RUNNING"] * 2
