"""Work is done once each VM, present or away, has completed its share."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from controllers.applications.deadline_controllers import FullDeadline
from merkatd.protocol.bus_messages import Measured, Remember, Stored
from merkatd.protocol.platform_messages import ActionOutcome, MonitorTerms, SetSize, VmNow, WorkDone
from tests.bus.rig import assignment, news
from tests.controllers.applications.live import Live
from tests.controllers.applications.test_deadline import STEPS as LIVE_STEPS
from tests.controllers.applications.test_deadline import submitted
from tests.scheduler.frontend import SESSION

STEPS = 100
FULL = {"cpu": 100.0, "memory": 512.0}
AWAY = ["powered_off", "unknown", "pending", "busy"]


class Platform:
    """Two VMs with a share of the work each; their daemon accepts every request."""

    def __init__(self) -> None:
        plain = assignment(controller="deadline")
        terms = replace(plain.clusters[0], monitor=MonitorTerms(kind="steps"))
        given = replace(
            plain, clusters=(terms,), parameters={"steps": STEPS}, deadline_s=1_000_000.0
        )
        self._controller = FullDeadline(given, self)
        self.asked: list[Any] = []
        self.period = 0

    async def ask(self, body: Any, action_id: str = "") -> Any:
        """Answer as the daemon does."""
        assert not action_id
        if isinstance(body, Remember):
            return Stored()
        self.asked.append(body)
        return ActionOutcome(accepted=True)

    def pass_a_period(
        self, values: dict[str, float], first: str = "running", second: str = "running"
    ) -> None:
        """Report the VMs' states, then their monitor's values, if any."""
        self.period += 1
        vms = tuple(
            VmNow(vm=vm, cluster="workers", state=state, bid=FULL, allocation=FULL)
            for vm, state in ((101, first), (102, second))
            if state != "unmade"
        )
        latest = news(
            period=self.period, deadline_s=1e6, vms=vms, sizes={"workers": 2}, balance=1e6
        )
        if values:
            measured = Measured(cluster="workers", at_s=latest.at_s, values=values)
            asyncio.run(self._controller.take(measured))
        asyncio.run(self._controller.take(latest))

    def is_done(self) -> bool:
        """Return whether the controller reported that the work is done."""
        return any(isinstance(message, WorkDone) for message in self.asked)

    @property
    def victims(self) -> list[int]:
        """Return the VMs that had to be replaced."""
        return [
            vm for message in self.asked if isinstance(message, SetSize) for vm in message.victims
        ]


@pytest.fixture
def platform() -> Platform:
    """Return a new platform."""
    return Platform()


@pytest.fixture
def site() -> Iterator[Live]:
    """Return a site with one host of four cores."""
    live = Live(hosts=1)
    yield live
    live.close()


def made(**counts: int) -> dict[str, float]:
    """Return a monitor's values for the running VMs."""
    made_by_vm = {f"made/{name.removeprefix('vm')}": float(count) for name, count in counts.items()}
    return {"done": min(made_by_vm.values()), **made_by_vm}


@pytest.mark.parametrize("away", [*AWAY, "unmade"])
def test_a_vm_that_is_away_may_have_work_left(platform: Platform, away: str) -> None:
    """Its half of the work is incomplete."""
    platform.pass_a_period(made(vm101=50, vm102=49))
    platform.pass_a_period(made(vm101=99, vm102=50))
    for _ in range(3):
        platform.pass_a_period(made(vm101=STEPS), second=away)
    assert not platform.is_done()
    platform.pass_a_period(made(vm101=STEPS, vm102=60))
    assert not platform.is_done()
    platform.pass_a_period(made(vm101=STEPS, vm102=STEPS))
    assert platform.is_done()


@pytest.mark.parametrize("away", AWAY)
def test_without_values_by_vm_an_absent_vm_may_have_work_left(
    platform: Platform, away: str
) -> None:
    """A site's own monitor has none."""
    platform.pass_a_period({"done": 49.0})
    platform.pass_a_period({"done": float(STEPS)}, second=away)
    assert not platform.is_done()
    platform.pass_a_period({"done": float(STEPS)})
    assert platform.is_done()


@pytest.mark.parametrize("away", ["powered_off", "busy"])
def test_programs_may_power_their_vms_off_at_the_end(platform: Platform, away: str) -> None:
    """One ends sooner, and stays off longer than the usual limit."""
    platform.pass_a_period(made(vm101=90, vm102=40))
    platform.pass_a_period(made(vm101=STEPS, vm102=50))
    for count in range(51, 90, 4):
        platform.pass_a_period(made(vm102=count), first=away)
    assert not platform.is_done()
    platform.pass_a_period(made(vm102=STEPS), first=away)
    assert platform.is_done()
    assert platform.victims == []


def test_work_between_two_looks_counts_for_a_vm_that_powers_off(platform: Platform) -> None:
    """It completes ten iterations between two looks, and had 92 at the last one."""
    platform.pass_a_period(made(vm101=82, vm102=82))
    platform.pass_a_period(made(vm101=92, vm102=92))
    platform.pass_a_period(made(vm102=STEPS), first="powered_off")
    assert platform.is_done()


def test_all_vms_may_be_off_before_the_news(platform: Platform) -> None:
    """Their monitor had seen the complete work."""
    platform.pass_a_period(made(vm101=STEPS - 1, vm102=STEPS - 2))
    platform.pass_a_period(made(vm101=STEPS, vm102=STEPS), "powered_off", "powered_off")
    assert platform.is_done()


@pytest.mark.parametrize("second", ["running", "powered_off", "unknown"])
def test_a_vm_without_a_log_has_no_share(platform: Platform, second: str) -> None:
    """One log counts for both."""
    platform.pass_a_period(made(vm101=50))
    platform.pass_a_period(made(vm101=STEPS), second=second)
    assert platform.is_done()


def test_a_vm_without_an_answer_has_not_ended(platform: Platform) -> None:
    """Nor has a replacement that answers without a log."""
    ended = {"ended/101": 0.0, "exit": 0.0}
    platform.pass_a_period(made(vm101=50, vm102=50))
    platform.pass_a_period(made(vm101=60) | ended | {"absent/102": 5.0})
    platform.pass_a_period(made(vm101=60) | ended)
    assert not platform.is_done()
    platform.pass_a_period(made(vm101=60, vm102=55) | ended | {"ended/102": 0.0})
    assert platform.is_done()


def test_a_platform_waits_for_a_lost_vm(site: Live) -> None:
    """Its replacement does its share while the others wait."""
    platform = submitted(site, 6_000.0)
    site.until(platform, "running")
    site.periods(8)
    lost = max(site.vms(platform))
    site.wait(site.transport.call("one.vm.action", SESSION, "terminate-hard", lost))
    made_s = []
    for _ in range(60):
        if site.requests(platform, WorkDone):
            break
        made_s = [len(guest.log) for vm in site.vms(platform) if (guest := site.guest(vm))]
        site.periods(1)
    assert site.requests(platform, WorkDone)
    assert len(made_s) == 2
    assert min(made_s) >= LIVE_STEPS - 4
