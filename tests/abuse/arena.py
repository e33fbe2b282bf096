"""A market in virtual time with honest tenants and abusive ones.

The whole daemon runs on the embedded cloud. The tests compare the core-seconds that guests really
computed, as their hosts count them, with the charges in the ledger.
"""

from collections.abc import Callable, Generator, Mapping
from dataclasses import replace

from merkatd.currency import MICRO, micro
from merkatd.currency.settings import MoneySettings
from merkatd.database.ledger import account_store
from merkatd.database.ledger.account_store import AccountKind
from merkatd.database.scheduler import period_store
from merkatd.embedded.machines.guest_simulation import GuestLimits, SimulatedGuest
from merkatd.embedded.model.settings import HostSize
from merkatd.embedded.model.vm_states import Lcm
from merkatd.ledger import Ledger, LedgerError, tenant
from merkatd.market.price import PriceRule
from merkatd.placement.contract import Pricing
from merkatd.scheduler.base.settings import MarketRules
from tests.abuse.counting import CountingSite, Outcome
from tests.platforms.site import template
from tests.scheduler.frontend import PASSWORD

PERIOD_S = 60.0
TICK_S = 5.0
CREDITS = 100_000.0
CORES = 8
NEIGHBOURS = 4
FAIR_BID = 20.0
"""The bid of each neighbour's VM for at most all cores: they contend for every core."""
RESERVE = 0.002
"""The reserve price of a unit of CPU a period: a fiftieth of the neighbours' price."""

LATER = "[start]\nnot_before = 2030-01-01T00:00:00Z"
"""The start section of a platform that does not start."""

Play = Callable[["Player"], Generator[float, None, None]]
"""A strategy: it acts and yields the number of seconds to wait."""


class Arena(CountingSite):
    """One host, VMs of honest tenants that contend for all of it, and players."""

    def __init__(
        self,
        rule: PriceRule,
        *,
        money: MoneySettings | None = None,
        hosts: int = 1,
        strategy: str | None = None,
        neighbours: int = NEIGHBOURS,
        neighbours_cores: int = CORES,
        tick_s: float = TICK_S,
        apart: bool = False,
    ) -> None:
        """Start the cloud; `apart`: each player has a host with neighbours of its own."""
        self.tick_s = tick_s
        self.apart = apart
        pricing = Pricing(rule=rule, reserve={"cpu": RESERVE})
        market = MarketRules(strategy=strategy) if strategy else MarketRules(pricing=pricing)
        super().__init__(
            hosts=hosts,
            size=HostSize(CORES * 100, 256 * 1024),
            markets=(market,),
            money=money or MoneySettings(supply=100_000_000, renewal_s=1e9),
        )
        self.honest = [
            fair_vm(self, f"{('ann', 'bob')[number % 2]}:{PASSWORD}", neighbours_cores)
            for number in range(neighbours * hosts)
        ]
        for number, vm in enumerate(self.honest if apart else ()):
            self.bench.ok("one.vm.update", vm, _only(number % hosts), 1)

    def start_daemon(self) -> None:
        """Start the daemon, and record its requests for an early period."""
        super().start_daemon()
        self._woken = False
        self.scheduler._beat.wake = self._wake  # type: ignore[method-assign]

    def set_duration(self, state: Lcm, seconds: float) -> None:
        """Set the time that a VM stays in a state; OpenNebula servers differ in it."""
        world = self.cloud.world
        delays = world.settings.delays
        by_state = {**delays.by_state, state: seconds}
        world.settings = replace(world.settings, delays=replace(delays, by_state=by_state))

    def play(
        self, strategies: Mapping[str, Play], periods: int, *, uncounted: int = 0
    ) -> dict[str, Outcome]:
        """Run two periods without the players, then this number with them.

        The first `uncounted` ones do not count: the players' VMs are placed meanwhile.
        """
        self._periods(1)
        players = {name: Player(self, name) for name in strategies}
        owners = [player.owner for player in players.values()]
        if self.apart:
            for number, player in enumerate(players.values()):
                player.required = _only(number)
        self._reset_counts(owners)
        moves = {name: play(players[name]) for name, play in strategies.items()}
        due_s = dict.fromkeys(moves, 0.0)
        for tick in range(round(periods * PERIOD_S / self.tick_s)):
            for name in [name for name, at_s in due_s.items() if at_s <= tick * self.tick_s]:
                due_s[name] += next(moves[name])
            self._tick()
            played, rest = divmod((tick + 1) * self.tick_s, PERIOD_S)
            if rest == 0:
                self._run_period()
                if played == uncounted:
                    self._reset_counts(owners)
        return {name: self.outcome(player.owner) for name, player in players.items()}

    def _periods(self, count: int) -> None:
        for _ in range(count):
            self._run_period()
            self.clock.advance(PERIOD_S)
        self._run_period()

    def _run_period(self) -> None:
        """Count the guests' work so far, and run a period of the daemon."""
        self.sample()
        self.period()

    def _wake(self, least_s: float = 0.0) -> None:  # noqa: ARG002
        self._woken = True

    def _tick(self) -> None:
        self.clock.advance(self.tick_s)
        self.sample()
        if self._woken:  # the least interval between two periods is one tick
            self._woken = False
            self._run_period()

    def outcome(self, *players: int) -> Outcome:
        """Return the joint outcome of these tenants."""
        fair = (self.ann, self.bob)
        periods = (self._sampled_s - self.begun_s) / PERIOD_S
        return Outcome(
            core_s=self.computed(*players),
            ran_s=self._sum(self.ran_s, players),
            paid=self._spent(*players),
            fair_core_s=self.computed(*fair),
            fair_paid=self._spent(*fair),
            fair_bids=FAIR_BID * len(self.honest) * periods,
        )


class Player:
    """The actions of a tenant on its VMs, its platforms and its credits."""

    def __init__(self, arena: Arena, name: str, owner: int | None = None) -> None:
        """Create a new tenant, or act for the user with this id."""
        self.arena = arena
        self.owner = arena.tenant(name) if owner is None else owner
        self.session = f"{name}:{PASSWORD}"
        self.required = ""
        """The requirement of each of its VMs."""

    def vm(self, bid: float | None = FAIR_BID, **attributes: object) -> int:
        """Create a busy VM with all cores of a host; return -1 if OpenNebula rejects it."""
        text = f"{vm_text(bid, **attributes)}\n{self.required}"
        answer = self.arena.bench.raw("one.vm.allocate", text, session=self.session)
        return int(answer[1]) if answer[0] is True else -1

    def set(self, vm: int, **attributes: object) -> None:
        """Change the VM's user template."""
        lines = "\n".join(f'{name}="{value}"' for name, value in attributes.items())
        self.arena.bench.raw("one.vm.update", vm, lines, 1, session=self.session)

    def act(self, vm: int, action: str) -> None:
        """Request an action from OpenNebula, which may reject it."""
        self.arena.sample()
        self.arena.bench.raw("one.vm.action", action, vm, session=self.session)

    def revert(self, vm: int) -> None:
        """Let the VM have a new domain, as libvirt does when it reverts a VM to a snapshot.

        OpenNebula writes no history record for that.
        """
        self.arena.sample()
        guests = self.arena.cloud.guests
        guest = guests.guest(vm)
        if guest is None or guest.host < 0:
            return
        replace_domain(guest)
        guests.reboot(vm)
        self.arena.begin_counter(vm)

    def end(self, vm: int) -> None:
        """Terminate the VM."""
        self.act(vm, "terminate-hard")

    def ask(self, method: str, *arguments: object) -> None:
        """Make any other call, which may be rejected."""
        self.arena.bench.raw(method, *arguments, session=self.session)

    def platform(self, credits_: float, **changes: str) -> int:
        """Create a platform of one VM with the initial bid; its controller is idle."""
        cluster = (
            '[[cluster]]\nname = "nodes"\nleast = 1\ninitial = 1\nmost = 1\n'
            f'template = """\n{_TEMPLATE}"""'
        )
        parts = {"budget": f"[budget]\ncredits = {credits_}", "cluster": cluster} | changes
        arena = self.arena
        text = template(**parts)
        return arena.take(self.owner, text)

    def bid(self, platform: int, bid: float) -> None:
        """Set the bid of each VM of the platform."""
        for vm in self.vms_of(platform):
            self.set(vm, MERKAT_BID_CPU=bid, MERKAT_BID_MEMORY=0)

    def vms_of(self, platform: int) -> list[int]:
        """Return the platform's VMs."""
        return self.arena.vms(platform)

    def stop(self, platform: int) -> None:
        """Stop the platform; the rest of its budget returns to the account."""
        self.arena.sample()
        self.arena.wait(self.arena.manager.stop(platform, "player"))

    @property
    def ledger(self) -> Ledger:
        """Return the ledger that `merkat.budget.*` uses."""
        world = self.arena.scheduler.world
        return Ledger(world.database, self.arena.clock.seconds, world.money)

    @property
    def credits(self) -> float:
        """Return the balance of the account, without the budgets of platforms."""
        return self.arena.balances()[self.owner]

    @property
    def reserved(self) -> float:
        """Return the part of the balance that is reserved for the next charge."""
        rows = self.arena.read(lambda c: account_store.every(c, AccountKind.TENANT))
        mine = next(row for row in rows if row.owner == self.owner)
        reserved: float = (mine.balance - mine.free) / MICRO
        return reserved

    @property
    def holdings(self) -> float:
        """Return the balance of the account and of the platforms' budgets."""
        held: int = self.arena.read(lambda c: tenant(c, self.owner)).holdings
        return held / MICRO

    def park(self, leaving: float) -> int:
        """Move all credits but this number to a platform that does not start for years."""
        platform = self.platform(self.credits - leaving, start=LATER)
        assert abs(self.credits - leaving) < 1e-6
        return platform

    def void_newest(self) -> None:
        """Void the newest charged period as an administrator, even if it is void already."""
        newest = self.arena.read(period_store.newest).number
        self.arena.wait(self.ledger.void(newest - 1, "a host failed", "root"))

    def move_all_to(self, platform: int) -> None:
        """Move all credits but one to the platform."""
        account = self.arena.platform(platform).account
        assert account is not None
        there = self.arena.wait(self.ledger.budget_of(account)).balance / MICRO
        self.set_budget_of(platform, there + self.credits - 1)

    def set_budget_of(self, platform: int, credits_: float) -> bool:
        """Move credits between the account and the platform's budget; return False if refused."""
        account = self.arena.platform(platform).account
        assert account is not None
        try:
            self.arena.wait(self.ledger.set_budget(account, micro(credits_), None, "player"))
        except LedgerError:
            return False
        return True


_TEMPLATE = f"""\
CPU="1"
VCPU="{CORES}"
MEMORY="512"
EMBEDDED=[WORK="10000000",DEMAND="1",MEMORY_USE="64"]
"""


def replace_domain(guest: SimulatedGuest) -> None:
    """Give a guest a new domain without limits."""
    guest.run, guest.cpu_s = guest.run + 1, 0.0
    guest.limits = GuestLimits(guest.limits.cpu_shares, guest.limits.memory_mib)


def _only(host: int) -> str:
    """Return the requirement of a host."""
    return f'SCHED_REQUIREMENTS="ID = {host}"'


def fair_vm(arena: Arena, session: str, cores: int = CORES) -> int:
    """Create a VM of an honest tenant."""
    return arena.bench.new(vm_text(FAIR_BID, VCPU=cores), session=session)


def vm_text(bid: float | None, **attributes: object) -> str:
    """Return the template of a VM with a host's cores, plenty of memory and no bid for memory."""
    values: dict[str, object] = {
        "CPU": 1,
        "VCPU": CORES,
        "MEMORY": 512,
        "MERKAT_BID_CPU": bid,
        "MERKAT_BID_MEMORY": 0,
    } | attributes
    lines = [
        f"{name}={value}" if str(value).startswith("[") else f'{name}="{value}"'
        for name, value in values.items()
        if value is not None
    ]
    work = 'EMBEDDED=[WORK="10000000",DEMAND="1",MEMORY_USE="64"]'
    return "\n".join([*lines, work])
