"""The controllers of platforms that run: their news, their measurements and their actions."""

from collections.abc import Iterable, Sequence
from functools import partial
from math import ceil, inf

import numpy as np

from merkatd.base.clock import Clock
from merkatd.cluster import Decision, Floats, Ints, Snapshot, VmState
from merkatd.platforms.rules.early_starts import EarlyStarts
from merkatd.platforms.rules.lifecycle_events import Event, LifecycleEvent, PlatformState
from merkatd.protocol.platform_messages import (
    Action,
    ActionOutcome,
    Amounts,
    GiveUp,
    News,
    ProgressReport,
    SetLimit,
    VmNow,
    WorkDone,
)
from merkatd.scheduler.base.early_periods import EarlyPeriods
from simulator.market.attended_applications import (
    TASKS,
    AttendedApplication,
    assignment_of,
    market_now,
    news_of,
)
from simulator.model.simulated_cloud import RESOURCES, SimulatedCloud
from simulator.orders.patient_platform import GOING_ON, PatientPlatform
from simulator.orders.simulated_vms import Life, SimulatedVms


class PatientControllers:
    """Runs the controller of each platform while the platform runs."""

    def __init__(
        self,
        cloud: SimulatedCloud,
        clock: Clock,
        vms: SimulatedVms,
        early: EarlyPeriods,
        early_starts: EarlyStarts,
    ) -> None:
        self._cloud, self._clock, self._vms = cloud, clock, vms
        self._early, self._early_starts = early, early_starts
        self._attended: dict[int, PatientPlatform] = {}
        self._attended_s: dict[int, float] = {}
        """When the controller and the monitor of each platform began."""

    def announce(
        self, platforms: Iterable[PatientPlatform], seen: Snapshot, decision: Decision
    ) -> None:
        """Start and stop controllers after a period, and give them its news."""
        prices, now_s = decision.prices[0].tolist(), self._clock.seconds()
        market = market_now(self._cloud, prices, seen.period, now_s)
        rows = {vm: row for row, vm in enumerate(seen.vms.id.tolist())}
        runs = {each.id: each for each in platforms if each.state in GOING_ON}
        for ended in (self._attended[row] for row in self._attended.keys() - runs.keys()):
            if ended.attended is not None:
                ended.memory, ended.attended = ended.attended.memory, None
        self._attended = runs
        for platform in runs.values():
            if platform.attended is None:
                given = assignment_of(
                    platform.tenancy, self._cloud, "patient", platform.started_s, platform.memory
                )
                platform.attended = AttendedApplication(given, partial(self._act, platform))
                self._attended_s[platform.id] = now_s
                self.watch(platform)
            mine = [rows[vm] for vm in platform.vms]
            vms = [
                VmNow(vm=vm, cluster=TASKS, state=state, bid=bid, allocation=allocation)
                for vm, state, bid, allocation in zip(
                    platform.vms,
                    self._states(platform.vms, seen.vms.state[mine]),
                    _by_good(seen.vms.bid[mine]),
                    _by_good(decision.allocations[mine]),
                    strict=True,
                )
            ]
            status = platform.order_status()
            news = news_of(platform.tenancy, str(platform.state), vms, market, status)
            self._clock.callLater(0.0, self._hear, platform, platform.attended, news)

    def watch(self, platform: PatientPlatform) -> None:
        """Let the monitor of a platform see its end; call this whenever all its VMs compute.

        Monitors look again and again. Here they look once the work can be done.
        """
        if platform.attended is None or platform.done_s == inf:
            return
        now_s, every_s = self._clock.seconds(), self._cloud.monitor_s
        first_s = self._attended_s[platform.id] + PHASE * every_s
        looks = ceil((max(platform.done_s, now_s) - first_s) / every_s - _ROUNDING)
        look_s = first_s + max(looks, 0) * every_s
        self._clock.callLater(
            max(look_s - now_s, 0.0), self._look, platform, platform.attended, platform.done_s
        )

    def _look(
        self, platform: PatientPlatform, attended: AttendedApplication, done_s: float
    ) -> None:
        """Give a controller what its monitor measures, if the work is done."""
        if platform.attended is not attended or platform.done_s > done_s + _ROUNDING:
            return
        attended.take_measured(platform.measured(self._clock.seconds()))

    def _states(self, vms: Sequence[int], seen: Ints) -> list[str]:
        """Return the states of VMs as their controller sees them."""
        pending = self._vms.life[vms] == Life.PENDING
        off = seen == VmState.POWERED_OFF
        states = np.where(pending, VmState.PENDING, np.where(off, VmState.BUSY, seen)).tolist()
        return [_NAMES[state] for state in states]

    def _hear(self, platform: PatientPlatform, attended: AttendedApplication, news: News) -> None:
        """Give a controller measurements and news, and the latter again when it decides."""
        now_s = self._clock.seconds()
        if platform.attended is not attended:
            return
        if any(vm.state == "running" for vm in news.vms):
            attended.take_measured(platform.measured(now_s))
        attended.take_news(news, now_s)
        if attended.due_s < inf:
            self._clock.callLater(
                max(attended.due_s - now_s, 0.0), self._hear_late, platform, attended
            )

    def _hear_late(self, platform: PatientPlatform, attended: AttendedApplication) -> None:
        if platform.attended is attended:
            attended.take_late_news(self._clock.seconds())

    def _act(self, platform: PatientPlatform, action: Action) -> ActionOutcome:
        """Carry out an action of a controller."""
        match action:
            case SetLimit():
                platform.set_limit(action.limit)
            case ProgressReport():
                platform.report = action
            case WorkDone() | GiveUp():
                done = isinstance(action, WorkDone)
                ending = PlatformState.DONE if done else PlatformState.FAILED
                event = LifecycleEvent(event=Event.STOP, why=action.reason, ending=ending)
                if not platform.enter(event, self._clock.seconds()):
                    return ActionOutcome(accepted=False, why=f"it is {platform.state}")
            case _:
                raise TypeError(f"a patient platform's controller does not ask for {action}")
        self._early_starts.after_action(self._early, platform.id, platform.id, action)
        return ActionOutcome(accepted=True)


PHASE = 0.3
"""The time from the start of a monitor to its first look, as a part of the time between looks."""
_ROUNDING = 1e-6

_NAMES = {int(state): state.name.lower() for state in VmState}


def _by_good(rows: Floats) -> list[Amounts]:
    """Return each row as amounts by resource."""
    return [dict(zip(RESOURCES, row, strict=True)) for row in rows.tolist()]
