"""VMs that begin to run between two periods get their limits within seconds, each once."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from merkatd.database.scheduler import journal
from merkatd.database.scheduler.order_store import Order
from merkatd.embedded.model.settings import HostSize
from merkatd.embedded.model.vm_states import OneVmState
from tests.scheduler.frontend import PAPER_MARKET, QUICK, Frontend

LOOK_S = QUICK.arrival_look_s


def site(**settings: Any) -> Frontend:
    """One host, on which two VMs contend."""
    return Frontend(hosts=1, size=HostSize(200, 8192), markets=(PAPER_MARKET,), **settings)


def limited(frontend: Frontend, vm: int) -> bool:
    """Whether the VM's host enforces a quota."""
    return bool(frontend.limits(vm).vcpu_quota > 0)


def pass_by(frontend: Frontend, seconds: float) -> None:
    """In steps of a second."""
    for _ in range(round(seconds)):
        frontend.clock.advance(1)


def until_it_runs(frontend: Frontend, vm: int) -> None:
    """Let time pass till the VM's guest runs."""
    for _ in range(60):
        if vm in frontend.cloud.guests.read([vm]) and frontend.state(vm) == "RUNNING":
            return
        frontend.clock.advance(1)
    raise AssertionError(frontend.state(vm))


def limits_sent(frontend: Frontend) -> Counter[int]:
    """How many limit steps are confirmed, by VM."""
    rows = frontend.read(lambda c: journal.recent(c, journal.StepFilter(), 1_000))
    return Counter(
        row.step.vm for row in rows if row.step.kind == "limit" and row.state == "confirmed"
    )


def reads(frontend: Frontend) -> list[list[int]]:
    """Fill this list with the VMs of each reading of hosts from now on."""
    found: list[list[int]] = []
    hypervisors = frontend.scheduler.world.hypervisors
    real = hypervisors.read

    async def read(vms: Any) -> Any:
        found.append(sorted(vms))
        return await real(vms)

    hypervisors.read = read  # type: ignore[method-assign]
    return found


def test_a_vm_that_is_placed_is_limited_within_seconds() -> None:
    """And its host is read no more once it is, nor told twice."""
    frontend = site()
    vms = [frontend.vm(), frontend.vm()]
    frontend.period()
    until_it_runs(frontend, vms[0])
    pass_by(frontend, LOOK_S + 1)
    assert all(limited(frontend, vm) for vm in vms)
    assert limits_sent(frontend) == dict.fromkeys(vms, 1)
    found = reads(frontend)
    pass_by(frontend, 30)
    assert found == []
    frontend.agree()
    frontend.close()


@pytest.mark.parametrize("away", ["suspend", "poweroff-hard"])
def test_a_vm_that_its_owner_resumes_is_limited_within_seconds(away: str) -> None:
    """To what its bid buys."""
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
    # It bids as much as its neighbour, so it weighs as much.
    assert frontend.limits(vm).cpu_shares == frontend.limits(other).cpu_shares
    frontend.agree()
    frontend.close()


@pytest.mark.parametrize("away", ["suspend", "poweroff-hard"])
def test_a_running_vm_that_its_owner_starts_anew_is_limited_each_time(away: str) -> None:
    """To the share that the period gave it, as often as it begins to run in a period."""
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
def test_a_vm_that_is_turned_off_or_boots_while_a_period_looks_is_limited(away: str) -> None:
    """It is busy then, and gets no limits from that period itself."""
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
def test_the_memory_of_a_guest_that_boots_is_told_within_seconds(away: str) -> None:
    """It boots with all of its size, also where its owner starts it anew; its share is less."""
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
        told = frontend.limits(vms[0]).memory_mib
        frontend.bench.ok("one.vm.action", away, vms[0])
        pass_by(frontend, 10)
        frontend.bench.ok("one.vm.action", "resume", vms[0])
        until_it_runs(frontend, vms[0])
        assert frontend.limits(vms[0]).memory_mib == 8192
        pass_by(frontend, LOOK_S + 1)
        assert frontend.limits(vms[0]).memory_mib == told < 8192
    frontend.agree()
    frontend.close()


@pytest.mark.parametrize("away", ["poweroff-hard", "suspend"])
def test_the_memory_of_vms_that_were_off_is_told_within_seconds(away: str) -> None:
    """They were off when the period looked, and come back with all of their size."""
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
    told = [frontend.limits(vm).memory_mib for vm in vms]
    assert sum(told) <= 8192
    assert min(told) > 3000  # the host is theirs alone
    frontend.agree()
    frontend.close()


def test_hosts_are_read_only_where_a_guest_began_to_run() -> None:
    """A look at guests that all go on asks hosts for their domains, and nothing else."""
    frontend = site()
    vms = [frontend.vm(), frontend.vm()]
    frontend.periods(2)
    frontend.period()
    found = reads(frontend)
    pass_by(frontend, 30)
    assert found == []
    frontend.bench.ok("one.vm.action", "poweroff-hard", vms[0])
    pass_by(frontend, 10)
    frontend.bench.ok("one.vm.action", "resume", vms[0])
    pass_by(frontend, 18)
    assert found == [sorted(vms)]
    frontend.close()


def test_a_paused_daemon_tells_hosts_nothing() -> None:
    """Also between two periods."""
    frontend = site()
    vm = frontend.vm()
    frontend.period()
    frontend.order(Order.PAUSE)
    until_it_runs(frontend, vm)
    pass_by(frontend, 30)
    assert not limited(frontend, vm)
    frontend.close()


def test_nothing_is_read_where_the_interval_is_none() -> None:
    """`period.arrival_look = 0`: the next period sets the limits."""
    frontend = site(rhythm=replace(QUICK, arrival_look_s=0.0))
    vm = frontend.vm()
    frontend.period()
    found = reads(frontend)
    pass_by(frontend, 50)
    assert found == []
    assert not limited(frontend, vm)
    frontend.period()
    assert limited(frontend, vm)
    frontend.close()


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_daemon_that_dies_while_it_tells_a_host_leaves_it_to_the_next(when: str) -> None:
    """The step is given up, the limit is set by the next period, and nothing is left open."""
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
def test_a_guest_that_is_gone_begins_a_period_early_but_no_cloud_does_nothing_else(
    takes_s: float, early_s: float
) -> None:
    """Its neighbours have its part soon; after a period that took long it is longer until then."""
    frontend = site()
    vms = [frontend.vm(), frontend.vm()]
    frontend.periods(2)
    if takes_s:
        frontend.bench.ok(
            "embedded.fault.add",
            {"kind": "delay", "method": "one.hostpool.info", "seconds": takes_s, "count": 100},
        )
    begun: list[float] = []
    frontend.scheduler.listen(lambda told: begun.append(told.seen.started_s))
    frontend.scheduler.start()
    pass_by(frontend, takes_s + 2)
    frontend.bench.ok("one.vm.action", "poweroff-hard", vms[0])
    pass_by(frontend, 55)
    assert begun[1] - begun[0] == pytest.approx(early_s, abs=10)
    frontend.result(frontend.stopped())
    frontend.close()
