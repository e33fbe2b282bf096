"""The period (section 2.2): observe, charge, decide, act, announce.

At each interval, and early when something matters, the daemon observes the cloud and charges the
allocations since the last observation. From the present bids it computes each VM's share and host.
It stores the decision, carries it out, and announces the new price. A failed period leaves the
cloud as it was, and the next one starts as planned. While the daemon is paused, or another daemon
acts, it charges nothing and sends nothing.
"""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import TypeVar

from twisted.internet.defer import CancelledError, DeferredLock, ensureDeferred
from twisted.logger import Logger

from merkatd.database.scheduler import order_store, plan_store
from merkatd.database.scheduler.lease_store import LeaseLostError
from merkatd.database.scheduler.order_store import Mode, Order
from merkatd.scheduler.base.early_periods import pause_before_event_s
from merkatd.scheduler.base.outages import Outage
from merkatd.scheduler.base.ports import CloudUnreachableError
from merkatd.scheduler.base.subscribers import Subscribers
from merkatd.scheduler.charging.charge import charge
from merkatd.scheduler.charging.charged_time import read_histories
from merkatd.scheduler.context import DrainedHosts, PeriodContext
from merkatd.scheduler.execution.delegation import DelegatedPlan, HandoverRequest, PendingHandover
from merkatd.scheduler.execution.execute import PeriodResult, decide_only, execute
from merkatd.scheduler.execution.failed_periods import give_up, log_failed_period
from merkatd.scheduler.execution.guest_watch import GuestWatch
from merkatd.scheduler.execution.message_writer import MessageWriter
from merkatd.scheduler.execution.shadow import ShadowMode
from merkatd.scheduler.execution.starting_guests import starting_guests
from merkatd.scheduler.leadership import Leadership
from merkatd.scheduler.observation.foreign_placements import ForeignPlacements
from merkatd.scheduler.pace import PeriodPace
from merkatd.scheduler.phases.announce import (
    Announcement,
    Counter,
    NotActingError,
    PeriodOutcome,
    announcement_of,
    due,
)
from merkatd.scheduler.phases.observe import look_only, observe
from merkatd.scheduler.phases.permission import Permission, QuietPeriods
from merkatd.scheduler.phases.requests import cancel_requests
from merkatd.scheduler.removed_users import RemovedUsers
from merkatd.scheduler.retain import retain
from merkatd.scheduler.terms.participants import Participants
from merkatd.scheduler.timer import PeriodTimer

_log = Logger()

Listener = Callable[[Announcement], None]

Result = TypeVar("Result")


class Scheduler:
    """The loop of periods; only one scheduler at a time acts on a cloud."""

    def __init__(self, context: PeriodContext, leading: Leadership | None = None) -> None:
        """`leading` knows whether this daemon may act; None if there is no other daemon."""
        self.drained: frozenset[int] = frozenset()
        """The ids of the hosts that an order drains."""
        self.world = replace(context, cloud=DrainedHosts(context.cloud, lambda: self.drained))
        self.paused = self._held = False
        self.ordered: Mode | None = None
        """The ordered mode, if it differs from the configured one."""
        self.configuration: str | None = None
        """Why the configuration read last is not in force, if it is not."""
        self.standby: str | None = None
        """Why another daemon acts instead of this one, if one does."""
        self.failures = 0
        """The number of failed periods since the last successful one."""
        self.latest: Announcement | None = None
        self.foreign = ForeignPlacements()
        """Placements by other software."""
        self.removed = RemovedUsers()
        """The tenants whose users OpenNebula has removed."""
        self._leading = leading
        self._listeners = Subscribers[[Announcement]]("finished periods")
        self._counters = Subscribers[[PeriodOutcome, float]]("outcomes of periods")
        self._quiet, self._shadow, self._telling = QuietPeriods(), ShadowMode(), MessageWriter()
        self._taking_part = Participants(lambda: not self.paused and self.mode is Mode.ON)
        self._cloud_away = Outage("OpenNebula")
        self._turn = DeferredLock()
        self._following = GuestWatch(self._turn, context.clock, self._acts, self.wake)
        self._beat = PeriodTimer(context.clock, context.rhythm, self._due)
        self._pace = PeriodPace(context.clock)
        context.early.bind(context.clock, self._beat, lambda: not (self.paused or self.standby))
        if leading is not None:
            # The previous leader has stopped, so start the next period now.
            leading.when_taken(self._beat.start_over)
            leading.when_lost(lambda: cancel_requests(self.world))

    async def period(self) -> Announcement:
        """Run one period."""
        async with self._turn:
            await self._obey()
            return await self._period(None, paced=False)

    async def places(self, wanted: HandoverRequest, waits: Callable[[], bool]) -> DelegatedPlan:
        """Start a period at OpenNebula's request, and return its plan before the period ends.

        Raise NotActingError, CloudUnreachableError, or the error of the failed period.
        """
        asking = PendingHandover(wanted, waits)
        ensureDeferred(self._for(asking))
        return await asking.answer

    async def order(self, what: Order, who: str, host: int | None = None, by: str = "") -> bool:
        """Store an order with its origin, `by`; return whether it is new."""
        at_s = self.world.now()
        new = await self.world.database.run(
            lambda c: order_store.record_order(c, what, at_s, who, host, by)
        )
        if what is Order.RESUME:
            new, self._held = new or self._held, False
        await self._obey()
        if new:
            _log.info("{who} ordered: {what} {host}", who=who, what=str(what), host=host)
        return new

    def hold(self) -> None:
        """Start no period in this process until a resume order; other daemons continue."""
        self._held = self.paused = True

    async def stands_by(self) -> str | None:
        """Return why this daemon does not act, or None. Raise CloudUnreachableError."""
        if self._leading is None or await self._leading.may_begin():
            return None
        return self._leading.why_not

    async def _obey(self) -> None:
        """Read the orders in force, which may have been given to any daemon."""
        in_force = await self.world.of_periods().database.read(order_store.in_force)
        self.paused, self.drained = in_force.paused or self._held, in_force.drained
        self.ordered = in_force.mode

    @property
    def mode(self) -> Mode:
        """The present mode: which decisions are carried out."""
        return self.ordered or self.world.acting.mode

    @property
    def leave(self) -> Permission:
        """The permission of the next period."""
        mode = self.mode
        return Permission(
            mode, self._quiet.moves(mode, self.world.acting) if mode is Mode.ON else None
        )

    async def _period(self, asking: PendingHandover | None, *, paced: bool) -> Announcement:
        world, leave = self._fenced(), self.leave
        self._forget()
        begun_s = self._pace.begin()
        if paced:
            world, leave = self._pace.paced(world, leave)
        await self._taking_part.barred.take_back(world)
        if self._quiet.begin(leave.mode) and leave.mode is not Mode.ASK:
            await world.database.run(lambda c: plan_store.withdraw(c, world.now()))
        seen = await observe(world)
        self._cloud_away.answered()
        # Loops over all VMs run outside the reactor, which meanwhile answers other requests.
        await world.executor.run(partial(self.foreign.compare, seen, acts=not leave.mode.watches))
        try:
            seen = replace(seen, histories=await read_histories(world, seen))
            limited = await world.executor.run(partial(self._following.find_new_guests, seen))
            purse = await charge(world, seen, limited, goes_on=not leave.mode.watches)
            self._following.forget_charged()
            terms = partial(self._taking_part.affordable, world, seen, purse, limited.replaced)
            paid_for = await world.executor.run(terms)
            if leave.mode.watches:
                done = await decide_only(world, paid_for, leave, self._shadow)
            else:
                done = await execute(world, paid_for, leave, asking)
                self._following.expect(world, await starting_guests(world, done.seen, done.decided))
                if leave.mode is Mode.ON:
                    self._taking_part.barred.begin(world, seen.period)
                self._pace.end(done)
                acted, coming_later = done.acted, done.decided.limits.coming
                if self._taking_part.note(seen, acted.unplaced, coming_later) or acted.unmoved:
                    self._beat.wake()  # the room that neighbours made is unused
        except Exception as error:
            await give_up(world, seen, error)
            raise
        await self._after(world, leave.mode, done)
        self._quiet.end(begun_s, world.rhythm.interval_s)
        return announcement_of(world, done.seen, done.decided, done.acted, leave.mode)

    def _acts(self) -> bool:
        """Return whether limits may be set on hosts between two periods."""
        return not self.paused and not self.mode.watches

    async def _after(self, context: PeriodContext, mode: Mode, done: PeriodResult) -> None:
        """Do the work that follows a period's steps: messages, chores, retirement, retention."""
        if not mode.watches:
            self._shadow.rest()
            # If OpenNebula has its own scheduler, that one removes its messages itself.
            withdraw = not context.handing
            messages = await context.executor.run(
                lambda: due(done.seen, done.decided, withdraw=withdraw)
            )
            await self._telling.tell(context, messages, done.seen.observation.messages)
            await context.chores()
        await self.removed.look(context, done.seen)
        await retain(context, done.seen.period)

    def _fenced(self) -> PeriodContext:
        """Return the context with transactions under the lease. Raise LeaseLostError."""
        world, leading = self.world.of_periods(), self._leading
        if leading is None:
            return world
        fenced = leading.fenced(world.database)
        return replace(world, database=fenced, certain=fenced.certain)

    async def between_periods(
        self, work: Callable[[], Awaitable[Result]], patience_s: float
    ) -> Result:
        """Run the work between two periods. Raise TimeoutError if a period lasts too long."""
        turn, clock = self._turn.acquire(), self.world.clock
        turn.addTimeout(patience_s, clock)  # type: ignore[arg-type]
        await turn
        try:
            return await work()
        finally:
            self._turn.release()

    def listen(self, listener: Listener) -> None:
        """Call this function with each announcement."""
        self._listeners.add(listener)

    def count(self, counter: Counter) -> None:
        """Call this function with the outcome and the duration of each due period."""
        self._counters.add(counter)

    @property
    def subscriber_errors(self) -> int:
        """The number of calls of listeners and counters that raised an exception."""
        return self._listeners.errors + self._counters.errors

    def start(self) -> None:
        """Start the first period now, and one per interval after it."""
        self._beat.start()

    async def stop(self) -> None:
        """Start no more periods, and wait for the running one."""
        self._forget()
        await self._beat.stop()
        await self._turn.acquire()  # wait for a period that OpenNebula requested
        self._forget()
        self._turn.release()

    def _forget(self) -> None:
        """End all work between two periods."""
        self.world.early.forget()
        self._following.forget()
        self._taking_part.barred.forget()

    def adopt(self, context: PeriodContext) -> None:
        """Use these settings from the next period on; a running period keeps the old ones."""
        self.world = context
        self._beat.adopt(context.rhythm)

    def wake(self) -> None:
        """Start the next period as soon as the least interval allows."""
        self._beat.wake()

    def wake_for(self, owner: int) -> None:
        """Do the same because of a call of this user (Note [Early periods of an account])."""
        self.world.early.want(owner)

    def wake_after_event(self) -> None:
        """Start the next period early, because OpenNebula has reported a change."""
        decision = None
        # Where nothing is carried out, no VM ever makes the room that a decision wants.
        if self.latest is not None and not self.latest.mode.watches:
            decision = self.latest.decided.decision
        self._beat.wake(pause_before_event_s(decision))

    async def _due(self) -> None:
        """Run a period that is due."""
        async with self._turn:
            await self._guarded(None)

    async def _for(self, handover: PendingHandover) -> None:
        """Run a period at OpenNebula's request."""
        async with self._turn:
            if self._beat.stopping or not handover.waits():
                handover.fail(NotActingError("it is stopping, or OpenNebula no longer waits"))
            else:
                await self._guarded(handover)

    async def _guarded(self, asking: PendingHandover | None) -> None:
        """Run a period if one may start; a failure does not prevent the next one."""
        begun_s = self.world.clock.seconds()
        outcome = await self._attempt(asking)
        self._counters.call(outcome, self.world.clock.seconds() - begun_s)

    async def _attempt(self, asking: PendingHandover | None) -> PeriodOutcome:
        error: Exception
        try:
            why_not = await self._why_not(asking is not None)
            if why_not is not None:
                outcome, error = PeriodOutcome.NOT_BEGUN, NotActingError(why_not)
            else:
                self.latest = await self._period(asking, paced=asking is None)
                self.failures = 0
                self._listeners.call(self.latest)
                return PeriodOutcome.DONE
        except LeaseLostError as lost:
            outcome, error, self.standby = PeriodOutcome.CUT_SHORT, lost, str(lost)
            _log.warn("The period ends early: {error}", error=str(lost))
        except CancelledError as cut:
            outcome, error = PeriodOutcome.CUT_SHORT, cut
            _log.warn("The period was cut short; the next daemon judges the steps it sent")
        except CloudUnreachableError as unreachable:
            outcome, error = PeriodOutcome.UNREACHABLE, unreachable
            self.failures += 1
            self._cloud_away.failed(str(unreachable))
        except Exception as failure:  # noqa: BLE001 - whatever it was, the next period goes on
            outcome, error = PeriodOutcome.FAILED, failure
            self.failures += 1
            log_failed_period(failure)
        if asking is not None:
            asking.fail(error)
        return outcome

    async def _why_not(self, asking: bool) -> str | None:
        """Return why no period may start, or None; `asking`: at OpenNebula's request."""
        await self._obey()
        self.standby = None
        if self._leading is not None and not await self._leading.may_begin():
            self._quiet.interrupt()
            self.foreign.interrupt()
            self.removed.forget()
            self.standby = self._leading.why_not
            await look_only(self.world, self.standby)
            self._cloud_away.answered()
            return self.standby
        if self.paused:
            self._quiet.interrupt()
            self.foreign.interrupt()
            return "it is paused"
        if asking and self.mode.watches:
            return f"its mode is {self.mode}: it decides but sends nothing"
        return None
