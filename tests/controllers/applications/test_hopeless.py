"""Work is given up as soon as it is certainly impossible, not after one look or none."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from controllers.applications.deadline_controllers import FullDeadline, Patient
from merkatd.protocol.bus_messages import Measured, Remember, Stored
from merkatd.protocol.platform_messages import ActionOutcome, GiveUp
from tests.bus.rig import assignment, news

STEPS = 1_000
LEFT_S = 6_000.0
"""The time to the deadline at the start; a period is a minute."""


class Platform:
    """One VM with half of its maximum; its daemon accepts every request."""

    def __init__(self, kind: type[FullDeadline]) -> None:
        self._kind = kind
        self._given = replace(
            assignment(),
            parameters={"steps": STEPS},
            deadline_s=1_000.0 + LEFT_S,
        )
        self.gave_up: list[int] = []
        """The periods in which the controller gave up."""
        self.period = 0
        self.restart()

    def restart(self) -> None:
        """Restart the controller's process with the stored memory."""
        self._controller = self._kind(self._given, self)

    async def ask(self, body: Any, action_id: str = "") -> Any:
        """Answer as the daemon does."""
        assert not action_id
        if isinstance(body, Remember):
            self._given = replace(self._given, memory=body.memory)
            return Stored()
        if isinstance(body, GiveUp):
            self.gave_up.append(self.period)
        return ActionOutcome(accepted=True)

    def pass_a_period(self, done: int | None, restarts: int = 0) -> None:
        """Report some iterations or none, then restart the controller.

        The period is reported again after each restart.
        """
        self.period += 1
        latest = news(period=self.period, deadline_s=self._given.deadline_s)
        if done is not None:
            seen = Measured(cluster="workers", at_s=latest.at_s, values={"done": float(done)})
            asyncio.run(self._controller.take(seen))
        asyncio.run(self._controller.take(latest))
        for _ in range(restarts):
            self.restart()
            asyncio.run(self._controller.take(latest))


@pytest.fixture(params=[FullDeadline, Patient])
def platform(request: pytest.FixtureRequest) -> Platform:
    """Return a platform of each kind that gives up."""
    return Platform(request.param)


@pytest.mark.parametrize("restarts", [0, 1, 3])
def test_work_that_is_far_too_slow_is_given_up_after_some_periods(
    platform: Platform, restarts: int
) -> None:
    """It is certain in four periods; restarts in between change nothing."""
    for done in (0, 1, 2, 3, 4, 5, 6):
        platform.pass_a_period(done, restarts)
    first_sure = 3
    assert platform.gave_up[0] == first_sure + 3


def test_a_brief_stop_is_no_reason_to_give_up(platform: Platform) -> None:
    """A busy host may cause it; the work is fast enough before and after."""
    done = 0
    for steps in (0, 1, 1, 40, 40, 40, 40, 40, 40, 40, 40):
        done += steps
        platform.pass_a_period(done)
    assert platform.gave_up == []


def test_a_silent_monitor_is_no_reason_to_give_up(platform: Platform) -> None:
    """The work since its last look may have completed everything."""
    for done in (0, 20, 40, 60):
        platform.pass_a_period(done)
    while news(period=platform.period).at_s < 1_000.0 + LEFT_S - 120.0:
        platform.pass_a_period(None)
    assert platform.gave_up == []
