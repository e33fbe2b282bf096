"""A rest of ten periods follows a resumption, whatever the news and the clock."""

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from controllers.applications.deadline_controllers import FullPerformance
from merkatd.policies.suspension import REST
from merkatd.protocol.bus_messages import Measured, Remember, Stored
from merkatd.protocol.platform_messages import ActionOutcome, SuspendPlatform, VmNow
from tests.bus.rig import assignment, news

SCARCE = {"cpu": 10.0, "memory": 51.0}
DEADLINE_S = 1_000_000.0


class Platform:
    """One VM, at prices that suspend it as soon as possible."""

    def __init__(self) -> None:
        self._given = replace(
            assignment(controller="full_performance"),
            parameters={"steps": 1_000},
            deadline_s=DEADLINE_S,
            ideal_s=6_000.0,
        )
        self.period = 0
        self.ahead_s = 0.0
        """The error of the clock on the daemon's machine."""
        self.balance = 1e6
        self.suspended: list[int] = []
        """The periods of the suspensions."""
        self.restart()

    def restart(self) -> None:
        """Restart the controller's process with the stored memory."""
        self._controller = FullPerformance(self._given, self)

    async def ask(self, body: Any, action_id: str = "") -> Any:
        """Answer as the daemon does."""
        assert not action_id
        if isinstance(body, Remember):
            memory = json.loads(json.dumps(body.memory))
            self._given = replace(self._given, memory=memory)
            return Stored()
        if isinstance(body, SuspendPlatform):
            self.suspended.append(self.period)
        return ActionOutcome(accepted=True)

    def periods(self, count: int, state: str = "running") -> None:
        """Pass and report periods in a state."""
        for _ in range(count):
            self.period += 1
            self.tell(state)

    def tell(self, state: str = "running") -> None:
        """Report the news of the present period."""
        vm = VmNow(vm=101, cluster="workers", state="running", bid=SCARCE, allocation=SCARCE)
        latest = news(
            period=self.period,
            deadline_s=DEADLINE_S,
            balance=self.balance,
            vms=(vm,),
            state=state,
        )
        latest = replace(latest, at_s=latest.at_s + self.ahead_s)
        values = {"done": float(self.period)}
        seen = Measured(cluster="workers", at_s=latest.at_s, values=values)
        asyncio.run(self._controller.take(seen))
        asyncio.run(self._controller.take(latest))


@pytest.fixture
def platform() -> Platform:
    """Return a platform that has run for a while and can't pay from now on."""
    platform = Platform()
    platform.periods(REST)
    platform.balance = 50.0
    return platform


def test_a_platform_never_suspended_needs_no_rest(platform: Platform) -> None:
    """Two expensive periods in a row are enough."""
    platform.periods(2)
    assert platform.suspended


@pytest.mark.parametrize("ahead_s", [-4 * 3_600.0, 4 * 3_600.0])
def test_a_clock_change_leaves_the_rest_unchanged(platform: Platform, ahead_s: float) -> None:
    """The rest is counted in periods."""
    platform.periods(1, "resuming")
    resumed = platform.period
    platform.periods(2)
    platform.ahead_s = ahead_s
    platform.periods(REST + 2)
    assert resumed + REST <= platform.suspended[0] <= resumed + REST + 1


@pytest.mark.parametrize("away", [2, 30])
def test_a_process_that_missed_periods_assumes_a_resumption(platform: Platform, away: int) -> None:
    """It stops with the suspension and may start after the resumption."""
    platform.period += away - 1
    platform.restart()
    platform.periods(1)
    began = platform.period
    platform.periods(REST + 1)
    assert began + REST <= platform.suspended[0] <= began + REST + 1


def test_a_platform_rests_after_a_suspension_it_heard_of(platform: Platform) -> None:
    """The news in between may be missing."""
    platform.periods(1, "suspending")
    platform.periods(REST)
    assert not platform.suspended
    platform.periods(2)
    assert platform.suspended


@pytest.mark.parametrize("again", [False, True])
def test_a_restarted_process_rests_no_longer(platform: Platform, again: bool) -> None:
    """It gets the last period once more, or the next one."""
    platform.restart()
    if again:
        platform.tell()
    platform.periods(2)
    assert platform.suspended
