"""The run of a demo, and its summary."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import sqlalchemy as sa
from twisted.internet.defer import Deferred, ensureDeferred, gatherResults

from merkatd.base.clock import Inline
from merkatd.currency import MICRO
from merkatd.daemon.assembly import RunningDaemon, start
from merkatd.database.ledger import account_store
from merkatd.database.ledger.account_store import AccountKind
from merkatd.demo import demo_picture
from merkatd.demo.coloured_text import wrapped
from merkatd.demo.demo_picture import goals
from merkatd.demo.demo_script import CAST
from merkatd.demo.demo_site import DemoOptions, DemoSite
from merkatd.demo.demo_tenant import RunningErrand, ScriptPlayer
from merkatd.demo.display_state import DisplayedDecision, DisplayState
from merkatd.demo.real_guests import RealGuests
from merkatd.opennebula import Client, HttpTransport
from merkatd.opennebula.rpc.errors import OneError
from merkatd.scheduler.base.ports import CloudUnreachableError
from merkatd.scheduler.phases.announce import Announcement
from merkatd.web.base.goals import Goal


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantSummary:
    """The results of a tenant."""

    name: str
    character: str
    done: float
    """The work done, in core-minutes."""
    kept: int
    missed: int
    under_way: str
    """The state of the running application, empty without one."""
    spent: float

    @property
    def price(self) -> float:
        """Return the credits per core-hour, memory included."""
        return self.spent / self.done * 60.0 if self.done > 0 else 0.0


def account(player: ScriptPlayer, now_min: float, spent: float) -> TenantSummary:
    """Return the results of a tenant."""
    kept = sum(application.kept for application in player.past)
    return TenantSummary(
        name=player.tenant.name,
        character=str(player.tenant.character),
        done=sum(sum(application.vms.values()) for application in player.applications),
        kept=kept,
        missed=len(player.past) - kept,
        under_way=_under_way(player.now, now_min),
        spent=spent,
    )


def _under_way(now: RunningErrand | None, now_min: float) -> str:
    if now is None:
        return ""
    left = now.deadline_min - now_min
    when = f"{left:.0f} min left" if left >= 0 else f"{-left:.0f} min late"
    return f"{now.done:.0%}, {when}"


def summary(accounts: Sequence[TenantSummary], minutes: float, periods: int) -> list[str]:
    """Return the summary of a demo, in lines of at most 80 columns."""
    head = f"{'tenant':14} {'core-hours':>10} {'kept':>4} {'missed':>6} {'credits':>8}"
    lines = [
        f"{minutes:.0f} minutes of the cloud's time, {periods} periods. Results of each tenant:",
        "",
        f"{'':14} {'':>10}   deadlines",
        f"{head} {'a core-hour':>11}  under way",
    ]
    lines += [
        f"{account.name:5} {account.character:8} {account.done / 60:10.1f} {account.kept:4}"
        f" {account.missed:6} {account.spent:8.0f} {account.price:11.1f}"
        f"  {account.under_way}".rstrip()
        for account in accounts
    ]
    spent = sum(account.spent for account in accounts)
    done = sum(account.done for account in accounts) / 60
    price = spent / done if done > 0 else 0.0
    kept = sum(account.kept for account in accounts)
    missed = sum(account.missed for account in accounts)
    lines.append(f"{'all':14} {done:10.1f} {kept:4} {missed:6} {spent:8.0f} {price:11.1f}")
    return lines


TICK_S = 0.25
"""The real time between two actions of the tenants, after which the screen is drawn, in seconds."""
_CALL_LIMIT_S = 10.0
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
        self._ending_s = 0.0
        self._began_s = 0.0

    def end(self) -> None:
        """End the demo soon."""
        self._ended = True
        if self._latest is None:
            self._say("ending", "waiting for the startup to finish")
        if self._sleeping is not None and not self._sleeping.called:
            self._sleeping.callback(None)

    async def play(self) -> list[str]:
        """Run the whole demo; return the summary."""
        self._ending_s = self._reactor.seconds() + self._options.seconds
        self._say(
            "starting", "the first start compiles the strategy, which takes about ten seconds"
        )
        scale = self._options.scale
        if scale.real is not None:
            place = self._site.path
            self._real = RealGuests(self._reactor, scale.real, scale.minute_s, place)
            self._say("real guests", f"{scale.real.words}, on {scale.real.address}")
        try:
            return await self._with_daemon()
        finally:
            if self._real is not None:
                await self._real.close()

    async def _with_daemon(self) -> list[str]:
        daemon = await start(self._reactor, self._site.config)
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

    async def _with_tenants(
        self, daemon: RunningDaemon, transport: HttpTransport, ours: HttpTransport
    ) -> list[str]:
        def login(session: str) -> Client:
            return Client(transport, session, self._reactor, timeout_s=_CALL_LIMIT_S)

        administrator = login(self._site.administrator)
        for tenant in CAST:
            user = await administrator.call("one.user.allocate", tenant.name, _PASSWORD, "core", [])
            client = login(f"{tenant.name}:{_PASSWORD}")
            options = self._options
            market = Client(
                ours, f"{tenant.name}:{_PASSWORD}", self._reactor, timeout_s=_CALL_LIMIT_S
            )
            self._players.append(
                ScriptPlayer(
                    tenant, user, client, options.seed, options.hosts, options.scale, market
                )
            )
        world = daemon.scheduler.world
        self._began_s = world.now()
        self._ending_s = self._reactor.seconds() + self._options.seconds
        daemon.scheduler.listen(self._announced)
        while not self._ended and self._reactor.seconds() < self._ending_s:
            await self._turn(daemon, administrator)
            await self._sleep(min(TICK_S, max(self._ending_s - self._reactor.seconds(), 0.0)))
        now_min = self._now_min(daemon)
        await self._read_balances(daemon)
        lines = summary(self._accounts(now_min), now_min, len(self._prices))
        return [*self._order_lines[:_MOST_ORDER_LINES], "", *lines] if self._order_lines else lines

    def _say(self, what: str, why: str) -> None:
        """Show a message before the first period."""
        self._decisions.append(
            DisplayedDecision(period=0, tenant=demo_picture.NO_TENANT, what=what, why=why)
        )
        left_s = self._options.seconds
        newest = demo_picture.newest(self._decisions)
        self._watcher.show(
            DisplayState(command=self._command, page=self._page, left_s=left_s, decisions=newest),
            self._decisions,
        )

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
            left_s=self._ending_s - self._reactor.seconds(),
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
