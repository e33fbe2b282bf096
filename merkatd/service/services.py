"""The services of a daemon, which its interfaces (control socket, XML-RPC, web) call."""

from dataclasses import dataclass, field

from merkatd.fleets.vm_template_text import Ask
from merkatd.groups.group_keeper import Keeper
from merkatd.ledger import Ledger
from merkatd.platforms.manager import Manager
from merkatd.scheduler.context import PeriodContext
from merkatd.scheduler.period import Scheduler
from merkatd.service.account_rows import KnownNames
from merkatd.service.accounts import AccountService
from merkatd.service.base.callers import CallerRights
from merkatd.service.base.errors import NotSupportedError
from merkatd.service.base.identity import SignIns
from merkatd.service.base.order_limits import OrderCounts
from merkatd.service.base.period_view import PeriodViews
from merkatd.service.base.turns import FairTurns
from merkatd.service.daemon_control import DaemonControl
from merkatd.service.groups import GroupService
from merkatd.service.limit_quotes import LimitQuoteService
from merkatd.service.market.balance_history import BalanceHistory
from merkatd.service.market.bids import BidService
from merkatd.service.market.explanations import ExplanationService
from merkatd.service.market.limit_view import LimitService
from merkatd.service.market.listings import ListingService
from merkatd.service.market.past_periods import PastPeriods
from merkatd.service.market.prices import PriceService
from merkatd.service.market.quotes import QuoteService
from merkatd.service.market.stated_orders import LimitOrderService
from merkatd.service.market.step_history import StepHistory
from merkatd.service.modes import ModeService
from merkatd.service.platform_quotes import PlatformQuoteService
from merkatd.service.platforms import PlatformService
from merkatd.service.reasons.application_standings import ApplicationStandings
from merkatd.service.reasons.price_reasons import PriceReasonService
from merkatd.service.reasons.refused_requests import RefusedRequests
from merkatd.service.reports.dry_runs import PlanService
from merkatd.service.reports.tenant_reports import TenantReports
from merkatd.service.reports.what_if import WhatIfService
from merkatd.service.strategies import StrategyService
from merkatd.service.vm_creation import VmCreationService


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True, kw_only=True)
class DaemonServices:
    """The services of a daemon, one of each."""

    scheduler: Scheduler
    views: PeriodViews
    callers: CallerRights
    sign_ins: SignIns
    orders: OrderCounts
    version: str
    ledger: Ledger
    accounts: AccountService
    application_standings: ApplicationStandings
    balances: BalanceHistory
    bids: BidService
    daemon: DaemonControl
    explanations: ExplanationService
    limit_orders: LimitOrderService
    limit_quotes: LimitQuoteService
    limits: LimitService
    listings: ListingService
    modes: ModeService
    past: PastPeriods
    plans: PlanService
    price_reasons: PriceReasonService
    prices: PriceService
    quotes: QuoteService
    refusals: RefusedRequests
    steps: StepHistory
    creation: VmCreationService
    strategies: StrategyService
    tenant_reports: TenantReports
    what_if: WhatIfService
    platforms: PlatformService | None = None
    """None if the daemon does not support platforms."""
    platform_quotes: PlatformQuoteService | None = None
    """None if the daemon does not support platforms."""
    groups: GroupService | None = None
    """None if the daemon does not support groups."""
    long_reads: FairTurns = field(default_factory=lambda: FairTurns(2, per_key=1))
    """Turns for long reads, one per user at a time: reads that can take a thread a second, and
    reads that grow with a tenant's VMs. The other threads stay free for other calls."""

    @property
    def world(self) -> PeriodContext:
        """Return the context with the rules in force; a reload replaces them."""
        return self.scheduler.world

    def require_platforms(self) -> PlatformService:
        """Return the service of platforms. Raise NotSupportedError if there is none."""
        if self.platforms is None:
            raise NotSupportedError("This daemon does not support platforms.")
        return self.platforms

    def require_platform_quotes(self) -> PlatformQuoteService:
        """Return the service of platforms' quotes. Raise NotSupportedError if there is none."""
        if self.platform_quotes is None:
            raise NotSupportedError("This daemon does not support platforms.")
        return self.platform_quotes

    def require_groups(self) -> GroupService:
        """Return the service of groups. Raise NotSupportedError if there is none."""
        if self.groups is None:
            raise NotSupportedError("This daemon does not support groups.")
        return self.groups


def names_of(scheduler: Scheduler) -> KnownNames:
    """Return the names of users and groups that the last period saw."""
    latest = scheduler.latest
    if latest is None:
        return KnownNames()
    return KnownNames(latest.seen.observation.owner_name, latest.seen.observation.group_name)


def services_of(
    scheduler: Scheduler,
    sign_ins: SignIns,
    orders: OrderCounts,
    ask: Ask,
    version: str,
    manager: Manager | None = None,
    keeper: Keeper | None = None,
) -> DaemonServices:
    """Return the services of a daemon; `ask` calls OpenNebula with the daemon's login."""
    world = scheduler.world
    views = PeriodViews(scheduler)
    rights = CallerRights(sign_ins, ask, world.clock)
    ledger = Ledger(world.database, world.now, world.money)
    limits = LimitQuoteService(scheduler, rights)
    standings = ApplicationStandings(scheduler, rights)
    platforms = None if manager is None else PlatformService(scheduler, manager, rights)
    return DaemonServices(
        scheduler=scheduler,
        views=views,
        callers=rights,
        sign_ins=sign_ins,
        orders=orders,
        version=version,
        ledger=ledger,
        accounts=AccountService(ledger, world.now, lambda: names_of(scheduler)),
        application_standings=standings,
        daemon=DaemonControl(scheduler, views),
        balances=BalanceHistory(scheduler),
        bids=BidService(scheduler, rights),
        explanations=ExplanationService(scheduler, rights, standings),
        limit_orders=LimitOrderService(scheduler, rights),
        limit_quotes=limits,
        limits=LimitService(scheduler),
        listings=ListingService(scheduler),
        modes=ModeService(scheduler),
        past=PastPeriods(scheduler),
        plans=PlanService(scheduler),
        price_reasons=PriceReasonService(scheduler, views),
        prices=PriceService(scheduler, views),
        quotes=QuoteService(rights),
        refusals=RefusedRequests(world.now),
        steps=StepHistory(scheduler, rights),
        creation=VmCreationService(scheduler, rights),
        strategies=StrategyService(scheduler),
        tenant_reports=TenantReports(ledger, world.now, lambda: names_of(scheduler)),
        what_if=WhatIfService(scheduler, views),
        platforms=platforms,
        platform_quotes=None
        if platforms is None
        else PlatformQuoteService(scheduler, platforms, limits),
        groups=None if keeper is None else GroupService(scheduler, keeper, rights),
    )
