"""Each report shows the known part of the completed work, whatever its VMs' states."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from controllers.applications.deadline_controllers import FullDeadline
from merkatd.protocol.bus_messages import Measured, Remember, Stored
from merkatd.protocol.platform_messages import ActionOutcome, ProgressReport, VmNow
from tests.bus.rig import assignment, news
from tests.controllers.applications.live import VM, Live
from tests.platforms.site import BOB

STEPS = 100
FULL, NOTHING = {"cpu": 100.0, "memory": 512.0}, {"cpu": 0.0, "memory": 0.0}


class Platform:
    """A controller of one VM that completes an iteration in a minute."""

    def __init__(self, ideal_s: float | None) -> None:
        self.reports: list[ProgressReport] = []
        self.period = 0
        given = replace(
            assignment(), parameters={"steps": STEPS}, deadline_s=100_000.0, ideal_s=ideal_s
        )
        self._controller = FullDeadline(given, self)

    async def ask(self, body: Any, action_id: str = "") -> Any:
        """Answer as the daemon does."""
        assert not action_id
        if isinstance(body, ProgressReport):
            self.reports.append(body)
        return Stored() if isinstance(body, Remember) else ActionOutcome(accepted=True)

    def pass_a_period(self, state: str, done: int | None = None) -> ProgressReport:
        """Return the report for this state of the VM."""
        self.period += 1
        got = FULL if state == "running" else NOTHING
        vm = VmNow(vm=101, cluster="workers", state=state, bid=FULL, allocation=got)
        latest = news(period=self.period, deadline_s=100_000.0, vms=(vm,), balance=1e6)
        if done is not None:
            seen = Measured(cluster="workers", at_s=latest.at_s, values={"done": float(done)})
            asyncio.run(self._controller.take(seen))
        asyncio.run(self._controller.take(latest))
        return self.reports[-1]


@pytest.mark.parametrize("ideal_s", [None, 6_000.0])
def test_the_work_is_known_while_no_vm_runs(ideal_s: float | None) -> None:
    """If the host is gone, the daemon uses the last report's remaining work."""
    platform = Platform(ideal_s)
    for done in range(1, 61):
        before = platform.pass_a_period("running", done)
    assert before.work_left_s == pytest.approx(40 * 60.0, rel=0.05)
    for _ in range(3):
        now = platform.pass_a_period("pending")
        assert now.done == pytest.approx(0.6, abs=0.01)
        assert now.work_left_s == pytest.approx(40 * 60.0, rel=0.05)
        assert now.on_track is None


def test_known_work_is_reported_before_the_pace_is_known() -> None:
    """Unknown work is not reported."""
    platform = Platform(None)
    assert platform.pass_a_period("running").done is None
    now = platform.pass_a_period("running", 30)
    assert now.done == pytest.approx(0.3)
    assert now.work_left_s is None


def test_a_platform_that_lost_its_host_is_kept() -> None:
    """Its deadline leaves time for the rest, but not for the whole work."""
    site = Live(hosts=1)
    vm = VM.format(work=1_500, steps=40)
    platform = site.submit(
        controller='[controller]\nkind = "deadline"\nparameters = { steps = 40 }',
        budget="[budget]\ncredits = 500",
        slo='[slo]\ndeadline = "2100s"\nideal_run = "1500s"\n',
        cluster=f'[[cluster]]\nname = "ranks"\nleast = 1\ninitial = 1\ntemplate = """\n{vm}"""',
    )
    site.until(platform, "running")
    crowd = [site.vm(0.0001, BOB, VCPU=4, MEMORY=1024) for _ in range(2)]
    site.periods(21)
    site.bench.ok("one.vm.action", "undeploy-hard", site.vms(platform)[0])
    site.bench.ok("one.host.status", 0, 1)
    site.periods(2)
    for rival in crowd:
        site.bench.ok("one.vm.update", rival, 'MERKAT_BID_CPU="30000"', 1)
    for _ in range(6):
        site.periods(1)
        now = site.platform(platform)
        assert now.state not in {"stopping", "failed"}, now.why
        assert (now.report or {})["done"] > 0.8
    site.close()
