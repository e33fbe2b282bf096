"""The period (section 2.2): observe, charge, decide, act, tell, and again.

Every interval the daemon looks at the cloud. What was given since the last look is charged.
From the bids in force it works out what each VM gets and where it should be, writes that
down, does it, and announces the new price. A period that takes longer than the interval is
not started twice; one that fails leaves the cloud as it was, and the next goes on. While it is
paused, or another daemon acts, nothing is charged and nothing is sent.
"""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TypeVar

from twisted.internet.defer import CancelledError, DeferredLock, ensureDeferred
from twisted.logger import Logger

from merkatd.cluster.columns import NOWHERE
from merkatd.database.scheduler import order_store, plan_store
from merkatd.database.scheduler.lease_store import LeaseLostError
from merkatd.database.scheduler.order_store import Mode, Order
from merkatd.scheduler.base.outages import Outage
from merkatd.scheduler.base.ports import CloudUnreachableError
from merkatd.scheduler.base.subscribers import Subscribers
from merkatd.scheduler.charging.charge import charge
from merkatd.scheduler.context import DrainedHosts, PeriodContext
from merkatd.scheduler.execution.delegation import Handed, HandoverRequest, PendingHandover
from merkatd.scheduler.execution.execute import PeriodResult, decide_only, execute
from merkatd.scheduler.execution.failed_periods import give_up
from merkatd.scheduler.execution.guest_watch import Following
from merkatd.scheduler.execution.message_writer import Telling
from merkatd.scheduler.execution.shadow import Shadow
from merkatd.scheduler.execution.starting_guests import arrivals
from merkatd.scheduler.leadership import Leading
from merkatd.scheduler.observation.foreign_placements import Foreign
from merkatd.scheduler.observation.observed import Observed
from merkatd.scheduler.phases.announce import (
    Announcement,
    Counter,
    NotActingError,
    PeriodOutcome,
    announcement_of,
    due,
)
from merkatd.scheduler.phases.observe import observe, read_cloud
from merkatd.scheduler.phases.permission import Permission, QuietPeriods
from merkatd.scheduler.removed_users import RemovedUsers
from merkatd.scheduler.retain import retain
from merkatd.scheduler.terms.participants import TakingPart
from merkatd.scheduler.timer import PeriodTimer

_log = Logger()

Listener = Callable[[Announcement], None]

Result = TypeVar("Result")


class Scheduler:
    """The loop. One at a time acts on a cloud."""

    def __init__(self, world: PeriodContext, leading: Leading | None = None) -> None:
        """`leading` knows whether this daemon may act; without it there is no other."""
        self.drained: frozenset[int] = frozenset()
        """Ids of the hosts that are to be emptied by order."""
        self.world = replace(world, cloud=DrainedHosts(world.cloud, lambda: self.drained))
        self.paused = self._held = False
        self.ordered: Mode | None = None
        """The mode that was ordered, where it is not the configured one."""
        self.configuration: str | None = None
        """Why the configuration that was read last is not in force, where that is so."""
        self.standby: str | None = None
        """Why another daemon acts instead of this one, where that is so."""
        self.failures = 0
        """Periods that failed since the last one that did not."""
        self.latest: Announcement | None = None
        self.foreign = Foreign()
        """What places VMs beside this daemon."""
        self.removed = RemovedUsers()
        """Tenants whose users OpenNebula has removed."""
        self._leading = leading
        self._listeners = Subscribers[[Announcement]]("finished periods")
        self._counters = Subscribers[[PeriodOutcome, float]]("outcomes of periods")
        self._quiet, self._shadow, self._telling = QuietPeriods(), Shadow(), Telling()
        self._taking_part = TakingPart(lambda: not self.paused and self.mode is Mode.ON)
        self._cloud_away = Outage("OpenNebula")
        self._turn = DeferredLock()
        self._following = Following(self._turn, world.clock, self._acts, self.wake)
        self._beat = PeriodTimer(world.clock, world.rhythm, self._due)
        if leading is not None:
            # Whoever acted before has ended: the next period is due now.
            leading.when_taken(self._beat.start_over)

    async def period(self) -> Announcement:
        """One period from beginning to end."""
        async with self._turn:
            await self._obey()
            return await self._period(None)

    async def places(self, wanted: HandoverRequest, waits: Callable[[], bool]) -> Handed:
        """A plan for OpenNebula, from a period that begins for its sake and goes on behind it.

        Raises NotActingError, UnreachableError, or whatever the period failed of.
        """
        asking = PendingHandover(wanted, waits)
        ensureDeferred(self._for(asking))
        return await asking.answer

    async def order(self, what: Order, who: str, host: int | None = None) -> bool:
        """Keep to an order from now on, also after a restart; False where it holds already."""
        at_s = self.world.now()
        new = await self.world.database.run(
            lambda c: order_store.record_order(c, what, at_s, who, host)
        )
        if what is Order.RESUME:
            new, self._held = new or self._held, False
        await self._obey()
        if new:
            _log.info("{who} ordered: {what} {host}", who=who, what=str(what), host=host)
        return new

    def hold(self) -> None:
        """Begin no period in this process until it is told to resume. Other daemons go on."""
        self._held = self.paused = True

    async def stands_by(self) -> str | None:
        """Why this daemon does not act, None where it may. Raises UnreachableError."""
        if self._leading is None or await self._leading.may_begin():
            return None
        return self._leading.why_not

    async def _obey(self) -> None:
        """What other daemons were told holds for this one too: all is in the database."""
        in_force = await self.world.of_periods().database.read(order_store.in_force)
        self.paused, self.drained = in_force.paused or self._held, in_force.drained
        self.ordered = in_force.mode

    @property
    def mode(self) -> Mode:
        """How much of what is decided is done."""
        return self.ordered or self.world.acting.mode

    @property
    def leave(self) -> Permission:
        """What the next period may do."""
        mode = self.mode
        return Permission(
            mode, self._quiet.moves(mode, self.world.acting) if mode is Mode.ON else None
        )

    async def _period(self, asking: PendingHandover | None) -> Announcement:
        world, leave = self._fenced(), self.leave
        self._forget()
        await self._taking_part.barred.take_back(world)
        if self._quiet.begin(leave.mode) and leave.mode is not Mode.ASK:
            await world.database.run(lambda c: plan_store.withdraw(c, world.now()))
        seen = await observe(world)
        self._cloud_away.answered()
        # What goes through all VMs runs beside the reactor, which answers others meanwhile.
        await world.executor.run(lambda: self._look_for_others(seen, leave))
        try:
            found, goes_on = self._following.found, not leave.mode.watches
            purse = await charge(world, seen, found, goes_on=goes_on)
            self._following.limited.clear()
            affordable = self._taking_part.affordable
            paid_for = await world.executor.run(lambda: affordable(world, seen, purse))
            if leave.mode.watches:
                done = await decide_only(world, paid_for, leave, self._shadow)
            else:
                done = await execute(world, paid_for, leave, asking)
                coming = await arrivals(world, done.seen, done.decided)
                self._following.expect(world, coming)
                if leave.mode is Mode.ON:
                    self._taking_part.barred.begin(world, seen.period)
                if self._taking_part.note(seen, done.acted.unplaced):
                    self._beat.wake()  # their neighbours made room for nothing
        except Exception as error:
            await give_up(world, seen, error)
            raise
        await self._after(world, leave.mode, done)
        self._quiet.end()
        return announcement_of(world, done.seen, done.decided, done.acted, leave.mode)

    def _acts(self) -> bool:
        """Whether hosts may be told anything between two periods."""
        return not self.paused and not self.mode.watches

    def _look_for_others(self, seen: Observed, leave: Permission) -> None:
        """Notice placements that are not ours; beside another scheduler they are expected."""
        if leave.mode.watches:
            self.foreign.interrupt()
            return
        vms = seen.snapshot.vms
        managed = frozenset(vms.id[vms.market != NOWHERE].tolist())
        self.foreign.look(seen.observation, seen.under_way, managed)

    async def _after(self, world: PeriodContext, mode: Mode, done: PeriodResult) -> None:
        """What else is to be done, once a period has acted."""
        if not mode.watches:
            self._shadow.rest()
            # Where OpenNebula has a scheduler of its own, that one removes its messages itself.
            withdraw = not world.handing
            told = await world.executor.run(lambda: due(done.seen, done.decided, withdraw=withdraw))
            await self._telling.tell(world, told, done.seen.observation.messages)
            await world.chores()
        await self.removed.look(world, done.seen)
        await retain(world, done.seen.period)

    def _fenced(self) -> PeriodContext:
        """The world, open to us for as long as nobody else acts. Raises LeaseLostError."""
        world, leading = self.world.of_periods(), self._leading
        if leading is None:
            return world
        return replace(world, database=leading.fenced(world.database), certain=leading.certain)

    async def between_periods(
        self, work: Callable[[], Awaitable[Result]], patience_s: float
    ) -> Result:
        """What the work comes to while no period runs. Raises TimeoutError where one goes on."""
        turn, clock = self._turn.acquire(), self.world.clock
        turn.addTimeout(patience_s, clock)  # type: ignore[arg-type]
        await turn
        try:
            return await work()
        finally:
            self._turn.release()

    def listen(self, listener: Listener) -> None:
        """Call this with each announcement."""
        self._listeners.add(listener)

    def count(self, counter: Counter) -> None:
        """Call this with what became of each period that was due."""
        self._counters.add(counter)

    @property
    def subscriber_errors(self) -> int:
        """How many calls of listeners and counters raised an exception."""
        return self._listeners.errors + self._counters.errors

    def start(self) -> None:
        """Begin the first period now, and one an interval from then on."""
        self._beat.start()

    async def stop(self) -> None:
        """Begin no more, and wait for the one in hand."""
        self._forget()
        await self._beat.stop()
        await self._turn.acquire()  # a period that began for OpenNebula's sake ends first
        self._forget()
        self._turn.release()

    def _forget(self) -> None:
        """What goes on between two periods ends."""
        self._following.forget()
        self._taking_part.barred.forget()

    def adopt(self, world: PeriodContext) -> None:
        """Go by these rules from the next period on; the one in hand goes by the old ones."""
        self.world = world
        self._beat.adopt(world.rhythm)

    def wake(self) -> None:
        """Something happened: begin the next period as soon as the least interval allows."""
        self._beat.wake()

    async def _due(self) -> None:
        """A period that is due."""
        async with self._turn:
            await self._guarded(None)

    async def _for(self, asking: PendingHandover) -> None:
        """A period for OpenNebula's sake."""
        async with self._turn:
            if self._beat.stopping or not asking.waits():
                asking.fail(NotActingError("it ends, or OpenNebula has given up waiting"))
            else:
                await self._guarded(asking)

    async def _guarded(self, asking: PendingHandover | None) -> None:
        """A period where one may begin; whatever becomes of it, the next goes on."""
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
                self.latest = await self._period(asking)
                self.failures = 0
                self._listeners.call(self.latest)
                return PeriodOutcome.DONE
        except LeaseLostError as lost:
            outcome, error, self.standby = PeriodOutcome.CUT_SHORT, lost, str(lost)
            _log.warn("The period ends here: {error}", error=str(lost))
        except CancelledError as cut:
            outcome, error = PeriodOutcome.CUT_SHORT, cut
            _log.warn("The period is cut short; the next daemon finds what became of its steps")
        except CloudUnreachableError as unreachable:
            outcome, error = PeriodOutcome.UNREACHABLE, unreachable
            self.failures += 1
            self._cloud_away.failed(str(unreachable))
        except Exception as failure:  # noqa: BLE001 - whatever it was, the next period goes on
            outcome, error = PeriodOutcome.FAILED, failure
            self.failures += 1
            _log.failure("A period failed; the next goes on")
        if asking is not None:
            asking.fail(error)
        return outcome

    async def _why_not(self, asking: bool) -> str | None:
        """Why no period may begin; `asking`: for OpenNebula's sake. Raises UnreachableError."""
        await self._obey()
        self.standby = None
        if self._leading is not None and not await self._leading.may_begin():
            self._quiet.interrupt()
            self.foreign.interrupt()
            self.removed.forget()
            self.standby = self._leading.why_not
            await self._look_only(self.standby)
            return self.standby
        if self.paused:
            self._quiet.interrupt()
            self.foreign.interrupt()
            return "it is paused"
        if asking and self.mode.watches:
            return f"its mode is {self.mode}: it decides, and does nothing"
        return None

    async def _look_only(self, why: str) -> None:
        """See whether we could take over; what is seen is neither stored nor acted on."""
        looked = await read_cloud(self.world)
        self._cloud_away.answered()
        _log.info(
            "Standing by, {vms} VMs on {hosts} hosts are seen: {why}",
            vms=len(looked.observation.vm_id),
            hosts=len(looked.observation.host_id),
            why=why,
        )
