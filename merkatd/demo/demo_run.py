"""The run of a demo."""

from collections.abc import Awaitable, Mapping
from functools import partial
from typing import Any, Protocol, TypeVar

import sqlalchemy as sa
from twisted.internet.defer import Deferred, DeferredList, ensureDeferred, gatherResults
from twisted.internet.task import LoopingCall

from merkatd.base.clock import Inline, Threads
from merkatd.currency import MICRO
from merkatd.daemon.assembly import RunningDaemon, start
from merkatd.database.ledger import account_store
from merkatd.database.ledger.account_store import AccountKind
from merkatd.demo import demo_picture
from merkatd.demo.demo_options import DemoOptions
from merkatd.demo.demo_pace import DemoPace, is_compiling
from merkatd.demo.demo_picture import goals
from merkatd.demo.demo_script import CAST
from merkatd.demo.demo_site import DemoSite
from merkatd.demo.demo_summary import TenantSummary, account, summary
from merkatd.demo.demo_tenant import ScriptPlayer
from merkatd.demo.process_family import Family
from merkatd.demo.real_guests import RealGuests
from merkatd.demo.screen.coloured_text import wrapped
from merkatd.demo.screen.display_state import DisplayedDecision, DisplayState
from merkatd.opennebula import Client, HttpTransport
from merkatd.opennebula.rpc.errors import OneError
from merkatd.placement import strategy_named
from merkatd.placement.registry import warm_up
from merkatd.scheduler.base.ports import CloudUnreachableError
from merkatd.scheduler.phases.announce import Announcement
from merkatd.web.base.goals import Goal

Result = TypeVar("Result")

TICK_S = 0.25
"""The real time between two actions of the tenants, after which the screen is drawn, in seconds."""
_CALL_LIMIT_S = 60.0
"""The time limit of a tenant's call, also on a busy machine."""
_MOST_ORDER_LINES = 10
"""The most lines of the summary about limit orders."""
_PASSWORD = "demo"  # noqa: S105 - of users of a cloud that exists for a minute


class Watcher(Protocol):
    """The display of a demo."""

    def show(self, state: DisplayState, decisions: list[DisplayedDecision]) -> None:
        """Show the state, and all decisions since the start."""


class Demo:
    """A demo. It ends after its time, or at an order to end."""

    def __init__(
        self, reactor: Any, site: DemoSite, options: DemoOptions, watcher: Watcher, command: str
    ) -> None:
        self._reactor = reactor
        self._site = site
        self._options = options
        self._watcher = watcher
        self._command = command
        self._page = ""
        self._ended = False
        self._sleeping: Deferred[None] | None = None
        self._latest: Announcement | None = None
        self._decisions: list[DisplayedDecision] = []
        self._waiting: Mapping[int, str] = {}
        self._orders_ran: dict[int, bool] = {}
        self._order_lines: list[str] = []
        self._prices: list[tuple[float, float]] = []
        self._players: list[ScriptPlayer] = []
        self._balances: Mapping[int, float] = {}
        self._real: RealGuests | None = None
        scale = options.scale
        self._pace = DemoPace(options.seconds, options.cloud_speed, scale.minute_s, TICK_S)
        self._began_s = 0.0
        self._doing = ""
        self._ordered = Deferred[None]()
        self.is_compiling = False
        """Whether a thread still compiles although the demo has ended."""
        self._family = Family()

    def end(self) -> None:
        """End the demo soon."""
        self._ended = True
        if not self._ordered.called:
            self._ordered.callback(None)
        if self._latest is None:
            self._say("ending", "waiting for the startup to finish")
        if self._sleeping is not None and not self._sleeping.called:
            self._sleeping.callback(None)

    async def play(self) -> list[str]:
        """Run the whole demo; return the summary."""
        scale = self._options.scale
        if scale.real is not None:
            place = self._site.path
            self._real = RealGuests(self._reactor, scale.real, scale.minute_s, place)
            self._say("real guests", f"{scale.real.words}, on {scale.real.address}")
        try:
            if is_compiling():
                await self._during(
                    "compiling the strategy, which can take minutes and is needed only once",
                    self._compile(),
                )
            return [] if self._ended else await self._with_daemon()
        finally:
            if self._real is not None:
                await self._real.close()

    async def _compile(self) -> None:
        """Compile the strategy in a thread, until that is done or an order ends the demo."""
        threads = Threads(self._reactor, 1, name="compiler")
        work = threads.run(partial(warm_up, strategy_named(self._options.strategy)))
        self._ordered = Deferred()
        await DeferredList([work, self._ordered], fireOnOneCallback=True, fireOnOneErrback=True)
        self.is_compiling = not work.called
        threads.stop()

    async def _with_daemon(self) -> list[str]:
        starting = start(self._reactor, self._site.config, make_clock=self._pace.make_clock)
        daemon = await self._during("starting the daemon and its cloud", starting)
        daemon.scheduler.count(self._pace.period_ended)
        if daemon.page is not None:
            user, _, password = self._site.administrator.partition(":")
            self._page = f"{daemon.page.address} as {user}, {password}"
            self._say("web page", self._page)
            daemon.page.goals.also(lambda: self._goals(daemon))
        transport = HttpTransport(self._reactor, self._site.endpoint, Inline())
        ours = HttpTransport(self._reactor, self._site.tenants_endpoint, Inline())
        try:
            return await self._with_tenants(daemon, transport, ours)
        finally:
            await ours.close()
            await transport.close()
            await daemon.stop()

    async def _during(self, doing: str, work: Awaitable[Result]) -> Result:
        """Show what the demo does before its time begins, and for how long, until it is done."""
        began_s = self._reactor.seconds()
        self._say("starting", doing)

        def show() -> None:
            self._doing = f"{doing}: {self._reactor.seconds() - began_s:.0f} s"
            self._show_start()

        ticks = LoopingCall(show)
        ticks.clock = self._reactor
        # If the display fails, the next time it shows something raises the error again.
        ticks.start(TICK_S).addErrback(lambda _failure: None)
        try:
            return await work
        finally:
            self._doing = ""
            if ticks.running:
                ticks.stop()

    async def _with_tenants(
        self, daemon: RunningDaemon, transport: HttpTransport, ours: HttpTransport
    ) -> list[str]:
        def login(session: str) -> Client:
            return Client(transport, session, self._reactor, timeout_s=_CALL_LIMIT_S)

        administrator = login(self._site.administrator)
        for tenant in CAST:
            user = await administrator.call("one.user.allocate", tenant.name, _PASSWORD, "core", [])
            client = login(f"{tenant.name}:{_PASSWORD}")
            options, session = self._options, f"{tenant.name}:{_PASSWORD}"
            market = Client(ours, session, self._reactor, timeout_s=_CALL_LIMIT_S)
            self._players.append(
                ScriptPlayer(
                    tenant,
                    user,
                    client,
                    options.seed,
                    options.hosts,
                    options.scale,
                    market,
                    takes_orders=options.takes_orders,
                )
            )
        world = daemon.scheduler.world
        self._began_s = world.now()
        self._pace.begin(self._began_s)
        daemon.scheduler.listen(self._announced)
        while not self._ended and (left_s := self._pace.left_s(world.now())) > 0:
            await self._turn(daemon, administrator)
            self._pace.turn_ended()
            await self._sleep(min(TICK_S, left_s))
            if self._family.has_lost_a_member():
                self.end()
        now_min = self._now_min(daemon)
        await self._read_balances(daemon)
        lines = summary(self._accounts(now_min), now_min, len(self._prices))
        return [*self._order_lines[:_MOST_ORDER_LINES], "", *lines] if self._order_lines else lines

    def _say(self, what: str, why: str) -> None:
        """Show a message before the first period."""
        self._decisions.append(
            DisplayedDecision(period=0, tenant=demo_picture.NO_TENANT, what=what, why=why)
        )
        self._show_start()

    def _show_start(self) -> None:
        state = DisplayState(
            command=self._command,
            page=self._page,
            doing=self._doing,
            left_s=self._options.seconds,
            decisions=demo_picture.newest(self._decisions),
        )
        self._watcher.show(state, self._decisions)

    # -- one turn -----------------------------------------------------------------------------

    async def _turn(self, daemon: RunningDaemon, administrator: Client) -> None:
        """Let all tenants act, and show the new state."""
        now_min = self._now_min(daemon)
        logs = await self._logs(administrator)
        await gatherResults(
            [
                ensureDeferred(player.act(now_min, logs, self._notifier(at)))
                for at, player in enumerate(self._players)
            ]
        )
        await self._read_balances(daemon)
        self._watcher.show(self._state(daemon, now_min), self._decisions)

    async def _logs(self, administrator: Client) -> dict[int, float]:
        """Return the core-minutes done by VM, which stand in for the logs in real VMs."""
        if self._real is not None:
            for player in self._players:
                await self._real.end_finished(administrator, player)
            return dict(
                await self._real.turn(administrator, self._notifier(demo_picture.NO_TENANT))
            )
        vms = sorted(vm for player in self._players if player.now for vm in player.now.alive)
        done = await gatherResults([ensureDeferred(_log(administrator, vm)) for vm in vms])
        return {vm: answer for vm, answer in zip(vms, done, strict=True) if answer is not None}

    async def _read_balances(self, daemon: RunningDaemon) -> None:
        def read(connection: sa.Connection) -> dict[int, float]:
            rows = account_store.every(connection, AccountKind.TENANT)
            return {row.owner: row.balance / MICRO for row in rows if row.owner is not None}

        self._balances = await daemon.scheduler.world.database.read(read)

    def _now_min(self, daemon: RunningDaemon) -> float:
        return (daemon.scheduler.world.now() - self._began_s) / self._options.scale.minute_s

    def _announced(self, latest: Announcement) -> None:
        self._latest = latest
        self._prices.append(demo_picture.prices(latest))
        self._decisions += demo_picture.decisions(latest, self._cast, self._waiting)
        self._waiting = latest.decided.decision.reasons
        for change in demo_picture.order_changes(latest, self._cast, self._orders_ran):
            self._orders_ran[change.order] = change.what == "runs"
            name = self._players[change.tenant].tenant.name if change.tenant >= 0 else "a user"
            what = f"the limit order of {name} {change.what}"
            self._decisions.append(
                DisplayedDecision(
                    period=latest.period, tenant=change.tenant, what=what, why=change.why
                )
            )
            self._order_lines += wrapped(f"period {latest.period:3}: {what}: {change.why}", 80, 80)

    def _notifier(self, at: int) -> Any:
        def tell(what: str, why: str) -> None:
            period = 0 if self._latest is None else self._latest.period
            name = "" if at == demo_picture.NO_TENANT else f"{self._players[at].tenant.name} "
            self._decisions.append(
                DisplayedDecision(period=period, tenant=at, what=f"{name}{what}", why=why)
            )

        return tell

    @property
    def _cast(self) -> dict[int, int]:
        return {player.user: at for at, player in enumerate(self._players)}

    def _state(self, daemon: RunningDaemon, now_min: float) -> DisplayState:
        latest = self._latest
        running, pending = (0, 0) if latest is None else demo_picture.counts(latest)
        return DisplayState(
            period=0 if latest is None else latest.period,
            left_s=self._pace.left_s(daemon.scheduler.world.now()),
            speed_part=self._pace.speed_part,
            command=self._command,
            page=self._page,
            paused=daemon.scheduler.paused,
            failures=daemon.scheduler.failures,
            running=running,
            pending=pending,
            cpu_prices=tuple(cpu for cpu, _ in self._prices),
            memory_prices=tuple(memory for _, memory in self._prices),
            hosts=() if latest is None else demo_picture.hosts(latest, self._cast),
            tenants=tuple(
                demo_picture.tenant_row(
                    player, latest, now_min, self._balance(player), self._got(player)
                )
                for player in self._players
            ),
            decisions=demo_picture.newest(self._decisions),
        )

    def _goals(self, daemon: RunningDaemon) -> list[Goal]:
        minute_s = self._options.scale.minute_s
        return goals(self._players, self._latest, self._began_s, self._now_min(daemon), minute_s)

    def _got(self, player: ScriptPlayer) -> float | None:
        if self._real is None:
            return None
        return self._real.cores(() if player.now is None else player.now.alive)

    def _balance(self, player: ScriptPlayer) -> float:
        return self._balances.get(player.user, self._options.starting_credits)

    def _accounts(self, now_min: float) -> list[TenantSummary]:
        had = self._options.starting_credits
        return [account(player, now_min, had - self._balance(player)) for player in self._players]

    async def _sleep(self, seconds: float) -> None:
        if self._ended:
            return
        self._sleeping = Deferred()
        waiting = self._reactor.callLater(seconds, self._sleeping.callback, None)
        await self._sleeping
        if waiting.active():
            waiting.cancel()


async def _log(administrator: Client, vm: int) -> float | None:
    """Return the core-minutes that a VM has done, None if they can't be read now."""
    try:
        progress = await administrator.call("embedded.guest.progress", vm)
    except (OneError, CloudUnreachableError):
        return None
    return float(progress["done"]) / 60.0
