"""A VM that must end but still exists delays no replacement of other VMs."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from controllers.applications.deadline_controllers import FullDeadline
from controllers.monitors.guest_access import running, vms_of_cluster
from merkatd.protocol.bus_messages import Latest, LatestRequest, Measured, Remember, Stored
from merkatd.protocol.platform_messages import (
    ActionOutcome,
    MonitorTerms,
    News,
    PlatformStatus,
    ProgressReport,
    SetSize,
    VmNow,
)
from tests.bus.rig import assignment, market, news

FULL, NOTHING = {"cpu": 100.0, "memory": 512.0}, {"cpu": 0.0, "memory": 0.0}


class Platform:
    """Four VMs in a cluster; an ending VM stays until the end of the test."""

    def __init__(self, **parameters: float) -> None:
        plain = assignment()
        terms = replace(plain.clusters[0], monitor=MonitorTerms(kind="steps"))
        given = replace(
            plain,
            clusters=(terms,),
            parameters={"steps": 100, **parameters},
            deadline_s=1_000_000.0,
        )
        self._controller = FullDeadline(given, self)
        self.orders: list[tuple[int, ...]] = []
        self.reports: list[ProgressReport] = []
        self.period = 0
        self.leaving: set[int] = set()
        self.off: set[int] = set()
        self.unknown: set[int] = set()
        self.clock_off_s = 0.0
        self.absent: dict[int, float] = {}

    async def ask(self, body: Any, action_id: str = "") -> Any:
        """Answer as the daemon does."""
        assert not action_id
        if isinstance(body, SetSize):
            self.orders.append(body.victims)
            self.leaving.update(body.victims)
        if isinstance(body, ProgressReport):
            self.reports.append(body)
        return Stored() if isinstance(body, Remember) else ActionOutcome(accepted=True)

    def news(self) -> News:
        """Return the news; an ending VM has no allocation."""
        vms = tuple(
            VmNow(
                vm=vm,
                cluster="workers",
                state=self._state(vm),
                bid=FULL,
                allocation=NOTHING if vm in self.leaving else FULL,
                leaving=vm in self.leaving,
            )
            for vm in range(101, 105 + len(self.leaving))
        )
        latest = news(period=self.period, balance=1e5, vms=vms, sizes={"workers": 4})
        return replace(latest, at_s=latest.at_s + self.clock_off_s)

    def _state(self, vm: int) -> str:
        if vm in self.unknown:
            return "unknown"
        return "powered_off" if vm in self.off else "running"

    def periods(self, count: int) -> None:
        """Complete an iteration in each period."""
        for _ in range(count):
            self.period += 1
            latest = self.news()
            values = {f"absent/{vm}": seconds for vm, seconds in self.absent.items()}
            values["done"] = float(self.period)
            seen = Measured(cluster="workers", at_s=latest.at_s, values=values)
            asyncio.run(self._controller.take(seen))
            asyncio.run(self._controller.take(latest))


@pytest.fixture
def platform() -> Platform:
    """Return a new platform."""
    return Platform()


def test_silent_vms_are_replaced_beside_one_that_cannot_end(
    platform: Platform,
) -> None:
    """Each is named once."""
    platform.absent = {101: 1_000.0}
    platform.periods(3)
    platform.absent = {101: 2_000.0, 102: 400.0, 103: 300.0, 104: 299.0}
    platform.periods(3)
    assert platform.orders == [(101,), (102, 103)]


def test_powered_off_vms_are_replaced_beside_one_that_cannot_end(
    platform: Platform,
) -> None:
    """Each is named once."""
    platform.off = {101}
    platform.periods(4)
    platform.off = {101, 102, 103}
    platform.periods(4)
    assert platform.orders == [(101,), (102, 103)]


def test_an_ending_vm_does_not_affect_the_pace(platform: Platform) -> None:
    """Its allocation or lack of one doesn't count."""
    platform.leaving = {101}
    platform.periods(5)
    last = platform.reports[-1]
    assert last.performance == pytest.approx(60.0)


def test_monitors_ignore_an_ending_vm(platform: Platform) -> None:
    """Its log would be the slowest part until it is gone."""
    platform.leaving = {101, 103}

    class Daemon:
        """Answer which VMs run."""

        async def ask(self, body: Any, action_id: str = "") -> Any:
            """Answer as the hub does."""
            assert not action_id
            assert isinstance(body, LatestRequest)
            latest = platform.news()
            own = {name: getattr(latest, name) for name in PlatformStatus.__dataclass_fields__}
            return Latest(market=market(), standing=PlatformStatus(**own), published=1, priced=1)

    named = asyncio.run(vms_of_cluster(Daemon(), "workers"))
    assert sorted(running(named or {})) == [102, 104, 105, 106]


def test_a_clock_change_makes_no_vm_off_for_long() -> None:
    """It may be on again soon: at most two periods count as passed."""
    platform = Platform(off_limit_s=600.0)
    platform.off = {101}
    platform.periods(2)
    platform.clock_off_s = 86_400.0
    platform.periods(2)
    platform.clock_off_s = -86_400.0
    platform.periods(9)
    assert platform.orders == []
    platform.periods(3)
    assert platform.orders == [(101,)]
