"""A market in virtual time: tenants who play fair, and one who does not.

The whole daemon runs on the embedded cloud. What counts is what guests really computed
(core-seconds, as their hosts have it) and what the ledger took for it.
"""

from collections import defaultdict
from collections.abc import Callable, Generator
from dataclasses import dataclass

import sqlalchemy as sa

from merkatd.currency import MICRO, micro
from merkatd.currency.settings import Money
from merkatd.database.accounts import ACCOUNTS
from merkatd.database.entries import ENTRIES, TRANSACTIONS, TransactionKind
from merkatd.embedded.cloud import HostSize
from merkatd.ledger import Ledger, LedgerError
from merkatd.market.price import PriceRule
from merkatd.placement.strategy import Pricing
from merkatd.scheduler.settings import Market
from tests.platforms.site import Site, template
from tests.scheduler.frontend import PASSWORD

PERIOD_S = 60.0
TICK_S = 5.0
CREDITS = 100_000.0
CORES = 8
NEIGHBOURS = 4
FAIR_BID = 20.0
"""Of each neighbour's VM, for at most all cores: they contend for every core there is."""
RESERVE = 0.002
"""Credits for a unit of CPU and period at least: a fiftieth of what the neighbours make of it."""

_OWN_MOVES = (
    TransactionKind.INCOME,
    TransactionKind.GRANT,
    TransactionKind.BUDGET,
    TransactionKind.REPLENISHMENT,
    TransactionKind.CORRECTION,
)

Play = Callable[["Player"], Generator[float, None, None]]
"""A strategy: it does something and says for how many seconds it waits then."""


class Arena(Site):
    """One host, four VMs of honest tenants, and a player with an account like theirs."""

    def __init__(self, rule: PriceRule, *, hosts: int = 1, money: Money | None = None) -> None:
        pricing = Pricing(rule=rule, reserve={"cpu": RESERVE})
        super().__init__(
            hosts=hosts,
            size=HostSize(CORES * 100, 256 * 1024),
            markets=(Market(pricing=pricing),),
            money=money or Money(supply=10_000_000, renewal_s=1e9),
        )
        self.core_s: dict[int, float] = defaultdict(float)
        """By VM: what its guest has computed, over all its boots."""
        self._counter: dict[int, float] = {}
        self.begun_s = self.clock.seconds()
        self.eve = self._tenant("eve")
        self.honest: list[int] = []
        for number in range(NEIGHBOURS * hosts):
            owner = ("ann", "bob")[number % 2]
            session = f"{owner}:{PASSWORD}"
            self.honest.append(fair_vm(self, session))

    def play(self, strategy: Play, periods: int) -> "Outcome":
        """Three periods without the player, then so many with it."""
        self._periods(3)
        self._forget()
        player = Player(self)
        moves, due_s = strategy(player), 0.0
        for tick in range(round(periods * PERIOD_S / TICK_S)):
            if moves is not None and due_s <= tick * TICK_S:
                try:
                    due_s = tick * TICK_S + next(moves)
                except StopIteration:
                    moves = None
            self._tick()
            if (tick + 1) * TICK_S % PERIOD_S == 0:
                self._look()
        return self._outcome()

    def _periods(self, count: int) -> None:
        for _ in range(count):
            self._look()
            self.clock.advance(PERIOD_S)
        self._look()

    def _look(self) -> None:
        """A period of the daemon: what comes before is counted, and charged."""
        self.sample()
        self.period()

    def _tick(self) -> None:
        self.clock.advance(TICK_S)
        self.sample()

    def sample(self) -> None:
        """Count what all guests have computed since the last time."""
        for vm, usage in self.cloud.guests.read().items():
            before = self._counter.get(vm, 0.0)
            self.core_s[vm] += usage.cpu_s - before if usage.cpu_s >= before else usage.cpu_s
            self._counter[vm] = usage.cpu_s

    def _forget(self) -> None:
        """Count from now on."""
        self.core_s.clear()
        self.begun_s = self.clock.seconds()
        self._before = {owner: self.paid(owner) for owner in (self.ann, self.bob, self.eve)}

    def paid(self, owner: int) -> float:
        """Credits that the tenant's accounts lost to charges, those of ended platforms too."""

        def total(connection: sa.Connection) -> int:
            amount = sa.func.coalesce(sa.func.sum(ENTRIES.c.amount), 0)
            joined = ENTRIES.join(ACCOUNTS, ACCOUNTS.c.id == ENTRIES.c.account_id).join(
                TRANSACTIONS, TRANSACTIONS.c.id == ENTRIES.c.transaction_id
            )
            mine = ACCOUNTS.c.owner == owner
            use = TRANSACTIONS.c.kind.not_in([str(kind) for kind in _OWN_MOVES])
            return int(connection.scalar(sa.select(amount).select_from(joined).where(mine & use)))

        return -self.read(total) / MICRO

    def computed(self, *owners: int) -> float:
        """Core-seconds of these tenants' VMs."""
        rows = self.cloud.world.vms.rows
        return sum(used for vm, used in self.core_s.items() if rows[vm].uid in owners)

    def _outcome(self) -> "Outcome":
        spent = {owner: self.paid(owner) - self._before[owner] for owner in self._before}
        periods = (self.clock.seconds() - self.begun_s) / PERIOD_S
        fair = spent[self.ann] + spent[self.bob]
        return Outcome(
            core_s=self.computed(self.eve),
            paid=spent[self.eve],
            fair_core_s=self.computed(self.ann, self.bob),
            fair_paid=fair,
            fair_bids=FAIR_BID * len(self.honest) * periods,
        )


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a strategy came to."""

    core_s: float
    paid: float
    fair_core_s: float
    fair_paid: float
    fair_bids: float
    """What the honest tenants bid in all."""

    @property
    def part(self) -> float:
        """What a core-second cost the player, as a part of what it cost the honest tenants."""
        return (self.paid / self.core_s) / (self.fair_paid / self.fair_core_s)

    @property
    def got_something(self) -> bool:
        """Whether the player computed at all, a core-minute at least."""
        return self.core_s > 60.0


class Player:
    """What a tenant can do: its own VMs, its platforms, its money; and it knows the time."""

    def __init__(self, arena: Arena) -> None:
        self.arena = arena
        self.session = f"eve:{PASSWORD}"

    def vm(self, bid: float | None = FAIR_BID, **attributes: object) -> int:
        """A VM that burns what it gets, of as many cores as there are."""
        return fair_vm(self.arena, self.session, bid, **attributes)

    def set(self, vm: int, **attributes: object) -> None:
        """Change the VM's user template."""
        lines = "\n".join(f'{name}="{value}"' for name, value in attributes.items())
        self.arena.bench.raw("one.vm.update", vm, lines, 1, session=self.session)

    def act(self, vm: int, action: str) -> None:
        """Ask OpenNebula for an action, which may refuse it."""
        self.arena.sample()
        self.arena.bench.raw("one.vm.action", action, vm, session=self.session)

    def end(self, vm: int) -> None:
        """The VM is no more."""
        self.act(vm, "terminate-hard")

    def ask(self, method: str, *arguments: object) -> None:
        """Any other call, which may be refused."""
        self.arena.bench.raw(method, *arguments, session=self.session)

    def platform(self, credits_: float, **changes: str) -> int:
        """A platform of one VM with the bid that it begins with; its controller does nothing."""
        cluster = (
            '[[cluster]]\nname = "nodes"\nleast = 1\ninitial = 1\nmost = 1\n'
            f'template = """\n{_TEMPLATE}"""'
        )
        parts = {"budget": f"[budget]\ncredits = {credits_}", "cluster": cluster} | changes
        arena = self.arena
        text = template(**parts)
        return int(arena.wait(arena.manager.submit(arena.eve, text, {}, "eve")).id)

    def bid(self, platform: int, bid: float) -> None:
        """What each VM of the platform bids from now on."""
        for vm in self.vms_of(platform):
            self.set(vm, MERKAT_BID_CPU=bid, MERKAT_BID_MEMORY=0)

    def vms_of(self, platform: int) -> list[int]:
        """The platform's VMs."""
        return self.arena.vms(platform)

    def stop(self, platform: int) -> None:
        """The platform ends; what is left of its budget comes back."""
        self.arena.sample()
        self.arena.wait(self.arena.manager.stop(platform, "eve"))

    @property
    def ledger(self) -> Ledger:
        """What `merkat.budget.*` calls."""
        world = self.arena.scheduler.world
        return Ledger(world.database, self.arena.clock.seconds, world.money)

    @property
    def credits(self) -> float:
        """What is in the account, the budgets of platforms apart."""
        return self.arena.balances()[self.arena.eve]

    def everything_to(self, platform: int) -> None:
        """All credits but one go to the platform."""
        account = self.arena.platform(platform).account
        assert account is not None
        there = self.arena.wait(self.ledger.budget_of(account)).balance / MICRO
        self.budget(platform, there + self.credits - 1)

    def budget(self, platform: int, credits_: float) -> bool:
        """Move credits between the account and the platform's budget; False if refused."""
        account = self.arena.platform(platform).account
        assert account is not None
        try:
            self.arena.wait(self.ledger.set_budget(account, micro(credits_), None, "eve"))
        except LedgerError:
            return False
        return True


_TEMPLATE = f"""\
CPU="1"
VCPU="{CORES}"
MEMORY="512"
EMBEDDED=[WORK="10000000",DEMAND="1",MEMORY_USE="64"]
"""


def fair_vm(arena: Arena, session: str, bid: float | None = FAIR_BID, **attributes: object) -> int:
    """A VM of as many cores as a host has; memory is plenty, and nobody bids for it."""
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
    return arena.bench.new("\n".join([*lines, work]), session=session)
