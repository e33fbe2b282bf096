"""When work is given up: not for one look, nor for none, but as soon as there is no doubt."""

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
"""To the deadline, at the start; a period is a minute."""


class Platform:
    """One VM with half of what it can use; its daemon takes whatever it is asked."""

    def __init__(self, kind: type[FullDeadline]) -> None:
        self._kind = kind
        self._given = replace(
            assignment(),
            parameters={"steps": STEPS},
            deadline_s=1_000.0 + LEFT_S,
        )
        self.gave_up: list[int] = []
        """In which periods."""
        self.period = 0
        self.restart()

    def restart(self) -> None:
        """Its controller's process, which remembers what was kept."""
        self._one = self._kind(self._given, self)

    async def ask(self, body: Any, action_id: str = "") -> Any:
        """As the daemon."""
        assert not action_id
        if isinstance(body, Remember):
            self._given = replace(self._given, memory=body.memory)
            return Stored()
        if isinstance(body, GiveUp):
            self.gave_up.append(self.period)
        return ActionOutcome(accepted=True)

    def pass_a_period(self, done: int | None, restarts: int = 0) -> None:
        """The monitor has seen so many iterations, or nothing; then its controller is restarted.

        Each time it is told of the period again.
        """
        self.period += 1
        latest = news(period=self.period, deadline_s=self._given.deadline_s)
        if done is not None:
            seen = Measured(cluster="workers", at_s=latest.at_s, values={"done": float(done)})
            asyncio.run(self._one.take(seen))
        asyncio.run(self._one.take(latest))
        for _ in range(restarts):
            self.restart()
            asyncio.run(self._one.take(latest))


@pytest.fixture(params=[FullDeadline, Patient])
def platform(request: pytest.FixtureRequest) -> Platform:
    """Of each kind that gives up."""
    return Platform(request.param)


@pytest.mark.parametrize("restarts", [0, 1, 3])
def test_what_is_far_too_slow_is_given_up_after_some_periods(
    platform: Platform, restarts: int
) -> None:
    """Four in which that is known; restarts of its controller in between change nothing."""
    for done in (0, 1, 2, 3, 4, 5, 6):
        platform.pass_a_period(done, restarts)
    first_sure = 3
    assert platform.gave_up[0] == first_sure + 3


def test_a_moment_in_which_it_stood_still_is_no_reason(platform: Platform) -> None:
    """As on a busy host; it is fast enough before and after that."""
    done = 0
    for steps in (0, 1, 1, 40, 40, 40, 40, 40, 40, 40, 40):
        done += steps
        platform.pass_a_period(done)
    assert platform.gave_up == []


def test_a_monitor_that_is_silent_is_no_reason(platform: Platform) -> None:
    """What was done since its last look may be all there was to do."""
    for done in (0, 20, 40, 60):
        platform.pass_a_period(done)
    while news(period=platform.period).at_s < 1_000.0 + LEFT_S - 120.0:
        platform.pass_a_period(None)
    assert platform.gave_up == []
