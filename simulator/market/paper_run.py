"""A run of the market as in the paper: applications bid by Algorithm 2, and no order interferes.

Everything that decides is the daemon's own: the strategy and the price, the rules by which
platforms start, suspend and resume (`merkatd/platforms/rules/`), the controllers, the timer of
periods, and what starts a period early. Only the clock, the guests and the operations of the cloud
are the simulation's. A period takes no time. Its news reach the controllers at once, and their
actions count from the next period on.

The paper's simulation knows no difference between an application and its platform: a platform ends
with its work. Bids and charges count in full, as in the paper.
"""

from collections.abc import Callable, Sequence
from math import inf, nan

import numpy as np

from merkatd.cluster import Ints, Snapshot, VmState
from merkatd.platforms.rules.awaited_starts import WAITS, Awaited, start_outlook, times_ahead
from merkatd.platforms.rules.early_starts import EarlyStarts
from merkatd.platforms.rules.lifecycle_events import (
    ATTENDED,
    ENDS,
    UP_OR_COMING,
    Event,
    LifecycleEvent,
    PlatformState,
    leads_to,
    next_event,
)
from merkatd.protocol.platform_messages import (
    Action,
    ActionOutcome,
    GiveUp,
    News,
    ProgressReport,
    SetBids,
    SuspendPlatform,
    WorkDone,
)
from merkatd.scheduler.base.early_periods import EVENT_S, GATHER_S, AwaitedTime, EarlyPeriods
from merkatd.scheduler.base.settings import Rhythm
from merkatd.scheduler.timer import PeriodTimer
from simulator.kernel.event_queue import EventKind
from simulator.market.attended_applications import (
    AttendedApplication,
    assignment_of,
    market_now,
    measured_of,
    news_of,
    vms_now,
)
from simulator.market.market_run import DONE, MarketRun, OperationCounts, check_sizes
from simulator.market.paper_market import PaperMarket
from simulator.market.simulated_platforms import SimulatedPlatform
from simulator.market.tenancy import MICRO, Tenancy
from simulator.market.virtual_clock import VirtualCall, VirtualClock
from simulator.model.simulated_cloud import SimulatedCloud
from simulator.workloads.job_applications import Application, ApplicationOutcome

_ABSENT = int(VmState.ABSENT)


def simulate_paper(
    applications: Sequence[Application], cloud: SimulatedCloud, seed: int
) -> MarketRun:
    """Run the applications, in order of submission, to the end of the last."""
    check_sizes(applications, cloud)
    return _PaperRun(applications, cloud, seed).to_the_end()


class _PaperRun:
    def __init__(
        self, applications: Sequence[Application], cloud: SimulatedCloud, seed: int
    ) -> None:
        self._cloud = cloud
        sizes = np.cumsum([0, *(application.tasks for application in applications)])
        self._tenancies = [
            Tenancy(row, application, int(sizes[row]), application.run_s, 0)
            for row, application in enumerate(applications)
        ]
        self._done = dict.fromkeys(range(len(applications)), 0.0)
        self._live: dict[int, SimulatedPlatform] = {}
        self._arrived = 0
        self._clock = VirtualClock(0.0)
        rhythm = Rhythm(interval_s=cloud.period_s, least_interval_s=cloud.least_interval_s)
        self._market = PaperMarket(cloud, rhythm, seed)
        self._timer = PeriodTimer(self._clock, rhythm, self._guarded)
        self._early = EarlyPeriods()
        self._early.bind(self._clock, self._timer, lambda: True)
        self._starts = EarlyStarts()
        self._worked_s = self._reviewed_s = 0.0
        self._event_s = nan
        """The awaited time of the next event of an application."""
        self._event: VirtualCall | None = None
        self._freed: set[int] = set()
        """The owners of VMs that have ended since the last period."""
        self._gathers = False
        """Whether an event in the cloud is about to wake the timer."""
        self._counts = OperationCounts()
        self._failure: Exception | None = None

    def to_the_end(self) -> MarketRun:
        """Run until all applications have ended, and return the results."""
        self._timer.start()
        while self._live or self._arrived < len(self._tenancies):
            self._await_event()
            self._clock.advance_to_next()  # there is always the next period
            if self._failure is not None:
                raise self._failure
        return MarketRun(
            tuple(
                ApplicationOutcome(tenancy.application, tenancy.end_s, self._done[tenancy.row])
                for tenancy in self._tenancies
            ),
            self._counts,
            self._clock.seconds(),
            tuple(self._market.prices),
            tuple(tenancy.spent / MICRO for tenancy in self._tenancies),
        )

    def _await_event(self) -> None:
        """Expect the next event of an application, and no other one."""
        event_s = self._next_s()
        if event_s == self._event_s:
            return
        if self._event is not None:
            self._event.cancel()
        self._event_s, self._event = event_s, None
        if event_s < inf:
            self._event = self._clock.call_at(event_s, self._happen, EventKind.VM_ENDS)

    def _happen(self) -> None:
        self._event_s = nan
        self._advance()
        self._submit()

    def _next_s(self) -> float:
        """Return the next event of an application: its arrival, or something in its VMs."""
        event_s = min((each.next_s(self._worked_s) for each in self._live.values()), default=inf)
        if self._arrived < len(self._tenancies):
            event_s = min(event_s, self._tenancies[self._arrived].application.submit_s)
        return event_s

    # -- guests and operations ----------------------------------------------------------------

    def _advance(self) -> None:
        """Advance all guests and operations to this time."""
        since_s, now_s = self._worked_s, self._clock.seconds()
        self._worked_s = now_s
        for platform in list(self._live.values()):
            tenancy = platform.tenancy
            end_s = tenancy.finishes_s(since_s)
            ends = end_s <= now_s + DONE
            platform.advance(since_s, min(now_s, end_s), self._cloud.period_s)
            if ends:
                tenancy.left_s, tenancy.end_s = 0.0, end_s
            if not platform.is_due and (ends or now_s >= tenancy.application.due_s):
                platform.is_due = True
                self._done[tenancy.row] = 1.0 - tenancy.left_s / tenancy.application.run_s
            if ends:
                self._end(platform)
                continue
            if platform.end_operations(now_s):
                self._refresh(platform)
                self._note_event()

    def _submit(self) -> None:
        """Submit the platforms of applications that arrive now; each call wakes the timer."""
        while self._arrived < len(self._tenancies):
            tenancy = self._tenancies[self._arrived]
            if tenancy.application.submit_s > self._clock.seconds():
                break
            tenancy.balance = tenancy.initial
            self._live[tenancy.row] = SimulatedPlatform(tenancy)
            self._arrived += 1
            self._early.want(tenancy.row)

    def _end(self, platform: SimulatedPlatform) -> None:
        """End an application and its VMs."""
        platform.pay()
        tenancy = platform.tenancy
        if not platform.is_due:
            self._done[tenancy.row] = 1.0 - tenancy.left_s / tenancy.application.run_s
        self._starts.forget(tenancy.row)
        del self._live[tenancy.row]
        if (platform.vm_state != _ABSENT).any():
            self._freed.add(tenancy.row)
            self._note_event()

    def _note_event(self) -> None:
        """Wake the timer because of an event in OpenNebula."""
        if not self._gathers:
            self._gathers = True
            self._clock.callLater(GATHER_S, self._wake)

    def _wake(self) -> None:
        self._gathers = False
        self._timer.wake(EVENT_S)

    def _refresh(self, platform: SimulatedPlatform) -> None:
        """Compute how fast an application works, and what it costs."""
        platform.set_speed(self._cloud)
        platform.cost = self._market.cost(platform)

    # -- periods ------------------------------------------------------------------------------

    async def _guarded(self) -> None:
        """Run a period; the timer would only log its failure."""
        try:
            self._period()
        except Exception as error:
            self._failure = error
            raise

    def _period(self) -> None:
        """Charge, review, decide, act and announce."""
        self._early.forget()
        self._advance()
        now_s, freed = self._clock.seconds(), frozenset(self._freed)
        self._reviewed_s = now_s
        self._freed.clear()
        if not self._live and self._market.price is not None:
            return
        self._counts.periods += 1
        offer = self._market.offer(now_s)
        for platform in list(self._live.values()):
            platform.pay()
            platform.tenancy.renew(now_s, self._cloud.renewal_s)
            event = next_event(platform.facts(platform.terms(self._cloud)), offer)
            if event is not None:
                self._record(platform, event)
            self._change_vms(platform, now_s)
        platforms = list(self._live.values())
        snapshot = self._market.decide(platforms, self._counts, now_s)
        for platform in platforms:
            self._refresh(platform)
            if platform.state in UP_OR_COMING and (platform.vm_state == _ABSENT).any():
                platform.create(self._market.reference_prices(), self._cloud, now_s)
                self._note_event()
        self._announce(platforms, snapshot, now_s)
        self._wait_for_platforms(freed)

    def _record(self, platform: SimulatedPlatform, event: LifecycleEvent) -> bool:
        """Record an event, and return whether the platform's state changes."""
        state = leads_to(platform.state, event.event, event.ending)
        if state is None or state is platform.state:
            return False
        platform.state, platform.since_s = state, self._clock.seconds()
        return True

    def _change_vms(self, platform: SimulatedPlatform, now_s: float) -> None:
        """Do to a platform's VMs what its state demands, except for creating them."""
        if platform.state is PlatformState.STOPPING or platform.state in ENDS:
            self._end(platform)
        elif platform.state in UP_OR_COMING:
            resumed = platform.resume(self._cloud, now_s)
            self._counts.vm_resumes += resumed
            self._counts.resumes += resumed > 0
        else:
            saved = platform.suspend(self._cloud, now_s)
            self._counts.vm_suspensions += saved
            self._counts.suspensions += saved > 0

    # -- controllers --------------------------------------------------------------------------

    def _announce(
        self, platforms: Sequence[SimulatedPlatform], snapshot: Snapshot, now_s: float
    ) -> None:
        """Start and stop controllers, and give them the news of the period."""
        price = self._market.price
        prices = [] if price is None else price.tolist()
        market = market_now(self._cloud, prices, self._counts.periods, now_s)
        first = 0
        for platform in platforms:
            rows = slice(first, first + len(platform.vm_state))
            first = rows.stop
            if platform.state not in ATTENDED:
                if platform.attended is not None:
                    platform.memory, platform.attended = platform.attended.memory, None
                    self._starts.forget(platform.tenancy.row)
                continue
            tenancy, state = platform.tenancy, snapshot.vms.state[rows]
            if platform.attended is None:
                assignment = assignment_of(
                    tenancy, self._cloud, platform.kind, platform.since_s, platform.memory
                )
                platform.attended = AttendedApplication(assignment, self._acting(platform))
            there = np.flatnonzero(state != _ABSENT)

            def news(tasks: Ints, of: SimulatedPlatform = platform, rows: slice = rows) -> News:
                states, bids = snapshot.vms.state[rows], snapshot.vms.bid[rows]
                vms = vms_now(of.tenancy, tasks, states[tasks], bids[tasks], of.given[tasks])
                return news_of(of.tenancy, str(of.state), vms, market)

            # News that are not due need no list of all VMs. They never come late, either: the next
            # period follows within an interval.
            if platform.attended.is_due(news(there[:1])):
                # A monitor looks three times in an interval; its last look counts.
                platform.attended.take_measured(measured_of(tenancy, now_s))
                platform.attended.take_news(news(there), now_s)

    def _acting(self, platform: SimulatedPlatform) -> Callable[[Action], ActionOutcome]:
        """Return the function that carries the actions of a platform's controller out."""

        def act(action: Action) -> ActionOutcome:
            row = platform.tenancy.row
            accepted = self._act(platform, action)
            if accepted:
                self._starts.after_action(self._early, row, row, action)
            return ActionOutcome(accepted=accepted)

        return act

    def _act(self, platform: SimulatedPlatform, action: Action) -> bool:
        match action:
            case SetBids(bids=bids):
                for vm, amounts in bids.items():
                    task = vm - platform.tenancy.first_vm
                    platform.bids[task] = [*amounts.values()]
                return True
            case ProgressReport():
                platform.report = action
                return True
            case SuspendPlatform():
                return self._record(platform, LifecycleEvent(event=Event.SUSPEND, why=""))
            case WorkDone() | GiveUp():
                return self._record(platform, LifecycleEvent(event=Event.STOP, why=""))
        raise ValueError(f"a simulated platform does not take {action!r}")

    def _wait_for_platforms(self, freed: frozenset[int]) -> None:
        """Start the next period early for platforms that can start, and for awaited times."""
        now_s = self._clock.seconds()
        offer = self._market.offer(now_s)
        startable: dict[tuple[int, str], int] = {}
        times: list[AwaitedTime] = []
        for row, platform in self._live.items():
            terms = platform.terms(self._cloud)
            outlook = start_outlook(str(platform.state), terms, offer, held=False)
            if outlook.starts:
                startable[row, str(platform.state)] = row
            times += times_ahead(outlook.times, row, self._reviewed_s, now_s, self._cloud.period_s)
        waits = any(platform.state in WAITS for platform in self._live.values())
        self._starts.after_period(
            self._early, Awaited(startable, freed if waits else frozenset(), times)
        )
