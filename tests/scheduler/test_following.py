"""VMs that start to run between two periods get their limits once, within seconds."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from merkatd.cluster import Limit, Migrate
from merkatd.database.scheduler import journal
from merkatd.database.scheduler.order_store import Order
from merkatd.embedded.model.settings import HostSize
from merkatd.embedded.model.vm_states import OneVmState
from merkatd.scheduler.base.acting_settings import ActingSettings
from merkatd.scheduler.phases.announce import Announcement
from tests.scheduler.frontend import PAPER_MARKET, QUICK, Frontend
from tests.scheduler.test_waves import crowd

LOOK_S = QUICK.arrival_look_s


def site(**settings: Any) -> Frontend:
    """Return one host on which two VMs contend."""
    return Frontend(hosts=1, size=HostSize(200, 8192), markets=(PAPER_MARKET,), **settings)


def limited(frontend: Frontend, vm: int) -> bool:
    """Return whether the VM's host enforces a quota."""
    return bool(frontend.limits(vm).vcpu_quota > 0)


def pass_by(frontend: Frontend, seconds: float) -> None:
    """Let time pass in steps of a second."""
    for _ in range(round(seconds)):
        frontend.clock.advance(1)


def until_it_runs(frontend: Frontend, vm: int) -> None:
    """Let time pass until the VM's guest runs."""
    for _ in range(60):
        if vm in frontend.cloud.guests.read([vm]) and frontend.state(vm) == "RUNNING":
            return
        frontend.clock.advance(1)
    raise AssertionError(frontend.state(vm))


def limits_sent(frontend: Frontend) -> Counter[int]:
    """Return the number of confirmed limit steps by VM."""
    rows = frontend.read(lambda c: journal.recent(c, journal.StepFilter(), 1_000))
    return Counter(
        row.step.vm for row in rows if row.step.kind == "limit" and row.state == "confirmed"
    )


def record_reads(frontend: Frontend) -> list[list[int]]:
    """Return a list that collects the VMs of each later reading of hosts."""
    reads: list[list[int]] = []
    hypervisors = frontend.scheduler.world.hypervisors
    real = hypervisors.read

    async def read(vms: Any, *, to_show: bool = False) -> Any:
        reads.append(sorted(vms))
        return await real(vms, to_show=to_show)

    hypervisors.read = read  # type: ignore[method-assign]
    return reads


def test_a_placed_vm_is_limited_within_seconds() -> None:
    """Afterwards its host is not read again, and the limit is not sent twice."""
    frontend = site()
    vms = [frontend.vm(), frontend.vm()]
    frontend.period()
    until_it_runs(frontend, vms[0])
    pass_by(frontend, LOOK_S + 1)
    assert all(limited(frontend, vm) for vm in vms)
    assert limits_sent(frontend) == dict.fromkeys(vms, 1)
    reads = record_reads(frontend)
    pass_by(frontend, 30)
    assert reads == []
    frontend.agree()
    frontend.close()


@pytest.mark.parametrize("away", ["suspend", "poweroff-hard"])
def test_a_vm_resumed_by_its_owner_is_limited_within_seconds(away: str) -> None:
    """The limit is the share that its bid buys."""
    frontend = site()
    other, vm = frontend.vm(), frontend.vm()
    frontend.periods(2)
    frontend.bench.ok("one.vm.action", away, vm)
    frontend.clock.advance(30)
    frontend.period()
    assert frontend.bench.vm(vm).state is not OneVmState.ACTIVE
    pass_by(frontend, 12)
    before = limits_sent(frontend)[vm]
    frontend.bench.ok("one.vm.action", "resume", vm)
    until_it_runs(frontend, vm)
    assert not limited(frontend, vm)
    pass_by(frontend, LOOK_S + 1)
    assert limited(frontend, vm)
    assert limits_sent(frontend)[vm] == before + 1
    # Equal bids have equal weights.
    assert frontend.limits(vm).cpu_shares == frontend.limits(other).cpu_shares
    frontend.agree()
    frontend.close()


@pytest.mark.parametrize("away", ["suspend", "poweroff-hard"])
def test_a_running_vm_restarted_by_its_owner_is_limited_each_time(away: str) -> None:
    """Each start within a period sets the share of that period again."""
    frontend = site()
    vms = [frontend.vm(), frontend.vm()]
    frontend.periods(2)
    frontend.period()
    wanted = frontend.limits(vms[0])
    before = limits_sent(frontend)
    for _ in range(2):
        frontend.bench.ok("one.vm.action", away, vms[0])
        pass_by(frontend, 10)
        frontend.bench.ok("one.vm.action", "resume", vms[0])
        until_it_runs(frontend, vms[0])
        pass_by(frontend, LOOK_S + 1)
        assert frontend.limits(vms[0]) == wanted
    after = limits_sent(frontend)
    assert after[vms[0]] == before[vms[0]] + 2
    assert after[vms[1]] == before[vms[1]]
    frontend.agree()
    frontend.close()


@pytest.mark.parametrize("away", ["suspend", "poweroff-hard"])
def test_a_vm_that_stops_or_boots_during_an_observation_is_limited(away: str) -> None:
    """The VM is busy in the observation, so the period itself sends it no limits."""
    frontend = site()
    vms = [frontend.vm(), frontend.vm()]
    frontend.periods(2)
    frontend.bench.ok("one.vm.action", away, vms[0])
    frontend.clock.advance(0.5)
    assert frontend.state(vms[0]) in {"SAVE_SUSPEND", "SHUTDOWN_POWEROFF"}
    frontend.period()
    assert frontend.state(vms[0]) != "RUNNING"
    pass_by(frontend, 10)
    frontend.bench.ok("one.vm.action", "resume", vms[0])
    until_it_runs(frontend, vms[0])
    pass_by(frontend, LOOK_S + 1)
    assert limited(frontend, vms[0])
    frontend.agree()
    frontend.close()


@pytest.mark.parametrize("away", ["", "poweroff-hard"])
def test_the_memory_of_a_booting_guest_is_set_within_seconds(away: str) -> None:
    """The guest boots with its full size, also after a restart; its share is smaller."""
    frontend = site()
    vms = [frontend.vm(MEMORY=8192, MERKAT_BID_MEMORY=1) for _ in range(2)]
    frontend.period()
    for vm in vms:
        until_it_runs(frontend, vm)
    pass_by(frontend, LOOK_S + 1)
    assert sum(frontend.limits(vm).memory_mib for vm in vms) <= 8192
    if away:
        frontend.periods(3)
        frontend.period()
        memory_mib = frontend.limits(vms[0]).memory_mib
        frontend.bench.ok("one.vm.action", away, vms[0])
        pass_by(frontend, 10)
        frontend.bench.ok("one.vm.action", "resume", vms[0])
        until_it_runs(frontend, vms[0])
        assert frontend.limits(vms[0]).memory_mib == 8192
        pass_by(frontend, LOOK_S + 1)
        assert frontend.limits(vms[0]).memory_mib == memory_mib < 8192
    frontend.agree()
    frontend.close()


@pytest.mark.parametrize("away", ["poweroff-hard", "suspend"])
def test_the_memory_of_vms_that_were_off_is_set_within_seconds(away: str) -> None:
    """They were off in the observation and return with their full size."""
    frontend = site()
    vms = [frontend.vm(MEMORY=6000, MERKAT_BID_MEMORY=1) for _ in range(2)]
    frontend.periods(3)
    for vm in vms:
        frontend.bench.ok("one.vm.action", away, vm)
    pass_by(frontend, 20)
    frontend.periods(2)
    frontend.period()
    for vm in vms:
        frontend.bench.ok("one.vm.action", "resume", vm)
    for vm in vms:
        until_it_runs(frontend, vm)
    pass_by(frontend, LOOK_S + 1)
    memory_mib = [frontend.limits(vm).memory_mib for vm in vms]
    assert sum(memory_mib) <= 8192
    assert min(memory_mib) > 3000  # no other VM uses the host
    frontend.agree()
    frontend.close()


def test_hosts_are_read_only_where_a_guest_started() -> None:
    """For unchanged guests a look asks the hosts only for their domains."""
    frontend = site()
    vms = [frontend.vm(), frontend.vm()]
    frontend.periods(2)
    frontend.period()
    reads = record_reads(frontend)
    pass_by(frontend, 30)
    assert reads == []
    frontend.bench.ok("one.vm.action", "poweroff-hard", vms[0])
    pass_by(frontend, 10)
    frontend.bench.ok("one.vm.action", "resume", vms[0])
    pass_by(frontend, 18)
    assert reads == [sorted(vms)]
    frontend.close()


def test_a_paused_daemon_sends_no_limits() -> None:
    """This includes the time between two periods."""
    frontend = site()
    vm = frontend.vm()
    frontend.period()
    frontend.order(Order.PAUSE)
    until_it_runs(frontend, vm)
    pass_by(frontend, 30)
    assert not limited(frontend, vm)
    frontend.close()


def test_no_host_is_read_if_the_interval_is_zero() -> None:
    """With `period.arrival_look = 0` the next period sets the limits."""
    frontend = site(rhythm=replace(QUICK, arrival_look_s=0.0))
    vm = frontend.vm()
    frontend.period()
    reads = record_reads(frontend)
    pass_by(frontend, 50)
    assert reads == []
    assert not limited(frontend, vm)
    frontend.period()
    assert limited(frontend, vm)
    frontend.close()


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_daemon_that_dies_while_it_sends_a_limit_leaves_it_to_the_next(when: str) -> None:
    """The step is given up, the next period sets the limit, and no step stays open."""
    frontend = site()
    vm = frontend.vm()
    frontend.period()
    hypervisors = frontend.scheduler.world.hypervisors
    real = hypervisors.apply

    async def apply(steps: Any) -> Any:
        if when == "after":
            await real(steps)
        raise SystemExit

    hypervisors.apply = apply  # type: ignore[method-assign]
    until_it_runs(frontend, vm)
    pass_by(frontend, LOOK_S + 1)
    assert frontend.outstanding() > 0
    frontend.start_daemon()
    pass_by(frontend, 30)
    frontend.periods(2)
    assert limited(frontend, vm)
    assert frontend.outstanding() == 0
    frontend.agree()
    frontend.close()


@pytest.mark.parametrize(("takes_s", "early_s"), [(0.0, 20.0), (3.0, 40.0)])
def test_a_stopped_guest_begins_a_period_early(takes_s: float, early_s: float) -> None:
    """Its neighbours get its share soon; after a long period the wait is longer."""
    frontend = site()
    vms = [frontend.vm(), frontend.vm()]
    frontend.periods(2)
    if takes_s:
        frontend.bench.ok(
            "embedded.fault.add",
            {"kind": "delay", "method": "one.hostpool.info", "seconds": takes_s, "count": 100},
        )
    begun: list[float] = []
    frontend.scheduler.listen(lambda announcement: begun.append(announcement.seen.started_s))
    frontend.scheduler.start()
    pass_by(frontend, takes_s + 2)
    frontend.bench.ok("one.vm.action", "poweroff-hard", vms[0])
    pass_by(frontend, 55)
    assert begun[1] - begun[0] == pytest.approx(early_s, abs=10)
    frontend.result(frontend.stopped())
    frontend.close()


def test_a_migrated_vm_has_its_new_hosts_limits_within_seconds() -> None:
    """It brings the limits of its former host, and its new neighbours have made room already."""
    frontend = crowd(157)
    frontend.world_settings = {"acting": ActingSettings(quiet_periods=1, quiet_migrations=0)}
    frontend.start_daemon()
    frontend.periods(1)
    announcements: list[Announcement] = []
    frontend.scheduler.listen(announcements.append)
    frontend.scheduler.start()
    pass_by(frontend, 20)
    moves = {step.id for step in announcements[0].decided.steps if isinstance(step, Migrate)}
    wanted = {
        step.vm: step.vcpu_quota_us
        for step in announcements[0].decided.limits.plan
        if isinstance(step, Limit) and moves & set(step.after)
    }
    assert len(announcements) == 1
    assert wanted
    assert {vm: frontend.limits(vm).vcpu_quota for vm in wanted} == wanted
    assert all(number == 2 for number in map(limits_sent(frontend).get, wanted))
    frontend.result(frontend.stopped())
    frontend.close()
