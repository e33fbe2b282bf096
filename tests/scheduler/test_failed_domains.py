"""Failure domains of hosts under the daemon: VMs that do not run pay nothing, nothing crashes."""

import numpy as np
import pytest

from merkatd.cluster import HostState, VmState
from merkatd.scheduler.observation.guest_starts import FREE
from tests.embedded.test_domains import describe
from tests.scheduler.frontend import PAPER_MARKET, Frontend
from tests.scheduler.test_paid_time import seconds_paid

INTERVAL_S = 60.0


@pytest.mark.parametrize("kind", ["power", "network"])
def test_a_domain_fails_and_returns_under_the_daemon(kind: str) -> None:
    """Its VM is off for the daemon and pays nothing; the VM of the other domain pays as before."""
    frontend = Frontend(hosts=2, markets=(PAPER_MARKET,))
    for host, name in enumerate(("left", "right")):
        describe(frontend.bench, host, **{kind: name})
    vms = [frontend.vm(CPU=4, VCPU=4) for _ in range(2)]
    frontend.periods(3)
    lost, other = sorted(vms, key=frontend.host_of)
    assert [frontend.host_of(vm) for vm in (lost, other)] == [0, 1]
    frontend.bench.ok("embedded.domain.fail", kind, "left")
    paid = seconds_paid(frontend, lost)
    for _ in range(4):
        seen = frontend.period().seen.snapshot
        frontend.clock.advance(INTERVAL_S)
        assert frontend.state(lost) == "UNKNOWN"
        assert seen.vms.state[seen.vm_row(lost)] == VmState.POWERED_OFF
        assert seen.hosts.state.tolist() == [HostState.OFF, HostState.ON]
    # The first period ended when the domain failed; it is paid.
    assert seconds_paid(frontend, lost)[len(paid) :] == [pytest.approx(INTERVAL_S, abs=2), 0, 0, 0]
    assert sum(seconds_paid(frontend, other)[-3:]) == pytest.approx(3 * INTERVAL_S)
    frontend.bench.ok("embedded.domain.repair", kind, "left")
    frontend.periods(4)
    running = kind == "network"
    assert frontend.state(lost) == ("RUNNING" if running else "POWEROFF")
    later = seconds_paid(frontend, lost)[-2:]
    assert later == [pytest.approx(INTERVAL_S if running else 0, abs=2)] * 2
    assert np.isfinite(list(frontend.balances().values())).all()
    frontend.agree()
    frontend.close()


@pytest.mark.parametrize("kind", ["power", "network"])
def test_guests_of_a_failed_host_are_not_started_repeatedly(kind: str) -> None:
    """Neither their first starts count while they are gone, nor their return or next starts."""
    frontend = Frontend(hosts=2, markets=(PAPER_MARKET,))
    describe(frontend.bench, 0, **{kind: "left"})
    describe(frontend.bench, 1, **{kind: "right"})
    frontend.periods(1)
    vms = [frontend.vm(CPU=0.5, VCPU=1, MEMORY=256) for _ in range(12)]
    frontend.periods(3)
    lost = [vm for vm in vms if frontend.host_of(vm) == 0]
    assert len(lost) > FREE
    frontend.bench.ok("embedded.domain.fail", kind, "left")
    seen = [frontend.period().seen]
    frontend.clock.advance(INTERVAL_S)
    seen.append(frontend.period().seen)
    frontend.bench.ok("embedded.domain.repair", kind, "left")
    frontend.clock.advance(INTERVAL_S)
    seen.append(frontend.period().seen)
    for vm in lost:
        if frontend.state(vm) == "POWEROFF":
            frontend.bench.ok("one.vm.action", "resume", vm)
    for _ in range(3):
        frontend.clock.advance(INTERVAL_S)
        seen.append(frontend.period().seen)
    assert {frontend.state(vm) for vm in vms} == {"RUNNING"}
    assert [(each.restarted, each.started_often) for each in seen] == [(frozenset(),) * 2] * 6
    frontend.agree()
    frontend.close()


def test_a_sleeping_host_gets_no_vm_until_it_is_up() -> None:
    """Offline, asleep, enabled too early and started: VMs go to it only at the end."""
    frontend = Frontend(hosts=1)
    frontend.bench.ok("one.host.status", 0, 2)
    frontend.bench.ok("embedded.host.sleep", 0)
    vm = frontend.vm()
    for call in (("one.host.status", 0, 0), ("embedded.host.wake", 0)):
        frontend.periods(2, interval_s=5)
        assert frontend.state(vm) == "PENDING"
        frontend.bench.ok(*call)
    frontend.periods(2, interval_s=5)
    assert frontend.state(vm) == "PENDING"
    frontend.clock.advance(INTERVAL_S)
    frontend.periods(2, interval_s=5)
    assert frontend.state(vm) == "RUNNING"
    frontend.agree()
    frontend.close()


@pytest.mark.parametrize(
    "stages", ["EMBEDDED=[ARRIVALS=5,REQUEST_WORK=0.1]", 'EMBEDDED=[STAGES="90:0:1:300,90:0:2:99"]']
)
def test_services_and_staged_jobs_run_under_the_daemon(stages: str) -> None:
    """The daemon sets their limits as those of other guests."""
    frontend = Frontend(hosts=1)
    text = f"CPU=1 VCPU=2 MEMORY=2048 MERKAT_BID_CPU=1 MERKAT_BID_MEMORY=1 {stages}"
    vm = frontend.bench.new(text)
    busy = frontend.vm()
    frontend.periods(5)
    assert [frontend.state(each) for each in (vm, busy)] == ["RUNNING", "RUNNING"]
    assert frontend.limits(vm).vcpu_quota > 0 or frontend.limits(vm).global_quota > 0
    assert frontend.bench.ok("embedded.guest.progress", vm)["done"] > 0
    frontend.agree()
    frontend.close()
