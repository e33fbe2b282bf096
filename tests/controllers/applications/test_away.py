"""While a VM is away its application stops or continues without it; its pace stays correct."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from controllers.applications.deadline_controllers import FullDeadline, Patient
from merkatd.protocol.bus_messages import Measured, Remember, Stored
from merkatd.protocol.platform_messages import ActionOutcome, GiveUp, ProgressReport, SetBids, VmNow
from tests.bus.rig import assignment, news

STEPS = 100
STEP_S = 60.0
FULL, NOTHING = {"cpu": 100.0, "memory": 512.0}, {"cpu": 0.0, "memory": 0.0}
BID = {"cpu": 2.0, "memory": 2.0}
BEGIN = 15
"""The iterations before a VM goes away."""
KINDS = [FullDeadline, Patient]


class Platform:
    """Two VMs with all they can use; together they complete an iteration in each period."""

    def __init__(self, kind: type[FullDeadline], left_s: float) -> None:
        self._deadline_s = 1_000.0 + STEP_S + left_s
        given = replace(assignment(), parameters={"steps": STEPS}, deadline_s=self._deadline_s)
        self._controller = kind(given, self)
        self.asked: list[Any] = []
        self.period = 0
        self.done = 0

    async def ask(self, body: Any, action_id: str = "") -> Any:
        """Answer as the daemon does."""
        assert not action_id
        if isinstance(body, Remember):
            return Stored()
        self.asked.append(body)
        return ActionOutcome(accepted=True)

    def pass_a_period(self, steps: int = 1, second: str = "running") -> None:
        """Complete some iterations, then report the second VM's state."""
        self.period += 1
        self.done += steps
        states = {101: "running", 102: second}
        vms = tuple(
            VmNow(
                vm=vm,
                cluster="workers",
                state=state,
                bid=BID,
                allocation=FULL if state == "running" else NOTHING,
            )
            for vm, state in states.items()
        )
        latest = news(
            period=self.period,
            deadline_s=self._deadline_s,
            balance=1e5,
            vms=vms,
            sizes={"workers": 2},
        )
        values = {"done": float(self.done)}
        seen = Measured(cluster="workers", at_s=latest.at_s, values=values)
        asyncio.run(self._controller.take(seen))
        asyncio.run(self._controller.take(latest))

    def requests(self, kind: type) -> list[Any]:
        """Return the controller's requests of one kind."""
        return [message for message in self.asked if isinstance(message, kind)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("away", ["pending", "busy", "powered_off"])
@pytest.mark.parametrize("periods", [5, 10, 60])
def test_time_with_a_vm_away_is_no_part_of_an_iteration(
    kind: type[FullDeadline], away: str, periods: int
) -> None:
    """Half of the remaining time is enough, so the controller continues."""
    platform = Platform(kind, 2 * STEPS * STEP_S + periods * STEP_S)
    for _ in range(BEGIN):
        platform.pass_a_period()
    for _ in range(periods):
        platform.pass_a_period(0, away)
    for _ in range(12):
        platform.pass_a_period()
        last = platform.requests(ProgressReport)[-1]
        assert last.work_left_s == pytest.approx((STEPS - platform.done) * STEP_S, rel=0.1)
    assert last.performance == pytest.approx(STEP_S, rel=0.1)
    assert not platform.requests(GiveUp)


@pytest.mark.parametrize("kind", KINDS)
def test_a_deadline_that_became_impossible_is_given_up(kind: type[FullDeadline]) -> None:
    """The lost time is not recovered."""
    platform = Platform(kind, STEPS * STEP_S + 10 * STEP_S)
    for _ in range(BEGIN):
        platform.pass_a_period()
    for _ in range(40):
        platform.pass_a_period(0, "pending")
    assert platform.requests(GiveUp)


def test_the_tenant_reads_that_a_vm_is_away() -> None:
    """The report shows the progress of the work too."""
    platform = Platform(FullDeadline, 2 * STEPS * STEP_S)
    for _ in range(BEGIN):
        platform.pass_a_period()
    assert "not all of its VMs run" not in platform.requests(ProgressReport)[-1].text
    platform.pass_a_period(0, "pending")
    text = platform.requests(ProgressReport)[-1].text
    assert text.startswith("15 of 100 iterations, 1 min each")
    assert text.endswith("; not all of its VMs run")


def test_iterations_without_the_missing_vm_count() -> None:
    """An application that continues with fewer VMs has a pace as well."""
    platform = Platform(FullDeadline, 4 * STEPS * STEP_S)
    for period in range(20):
        platform.pass_a_period(period % 2, "pending")
    last = platform.requests(ProgressReport)[-1]
    assert last.performance == pytest.approx(2 * STEP_S, rel=0.1)
    assert last.work_left_s == pytest.approx((STEPS - platform.done) * 2 * STEP_S, rel=0.1)
    for _ in range(20):
        platform.pass_a_period()
    last = platform.requests(ProgressReport)[-1]
    assert last.performance == pytest.approx(STEP_S, rel=0.1)
    assert not platform.requests(GiveUp)


def test_a_vm_that_waits_for_a_host_bids_more() -> None:
    """The others' pace would be enough, but no iteration completes without it."""
    platform = Platform(FullDeadline, 4 * STEPS * STEP_S)
    for _ in range(BEGIN):
        platform.pass_a_period()
    platform.pass_a_period(0, "pending")
    waits = platform.requests(SetBids)[-1].bids[102]
    assert waits["cpu"] > BID["cpu"]
