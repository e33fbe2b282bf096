"""Calls without an answer do not delay other calls."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from twisted.internet.defer import Deferred, ensureDeferred

from merkatd.base.deferreds import wait_seconds
from merkatd.cluster import Step, Suspend
from merkatd.database.scheduler import journal
from merkatd.embedded.machines.faults import Fault, FaultKind
from merkatd.embedded.model.settings import HostSize
from merkatd.scheduler.base.settings import Rhythm
from tests.scheduler.frontend import Frontend

HOSTS = 24
IN_FLIGHT = 16


class Counted:
    """A transport that counts the calls in flight for each method."""

    def __init__(self, transport: Any) -> None:
        self._transport = transport
        self.most: dict[str, int] = {}
        self._now: dict[str, int] = {}

    async def call(self, method: str, *arguments: Any) -> Any:
        """Pass the call on and count it."""
        now = self._now[method] = self._now.get(method, 0) + 1
        self.most[method] = max(self.most.get(method, 0), now)
        try:
            return await self._transport.call(method, *arguments)
        finally:
            self._now[method] -= 1


@pytest.fixture
def frontend() -> Any:
    """Return one host for each VM, so that limits per host delay no call."""
    made = Frontend(HOSTS, HostSize(200, 2048), rhythm=Rhythm(in_flight=IN_FLIGHT))
    counted = Counted(made.transport)
    made.transport = counted  # type: ignore[assignment]  # it has the same `call`
    made.start_daemon()
    yield made, counted
    made.close()


def begin(frontend: Frontend) -> Deferred[Any]:
    """Start a period; all reads and immediate answers are already complete."""
    return ensureDeferred(frontend.scheduler.period())


def running(frontend: Frontend, vms: list[int]) -> int:
    """Return how many of these VMs have a host."""
    return sum(bool(frontend.bench.vm(vm).history) for vm in vms)


def propose(steps: Sequence[Step]) -> Any:
    """Return a function that proposes these steps to the period."""

    async def proposals(_database: object, seen: Any) -> Sequence[Step]:
        return [replace(step, period=seen.period) for step in steps]

    return proposals


def test_hanging_deploys_delay_no_other_deploy(frontend: tuple[Frontend, Counted]) -> None:
    """Eight of 24 hang; the other sixteen finish before any of the eight is given up."""
    site, _ = frontend
    vms = [site.vm() for _ in range(HOSTS)]
    site.cloud.faults.add(Fault(FaultKind.HANG, "one.vm.deploy", count=8))
    period = begin(site)
    site.clock.advance(1.0)
    assert running(site, vms) == HOSTS - 8
    site.result(period)
    site.result(period)


def test_a_deploy_that_is_still_checked_is_not_decided_again(
    frontend: tuple[Frontend, Counted],
) -> None:
    """Its check takes longer than a period: until it ends, the VM has its place on that host."""
    site, _ = frontend
    vm = site.vm()

    async def slow(_host: int, _known: object, _since_s: float) -> None:
        await wait_seconds(site.clock, 70.0)

    world = site.scheduler.world
    site.scheduler.world = replace(world, why_not_on=slow)
    site.period()
    site.scheduler.world = world
    site.clock.advance(30.0)
    site.period()
    assert site.state(vm) == "PENDING"
    site.clock.advance(60.0)
    site.periods(2)
    steps = site.read(lambda c: journal.recent(c, journal.StepFilter(vm=vm, kind="deploy")))
    assert [(row.state, row.step.host) for row in steps] == [("confirmed", site.host_of(vm))]


def test_as_many_calls_are_in_flight_as_configured(
    frontend: tuple[Frontend, Counted],
) -> None:
    """`period.in_flight` is the bound and is reached; reads and messages don't count."""
    site, counted = frontend
    vms = [site.vm() for _ in range(HOSTS)]
    site.cloud.faults.add(Fault(FaultKind.HANG, "one.vm.deploy"))
    period = begin(site)
    site.clock.advance(1.0)
    assert counted.most["one.vm.deploy"] == IN_FLIGHT
    answers: list[object] = []
    ensureDeferred(site.client.vm(vms[0])).addBoth(answers.append)
    ensureDeferred(site.client.append(vms[0], "A=1")).addBoth(answers.append)
    site.clock.advance(1.0)
    assert len(answers) == 2
    assert isinstance(answers[0], str)
    site.result(period)
    site.result(period)


def test_steps_of_vms_on_different_hosts_use_separate_turns(
    frontend: tuple[Frontend, Counted],
) -> None:
    """Terminations name no host; two that hang delay no VM on another host."""
    site, _ = frontend
    owner = site.user("ann")
    vms = [site.vm(owner=owner) for _ in range(8)]
    site.periods(2)
    steps = [Suspend(period=99, vm=vm, reason="a test") for vm in vms]
    for vm in vms[:2]:
        site.cloud.faults.add(Fault(FaultKind.HANG, "one.vm.action", vm=vm))
    site.scheduler.world = replace(site.scheduler.world, proposals=propose(steps))
    period = begin(site)
    site.clock.pump([0.1] * 20)
    assert [vm for vm in vms if site.state(vm) == "RUNNING"] == vms[:2]
    site.result(period)
    site.result(period)
