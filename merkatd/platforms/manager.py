"""The manager of platforms: their steps in each period, and their controllers.

The manager changes nothing in the cloud itself: it passes steps to the period, and its state is in
the database. It compares the platforms that need a controller with those that have one, and starts
and stops controllers accordingly. After a restart of the daemon no controller runs, so all are
started again.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar
from uuid import uuid4

import numpy as np
import sqlalchemy as sa
from twisted.internet.defer import DeferredLock, ensureDeferred
from twisted.logger import Logger

from merkatd.cluster import Step
from merkatd.database.base.transactions import DryRunTransactions, Transactions
from merkatd.database.fleets import platform_store
from merkatd.database.fleets.platform_store import PlatformRow
from merkatd.platforms import tenant_orders
from merkatd.platforms.announcements import ControlledPlatform, news_of
from merkatd.platforms.controller_actions import act
from merkatd.platforms.lifecycle.controller_failures import record_end, record_monitor_end
from merkatd.platforms.lifecycle.funds import read_all
from merkatd.platforms.lifecycle.period_review import ReviewInput, review_platforms
from merkatd.platforms.lifecycle.template_checks import CheckedTemplate, SiteOffer, check_template
from merkatd.platforms.processes.process_files import remove_old_logs
from merkatd.platforms.rules.awaited_starts import ReviewTimes
from merkatd.platforms.rules.early_starts import EarlyStarts
from merkatd.platforms.tenant_orders import Submission, Update
from merkatd.platforms.waiting_platforms import await_starts
from merkatd.protocol.message_limits import check_memory
from merkatd.protocol.platform_messages import Action, ActionOutcome, Controllers
from merkatd.scheduler.base.troubles import TroubleKind
from merkatd.scheduler.context import PeriodContext
from merkatd.scheduler.leadership import Leadership
from merkatd.scheduler.observation.observed import Observed
from merkatd.scheduler.phases.announce import Announcement
from merkatd.scheduler.terms.ordered_vms import takes_orders

_log = Logger()

Result = TypeVar("Result")
Told = Callable[[sa.Connection, PlatformRow], Result]
"""A function from a platform to a result, called in the transaction that read or changed it."""


class Manager:
    """Manages all platforms. Implements `merkatd.protocol.platform_messages.ActionReceiver`."""

    def __init__(
        self,
        context: PeriodContext,
        controllers: Controllers,
        rng: np.random.Generator | None = None,
        leading: Leadership | None = None,
        handed: Callable[[str], Mapping[str, str]] = lambda _: {},
    ) -> None:
        """Begin without running controllers.

        `leading` knows whether this daemon may act; without it, this is the only daemon. `handed`
        returns SSH keys for a VM's template, given the VM's creation key.
        """
        self._world = context
        self._leading = leading
        self._rng = rng or context.rng
        self._controllers = controllers
        self._handed = handed
        self._running: dict[int, ControlledPlatform] = {}
        self._turn = DeferredLock()
        self._closed = False
        self._early = EarlyStarts()
        self._reviewed: ReviewTimes | None = None
        """The time of the last review of platforms."""
        self._has_read = False
        """Whether the templates of all living platforms were read since the daemon leads."""
        controllers.attend(self)
        if leading is not None:
            leading.when_lost(self.stand_by)

    @property
    def world(self) -> PeriodContext:
        """Return the present context, which holds the rules and the stores."""
        return self._world

    def adopt(self, context: PeriodContext) -> None:
        """Use this context, with its rules, from now on."""
        self._world = context

    # -- for the period -----------------------------------------------------------------------

    async def proposals(self, database: Transactions, observed: Observed) -> Sequence[Step]:
        """Return the steps that platforms need in this period."""
        world = self._world
        if not self._has_read:
            # Before the period's transaction, which blocks all other writers.
            await database.read(read_all)
            self._has_read = True
        now = ReviewInput(
            at_s=world.now(),
            now_s=await world.believed.look(world, database, observed.period),
            interval_s=world.rhythm.interval_s,
            replenishment_s=world.money.replenishment_s,
            markets=world.markets,
            entropy=self._rng.bytes(32),
            handed=self._handed,
            advance_periods=world.rhythm.most_periods_charged,
            new_vms=world.rhythm.new_vms,
        )
        self._reviewed = ReviewTimes(now.at_s, now.now_s)
        tended = await database.run(partial(review_platforms, observed=observed, now=now))
        world.troubles.note(TroubleKind.PLATFORM, "reviewed", tended.failed)
        return tended.steps

    def send_news(self, announcement: Announcement) -> None:
        """Send all processes the news of a period, without waiting for them."""
        ensureDeferred(self._tell(announcement))

    async def _tell(self, announcement: Announcement) -> None:
        await self._turn.acquire()
        try:
            if not self._closed:
                await self._compare(announcement)
        except Exception:  # noqa: BLE001 - the next period's news must still be sent
            if not self._closed:  # after that nothing can be read
                _log.failure("Could not send the news of the period to the platforms' controllers")
        finally:
            self._turn.release()

    async def _compare(self, announcement: Announcement) -> None:
        """Start the missing controllers, stop the needless ones, and announce the news."""
        if not self._may_act():  # another daemon took over after the period
            return
        world = self._world
        await world.believed.look(world, world.database, announcement.period)
        news = await world.database.read(partial(news_of, world, announcement))
        now, markets, failed = news.attended, news.markets, news.failed
        world.troubles.note(TroubleKind.PLATFORM, "announced", failed)
        # The processes of a platform that fails go on unchanged.
        for platform in self._running.keys() - now.keys() - failed.keys():
            self._end(platform)
        new = sorted(now.keys() - self._running.keys())
        await self._start({platform: now[platform] for platform in new})
        announced = sorted(now.keys() & self._running.keys())
        self._controllers.announce(markets, [now[platform].standing for platform in announced])
        await remove_old_logs(world, self._controllers, announcement.seen.period)
        if markets and self._reviewed is not None:
            await await_starts(world, announcement, self._reviewed, self._early)

    async def _start(self, those: Mapping[int, ControlledPlatform]) -> None:
        """Start the controllers of these platforms; the next call retries those that fail."""
        failed: dict[int, Exception] = {}
        for platform, controlled in those.items():
            try:
                await self._controllers.start(controlled.assignment)
            except Exception as error:  # noqa: BLE001 - it is recorded, and others are started
                failed[platform] = error
            else:
                self._running[platform] = controlled
        self._world.troubles.note(TroubleKind.PLATFORM, "started", failed)

    def _end(self, platform: int) -> None:
        """Stop a platform's processes, without waiting for their end."""
        self._early.forget(platform)
        gone = self._running.pop(platform)
        ending = ensureDeferred(self._controllers.stop(platform, gone.grace_s))
        ending.addErrback(
            lambda why: _log.failure(
                "Could not stop the processes of platform {platform}", why, platform=platform
            )
        )

    def stand_by(self) -> None:
        """Stop all controllers: another daemon has become leader and runs its own."""
        ensureDeferred(self._stand_by())

    async def _stand_by(self) -> None:
        await self._turn.acquire()
        try:
            if not self._may_act():
                self._has_read = False
                for platform in list(self._running):
                    self._end(platform)
        finally:
            self._turn.release()

    def _may_act(self) -> bool:
        return self._leading is None or self._leading.acting

    def _acting(self) -> Transactions:
        """Return the database for writes of the leader; they raise LeaseLostError in others."""
        database, leading = self._world.database, self._leading
        return database if leading is None else leading.fenced(database)

    async def close(self) -> None:
        """Stop all controllers; the platforms go on at the next start."""
        self._closed = True
        await self._controllers.close()

    # -- for tenants --------------------------------------------------------------------------

    async def fitting(self, text: str) -> CheckedTemplate:
        """Parse a template, and check it against this site. Raise TemplateError."""
        return await self._world.executor.run(partial(check_template, text, self.offered()))

    async def submit(
        self,
        owner: int,
        given: CheckedTemplate,
        vm_templates: Mapping[str, str],
        who: str,
        tell: Told[Result],
    ) -> Result:
        """Store a tenant's new platform, and return `tell` of it.

        Raise TemplateError or LedgerError. `tell` runs in the transaction that stores the platform:
        if it fails, the platform is not stored.
        """
        work = await self._submission(owner, given, vm_templates, who)
        return await self._world.database.run(lambda c: tell(c, work(c)))

    async def try_submission(
        self, owner: int, new: CheckedTemplate, vm_templates: Mapping[str, str], tell: Told[Result]
    ) -> Result:
        """Return the result of `submit` without storing the platform. Raise as `submit` does."""
        work = await self._submission(owner, new, vm_templates, "nobody")
        return await DryRunTransactions(self._world.database).run(lambda c: tell(c, work(c)))

    async def _submission(
        self, owner: int, given: CheckedTemplate, vm_templates: Mapping[str, str], who: str
    ) -> Callable[[sa.Connection], PlatformRow]:
        money, at_s = self._world.money, self._world.now()
        most_processes = self._controllers.kinds().tenant_processes

        def read() -> Submission:
            return Submission(
                token=given.token or uuid4().hex,
                owner=owner,
                text=given.text,
                template=given.template,
                vm_templates=tenant_orders.canonical_vm_templates(given.template, vm_templates),
                who=who,
                most_processes=most_processes,
            )

        # Before the transaction, which would block all other writers while texts are parsed.
        submission = await self._world.executor.run(read)
        return lambda connection: tenant_orders.submit(connection, submission, money, at_s)

    def offered(self) -> SiteOffer:
        """Return what this site offers to templates."""
        world = self._world
        return SiteOffer(
            kinds=self._controllers.kinds(),
            markets=[market.name for market in world.markets],
            order_markets=[market.name for market in world.markets if takes_orders(market)],
            goods=world.goods.resources,
            free_markets=[market.name for market in world.markets if market.is_free],
            own_markets={
                market.name: market.strategy for market in world.markets if market.states_amounts
            },
            now_s=world.now(),
        )

    async def update(self, platform: int, new: Update, who: str, tell: Told[Result]) -> Result:
        """Change a platform's goals or budget, and return `tell` of it. Raise LedgerError.

        If `tell` fails, the change is not stored.
        """
        work = self._change(platform, new, who)
        return await self._world.database.run(lambda c: tell(c, work(c)))

    async def try_update(self, platform: int, new: Update, tell: Told[Result]) -> Result:
        """Return the result of `update` without storing the change. Raise LedgerError."""
        work = self._change(platform, new, "nobody")
        return await DryRunTransactions(self._world.database).run(lambda c: tell(c, work(c)))

    def _change(
        self, platform: int, new: Update, who: str
    ) -> Callable[[sa.Connection], PlatformRow]:
        token, at_s = uuid4().hex, self._world.now()
        return lambda connection: tenant_orders.update(connection, platform, new, token, who, at_s)

    async def suspend(self, platform: int, who: str) -> PlatformRow:
        """Suspend a platform until its tenant resumes it. Raise LedgerError."""
        return await self._order(tenant_orders.suspend, platform, who)

    async def resume(self, platform: int, who: str) -> PlatformRow:
        """Resume a platform now, whatever the price. Raise LedgerError."""
        return await self._order(tenant_orders.resume, platform, who)

    async def stop(self, platform: int, who: str) -> PlatformRow:
        """End a platform. Raise LedgerError."""
        return await self._order(tenant_orders.stop, platform, who)

    async def _order(
        self, what: Callable[[sa.Connection, int, str, float], PlatformRow], platform: int, who: str
    ) -> PlatformRow:
        at_s = self._world.now()
        return await self._world.database.run(
            lambda connection: what(connection, platform, who, at_s)
        )

    # -- for controllers ----------------------------------------------------------------------

    async def act(self, platform: int, action_id: str, action: Action) -> ActionOutcome:
        """Carry out an action of a platform's controller, once. Raise LeaseLostError."""
        at_s, goods = self._world.now(), self._world.goods.resources
        outcome = await self._acting().run(
            lambda connection: act(connection, platform, action_id, action, at_s, goods)
        )
        if outcome.accepted and platform in self._running:
            owner = self._running[platform].assignment.owner
            self._early.after_action(self._world.early, platform, owner, action)
        return outcome

    async def remember(self, platform: int, memory: Any) -> None:
        """Store the controller's memory.

        Raise ValueError if the memory is invalid, and LeaseLostError.
        """
        check_memory(memory)
        await self._acting().run(
            lambda connection: platform_store.change(connection, platform, memory=memory)
        )

    async def ended(self, platform: int, why: str, *, final: bool) -> None:
        """Record that a controller ended unexpectedly: its VMs bid nothing until it works again.

        If the controller can't be kept running (`final`), its platform ends.
        """
        world = self._world
        at_s, goods = world.now(), world.goods.resources
        if self._may_act():
            work = partial(record_end, platform=platform, why=why, at_s=at_s, goods=goods)
            await self._acting().run(partial(work, final=final))
            if platform in self._running:
                world.early.want(self._running[platform].assignment.owner)

    async def monitor_ended(self, platform: int, row: int, why: str) -> None:
        """Record in the platform's history that one of its monitors ended."""
        at_s = self._world.now()
        if self._may_act():
            await self._acting().run(lambda c: record_monitor_end(c, platform, row, why, at_s))
